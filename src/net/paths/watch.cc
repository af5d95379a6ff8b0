// Finds out, while a connection waits, whether the peer is still there and whether a path to the peer works.
// The events of the devices, the side channel and the connection manager report most failures. A connection
// that is silent asks the peer's device, which answers without the peer's help (paths/arrival_proof.h).
#include <algorithm>
#include <cerrno>
#include <string>
#include <utility>

#include "net/paths/diagnosis.h"
#include "net/paths/link.h"

namespace railwise::net {
namespace {

std::string secondsText(Clock::duration time) {
  return std::to_string(std::chrono::duration_cast<std::chrono::seconds>(time).count()) + " s";
}

}  // namespace

Status Link::checkEvents(std::optional<ibv_event_type> event) {
  if (config.ib_return_async_events == 0) return Status::success();
  if (event) {
    const std::string what = std::string("an event ended it: ") + verbs::eventText(*event);
    return lose(endpoint.rails.size() == 1 ? endpoint.onRail(0) : nullptr, {Code::kSystem, EIO}, what);
  }
  for (std::size_t i = 0; i < endpoint.rails.size(); ++i) {
    const auto fatal = endpoint.rails[i].hca->state().fatalEvent();
    if (!fatal) continue;
    const std::string what = std::string(endpoint.rails[i].hca->name()) + ": " + verbs::eventText(*fatal);
    return lose(endpoint.onRail(i), {Code::kSystem, EIO}, what);
  }
  if (!canFailOver()) return Status::success();
  for (const LaneQueuePair& queue_pair : endpoint.queue_pairs) {
    if (!queue_pair.rest->used) continue;
    const std::string diagnosis = diagnoseByEvents(endpoint.rails[queue_pair.rail], queue_pair);
    if (!diagnosis.empty())
      return lose(&queue_pair, {Code::kSystem, ENETDOWN}, endpoint.nameOf(queue_pair) + ": " + diagnosis);
  }
  return Status::success();
}

Status Link::checkJoined(Clock::time_point now) {
  for (const LaneQueuePair& queue_pair : endpoint.queue_pairs) {
    const Joiner::Lost its = joiner_->lost(queue_pair);
    if (its.loss == Joiner::Loss::kDeviceRemoved)
      return lose(&queue_pair, its.status, endpoint.nameOf(queue_pair) + ": ended: its device was removed");
    if (its.loss == Joiner::Loss::kDisconnected)
      noteDisconnection(queue_pair, endpoint.nameOf(queue_pair) + ": it was disconnected", now);
  }
  return Status::success();
}

// The peer has not said that it has left the epoch, and still lives: this queue pair has ended by itself.
Status Link::checkDisconnection(Clock::time_point now) {
  if (!running() || disconnection_.what.empty() || now - disconnection_.since < Patience::kWordFollows)
    return failure;
  const std::string what = std::move(disconnection_.what);
  countError(&endpoint.queue_pairs[disconnection_.queue_pair], record::ErrorKind::kFlushed);
  return lose(&endpoint.queue_pairs[disconnection_.queue_pair], {Code::kRemote, ECONNRESET}, what);
}

Status Link::step(Waiting waiting) {
  if (running() && bell.raised()) {
    const std::optional<ibv_event_type> event = bell.take();
    RAILWISE_TRY(checkEvents(event));
    RAILWISE_TRY(hear());
    if (running()) lookAtPorts();
    if (running()) RAILWISE_TRY(hearSuspicions());
    if (running()) role_->goOnWithTrial();
  }
  if (!running()) return recover();
  const Clock::time_point now = Clock::now();
  const std::optional<Clock::duration> since = silence_.look(now);
  if (!since) return Status::success();
  noteLook(now, waiting);
  RAILWISE_TRY(checkJoined(now));
  if (!running()) return recover();
  RAILWISE_TRY(countUnproven(*since));
  role_->lookForBetter(now);
  RAILWISE_TRY(checkSilence(*since));
  const bool ended = peerHasEnded();
  if (!ended && canFailOver()) return checkDisconnection(now);
  if (!ended && disconnection_.what.empty()) return failure;
  if (departure_.since == Clock::time_point()) departure_.since = now;
  // What the peer says of a disconnection may take a while.
  const bool in_memory = waiting == Waiting::kPeer && ended;
  const Clock::duration grace = in_memory ? Patience::kDataGrace : Patience::kAcknowledgementGrace;
  if (now - departure_.since < grace) return Status::success();
  for (const LaneQueuePair& queue_pair : endpoint.queue_pairs) {
    const std::string diagnosis = queue_pair.rest->used ? diagnose(queue_pair) : "";
    if (!diagnosis.empty())
      return fail({Code::kRemote, ENETDOWN}, endpoint.nameOf(queue_pair) + ": ended: " + diagnosis);
  }
  return peerLeft();
}

Status Link::peerLeft() {
  std::string what = "the peer closed the connection or died with work outstanding";
  if (!departure_.reason.empty()) what = "the peer gave it up: " + departure_.reason;
  const std::string problem = side_channel_.problem();
  if (!problem.empty()) what = "the peer " + problem;
  if (!log_.reason().empty()) what += "; before that, " + log_.reason();
  return fail({Code::kRemote, ECONNRESET}, what);
}

// ---- silence

// Takes what is there already, and lets the peer's device answer for the rest.
Status Link::askForAnswers(bool anew) {
  RAILWISE_TRY(user_.poll());
  return running() ? prove(anew) : Status::success();
}

Status Link::checkSilence(Clock::duration since_last_check) {
  if (std::exchange(completed_since_look, false)) {
    silence_.end(endpoint.proven());
    return Status::success();
  }
  silence_.count(since_last_check);
  if (!disconnection_.what.empty()) return Status::success();
  const bool anew = endpoint.owedNothing() && silence_.idle();
  RAILWISE_TRY(askForAnswers(anew));
  if (!running()) return Status::success();
  return canFailOver() ? checkStall() : checkSends();
}

// Stands for the two ports of a queue pair, the same at all connections between them.
uint64_t Link::pathKey(const LaneQueuePair& queue_pair) const {
  const RailInfo& there = epoch_there_.rail[queue_pair.peer_rail];
  const std::string peer = fieldText(epoch_there_.host) + "/" + fieldText(there.device) + "/";
  return std::hash<std::string>()(peer + std::to_string(there.port) + "/" +
                                  std::to_string(endpoint.rails[queue_pair.rail].port.number));
}

// A path that has fallen silent for one connection has for all. Each asks the peer's device, and does not
// wait for a second of its own.
Status Link::hearSuspicions() {
  bool suspected = false;
  for (std::size_t rail = 0; rail < endpoint.rails.size(); ++rail) {
    const PathNews& news = endpoint.rails[rail].hca->state().news();
    const uint64_t since = std::exchange(suspicions_heard_[rail], news.suspicions());
    if (since == suspicions_heard_[rail] || !canFailOver()) continue;
    for (const LaneQueuePair& queue_pair : endpoint.queue_pairs) {
      if (queue_pair.rest->used && queue_pair.rail == rail)
        suspected = suspected || news.suspectedSince(since, pathKey(queue_pair));
    }
  }
  if (!suspected) return Status::success();
  silence_.hurry();
  return askForAnswers(true);
}

// Fails over before the retries of the transport end: they take half a minute, and some never end.
Status Link::checkStall() {
  if (completed_since_look) return Status::success();  // found meanwhile
  const Clock::duration transfer = Patience::transfer(user_.largestUnderWay());
  const Clock::duration limit =
      rules.completion_means_arrival
          ? silence_.stallLimit(patience(), transfer, RoundTrips::ofProcess().longest())
          : silence_.patientLimit(patience(), transfer);
  if (silence_.owed() < limit) return Status::success();
  const auto owing = std::find_if(
      endpoint.queue_pairs.begin(), endpoint.queue_pairs.end(),
      [](const LaneQueuePair& queue_pair) { return queue_pair.posted() != queue_pair.completed(); });
  if (owing == endpoint.queue_pairs.end()) return Status::success();
  silence_.noteStall();
  endpoint.rails[owing->rail].hca->state().suspect(pathKey(*owing));
  countError(&*owing, record::ErrorKind::kStalled);
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(limit).count();
  return lose(&*owing, {Code::kRemote, ETIMEDOUT},
              endpoint.nameOf(*owing) + ": nothing has come back for " + std::to_string(ms) + " ms" +
                  (diagnose(*owing).empty() ? "" : ": " + diagnose(*owing)));
}

// Without failover. Soft-RoCE retries for ever when NCCL_IB_RETRY_CNT is 7, and older kernels forget sends
// when a device goes.
Status Link::checkSends() {
  if (silence_.owed() < Patience::kLeastUnreported) return Status::success();
  const bool reports = rules.completion_means_arrival;
  const Clock::duration limit = Patience::unreported(reports, config.ib_timeout, config.ib_retry_count) +
                                Patience::transfer(user_.largestUnderWay());
  if (silence_.owed() < limit) return Status::success();
  for (const LaneQueuePair& queue_pair : endpoint.queue_pairs) {
    if (!queue_pair.rest->used || queue_pair.posted() == queue_pair.completed()) continue;
    const std::string time = secondsText(limit);
    const std::string what =
        reports ? "for " + time + " the device has reported neither the end of a send nor an error: "
                : "the peer's device does not answer for " + time + " (NCCL_IB_TIMEOUT, NCCL_IB_RETRY_CNT): ";
    const std::string diagnosis = diagnose(queue_pair);
    return fail({Code::kRemote, ETIMEDOUT},
                endpoint.nameOf(queue_pair) + ": ended: " + what +
                    (diagnosis.empty() ? "check the network to the peer, and the device's own log (dmesg)"
                                       : diagnosis));
  }
  return Status::success();
}

}  // namespace railwise::net
