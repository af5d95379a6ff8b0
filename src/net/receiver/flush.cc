// Flushes: a read of GPU memory through the NIC that has written it, after which the GPU has what was
// written. They need the NIC, not the peer.
#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/log.h"
#include "net/receiver/receive_connection.h"
#include "verbs/path.h"
#include "verbs/queue_pair.h"

namespace railwise::net {
namespace {

// A flush takes microseconds; where the rail is gone it is repeated through others, for some seconds.
constexpr Clock::duration kFlushTime = std::chrono::seconds(1);
constexpr Clock::duration kFlushPause = std::chrono::milliseconds(10);
constexpr int kMostFlushFailures = 500;

}  // namespace

// A queue pair connected to itself: its reads go through the NIC and back to this machine's memory. Made with
// the connection where the NIC reaches GPU memory, else at the first flush: host memory needs none, and some
// networks do not let a port reach itself.
Result<ReceiveConnection::FlushPath*> ReceiveConnection::openFlushPath(const Rail& rail) {
  auto path = std::make_unique<FlushPath>();
  path->rail = rail;
  int error = 0;
  path->cq.reset(verbs::makeOrExplain(
      [&] {
        return verbs::library().create_cq(rail.hca->context(), kOutstandingFlushes + 1, nullptr, nullptr, 0);
      },
      error));
  if (path->cq == nullptr) {
    RAILWISE_WARN("%s: no completion queue for flushes: %s", rail.name, std::strerror(error));
    return Status{Code::kSystem, error};
  }
  Result<verbs::QueuePair> made =
      verbs::createQueuePair(rail.hca->pd(), path->cq.get(), rail.port, config_, {kOutstandingFlushes, 1, 0});
  if (!made.ok()) return made.status();
  const Result<verbs::GidList> gids = rail.gids->get();
  if (!gids.ok()) return gids.status();
  const verbs::Gid& gid = (*gids)[0];
  const verbs::Port now = rail.hca->state().port(rail.port.number).value_or(rail.port);
  const verbs::PathAddress self{made->qp->qp_num, now.lid, rail.port.ethernet, now.mtu, gid.value};
  RAILWISE_TRY(verbs::readyToReceive(made->qp.get(), rail.port, self, {gid, 0, 0}));
  RAILWISE_TRY(verbs::readyToSend(made->qp.get(), rail.port, config_));
  path->qp = std::move(made->qp);
  return flush_paths_.emplace_back(std::move(path)).get();
}

// The rails that brought the latest receive at `address`; all of them when it is not known any more.
uint32_t ReceiveConnection::railsOf(uint64_t address) const {
  for (uint64_t back = 1; back <= kSlots && back < next_number_; ++back) {
    const Receive& receive = receives_[(next_number_ - back) % kSlots];
    const auto end = receive.pieces.begin() + receive.count;
    const auto has = [&](const Piece& piece) { return piece.address == address; };
    if (receive.rails != 0 && std::any_of(receive.pieces.begin(), end, has)) return receive.rails;
  }
  return (1U << endpoint_.rails.size()) - 1;
}

Status ReceiveConnection::iflush(uint64_t address, const MemoryHandle& memory, Request** request) {
  *request = nullptr;
  if (config_.gdr_flush_disable != 0) return Status::success();
  RAILWISE_TRY(flush_failure_);
  Flush* made = flushes_.take();
  if (made == nullptr) {  // there is no "try later" for a flush
    return fail({Code::kInternal, 0},
                "more than " + std::to_string(kOutstandingFlushes) + " flushes outstanding");
  }
  made->connection = this;
  made->kind = Request::Kind::kFlush;
  made->done = made->again = false;
  made->count = 0;
  made->reads = 0;
  made->failures = 0;
  made->address = address;
  made->memory = &memory;
  made->begun = {};
  RAILWISE_TRY(postFlush(*made, endpoint_.rails, railsOf(address)));
  *request = made;
  return Status::success();
}

ReceiveConnection::FlushPath* ReceiveConnection::flushPath(const Rail& rail) {
  const auto found = std::find_if(flush_paths_.begin(), flush_paths_.end(),
                                  [&](const auto& path) { return path->rail.same(rail); });
  return found != flush_paths_.end() ? found->get() : nullptr;
}

// Through those of `rails` whose bit is set.
Status ReceiveConnection::postFlush(Flush& flush, std::span<const Rail> rails, uint32_t which) {
  flush.posted = Clock::now();
  if (flush.begun == Clock::time_point()) flush.begun = flush.posted;
  for (std::size_t i = 0; i < rails.size(); ++i) {
    if ((which >> i & 1) == 0) continue;
    const Status posted = readThrough(flush, rails[i]);
    if (posted.ok()) continue;
    if (!canFailOver())
      return flush_failure_ =
                 fail(posted, std::string("a flush cannot be posted: ") + std::strerror(posted.sys_errno));
    flush.again = true;
    dropFlushPaths();
    break;
  }
  return Status::success();
}

// One of them has failed: every flush that waits for a read begins anew.
void ReceiveConnection::dropFlushPaths() {
  flush_paths_.clear();
  for (std::size_t i = 0; i < kOutstandingFlushes; ++i) {
    Flush& flush = flushes_[i];
    if (flush.kind != Request::Kind::kFlush || flush.done) continue;
    flush.again = flush.again || flush.reads > 0;
    flush.reads = 0;
  }
}

Status ReceiveConnection::readThrough(Flush& flush, const Rail& rail) {
  FlushPath* path = flushPath(rail);
  if (path == nullptr) [[unlikely]] {
    const Result<FlushPath*> made = openFlushPath(rail);
    if (!made.ok()) return made.status();
    path = *made;
  }
  const Result<MemoryKeys> keys = keysOn(*flush.memory, rail);
  if (!keys.ok()) return keys.status();
  ibv_sge segment = {reinterpret_cast<uint64_t>(flush_target_), 1, windowKeysOn(rail).local};
  ibv_send_wr work = {};
  work.wr_id = static_cast<uint64_t>(flushes_.indexOf(&flush));
  work.sg_list = &segment;
  work.num_sge = 1;
  work.opcode = IBV_WR_RDMA_READ;
  work.send_flags = IBV_SEND_SIGNALED;
  work.wr.rdma.remote_addr = flush.address;
  work.wr.rdma.rkey = keys->remote;
  ibv_send_wr* bad = nullptr;
  const int error = ibv_post_send(path->qp.get(), &work, &bad);
  if (error != 0) return {Code::kSystem, error};
  ++flush.reads;
  return Status::success();
}

void ReceiveConnection::pollFlushes() {
  bool lost = false;
  for (const auto& path : flush_paths_) {
    ibv_wc completions[kPollBatch];
    const int count = ibv_poll_cq(path->cq.get(), kPollBatch, completions);
    for (int i = 0; i < count; ++i) {
      Flush& flush = flushes_[static_cast<uint32_t>(completions[i].wr_id)];
      --flush.reads;
      if (completions[i].status == IBV_WC_SUCCESS) continue;
      lost = flush.again = true;
      if (!canFailOver())
        flush_failure_ =
            fail({Code::kRemote, 0}, std::string("a flush through ") + path->rail.name +
                                         " failed: " + verbs::library().wc_status_str(completions[i].status));
    }
    lost = lost || count < 0 || !path->rail.hca->state().active(path->rail.port.number);
  }
  if (lost && canFailOver()) dropFlushPaths();
}

// A flush needs the NIC, not the peer: neither the peer's leaving nor the connection's failure ends it.
Status ReceiveConnection::progressFlush(Flush& flush, bool* done) {
  pollFlushes();
  *done = flush.done = flush.reads == 0 && !flush.again;
  if (*done) return Status::success();
  RAILWISE_TRY(flush_failure_);
  (void)idle(
      Waiting::kPeer);  // it may be this rail that is lost, and with nothing else under way nobody looks
  if (!canFailOver()) return Status::success();
  const Clock::duration since = Clock::now() - flush.posted;
  if (flush.reads > 0 && since > kFlushTime) dropFlushPaths();  // the device is silent
  if (flush.again && since > kFlushPause) return flushAgain(flush);
  return flush.again ? failure_ : Status::success();
}

// What the rail that died has brought is in memory for long: its PCIe writes have had the time of a failover.
// Through the rails of now, once more. While the connection waits for the peer, which may have nothing to
// send for hours, those are all that work.
Status ReceiveConnection::flushAgain(Flush& flush) {
  int native = 0;
  const std::vector<Rail> rails = running() ? endpoint_.rails : usableRails(&native);
  if (rails.empty()) {
    flush.posted = Clock::now();  // look again after a pause
    const auto patience = std::chrono::seconds(config_.failover_timeout_s);
    if (flush.posted - flush.begun < patience) return Status::success();
    return flush_failure_ =
               fail({Code::kRemote, ETIMEDOUT},
                    "a flush waits for a rail of this end that works, for RAILWISE_FAILOVER_TIMEOUT=" +
                        std::to_string(config_.failover_timeout_s) + " s: check `ibstat`");
  }
  flush.again = false;
  if (++flush.failures > kMostFlushFailures)
    return flush_failure_ = fail({Code::kRemote, 0}, "a flush has failed through every rail");
  return postFlush(flush, rails, UINT32_MAX);
}

}  // namespace railwise::net
