// The side of the process that posts requests to an agent (agent.h).
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/clock.h"
#include "softdev/fabric/doorbell.h"
#include "softdev/memory/agent.h"

namespace railwise::softdev {
namespace {

// Walks through bytes of this process.
class Walk {
 public:
  Walk(const iovec* list, int count) : at_(list), end_(list + count) { skipEmpty(); }
  bool done() const { return at_ == end_; }
  uint64_t left() const { return at_->iov_len - offset_; }
  std::byte* address() const { return static_cast<std::byte*>(at_->iov_base) + offset_; }
  void advance(uint64_t bytes) {
    offset_ += bytes;
    skipEmpty();
  }

 private:
  void skipEmpty() {
    while (at_ != end_ && offset_ == at_->iov_len) {
      ++at_;
      offset_ = 0;
    }
  }
  const iovec* at_;
  const iovec* end_;
  uint64_t offset_ = 0;
};

// Makes the agent skip a request that it has not begun.
void withdraw(AgentRecord& agent) {
  uint32_t claim = kOffered;
  (void)agent.claim.compare_exchange_strong(claim, kWithdrawn, std::memory_order_acq_rel);
}

// Waits until the posted request is answered. Returns 0, ESRCH (the agent or its process is gone) or
// ETIMEDOUT (the request is then withdrawn).
int awaitAnswer(const Fabric& fabric, AgentRecord& agent, uint32_t token) {
  constexpr int kYields = 20;
  constexpr timespec kLook{0, 10'000'000};  // pause between checks of the agent's process
  const Deadline deadline = Deadline::after(std::chrono::seconds(10));
  const uint32_t wanted = agent.posted.load(std::memory_order_relaxed);
  for (int round = 0;; ++round) {
    const uint32_t done = agent.done.load(std::memory_order_acquire);
    if (done == wanted) return 0;
    if (round < kYields) {
      sched_yield();
      continue;
    }
    (void)syscall(SYS_futex, &agent.done, FUTEX_WAIT, done, &kLook, nullptr, 0);
    if (agent.done.load(std::memory_order_acquire) == wanted) return 0;
    if (!agentReady(fabric, token) || !tokenAlive(fabric.self, token)) return ESRCH;
    if (deadline.passed()) {
      withdraw(agent);
      return ETIMEDOUT;
    }
  }
}

// Fills the next request with as many pieces as it can hold, and with their bytes in the bounce pages if
// `write`. Keeps the boundaries of both lists, because they define the order of the stores.
uint64_t fill(Fabric& fabric, AgentRecord& agent, bool write, Walk local, Walk remote) {
  auto* bounce = arenaAt<std::byte>(*fabric.segment, agent.bounce);
  uint64_t bytes = 0;
  uint32_t pieces = 0;
  while (!local.done() && !remote.done() && pieces < kAgentPieces && bytes < kAgentBounceBytes) {
    const uint64_t length = std::min({local.left(), remote.left(), kAgentBounceBytes - bytes});
    if (write) std::memcpy(bounce + bytes, local.address(), length);
    agent.pieces[pieces++] = {reinterpret_cast<uint64_t>(remote.address()), length};
    local.advance(length);
    remote.advance(length);
    bytes += length;
  }
  agent.count = pieces;
  agent.write = write ? 1 : 0;
  return bytes;
}

void takeRead(Fabric& fabric, const AgentRecord& agent, Walk local) {
  const auto* bounce = arenaAt<std::byte>(*fabric.segment, agent.bounce);
  for (uint64_t taken = 0; taken < agent.moved;) {
    const uint64_t length = std::min(local.left(), agent.moved - taken);
    std::memcpy(local.address(), bounce + taken, length);
    local.advance(length);
    taken += length;
  }
}

}  // namespace

bool agentReady(const Fabric& fabric, uint32_t token) {
  return fabric.segment->agents[slotOf(token)].ready.load(std::memory_order_acquire) == token;
}

uint64_t agentTransfer(Fabric& fabric, uint32_t token, bool write, iovec* local, int locals, iovec* remote,
                       int remotes, int* error, uint64_t* calls) {
  AgentRecord& agent = fabric.segment->agents[slotOf(token)];
  Walk from(local, locals);
  Walk to(remote, remotes);
  uint64_t moved = 0;
  SharedLockGuard guard(agent.lock, fabric.self);
  // Another poster that died or gave up may have left a request, which must end first.
  *error = agentReady(fabric, token) ? awaitAnswer(fabric, agent, token) : ESRCH;
  while (*error == 0 && !to.done() && !from.done()) {
    const uint64_t bytes = fill(fabric, agent, write, from, to);
    agent.claim.store(kOffered, std::memory_order_relaxed);
    agent.posted.fetch_add(1, std::memory_order_release);
    ring(fabric, token, agent.doorbell);
    ++*calls;
    *error = awaitAnswer(fabric, agent, token);
    if (*error != 0) return moved;
    if (!write) takeRead(fabric, agent, from);
    moved += agent.moved;
    *error = static_cast<int>(agent.error);
    for (uint64_t left = bytes; left > 0;) {
      const uint64_t step = std::min({left, from.left(), to.left()});
      from.advance(step);
      to.advance(step);
      left -= step;
    }
  }
  return moved;
}

void meetPeer(Fabric& fabric, uint32_t token) {
  heedAgentWish(fabric);
  if (token == 0 || token == fabric.self.token || agentReady(fabric, token) || peerReachable(fabric, token))
    return;
  fabric.segment->agents[slotOf(token)].wanted.store(token, std::memory_order_release);
  (void)startAgent(fabric);
}

void retireAgent(Fabric& fabric, uint32_t token) {
  AgentRecord& agent = fabric.segment->agents[slotOf(token)];
  if (agent.ready.load(std::memory_order_acquire) != token) return;
  SharedLockGuard guard(agent.lock, fabric.self);
  agent.ready.store(0, std::memory_order_release);
}

}  // namespace railwise::softdev
