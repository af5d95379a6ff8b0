// How a connection ends with an error: the message names the queue pair, what the device reported, and the
// likely cause.
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <string>
#include <thread>
#include <utility>

#include "base/log.h"
#include "net/paths/diagnosis.h"
#include "net/paths/link.h"

namespace railwise::net {

Status Link::fail(Status status, const std::string& what) {
  if (failure.ok()) {
    RAILWISE_WARN("%s: %s", title().c_str(), what.c_str());
    failure = status;
    search_.forget();  // this line is its end
    record::setState(shown(), record::ConnectionState::kFailed, what);
    noteEvent(record::EventKind::kFailed, what);
    stopFastPath();
    endSideChannel(what);
  }
  return failure;
}

void Link::endSideChannel(std::string_view reason) {
  if (!side_channel_.opened() || side_channel_.inForkedChild()) return;
  auto last = makeMessage<CloseFrame>(MessageType::kClose);
  last.arrived = numbers().arrived;
  copyText(last.reason, reason);
  try {
    side_channel_.send(last);
  } catch (const std::bad_alloc&) {  // the peer then sees an end without a reason
  }
  side_channel_.end();
}

bool Link::peerHasEnded() {
  if (side_channel_.watched() && !side_channel_.hungUp()) return false;  // frames ring the bell
  (void)hear();                                                          // what follows from it is seen later
  return side_channel_.ended();
}

Status Link::failPost(LaneQueuePair& queue_pair, const char* call, int error, const ibv_send_wr* refused) {
  queue_pair.uncount(refused);
  const int reason = verbs::reasonOfPost(error);
  if (!running() && failure.ok()) return Status::success();  // it is lost already
  countError(&queue_pair, record::ErrorKind::kPost);
  const std::string diagnosis = canFailOver() ? diagnose(queue_pair) : awaitDiagnosis(queue_pair);
  // On iWARP a queue pair that the peer has left takes nothing more: its path is not to blame for that, if it
  // has worked.
  const bool blame = rules.completion_means_arrival || !diagnosis.empty() || !endpoint.proven();
  return lose(blame ? &queue_pair : nullptr, {Code::kSystem, reason},
              endpoint.nameOf(queue_pair) + ": " + call + " failed: " + std::strerror(reason) +
                  (diagnosis.empty() ? "" : ": " + diagnosis));
}

Status Link::losePoll(const ibv_cq* cq) {
  const auto found = std::find_if(
      endpoint.queue_pairs.begin(), endpoint.queue_pairs.end(), [&](const LaneQueuePair& queue_pair) {
        return queue_pair.rest->used && queue_pair.qp != nullptr && queue_pair.qp->send_cq == cq;
      });
  const LaneQueuePair* const queue_pair = found != endpoint.queue_pairs.end() ? &*found : nullptr;
  countError(queue_pair, record::ErrorKind::kPoll);
  return lose(queue_pair, {Code::kSystem, 0}, "ibv_poll_cq failed");
}

Status Link::failCompletion(const LaneQueuePair& queue_pair, const ibv_wc& completion,
                            const char* operation) {
  if (!running() && failure.ok()) return Status::success();  // it is lost already
  const std::string what = endpoint.nameOf(queue_pair) + ": " + operation +
                           " failed: " + verbs::library().wc_status_str(completion.status) + " (status " +
                           std::to_string(completion.status) + ", vendor " +
                           std::to_string(completion.vendor_err) +
                           "): " + reasonFor(queue_pair, completion.status);
  countError(&queue_pair, errorKindOf(completion.status));
  if (refusesMemory(completion.status) && log_.refusedTooOften(numbers().arrived))
    return fail({Code::kRemote, 0}, what);
  // The transport's retries have taken their time.
  const int error = completion.status == IBV_WC_RETRY_EXC_ERR ? ETIMEDOUT : 0;
  return lose(&queue_pair, {Code::kRemote, error}, what);
}

Status Link::loseCompletion(const LaneQueuePair& queue_pair, const ibv_wc& completion,
                            const char* operation) {
  return noteDisconnection(queue_pair, completion, operation)
             ? Status::success()
             : failCompletion(queue_pair, completion, operation);
}

bool Link::noteDisconnection(const LaneQueuePair& queue_pair, const ibv_wc& completion,
                             const char* operation) {
  if (!running()) return failure.ok();  // it is lost already
  if (rules.completion_means_arrival || !endsTcp(completion.status)) return false;
  if (!canFailOver() && completion.status != IBV_WC_WR_FLUSH_ERR) return false;
  if (!disconnection_.what.empty()) return true;
  if (canFailOver() && !diagnose(queue_pair).empty()) return false;
  noteDisconnection(queue_pair,
                    endpoint.nameOf(queue_pair) + ": its TCP connection broke: " + operation +
                        " failed: " + verbs::library().wc_status_str(completion.status),
                    Clock::now());
  return true;
}

void Link::noteDisconnection(const LaneQueuePair& queue_pair, std::string what, Clock::time_point now) {
  if (!running() || !disconnection_.what.empty()) return;
  disconnection_ = {now, queue_pair.index, std::move(what)};
}

std::string Link::diagnose(const LaneQueuePair& queue_pair) const {
  const Rail& rail = endpoint.rails[queue_pair.rail];
  if (joiner_->lost(queue_pair).loss == Joiner::Loss::kDeviceRemoved && !rail.hca->state().fatal())
    return "its device was removed";
  return canFailOver() ? diagnoseByEvents(rail, queue_pair) : diagnoseByDevice(rail, queue_pair);
}

// Some completions give no reason, and an event that gives it follows. Soft-RoCE reports an error without a
// reason when its interface does not take a packet; the port's state changes with the same event. A peer that
// is killed refuses access to its memory before its side channel ends, because the kernel takes the memory
// away before the queue pairs. soft-iWARP reports only that it could not send or has flushed when its TCP
// connection breaks. The connection has nothing else to do meanwhile.
std::string Link::awaitDiagnosis(const LaneQueuePair& queue_pair) {
  std::string diagnosis = diagnose(queue_pair);
  const Deadline deadline = Deadline::after(Patience::kReasonFollows);
  while (diagnosis.empty() && !peerHasEnded() && !deadline.passed()) {
    std::this_thread::sleep_for(Patience::kReasonLook);
    diagnosis = diagnose(queue_pair);
  }
  return diagnosis;
}

std::string Link::reasonFor(const LaneQueuePair& queue_pair, ibv_wc_status status) {
  const bool refused = status == IBV_WC_REM_ACCESS_ERR || status == IBV_WC_REM_OP_ERR;
  const bool flushed = status == IBV_WC_WR_FLUSH_ERR;
  const bool broken = !rules.completion_means_arrival && (flushed || status == IBV_WC_LOC_QP_OP_ERR);
  const bool may_follow = refused || flushed || broken;
  // A connection that can fail over does not wait for a reason.
  const std::string diagnosis =
      may_follow && !canFailOver() ? awaitDiagnosis(queue_pair) : diagnose(queue_pair);
  if (!diagnosis.empty()) return diagnosis;
  if (may_follow && peerHasEnded())
    return std::string("the peer died or closed the connection") +
           (refused ? " while its memory was in use" : "") + ": see its log";
  if (broken)
    return "its TCP connection broke: the peer died or cannot be reached: check its log and the network";
  return adviceFor(status);
}

}  // namespace railwise::net
