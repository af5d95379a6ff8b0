// A connection that waits: is the peer still there, and a way to it? The devices' events, the handshake's
// socket and the connection manager tell, and on iWARP a question. For there a send is complete when TCP has
// it, and TCP tries for a quarter of an hour to bring it over a way that is gone, while the device says
// nothing: both ends would wait as long. So a connection that hears nothing while it waits asks the peer's
// device for a few bytes of its window, by an RDMA read, which needs nobody at the other end. Elsewhere the
// acknowledgements of the transport do this: of an empty write, when nothing else is under way.
#include <algorithm>
#include <cerrno>
#include <string>
#include <utility>

#include "net/connection/connection.h"

namespace railwise::net {
namespace {

// After the peer has left: what it sent before is in this machine's memory, but perhaps not yet polled.
constexpr Clock::duration kDataGrace = std::chrono::milliseconds(100);
// A receiver may close as soon as it has the data, while their acknowledgement is still on the wire or being
// repeated.
constexpr Clock::duration kAcknowledgementGrace = std::chrono::seconds(2);

// TCP repeats a lost packet after 0.2 s, 0.4 s and so on: room for four losses in a row.
constexpr Clock::duration kLeastPatience = std::chrono::seconds(3);

// Where the transport has acknowledgements, the time until the device must have said something: it may take
// four times what its timeout says (InfiniBand specification, 9.7.6.1.3), and the least is for small
// settings.
constexpr int kTimesOfDevice = 4;
constexpr Clock::duration kLeastOfDevice = std::chrono::seconds(5);

// What NCCL_IB_TIMEOUT and NCCL_IB_RETRY_CNT grant an acknowledgement.
Clock::duration acknowledgeTime(const Config& config) {
  return std::chrono::nanoseconds(int64_t{4096} << config.ib_timeout) * (config.ib_retry_count + 1);
}

// Silence is no sign while one message is on its way: it completes at its end, and on iWARP an answer waits
// behind it. For a link so slow that nobody uses it.
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
    if (!queue_pair.used) continue;
    const std::string diagnosis = diagnoseByEvents(queue_pair);
    if (!diagnosis.empty())
      return lose(&queue_pair, {Code::kSystem, ENETDOWN}, nameOf(queue_pair) + ": " + diagnosis);
  }
  return Status::success();
}

Status Connection::checkManager() {
  for (LaneQueuePair& queue_pair : endpoint_.queue_pairs) {
    if (queue_pair.cm == nullptr) continue;
    const Result<bool> up = queue_pair.cm->advance();
    if (up.ok()) continue;
    if (up.status().sys_errno == ENODEV)
      return fail(up.status(), nameOf(queue_pair) + ": ended: its device was removed");
    peer_closed_tcp_ = true;
  }
  return Status::success();
}

Status Connection::checkPeer(Waiting waiting) {
  if (phase_ == Phase::kRunning && bell_.raised()) {
    const std::optional<ibv_event_type> event = bell_.event();
    bell_.clear();  // what is raised from now on is looked at the next time
    RAILWISE_TRY(checkEvents(event));
    RAILWISE_TRY(hear());
    if (running()) lookAtPorts();
  }
  if (phase_ != Phase::kRunning) return recover();
  const Clock::time_point now = Clock::now();
  const std::optional<Clock::duration> since = silence_.look(now);
  if (!since) return Status::success();
  RAILWISE_TRY(checkManager());
  RAILWISE_TRY(countUnproven(*since));
  lookForBetter(now);
  RAILWISE_TRY(checkSilence(*since));
  if (!peerHasEnded() && !peer_closed_tcp_) return failure_;
  if (peer_left_ == Clock::time_point()) peer_left_ = now;
  // On iWARP a send is complete when TCP has it, which may be long before it arrives.
  const bool in_memory = waiting == Waiting::kPeer && !iwarp();
  const Clock::duration grace = in_memory ? kDataGrace : kAcknowledgementGrace;
  if (now - peer_left_ < grace) return Status::success();
  for (const LaneQueuePair& queue_pair : endpoint_.queue_pairs) {
    const std::string diagnosis = queue_pair.used ? diagnose(queue_pair) : "";
    if (!diagnosis.empty())
      return fail({Code::kRemote, ENETDOWN}, nameOf(queue_pair) + ": ended: " + diagnosis);
  }
  return peerLeft();
}

