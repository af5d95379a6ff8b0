#include "net/rma/loopback.h"

#include <algorithm>
#include <bit>
#include <new>
#include <utility>

#include "net/paths/offer.h"

namespace railwise::net {
Loopback::Loopback(const Device& device, const Config& config, std::vector<Rail> standbys)
    : device_(device), config_(config), patience_(config.failover_timeout_s), rails_(device.rails()) {
  rails_.insert(rails_.end(), standbys.begin(), standbys.end());
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
  const Rail now = rails_[rail].now();
  Result<SelfQueuePair> made = SelfQueuePair::open(now, config_, kDepth, sizeof(uint64_t),
                                                   verbs::PeerMay::kReadAndWrite, "its own memory");
  if (!made.ok()) return nullptr;
  auto path = std::make_unique<Path>(Path{std::move(*made)});
  path->place = rail;
  path->open.reserve(kDepth);
  return path;
}

std::optional<MemoryKeys> Loopback::keysThrough(const Rail& rail, const MemoryHandle& memory) const {
  const Result<MemoryKeys> keys = keysOn(device_, memory, rail);
  if (!keys.ok() || keys->remote == 0) return std::nullopt;
  return *keys;
}

bool Loopback::post(Path& path, ibv_send_wr& work, Operation& operation) {
  ibv_send_wr* bad = nullptr;
  // A device that was opened anew has another queue pair.
  if (!path.rail.same(rails_[path.place].now()) || ibv_post_send(path.qp.get(), &work, &bad) != 0) {
    losePath(path);
    return false;
  }
  if (path.open.empty()) path.answered = Clock::now();
  path.open.push_back(&operation);
  ++path.counts.work_requests;
  path.counts.control_bytes += work.sg_list->length;
  ++operation.left;
  ++open_;
  return true;
}

Loopback::Path* Loopback::pathWithRoom(std::size_t rail) {
  Path* const path = openPath(rail);
  return path != nullptr && path->open.size() < kDepth ? path : nullptr;
}

bool Loopback::transfer(Path& path, ibv_wr_opcode opcode, unsigned int flags, ibv_sge local,
                        const MemoryHandle& memory, uint64_t address, Operation& operation) {
  const std::optional<MemoryKeys> keys = keysThrough(path.rail, memory);
  if (!keys || local.lkey == 0) {
    losePath(path);
    return false;
  }
  ibv_send_wr work = {};
  work.opcode = opcode;
  work.sg_list = &local;
  work.num_sge = 1;
  work.send_flags = flags | IBV_SEND_SIGNALED;
  work.wr.rdma.remote_addr = address;
  work.wr.rdma.rkey = keys->remote;
  return post(path, work, operation);
}

bool Loopback::write(std::size_t rail, uint64_t value, const MemoryHandle& memory, uint64_t address,
                     Operation& operation) {
  Path* const path = pathWithRoom(rail);
  if (path == nullptr) return false;
  const ibv_sge turn = takeTurn(*path);
  *reinterpret_cast<uint64_t*>(turn.addr) = value;
  return transfer(*path, IBV_WR_RDMA_WRITE, turn.length <= path->inline_bytes ? IBV_SEND_INLINE : 0, turn,
                  memory, address, operation);
}

bool Loopback::read(std::size_t rail, const MemoryHandle& memory, uint64_t address, Operation& operation,
                    uint64_t** value) {
  Path* const path = pathWithRoom(rail);
  if (path == nullptr) return false;
  const ibv_sge turn = takeTurn(*path);
  *value = reinterpret_cast<uint64_t*>(turn.addr);
  return transfer(*path, IBV_WR_RDMA_READ, 0, turn, memory, address, operation);
}

void Loopback::flush(uint32_t rails, const MemoryHandle& memory, uint64_t address, Operation& operation) {
  for (uint32_t left = rails; left != 0; left &= left - 1) {
    uint64_t* nobody_looks = nullptr;
    if (!read(static_cast<std::size_t>(std::countr_zero(left)), memory, address, operation, &nobody_looks))
      operation.failed = true;
  }
}

bool Loopback::copy(std::size_t rail, const MemoryHandle& from, uint64_t from_address, const MemoryHandle& to,
                    uint64_t to_address, uint32_t bytes, Operation& operation) {
  Path* const path = pathWithRoom(rail);
  if (path == nullptr) return false;
  const uint32_t key = keysThrough(path->rail, from).value_or(MemoryKeys{}).local;
  return transfer(*path, IBV_WR_RDMA_WRITE, 0, {from_address, bytes, key}, to, to_address, operation);
}

uint32_t Loopback::mostBytes(std::size_t rail) const {
  return std::max<uint32_t>(rails_[rail].port.max_message_bytes, kCutAlignment);
}

void Loopback::pollPath(Path& path) {
  ibv_wc completions[kPollBatch];
  for (int count = kPollBatch; count == kPollBatch;) {
    count = ibv_poll_cq(path.cq.get(), kPollBatch, completions);
    path.counts.completions += static_cast<uint64_t>(std::max(count, 0));
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

void Loopback::tellCounts(Path& path) {
  if (path.counts.work_requests == 0 && path.counts.completions == 0) return;
  record::addTotals(path.rail.record_rail, std::exchange(path.counts, {}));
}

void Loopback::tellCounts() {
  for (const std::unique_ptr<Path>& path : paths_) {
    if (path != nullptr) tellCounts(*path);
  }
}

void Loopback::dropPath(std::unique_ptr<Path>& path) {
  tellCounts(*path);
  path->remains->fence = std::move(path->fence);
  path->drop(window_, !path->failed && path->open.empty() ? destroyNow : destroyLater);
  path.reset();
}

}  // namespace railwise::net
