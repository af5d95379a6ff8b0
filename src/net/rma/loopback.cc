#include "net/rma/loopback.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <new>
#include <utility>

#include "base/log.h"
#include "net/paths/offer.h"
#include "verbs/path.h"
#include "verbs/queue_pair.h"

namespace railwise::net {
namespace {

// More than can be under way over all rails, and over several that have failed and are not gone.
constexpr std::size_t kTurns = 4096;

}  // namespace

Loopback::Loopback(const Device& device, const Config& config, std::vector<Rail> standbys)
    : device_(device), config_(config), patience_(config.failover_timeout_s), rails_(device.rails()) {
  rails_.insert(rails_.end(), standbys.begin(), standbys.end());
  rails_.resize(std::min(rails_.size(), kMostRails), device.rails().front());
  paths_.resize(rails_.size());
  health_.resize(rails_.size());
}

Loopback::~Loopback() {
  for (std::unique_ptr<Path>& path : paths_) {
    if (path != nullptr) dropPath(path);
  }
  for (std::unique_ptr<Path>& path : lost_) dropPath(path);
}

uint32_t Loopback::bitOf(const Rail& rail) const {
  for (std::size_t i = 0; i < rails_.size(); ++i) {
    if (rails_[i].now().same(rail.now())) return uint32_t{1} << i;
  }
  return 0;
}

uint32_t Loopback::usable() const {
  uint32_t bits = 0;
  for (std::size_t i = 0; i < rails_.size(); ++i) bits |= rails_[i].now().usable() ? uint32_t{1} << i : 0;
  return bits;
}

uint32_t Loopback::flushable() const {
  uint32_t bits = usable();
  for (std::size_t i = 0; i < rails_.size(); ++i) {
    if (health_[i].failures >= kMostFailures) bits &= ~(uint32_t{1} << i);
  }
  return bits;
}

bool Loopback::rests(std::size_t rail) const {
  return health_[rail].failures > 0 && Clock::now() < health_[rail].rests_until;
}

void Loopback::noteFailure(std::size_t rail) {
  Health& health = health_[rail];
  ++health.failures;
  const Clock::time_point now = Clock::now();
  health.next_try = now + patience_.onlyPathPause(health.failures);
  health.rests_until = now + patience_.pathPause(health.failures);
}

std::optional<std::size_t> Loopback::choose(uint32_t rails) const {
  uint32_t can = usable();
  uint32_t rested = can;
  for (std::size_t i = 0; i < rails_.size(); ++i) {
    if (rests(i)) rested &= ~(uint32_t{1} << i);
  }
  if (rested != 0) can = rested;
  const uint32_t from = (rails & can) != 0 ? rails & can : can;
  if (from == 0) return std::nullopt;
  return static_cast<std::size_t>(std::countr_zero(from));
}

Loopback::Path* Loopback::openPath(std::size_t rail) {
  if (paths_[rail] != nullptr) return paths_[rail]->failed ? nullptr : paths_[rail].get();
  if (health_[rail].failures > 0 && Clock::now() < health_[rail].next_try) return nullptr;
  if ((paths_[rail] = makePath(rail)) == nullptr) noteFailure(rail);
  return paths_[rail].get();
}

std::unique_ptr<Loopback::Path> Loopback::makePath(std::size_t rail) {
  if (window_ == nullptr) {
    Result<Window> window = device_.windows().take(kTurns * sizeof(uint64_t));
    if (!window.ok()) return nullptr;
    window_ = std::make_shared<Window>(std::move(*window));
  }
  auto path = std::make_unique<Path>();
  path->place = rail;
  path->rail = rails_[rail].now();
  const Rail& its = path->rail;
  int error = 0;
  path->cq.reset(verbs::makeOrExplain(
      [&] { return verbs::library().create_cq(its.hca->context(), kDepth + 1, nullptr, nullptr, 0); },
      error));
  if (path->cq == nullptr) {
    RAILWISE_WARN("%s: no completion queue for its own memory: %s", its.name, std::strerror(error));
    return nullptr;
  }
  Result<verbs::QueuePair> made =
      verbs::createQueuePair(its.hca->pd(), path->cq.get(), its.port, config_, {kDepth, 1, sizeof(uint64_t)});
  if (!made.ok()) return nullptr;
  const Result<verbs::GidList> gids = its.gids->get();
  if (!gids.ok() || gids->size() == 0) return nullptr;
  const verbs::Gid& gid = (*gids)[0];
  const verbs::Port now = its.hca->state().port(its.port.number).value_or(its.port);
  const verbs::PathAddress self{made->qp->qp_num, now.lid, its.port.ethernet, now.mtu, gid.value};
  if (!verbs::readyToReceive(made->qp.get(), its.port, self, {gid, 0, 0}).ok() ||
      !verbs::readyToSend(made->qp.get(), its.port, config_).ok())
    return nullptr;
  path->inline_bytes = made->inline_bytes;
  path->qp = std::move(made->qp);
  path->open.reserve(kDepth);
  return path;
}

std::optional<MemoryKeys> Loopback::keysThrough(const Rail& rail, const MemoryHandle& memory) const {
  const Result<MemoryKeys> keys = keysOn(device_, memory, rail);
  if (!keys.ok() || keys->remote == 0) return std::nullopt;
  return *keys;
}

bool Loopback::post(std::size_t rail, ibv_send_wr& work, Operation& operation) {
  Path& path = *paths_[rail];
  if (!path.rail.same(rails_[rail].now())) {  // its device was opened anew
    losePath(path);
    return false;
  }
  work.send_flags |= IBV_SEND_SIGNALED;
  ibv_send_wr* bad = nullptr;
  if (ibv_post_send(path.qp.get(), &work, &bad) != 0) {
    losePath(path);
    return false;
  }
  if (path.open.empty()) path.answered = Clock::now();
  path.open.push_back(&operation);
  ++operation.left;
  ++open_;
  return true;
}

bool Loopback::write(std::size_t rail, uint64_t value, const MemoryHandle& memory, uint64_t address,
                     Operation& operation) {
  Path* const path = openPath(rail);
  if (path == nullptr || path->open.size() >= kDepth) return false;
  const std::optional<MemoryKeys> keys = keysThrough(path->rail, memory);
  const MemoryKeys own = windowKeysOn(device_, *window_, path->rail);
  if (!keys || own.local == 0) {
    losePath(*path);
    return false;
  }
  uint64_t* const from = window_->at<uint64_t>(turn_++ % kTurns * sizeof(uint64_t));
  *from = value;
  ibv_sge sge = {reinterpret_cast<uint64_t>(from), sizeof value, own.local};
  ibv_send_wr work = {};
  work.opcode = IBV_WR_RDMA_WRITE;
  work.sg_list = &sge;
  work.num_sge = 1;
  if (sizeof value <= path->inline_bytes) work.send_flags = IBV_SEND_INLINE;
  work.wr.rdma.remote_addr = address;
  work.wr.rdma.rkey = keys->remote;
  return post(rail, work, operation);
}

bool Loopback::read(std::size_t rail, const MemoryHandle& memory, uint64_t address, Operation& operation,
                    uint64_t** value) {
  Path* const path = openPath(rail);
  if (path == nullptr || path->open.size() >= kDepth) return false;
  const std::optional<MemoryKeys> keys = keysThrough(path->rail, memory);
  const MemoryKeys own = windowKeysOn(device_, *window_, path->rail);
  if (!keys || own.local == 0) {
    losePath(*path);
    return false;
  }
  uint64_t* const into = window_->at<uint64_t>(turn_++ % kTurns * sizeof(uint64_t));
  if (value != nullptr) *value = into;
  ibv_sge sge = {reinterpret_cast<uint64_t>(into), sizeof *into, own.local};
  ibv_send_wr work = {};
  work.opcode = IBV_WR_RDMA_READ;
  work.sg_list = &sge;
  work.num_sge = 1;
  work.wr.rdma.remote_addr = address;
  work.wr.rdma.rkey = keys->remote;
  return post(rail, work, operation);
}

bool Loopback::copy(std::size_t rail, const MemoryHandle& from, uint64_t from_address, const MemoryHandle& to,
                    uint64_t to_address, uint32_t bytes, Operation& operation) {
  Path* const path = openPath(rail);
  if (path == nullptr || path->open.size() >= kDepth) return false;
  const std::optional<MemoryKeys> source = keysThrough(path->rail, from);
  const std::optional<MemoryKeys> target = keysThrough(path->rail, to);
  if (!source || !target) {
    losePath(*path);
    return false;
  }
  ibv_sge sge = {from_address, bytes, source->local};
  ibv_send_wr work = {};
  work.opcode = IBV_WR_RDMA_WRITE;
  work.sg_list = &sge;
  work.num_sge = 1;
  work.wr.rdma.remote_addr = to_address;
  work.wr.rdma.rkey = target->remote;
  return post(rail, work, operation);
}

uint32_t Loopback::mostBytes(std::size_t rail) const {
  return std::max<uint32_t>(rails_[rail].port.max_message_bytes, kCutAlignment);
}

void Loopback::pollPath(Path& path) {
  ibv_wc completions[kPollBatch];
  for (int count = kPollBatch; count == kPollBatch;) {
    count = ibv_poll_cq(path.cq.get(), kPollBatch, completions);
    for (int i = 0; i < count && !path.open.empty(); ++i) {
      if (completions[i].status != IBV_WC_SUCCESS) {
        losePath(path);  // how far it has come is known when its end is proven
        continue;
      }
      --path.open.front()->left;
      --open_;
      ++completed_;
      path.open.erase(path.open.begin());
    }
    if (count > 0 && !path.failed) {
      path.answered = Clock::now();
      health_[path.place] = {};
    }
    if (count < 0) losePath(path);
  }
}

void Loopback::losePath(Path& path) noexcept {
  if (std::exchange(path.failed, true)) return;
  ++failed_;
  noteFailure(path.place);
}

void Loopback::poll() {
  const bool looks = ++polls_ % kPollsPerLook == 0;
  for (std::unique_ptr<Path>& path : paths_) {
    if (path == nullptr) continue;
    if (!path->open.empty()) pollPath(*path);
    if (!path->open.empty() && !path->rail.hca->state().active(path->rail.port.number)) losePath(*path);
    if (looks && !path->open.empty() && Clock::now() - path->answered > patience_.flush()) losePath(*path);
    if (!path->failed) continue;
    path->fence = Fence::begin(*path->rail.hca, {path->qp.get()});
    lost_.push_back(std::move(path));
  }
  for (std::size_t i = 0; i < lost_.size();) {
    Path& path = *lost_[i];
    if (!path.fence->proven()) {
      ++i;
      continue;
    }
    for (Operation* operation : path.open) {
      --operation->left;
      --open_;
      operation->failed = true;
    }
    path.open.clear();
    --failed_;
    dropPath(lost_[i]);
    lost_.erase(lost_.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

void Loopback::dropPath(std::unique_ptr<Path>& path) {
  Remains& remains = *path->remains;
  remains.fence = std::move(path->fence);
  remains.queue_pairs.push_back(std::move(path->qp));
  remains.cqs.push_back(std::move(path->cq));
  remains.memory = window_;
  const bool well = !path->failed && path->open.empty();
  (well ? destroyNow : destroyLater)(*path->rail.hca, path->remains);
  path.reset();
}

}  // namespace railwise::net
