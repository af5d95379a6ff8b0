// Finds out, while a connection waits, whether the peer is still there and whether a path to the peer works.
// The events of the devices, the side channel and the connection manager report most failures. Where
// completions mean arrival, the acknowledgement of an empty write shows that the path works. On iWARP a send
// is complete when TCP has it, and TCP tries for a quarter of an hour to deliver it over a path that is gone.
// So a silent connection reads a few bytes of the peer's window (a probe). The peer's device answers without
// the peer's help.
#include <algorithm>
#include <cerrno>
#include <string>
#include <utility>

#include "net/connection/connection.h"

namespace railwise::net {
namespace {

// After the peer has left: what it sent before is in this machine's memory, but perhaps not polled yet.
constexpr Clock::duration kDataGrace = std::chrono::milliseconds(100);
// A receiver may close as soon as it has the data, while the acknowledgement of the data is on the wire or is
// being repeated.
constexpr Clock::duration kAcknowledgementGrace = std::chrono::seconds(2);

// TCP repeats a lost packet after 0.2 s, 0.4 s and so on. This is enough for four losses in a row.
constexpr Clock::duration kLeastPatience = std::chrono::seconds(3);

// Where completions mean arrival: the time after which the device must have reported something. The device
// may take four times its timeout (InfiniBand specification, 9.7.6.1.3). The least time is for small
// settings.
constexpr int kTimesOfDevice = 4;
constexpr Clock::duration kLeastOfDevice = std::chrono::seconds(5);

// The time that NCCL_IB_TIMEOUT and NCCL_IB_RETRY_CNT allow for an acknowledgement.
Clock::duration acknowledgeTime(const Config& config) {
  return std::chrono::nanoseconds(int64_t{4096} << config.ib_timeout) * (config.ib_retry_count + 1);
}

// While a message is on its way, silence is normal: the message completes at its end, and on iWARP the answer
// to a probe waits behind it. The speed is that of a link slower than any in use.
constexpr uint64_t kSlowestBytesPerSecond = 100'000'000 / 8;

Clock::duration timeOf(uint64_t bytes) {
  return std::chrono::milliseconds(bytes * 1000 / kSlowestBytesPerSecond);
}

std::string secondsText(Clock::duration time) {
  return std::to_string(std::chrono::duration_cast<std::chrono::seconds>(time).count()) + " s";
}

}  // namespace

Status Connection::checkEvents(std::optional<ibv_event_type> event) {
  if (config_.ib_return_async_events == 0) return Status::success();
  if (event) {
    const std::string what = std::string("an event ended it: ") + verbs::eventText(*event);
    return lose(endpoint_.rails.size() == 1 ? endpoint_.onRail(0) : nullptr, {Code::kSystem, EIO}, what);
  }
  for (std::size_t i = 0; i < endpoint_.rails.size(); ++i) {
    const auto fatal = endpoint_.rails[i].hca->state().fatalEvent();
    if (!fatal) continue;
    const std::string what = std::string(endpoint_.rails[i].hca->name()) + ": " + verbs::eventText(*fatal);
    return lose(endpoint_.onRail(i), {Code::kSystem, EIO}, what);
  }
  if (!canFailOver()) return Status::success();
  for (const LaneQueuePair& queue_pair : endpoint_.queue_pairs) {
    if (!queue_pair.rest->used) continue;
    const std::string diagnosis = diagnoseByEvents(queue_pair);
    if (!diagnosis.empty())
      return lose(&queue_pair, {Code::kSystem, ENETDOWN}, nameOf(queue_pair) + ": " + diagnosis);
  }
  return Status::success();
}

Status Connection::checkManager() {
  for (LaneQueuePair& queue_pair : endpoint_.queue_pairs) {
    if (queue_pair.rest->cm == nullptr) continue;
    const Result<bool> up = queue_pair.rest->cm->advance();
    if (up.ok()) continue;
    if (up.status().sys_errno == ENODEV)
      return fail(up.status(), nameOf(queue_pair) + ": ended: its device was removed");
    departure_.closed_tcp = true;
  }
  return Status::success();
}

Status Connection::checkPeer(Waiting waiting) {
  if (running() && bell_.raised()) {
    const std::optional<ibv_event_type> event = bell_.take();
    RAILWISE_TRY(checkEvents(event));
    RAILWISE_TRY(hear());
    if (running()) lookAtPorts();
  }
  if (!running()) return recover();
  const Clock::time_point now = Clock::now();
  const std::optional<Clock::duration> since = silence_.look(now);
  if (!since) return Status::success();
  noteLook(now, waiting);
  RAILWISE_TRY(checkManager());
  RAILWISE_TRY(countUnproven(*since));
  lookForBetter(now);
  RAILWISE_TRY(checkSilence(*since));
  if (!peerHasEnded() && !departure_.closed_tcp) return failure_;
  if (departure_.since == Clock::time_point()) departure_.since = now;
  // On iWARP a send is complete when TCP has it, perhaps long before it arrives.
  const bool in_memory = waiting == Waiting::kPeer && rules_.completion_means_arrival;
  const Clock::duration grace = in_memory ? kDataGrace : kAcknowledgementGrace;
  if (now - departure_.since < grace) return Status::success();
  for (const LaneQueuePair& queue_pair : endpoint_.queue_pairs) {
    const std::string diagnosis = queue_pair.rest->used ? diagnose(queue_pair) : "";
    if (!diagnosis.empty())
      return fail({Code::kRemote, ENETDOWN}, nameOf(queue_pair) + ": ended: " + diagnosis);
  }
  return peerLeft();
}

Status Connection::peerLeft() {
  std::string what = "the peer closed the connection or died with work outstanding";
  if (!departure_.reason.empty()) what = "the peer gave it up: " + departure_.reason;
  const std::string problem = side_channel_.problem();
  if (!problem.empty()) what = "the peer sent " + problem + " over the side channel";
  if (!log_.reason().empty()) what += "; before that, " + log_.reason();
  return fail({Code::kRemote, ECONNRESET}, what);
}

// ---- silence

Status Connection::checkSilence(Clock::duration since_last_check) {
  if (std::exchange(completed_since_check_, false)) {
    silence_.end();
    return Status::success();
  }
  silence_.count(since_last_check);
  if (departure_.closed_tcp) return Status::success();
  if (!rules_.completion_means_arrival) return probe();
  const bool anew = endpoint_.owedNothing() && silence_.idle();
  RAILWISE_TRY(requestCompletions(anew));
  if (!running()) return Status::success();
  return canFailOver() ? checkStall() : checkSends();
}

// Fails over before the retries of the transport end: they take half a minute, and some never end.
Status Connection::checkStall() {
  const Clock::duration limit = silence_.stallLimit(timeOf(largestUnderWay()));
  if (silence_.owed() < limit) return Status::success();
  const auto owing = std::find_if(
      endpoint_.queue_pairs.begin(), endpoint_.queue_pairs.end(),
      [](const LaneQueuePair& queue_pair) { return queue_pair.posted() != queue_pair.completed(); });
  if (owing == endpoint_.queue_pairs.end()) return Status::success();
  silence_.noteStall();
  countError(&*owing, record::ErrorKind::kStalled);
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(limit).count();
  return lose(&*owing, {Code::kRemote, ETIMEDOUT},
              nameOf(*owing) + ": nothing has come back for " + std::to_string(ms) + " ms" +
                  (diagnose(*owing).empty() ? "" : ": " + diagnose(*owing)));
}

// Without failover. Soft-RoCE retries for ever when NCCL_IB_RETRY_CNT is 7, and older kernels forget sends
// when a device goes.
Status Connection::checkSends() {
  if (silence_.owed() < kLeastOfDevice) return Status::success();
  const Clock::duration limit =
      std::max<Clock::duration>(acknowledgeTime(config_) * kTimesOfDevice, kLeastOfDevice) +
      timeOf(largestUnderWay());
  if (silence_.owed() < limit) return Status::success();
  for (const LaneQueuePair& queue_pair : endpoint_.queue_pairs) {
    if (!queue_pair.rest->used || queue_pair.posted() == queue_pair.completed()) continue;
    return fail(
        {Code::kRemote, ETIMEDOUT},
        nameOf(queue_pair) + ": ended: for " + secondsText(limit) +
            " the device has reported neither the end of a send nor an error: " +
            diagnoseOr(queue_pair, "check the network to the peer, and the device's own log (dmesg)"));
  }
  return Status::success();
}

Status Connection::probe() {
  if (silence_.owed() < Silence::kAskAfter) return Status::success();
  if (probes_.unanswered == 0) {
    for (std::size_t i = 0; i < endpoint_.queue_pairs.size(); ++i) {
      if (endpoint_.queue_pairs[i].rest->used) RAILWISE_TRY(postProbe(i));
    }
    return Status::success();
  }
  const Clock::duration limit =
      std::max(acknowledgeTime(config_), kLeastPatience) + timeOf(largestUnderWay());
  if (silence_.owed() < Silence::kAskAfter + limit) return Status::success();
  const auto used = std::find_if(endpoint_.queue_pairs.begin(), endpoint_.queue_pairs.end(),
                                 [](const LaneQueuePair& queue_pair) { return queue_pair.rest->probed; });
  return fail({Code::kRemote, ETIMEDOUT},
              nameOf(*used) + ": ended: the peer's device does not answer for " + secondsText(limit) +
                  " (NCCL_IB_TIMEOUT, NCCL_IB_RETRY_CNT): " +
                  diagnoseOr(*used, "check the network between them and the peer's host"));
}

int Connection::readPeerWindow(ibv_qp* qp, uint32_t local_key, uint32_t remote_key, uint64_t* target,
                               uint64_t work_id) const {
  ibv_sge sge = {reinterpret_cast<uint64_t>(target), sizeof *target, local_key};
  ibv_send_wr work = {};
  work.wr_id = work_id;
  work.sg_list = &sge;
  work.num_sge = 1;
  work.opcode = IBV_WR_RDMA_READ;
  work.send_flags = IBV_SEND_SIGNALED;
  work.wr.rdma.remote_addr = peer_window_;
  work.wr.rdma.rkey = remote_key;
  ibv_send_wr* bad = nullptr;
  return ibv_post_send(qp, &work, &bad);
}

Status Connection::postProbe(std::size_t index) {
  LaneQueuePair& queue_pair = endpoint_.queue_pairs[index];
  const int error = readPeerWindow(queue_pair.qp, queue_pair.window_key, queue_pair.peer_window_key,
                                   probes_.target, kProbeWork | index);
  if (error != 0) return failPost(queue_pair, "ibv_post_send", error);
  record::addTotals(recordRail(queue_pair), {.work_requests = 1, .control_bytes = sizeof *probes_.target});
  queue_pair.rest->probed = true;
  ++probes_.unanswered;
  return Status::success();
}

Status Connection::onProbe(const ibv_wc& completion) {
  LaneQueuePair& queue_pair = endpoint_.queue_pairs[completion.wr_id & ~kProbeWork];
  queue_pair.rest->probed = false;
  --probes_.unanswered;
  if (completion.status == IBV_WC_SUCCESS) return Status::success();
  if (completion.status != IBV_WC_WR_FLUSH_ERR) return failCompletion(queue_pair, completion, "a probe");
  departure_.closed_tcp = true;  // an ordinary end of the peer's, too, flushes what is posted
  return Status::success();
}

}  // namespace railwise::net