Status Connection::peerLeft() {
  std::string what = "the peer closed the connection or died with work outstanding";
  if (!close_reason_.empty()) what = "the peer gave it up: " + close_reason_;
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
  if (peer_closed_tcp_) return Status::success();
  if (iwarp()) return probe();
  const bool anew = endpoint_.owedNothing() && silence_.idle();
  RAILWISE_TRY(requestCompletions(anew));
  if (phase_ != Phase::kRunning) return Status::success();
  return canFailOver() ? checkStall() : checkSends();
}

// Retries of the transport take half a minute until they give up, and some never do.
Status Connection::checkStall() {
  const Clock::duration limit = silence_.stallLimit(timeOf(largestUnderWay()));
  if (silence_.owed() < limit) return Status::success();
  const auto owing =
      std::find_if(endpoint_.queue_pairs.begin(), endpoint_.queue_pairs.end(),
                   [](const LaneQueuePair& queue_pair) { return queue_pair.posted != queue_pair.completed; });
  if (owing == endpoint_.queue_pairs.end()) return Status::success();
  silence_.noteStall();
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(limit).count();
  return lose(&*owing, {Code::kRemote, ETIMEDOUT},
              nameOf(*owing) + ": nothing has come back for " + std::to_string(ms) + " ms" +
                  (diagnose(*owing).empty() ? "" : ": " + diagnose(*owing)));
}

// Soft-RoCE tries for ever when NCCL_IB_RETRY_CNT is 7, and older kernels forget sends when a device goes.
Status Connection::checkSends() {
  if (silence_.owed() < kLeastOfDevice) return Status::success();
  const Clock::duration limit =
      std::max<Clock::duration>(acknowledgeTime(config_) * kTimesOfDevice, kLeastOfDevice) +
      timeOf(largestUnderWay());
  if (silence_.owed() < limit) return Status::success();
  for (const LaneQueuePair& queue_pair : endpoint_.queue_pairs) {
    if (!queue_pair.used || queue_pair.posted == queue_pair.completed) continue;
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
  if (probes_ == 0) {
    for (std::size_t i = 0; i < endpoint_.queue_pairs.size(); ++i) {
      if (endpoint_.queue_pairs[i].used) RAILWISE_TRY(postProbe(i));
    }
    return Status::success();
  }
  const Clock::duration limit =
      std::max(acknowledgeTime(config_), kLeastPatience) + timeOf(largestUnderWay());
  if (silence_.owed() < Silence::kAskAfter + limit) return Status::success();
  const auto used = std::find_if(endpoint_.queue_pairs.begin(), endpoint_.queue_pairs.end(),
                                 [](const LaneQueuePair& queue_pair) { return queue_pair.probed; });
  return fail({Code::kRemote, ETIMEDOUT},
              nameOf(*used) + ": ended: the peer's device does not answer for " + secondsText(limit) +
                  " (NCCL_IB_TIMEOUT, NCCL_IB_RETRY_CNT): " +
                  diagnoseOr(*used, "check the network between them and the peer's host"));
}

int Connection::readPeerWindow(const LaneQueuePair& queue_pair, uint64_t* target, uint64_t work_id) const {
  ibv_sge segment = {reinterpret_cast<uint64_t>(target), sizeof *target, queue_pair.window_key};
  ibv_send_wr work = {};
  work.wr_id = work_id;
  work.sg_list = &segment;
  work.num_sge = 1;
  work.opcode = IBV_WR_RDMA_READ;
  work.send_flags = IBV_SEND_SIGNALED;
  work.wr.rdma.remote_addr = peer_window_;
  work.wr.rdma.rkey = queue_pair.peer_window_key;
  ibv_send_wr* bad = nullptr;
  return ibv_post_send(queue_pair.qp, &work, &bad);
}

Status Connection::postProbe(std::size_t index) {
  LaneQueuePair& queue_pair = endpoint_.queue_pairs[index];
  const int error = readPeerWindow(queue_pair, probe_target_, kProbeWork | index);
  if (error != 0) return failPost(queue_pair, "ibv_post_send", error);
  queue_pair.probed = true;
  ++probes_;
  return Status::success();
}

Status Connection::onProbe(const ibv_wc& completion) {
  LaneQueuePair& queue_pair = endpoint_.queue_pairs[completion.wr_id & ~kProbeWork];
  queue_pair.probed = false;
  --probes_;
  if (completion.status == IBV_WC_SUCCESS) return Status::success();
  if (completion.status != IBV_WC_WR_FLUSH_ERR) return failCompletion(queue_pair, completion, "a probe");
  peer_closed_tcp_ = true;  // an ordinary end of the peer's, too, flushes what is posted
  return Status::success();
}

}  // namespace railwise::net
