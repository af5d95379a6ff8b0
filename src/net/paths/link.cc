// What a link's user calls, and how a link ends with an error. Its recovery: link_recovery.cc.
#include "net/paths/link.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <string>

#include "base/log.h"
#include "net/paths/diagnosis.h"
#include "net/paths/lane.h"

namespace railwise::net {

Link::Link(Direction its_direction, LinkUser& its_user, LinkMemory& its_memory, const Device& its_device,
           const ConnectionOptions& its_options)
    : LinkState(its_direction, its_user, its_memory, its_device, its_options) {}

void Link::close() {
  watch_.ignore();
  try {
    (void)search.end(title(), "is closed: another path is not needed any more");
  } catch (const std::bad_alloc&) {  // the line is not logged
  }
  endSideChannel("");
  record_.close();
  maker_.stopLost();
}

void Link::attach(Socket socket, const Session& its_session, uint16_t resume_port) {
  session = its_session;
  const bool both = config.failover != 0 && there.failover != 0;
  side_channel.open(std::move(socket), options.watcher, session.frameKeys(),
                    {.resumer = both ? options.resumer : nullptr,
                     .id = session.id(),
                     .peer_port = resume_port,
                     .name = title()});
  watch_.skipSuspicions();
  watch_.listen();
  allowFastPath();
  record_.describeEpoch();
  if (!endpoint.anyUsed()) (void)lose(nullptr, {Code::kSystem, ENETDOWN}, maker_.whyLost());
}

void Link::tell(std::span<const std::byte, kUserFrameBytes> bytes) {
  auto frame = makeMessage<UserFrame>(MessageType::kUser);
  std::memcpy(frame.bytes, bytes.data(), bytes.size());
  side_channel.send(frame);
}

// When a proof of arrival is complete, everything that was posted before it is complete.
Status Link::prove(bool anew) {
  for (LaneQueuePair& queue_pair : endpoint.queue_pairs) {
    if (!queue_pair.rest->used || (queue_pair.allCovered() && !anew) || queue_pair.sendFree() == 0) continue;
    ibv_sge sge;
    ibv_send_wr work = proof.workRequest(queue_pair, peer_window, sge);
    ++queue_pair.posted();
    queue_pair.counts().control_extra -= queue_pair.counts().control_each;
    work.wr_id = workRequestId(queue_pair.index) | endsWorkRequests(queue_pair.cover());
    RAILWISE_TRY(post(queue_pair, &work));
  }
  return Status::success();
}

// How a connection ends with an error: the message names the queue pair, what the device reported, and the
// likely cause.

Status Link::fail(Status status, const std::string& what) {
  if (failure.ok()) {
    RAILWISE_WARN("%s: %s", title().c_str(), what.c_str());
    failure = status;
    search.forget();  // this line is its end
    record_.fail(what);
    stopFastPath();
    endSideChannel(what);
  }
  return failure;
}

void Link::abandon(const std::string& reason) {
  if (!failure.ok()) return;
  failure = {Code::kRemote, ECANCELED};
  search.forget();
  record_.fail(reason);
  stopFastPath();
  endSideChannel(reason);
}

void Link::endSideChannel(std::string_view reason) {
  if (!side_channel.opened() || inForkedChild()) return;
  auto last = makeMessage<CloseFrame>(MessageType::kClose);
  last.arrived = numbers().arrived;
  copyText(last.reason, reason);
  try {
    side_channel.send(last);
  } catch (const std::bad_alloc&) {  // the peer then sees an end without a reason
  }
  side_channel.end();
}

bool Link::peerHasEnded() {
  if (side_channel.watched() && !side_channel.hungUp()) return false;  // frames ring the bell
  (void)hear();                                                        // what follows from it is seen later
  return side_channel.ended();
}

Status Link::failPost(LaneQueuePair& queue_pair, const char* call, int error, const ibv_send_wr* refused) {
  queue_pair.uncount(refused);
  const int reason = verbs::reasonOfPost(error);
  if (!running() && failure.ok()) return Status::success();  // it is lost already
  record_.countError(&queue_pair, record::ErrorKind::kPost);
  const std::string diagnosis =
      canFailOver() ? watch_.diagnose(queue_pair) : watch_.awaitDiagnosis(queue_pair);
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
  record_.countError(queue_pair, record::ErrorKind::kPoll);
  return lose(queue_pair, {Code::kSystem, 0}, "ibv_poll_cq failed");
}

Status Link::failCompletion(const LaneQueuePair& queue_pair, const ibv_wc& completion,
                            const char* operation) {
  if (!running() && failure.ok()) return Status::success();  // it is lost already
  const std::string what = endpoint.nameOf(queue_pair) + ": " + operation +
                           " failed: " + verbs::library().wc_status_str(completion.status) + " (status " +
                           std::to_string(completion.status) + ", vendor " +
                           std::to_string(completion.vendor_err) +
                           "): " + watch_.reasonFor(queue_pair, completion.status);
  record_.countError(&queue_pair, errorKindOf(completion.status));
  if (refusesMemory(completion.status) && log.refusedTooOften(numbers().arrived))
    return fail({Code::kRemote, 0}, what);
  // The transport's retries have taken their time.
  const int error = completion.status == IBV_WC_RETRY_EXC_ERR ? ETIMEDOUT : 0;
  return lose(&queue_pair, {Code::kRemote, error}, what);
}

Status Link::loseCompletion(const LaneQueuePair& queue_pair, const ibv_wc& completion,
                            const char* operation) {
  return watch_.noteDisconnection(queue_pair, completion, operation)
             ? Status::success()
             : failCompletion(queue_pair, completion, operation);
}

}  // namespace railwise::net
