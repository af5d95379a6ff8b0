#include "net/receiver/flusher.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/log.h"
#include "net/patience.h"

namespace railwise::net {
namespace {

// A flush is repeated with pauses, for some seconds.
constexpr int kMostFlushFailures = 500;
constexpr int kFlushPollBatch = 16;
constexpr uint32_t kAllRails = UINT32_MAX;

}  // namespace

Flusher::Flusher(Connection& connection) : link_(connection.link()), counts_(link_.shown().flushes) {
  for (std::size_t i = 0; i < kOutstandingFlushes; ++i) flushes_[i].connection = &connection;
}

// Makes the queue pair of a rail. Its reads go through the NIC and back to this machine's memory. It is made
// with the connection where the NIC reaches GPU memory, else at the first flush: host memory needs no flush,
// and some networks do not let a port reach itself.
Result<Flusher::Path*> Flusher::pathThrough(const Rail& rail) {
  const auto found =
      std::find_if(paths_.begin(), paths_.end(), [&](const auto& path) { return path->rail.same(rail); });
  if (found != paths_.end()) [[likely]]
    return found->get();
  Result<SelfQueuePair> made =
      SelfQueuePair::open(rail, link_.config, kOutstandingFlushes, 0, verbs::PeerMay::kRead, "flushes");
  if (!made.ok()) return made.status();
  auto path = std::make_unique<Path>(Path{std::move(*made)});
  path->counts = countsOf(rail.record_rail);
  return paths_.emplace_back(std::move(path)).get();
}

// The counts of a rail. A ninth rail counts with the eighth one.
record::FlushCounts* Flusher::countsOf(uint16_t rail) const {
  int place = 0;
  while (place + 1 < record::kFlushRails && counts_[place].in_use != 0 && counts_[place].rail != rail)
    ++place;
  record::FlushCounts& counts = counts_[place];
  if (counts.in_use == 0) counts.rail = rail;
  counts.in_use = 1;
  return &counts;
}

Status Flusher::openPath(const Rail& rail) {
  const Result<Path*> made = pathThrough(rail);
  return made.ok() ? Status::success() : made.status();
}

Status Flusher::fail(Status status, const std::string& what) { return failure_ = link_.fail(status, what); }

// The rails of earlier epochs count as far as they still work. What a lost rail has written is in memory by
// now: its PCIe writes have had the time of a failover.
Status Flusher::begin(uint64_t address, const MemoryHandle& memory, const Receive* receive,
                      Request** request) {
  RAILWISE_TRY(failure_);
  Flush* const made = flushes_.take();
  if (made == nullptr) {  // there is no "try later" for a flush
    return link_.fail({Code::kInternal, 0},
                      "more than " + std::to_string(kOutstandingFlushes) + " flushes outstanding");
  }
  made->kind = Request::Kind::kFlush;
  made->finished = 0;
  made->again = false;
  made->count = 0;
  made->reads = 0;
  made->failures = 0;
  made->address = address;
  made->memory = &memory;
  made->begun = {};
  std::vector<Rail> others;  // than those of this epoch
  for (const Rail& rail : rails_.earlierOf(receive)) {
    if (rail.hca->state().active(rail.port.number)) others.push_back(rail);
  }
  if (others.empty() && !link_.running()) others = link_.usableRails();
  const bool known = others.empty() && receive != nullptr && receive->rails != 0;
  RAILWISE_TRY(
      post(*made, others.empty() ? link_.endpoint.rails : others, known ? receive->rails : kAllRails));
  *request = made;
  return Status::success();
}

Status Flusher::post(Flush& flush, std::span<const Rail> rails, uint32_t which) {
  flush.posted = Clock::now();
  if (flush.begun == Clock::time_point()) flush.begun = flush.posted;
  for (std::size_t i = 0; i < rails.size(); ++i) {
    if ((which >> i & 1) == 0) continue;
    const Status posted = readThrough(flush, rails[i]);
    if (posted.ok()) continue;
    if (!link_.canFailOver())
      return fail(posted, std::string("a flush cannot be posted: ") + std::strerror(posted.sys_errno));
    flush.again = true;
    drop();
    break;
  }
  return Status::success();
}

Flusher::~Flusher() {
  const auto usable = [](const std::unique_ptr<Path>& path) { return path->rail.usable(); };
  dropPaths(std::ranges::all_of(paths_, usable) ? destroyNow : destroyLater);
}

void Flusher::dropPaths(void (*destroy)(Hca& hca, const std::shared_ptr<Remains>& remains) noexcept) {
  for (const std::unique_ptr<Path>& path : paths_) path->drop(link_.window, destroy);
  paths_.clear();
}

void Flusher::leaveEpoch(uint64_t up_to) {
  rails_.keep(
      link_.endpoint.anyUsed() ? std::span<const Rail>(link_.endpoint.rails) : std::span<const Rail>(),
      up_to);
  drop();
}

void Flusher::drop() {
  dropPaths(destroyLater);
  for (std::size_t i = 0; i < kOutstandingFlushes; ++i) {
    Flush& flush = flushes_[i];
    if (flush.kind != Request::Kind::kFlush || flush.complete()) continue;
    flush.again = flush.again || flush.reads > 0;
    flush.reads = 0;
  }
}

Status Flusher::readThrough(Flush& flush, const Rail& rail) {
  const Result<Path*> path = pathThrough(rail);
  if (!path.ok()) return path.status();
  const Result<MemoryKeys> keys = keysOn(link_.device, *flush.memory, rail);
  if (!keys.ok()) return keys.status();
  ibv_sge sge = {reinterpret_cast<uint64_t>(target_), 1, link_.windowKeys(rail).local};
  ibv_send_wr work = {};
  work.wr_id = static_cast<uint64_t>(flushes_.indexOf(&flush));
  work.sg_list = &sge;
  work.num_sge = 1;
  work.opcode = IBV_WR_RDMA_READ;
  work.send_flags = IBV_SEND_SIGNALED;
  work.wr.rdma.remote_addr = flush.address;
  work.wr.rdma.rkey = keys->remote;
  ibv_send_wr* bad = nullptr;
  const int error = ibv_post_send((*path)->qp.get(), &work, &bad);
  if (error != 0) return {Code::kSystem, error};
  ++flush.reads;
  ++(*path)->counts->reads;
  return Status::success();
}

void Flusher::poll() {
  bool lost = false;
  for (const auto& path : paths_) {
    ibv_wc completions[kFlushPollBatch];
    const int count = ibv_poll_cq(path->cq.get(), kFlushPollBatch, completions);
    if (count > 0) path->counts->completions += static_cast<uint64_t>(count);
    for (int i = 0; i < count; ++i) {
      Flush& flush = flushes_[static_cast<uint32_t>(completions[i].wr_id)];
      --flush.reads;
      if (completions[i].status == IBV_WC_SUCCESS) continue;
      lost = flush.again = true;
      if (!link_.canFailOver())
        (void)fail({Code::kRemote, 0}, std::string("a flush through ") + path->rail.name + " failed: " +
                                           verbs::library().wc_status_str(completions[i].status));
    }
    lost = lost || count < 0 || !path->rail.hca->state().active(path->rail.port.number);
  }
  if (lost && link_.canFailOver()) drop();
}

Status Flusher::test(Request& request, bool* done) {
  Flush& flush = static_cast<Flush&>(request);
  poll();
  flush.finished = flush.reads == 0 && !flush.again ? 1 : 0;
  *done = flush.complete();
  if (*done) {
    flush.kind = Request::Kind::kFree;
    flushes_.give(&flush);
    return Status::success();
  }
  RAILWISE_TRY(failure_);
  // The rail of this flush may be lost, and when nothing else is under way nobody looks.
  (void)link_.idle(Waiting::kPeer);
  if (!link_.canFailOver()) return Status::success();
  const Clock::duration since = Clock::now() - flush.posted;
  if (flush.reads > 0 && since > Patience(link_.config.failover_timeout_s).flush()) drop();
  if (flush.again && since > Patience::kFlushPause) return again(flush);
  return flush.again ? link_.failure : Status::success();
}

// Repeats a flush through the rails that work now. What a lost rail has written is in memory by then: its
// PCIe writes have had the time of a failover. While the link waits for the peer, which may have nothing to
// send for hours, its endpoint has no rails that work.
Status Flusher::again(Flush& flush) {
  const std::vector<Rail> rails = link_.running() ? link_.endpoint.rails : link_.usableRails();
  if (rails.empty()) {
    flush.posted = Clock::now();  // look again after a pause
    if (flush.posted - flush.begun < Patience(link_.config.failover_timeout_s).limit())
      return Status::success();
    return fail({Code::kRemote, ETIMEDOUT},
                "a flush waits for a rail of this end that works, for RAILWISE_FAILOVER_TIMEOUT=" +
                    std::to_string(link_.config.failover_timeout_s) + " s: check `ibstat`");
  }
  flush.again = false;
  if (++flush.failures > kMostFlushFailures)
    return fail({Code::kRemote, 0}, "a flush has failed through every rail");
  return post(flush, rails, kAllRails);
}

}  // namespace railwise::net
