// Finds out, while a connection waits, whether the peer is still there and whether a path to the peer works.
// The events of the devices, the side channel and the connection manager report most failures. A connection
// that is silent asks the peer's device, which answers without the peer's help (ArrivalProof).
#include "net/paths/watch.h"

#include <algorithm>
#include <cerrno>
#include <string>
#include <thread>
#include <utility>

#include "net/paths/diagnosis.h"

namespace railwise::net {
namespace {

std::string secondsText(Clock::duration time) {
  return std::to_string(std::chrono::duration_cast<std::chrono::seconds>(time).count()) + " s";
}

}  // namespace

Status Watch::hearBell(std::optional<ibv_event_type> event) {
  RAILWISE_TRY(checkEvents(event));
  RAILWISE_TRY(host_.hear());
  if (state_.running()) lookAtPorts();
  if (state_.running()) RAILWISE_TRY(hearSuspicions());
  if (state_.running()) state_.role->goOnWithTrial();
  return Status::success();
}

Status Watch::look(Waiting waiting) {
  const Clock::time_point now = Clock::now();
  const std::optional<Clock::duration> since = silence_.look(now);
  if (!since) return Status::success();
  record_.noteLook(now, waiting);
  RAILWISE_TRY(checkJoined(now));
  if (!state_.running()) return Status::success();
  RAILWISE_TRY(countUnproven(*since));
  checkFrames(now);
  state_.role->lookForBetter(now);
  RAILWISE_TRY(checkSilence(*since));
  const bool ended = host_.peerHasEnded();
  if (!ended && state_.canFailOver()) return checkDisconnection(now);
  if (!ended && disconnection_.what.empty()) return state_.failure;
  if (departure_.since == Clock::time_point()) departure_.since = now;
  // What the peer says of a disconnection may take a while.
  const bool in_memory = waiting == Waiting::kPeer && ended;
  const Clock::duration grace = in_memory ? Patience::kDataGrace : Patience::kAcknowledgementGrace;
  if (now - departure_.since < grace) return Status::success();
  for (const LaneQueuePair& queue_pair : state_.endpoint.queue_pairs) {
    const std::string diagnosis = queue_pair.rest->used ? diagnose(queue_pair) : "";
    if (!diagnosis.empty())
      return host_.fail({Code::kRemote, ENETDOWN},
                        state_.endpoint.nameOf(queue_pair) + ": ended: " + diagnosis);
  }
  return peerLeft();
}

void Watch::begin() {
  silence_.restart(Clock::now());
  state_.completed_since_look = true;  // silence begins now
  skipSuspicions();
  (void)state_.bell.take();
  listen();
}

void Watch::listen() {
  maker_.listenToRails(true);
  state_.bell.ring();  // what happened before anybody listened
}

void Watch::skipSuspicions() {
  for (std::size_t rail = 0; rail < state_.endpoint.rails.size(); ++rail)
    suspicions_heard_[rail] = state_.endpoint.rails[rail].hca->state().news().suspicions();
}

void Watch::leave(bool forgets_stalls) {
  disconnection_ = {};
  if (forgets_stalls) silence_.forgetStalls();
}

Status Watch::checkEvents(std::optional<ibv_event_type> event) {
  if (state_.config.ib_return_async_events == 0) return Status::success();
  if (event) {
    const std::string what = std::string("an event ended it: ") + verbs::eventText(*event);
    return host_.lose(state_.endpoint.rails.size() == 1 ? state_.endpoint.onRail(0) : nullptr,
                      {Code::kSystem, EIO}, what);
  }
  for (std::size_t i = 0; i < state_.endpoint.rails.size(); ++i) {
    const auto fatal = state_.endpoint.rails[i].hca->state().fatalEvent();
    if (!fatal) continue;
    const std::string what =
        std::string(state_.endpoint.rails[i].hca->name()) + ": " + verbs::eventText(*fatal);
    return host_.lose(state_.endpoint.onRail(i), {Code::kSystem, EIO}, what);
  }
  if (!state_.canFailOver()) return Status::success();
  for (const LaneQueuePair& queue_pair : state_.endpoint.queue_pairs) {
    if (!queue_pair.rest->used) continue;
    const std::string diagnosis = diagnoseByEvents(state_.endpoint.rails[queue_pair.rail], queue_pair);
    if (!diagnosis.empty())
      return host_.lose(&queue_pair, {Code::kSystem, ENETDOWN},
                        state_.endpoint.nameOf(queue_pair) + ": " + diagnosis);
  }
  return Status::success();
}

Status Watch::checkJoined(Clock::time_point now) {
  for (const LaneQueuePair& queue_pair : state_.endpoint.queue_pairs) {
    const Joiner::Lost its = state_.joiner->lost(queue_pair);
    if (its.loss == Joiner::Loss::kDeviceRemoved)
      return host_.lose(&queue_pair, its.status,
                        state_.endpoint.nameOf(queue_pair) + ": ended: its device was removed");
    if (its.loss == Joiner::Loss::kDisconnected)
      noteDisconnection(queue_pair, state_.endpoint.nameOf(queue_pair) + ": it was disconnected", now);
  }
  return Status::success();
}

// The peer has not said that it has left the epoch, and still lives: this queue pair has ended by itself.
Status Watch::checkDisconnection(Clock::time_point now) {
  if (!state_.running() || disconnection_.what.empty() || now - disconnection_.since < Patience::kWordFollows)
    return state_.failure;
  const std::string what = std::move(disconnection_.what);
  record_.countError(&state_.endpoint.queue_pairs[disconnection_.queue_pair], record::ErrorKind::kFlushed);
  return host_.lose(&state_.endpoint.queue_pairs[disconnection_.queue_pair], {Code::kRemote, ECONNRESET},
                    what);
}

Status Watch::peerLeft() {
  std::string what = "the peer closed the connection or died with work outstanding";
  if (!departure_.reason.empty()) what = "the peer gave it up: " + departure_.reason;
  const std::string problem = state_.side_channel.problem();
  if (!problem.empty()) what = "the peer " + problem;
  if (!state_.log.reason().empty()) what += "; before that, " + state_.log.reason();
  return host_.fail({Code::kRemote, ECONNRESET}, what);
}

// ---- silence

// Takes what is there already, and lets the peer's device answer for the rest.
Status Watch::askForAnswers(bool anew) {
  RAILWISE_TRY(state_.user.poll());
  return state_.running() ? host_.prove(anew) : Status::success();
}

Status Watch::checkSilence(Clock::duration since_last_check) {
  if (std::exchange(state_.completed_since_look, false)) {
    silence_.end(state_.endpoint.proven());
    return Status::success();
  }
  silence_.count(since_last_check);
  if (!disconnection_.what.empty()) return Status::success();
  const bool anew = state_.endpoint.owedNothing() && silence_.idle();
  RAILWISE_TRY(askForAnswers(anew));
  if (!state_.running()) return Status::success();
  return state_.canFailOver() ? checkStall() : checkSends();
}

// Stands for the two ports of a queue pair, the same at all connections between them.
uint64_t Watch::pathKey(const LaneQueuePair& queue_pair) const {
  const RailInfo& there = state_.there.rail[queue_pair.peer_rail];
  const std::string peer = fieldText(state_.there.host) + "/" + fieldText(there.device) + "/";
  return std::hash<std::string>()(peer + std::to_string(there.port) + "/" +
                                  std::to_string(state_.endpoint.rails[queue_pair.rail].port.number));
}

// A path that has fallen silent for one connection has for all. Each asks the peer's device, and does not
// wait for a second of its own.
Status Watch::hearSuspicions() {
  bool suspected = false;
  for (std::size_t rail = 0; rail < state_.endpoint.rails.size(); ++rail) {
    const PathNews& news = state_.endpoint.rails[rail].hca->state().news();
    const uint64_t since = std::exchange(suspicions_heard_[rail], news.suspicions());
    if (since == suspicions_heard_[rail] || !state_.canFailOver()) continue;
    for (const LaneQueuePair& queue_pair : state_.endpoint.queue_pairs) {
      if (queue_pair.rest->used && queue_pair.rail == rail)
        suspected = suspected || news.suspectedSince(since, pathKey(queue_pair));
    }
  }
  if (!suspected) return Status::success();
  silence_.hurry();
  return askForAnswers(true);
}

// Fails over before the retries of the transport end: they take half a minute, and some never end.
Status Watch::checkStall() {
  if (state_.completed_since_look) return Status::success();  // found meanwhile
  const Clock::duration transfer = Patience::transfer(state_.user.largestUnderWay());
  const Clock::duration limit =
      state_.rules.completion_means_arrival
          ? silence_.stallLimit(state_.patience(), transfer, RoundTrips::ofProcess().longest())
          : silence_.patientLimit(state_.patience(), transfer);
  if (silence_.owed() < limit) return Status::success();
  const auto owing = std::find_if(
      state_.endpoint.queue_pairs.begin(), state_.endpoint.queue_pairs.end(),
      [](const LaneQueuePair& queue_pair) { return queue_pair.posted() != queue_pair.completed(); });
  if (owing == state_.endpoint.queue_pairs.end()) return Status::success();
  silence_.noteStall();
  state_.endpoint.rails[owing->rail].hca->state().suspect(pathKey(*owing));
  record_.countError(&*owing, record::ErrorKind::kStalled);
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(limit).count();
  return host_.lose(&*owing, {Code::kRemote, ETIMEDOUT},
                    state_.endpoint.nameOf(*owing) + ": nothing has come back for " + std::to_string(ms) +
                        " ms" + (diagnose(*owing).empty() ? "" : ": " + diagnose(*owing)));
}

// Without failover. Soft-RoCE retries for ever when NCCL_IB_RETRY_CNT is 7, and older kernels forget sends
// when a device goes.
Status Watch::checkSends() {
  if (silence_.owed() < Patience::kLeastUnreported) return Status::success();
  const bool reports = state_.rules.completion_means_arrival;
  const Clock::duration limit =
      Patience::unreported(reports, state_.config.ib_timeout, state_.config.ib_retry_count) +
      Patience::transfer(state_.user.largestUnderWay());
  if (silence_.owed() < limit) return Status::success();
  for (const LaneQueuePair& queue_pair : state_.endpoint.queue_pairs) {
    if (!queue_pair.rest->used || queue_pair.posted() == queue_pair.completed()) continue;
    const std::string time = secondsText(limit);
    const std::string what =
        reports ? "for " + time + " the device has reported neither the end of a send nor an error: "
                : "the peer's device does not answer for " + time + " (NCCL_IB_TIMEOUT, NCCL_IB_RETRY_CNT): ";
    const std::string diagnosis = diagnose(queue_pair);
    return host_.fail(
        {Code::kRemote, ETIMEDOUT},
        state_.endpoint.nameOf(queue_pair) + ": ended: " + what +
            (diagnosis.empty() ? "check the network to the peer, and the device's own log (dmesg)"
                               : diagnosis));
  }
  return Status::success();
}

// ---- a queue pair that was disconnected, and what an error means

bool Watch::noteDisconnection(const LaneQueuePair& queue_pair, const ibv_wc& completion,
                              const char* operation) {
  if (!state_.running()) return state_.failure.ok();  // it is lost already
  if (state_.rules.completion_means_arrival || !endsTcp(completion.status)) return false;
  if (!state_.canFailOver() && completion.status != IBV_WC_WR_FLUSH_ERR) return false;
  if (!disconnection_.what.empty()) return true;
  if (state_.canFailOver() && !diagnose(queue_pair).empty()) return false;
  noteDisconnection(queue_pair,
                    state_.endpoint.nameOf(queue_pair) + ": its TCP connection broke: " + operation +
                        " failed: " + verbs::library().wc_status_str(completion.status),
                    Clock::now());
  return true;
}

void Watch::noteDisconnection(const LaneQueuePair& queue_pair, std::string what, Clock::time_point now) {
  if (!state_.running() || !disconnection_.what.empty()) return;
  disconnection_ = {now, queue_pair.index, std::move(what)};
}

std::string Watch::diagnose(const LaneQueuePair& queue_pair) const {
  const Rail& rail = state_.endpoint.rails[queue_pair.rail];
  if (state_.joiner->lost(queue_pair).loss == Joiner::Loss::kDeviceRemoved && !rail.hca->state().fatal())
    return "its device was removed";
  return state_.canFailOver() ? diagnoseByEvents(rail, queue_pair) : diagnoseByDevice(rail, queue_pair);
}

// Some completions give no reason, and an event that gives it follows. Soft-RoCE reports an error without a
// reason when its interface does not take a packet; the port's state changes with the same event. A peer that
// is killed refuses access to its memory before its side channel ends, because the kernel takes the memory
// away before the queue pairs. soft-iWARP reports only that it could not send or has flushed when its TCP
// connection breaks. The connection has nothing else to do meanwhile.
std::string Watch::awaitDiagnosis(const LaneQueuePair& queue_pair) {
  std::string diagnosis = diagnose(queue_pair);
  const Deadline deadline = Deadline::after(Patience::kReasonFollows);
  while (diagnosis.empty() && !host_.peerHasEnded() && !deadline.passed()) {
    std::this_thread::sleep_for(Patience::kReasonLook);
    diagnosis = diagnose(queue_pair);
  }
  return diagnosis;
}

std::string Watch::reasonFor(const LaneQueuePair& queue_pair, ibv_wc_status status) {
  const bool refused = status == IBV_WC_REM_ACCESS_ERR || status == IBV_WC_REM_OP_ERR;
  const bool flushed = status == IBV_WC_WR_FLUSH_ERR;
  const bool broken = !state_.rules.completion_means_arrival && (flushed || status == IBV_WC_LOC_QP_OP_ERR);
  const bool may_follow = refused || flushed || broken;
  // A connection that can fail over does not wait for a reason.
  const std::string diagnosis =
      may_follow && !state_.canFailOver() ? awaitDiagnosis(queue_pair) : diagnose(queue_pair);
  if (!diagnosis.empty()) return diagnosis;
  if (may_follow && host_.peerHasEnded())
    return std::string("the peer died or closed the connection") +
           (refused ? " while its memory was in use" : "") + ": see its log";
  if (broken)
    return "its TCP connection broke: the peer died or cannot be reached: check its log and the network";
  return adviceFor(status);
}

// Counts the time of an epoch in which no message has completed as time without a path.
Status Watch::countUnproven(Clock::duration since_last_check) {
  if (state_.epoch() == 1 || state_.endpoint.owedNothing() || state_.endpoint.proven())
    return Status::success();
  state_.log.addLostTime(since_last_check);
  return host_.giveUpWhenLost();
}

void Watch::checkFrames(Clock::time_point now) {
  SideChannel& channel = state_.side_channel;
  const bool awaits = state_.user.awaitsFrame();
  if (awaits && channel.expectsFrames()) channel.suspect(now);
  else if (awaits) channel.expectFrames(now);
  else if (channel.expectsFrames()) channel.expectNoFrames();
}

// Ports of this end may be up again. That concerns a connection that uses fewer rails than it could.
void Watch::lookAtPorts() {
  const auto changes = [&] {
    uint32_t sum = 0;
    for (const Rail& rail : state_.device.rails()) sum += rail.changes();
    for (const Rail& rail : state_.options.standbys) sum += rail.changes();
    return sum;
  };
  if (port_changes_ == changes() || !state_.canFailOver()) return;
  maker_.listenToRails(true);  // one may have been opened anew
  port_changes_ = changes();
  state_.role->onPortsChanged();
}

}  // namespace railwise::net
