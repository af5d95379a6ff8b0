// What both ends of a connection do when a queue pair, a port, a device or a path is lost. They leave the
// queue pairs of the epoch, agree over the side channel on what has arrived, and make new queue pairs.
// docs/develop/transport.md has the protocol; sender/send_recovery.cc and receiver/receiver_recovery.cc have
// what each end does differently. A good message calls nothing of this.
#include <algorithm>
#include <cstring>

#include "net/paths/link.h"

namespace railwise::net {

void Link::stopFastPath() noexcept {
  only_cq = next_cq = nullptr;
  user.onLost();
}

void Link::allowFastPath() {
  if (!rules.has_immediates || endpoint.cqs.empty()) return;
  more_cqs = static_cast<uint8_t>(endpoint.cqs.size() - 1);
  cq_turn = 0;
  next_cq = endpoint.cqs.front().get();
  only_cq = more_cqs == 0 ? next_cq : nullptr;
}

Status Link::lose(const LaneQueuePair* queue_pair, Status status, const std::string& what) {
  if (!failure.ok()) return failure;
  if (!canFailOver()) {
    const bool off = side_channel.opened();  // nothing else keeps it
    return fail(status, what + (!off ? ""
                                     : std::string(" (failover is off: RAILWISE_FAILOVER=0 ") +
                                           (config.failover == 0 ? "here)" : "at the peer)")));
  }
  if (recovery.lost()) return Status::success();
  search.lost(title(), what);
  record_.lose(what, queue_pair);
  const bool stalled = status.sys_errno == ETIMEDOUT;
  leaveEpoch(what, endpoint.proven() && !stalled);
  log.noteTried((queue_pair != nullptr ? pathText(*queue_pair) + ": " : "") + what);
  recovery.blame(queue_pair != nullptr ? queue_pair->index : kNoQueuePair,
                 stalled ? FailureCost::kTime : FailureCost::kNone);
  return Status::success();
}

void Link::leaveEpoch(const std::string& why, bool forgets_stalls) {
  noteProgress();
  record_.leaveEpoch(why);
  side_channel.expectFrames(Clock::now());
  log.leave(why, Clock::now());
  watch_.leave(forgets_stalls);
  recovery.lose();
  stopFastPath();
  bell.ring();
}

void Link::noteProgress(bool keep_last) {
  log.noteArrived(std::max(numbers().arrived, numbers().complete), keep_last);
}

Status Link::beginEpoch() {
  recovery.run();
  record_.describeEpoch();
  log.resume();
  side_channel.expectNoFrames();
  watch_.begin();
  allowFastPath();
  return user.onBegun();
}

Status Link::step(Waiting waiting) {
  if (running() && bell.raised()) RAILWISE_TRY(watch_.hearBell(bell.take()));
  if (running()) RAILWISE_TRY(watch_.look(waiting));
  return running() ? Status::success() : recover();
}

Status Link::recover() {
  RAILWISE_TRY(failure);
  RAILWISE_TRY(hear());
  RAILWISE_TRY(role->advanceRecovery());
  if (running()) return Status::success();
  if (const Clock::time_point now = Clock::now(); now - record_.lookedAt() > Patience::kCheck) {
    record_.noteLook(now, Waiting::kPeer);
    side_channel.suspect(now);
  }
  bell.ring();
  // What the queue pairs have brought is handled first.
  if (side_channel.ended() && phase() != Phase::kLost) return watch_.endsInRecovery();
  return giveUpInTime();
}

Status Link::giveUpInTime() {
  // A peer that takes no part has no message under way. It may come back after hours, unless its host takes
  // no calls either, or waits for a driver of this end that refuses to stop queue pairs.
  const bool refused = phase() == Phase::kLost && !endpoint.refusal().empty();
  log.step(Clock::now(), (recovery.peerTakesPart() && joiner->mayBegin() && user.needsPath()) ||
                             side_channel.unreachable() || refused);
  return giveUpWhenLost();
}

Status Link::giveUpWhenLost() {
  if (log.lostTime() < patience().limit()) return Status::success();
  const std::string attempts = log.attempts();
  const std::string refusal = endpoint.refusal();
  std::string report = "no path to the peer is left, for RAILWISE_FAILOVER_TIMEOUT=" +
                       std::to_string(config.failover_timeout_s) + " s. " +
                       (refusal.empty() ? "" : "The last one cannot be left: " + refusal + ". ") + "Tried: ";
  report += attempts.empty() ? "nothing, for no pair of ports was up" : attempts;
  report += "; ports of this end:";
  const std::vector<Rail> usable = usableRails();
  std::vector<Rail> known = device.rails();
  known.insert(known.end(), options.standbys.begin(), options.standbys.end());
  for (const Rail& first : known) {
    const Rail rail = first.now();
    const bool good =
        std::any_of(usable.begin(), usable.end(), [&](const Rail& other) { return rail.same(other); });
    const bool up = rail.hca->state().active(rail.port.number);
    report += std::string(" ") + rail.hca->name() + " port " + std::to_string(rail.port.number) +
              (good                        ? " usable"
               : !rail.hca->answers()      ? ", whose driver does not answer"
               : up                        ? " up but not usable"
               : rail.hca->state().fatal() ? " failed"
                                           : " down");
  }
  report += "; peer " + peer +
            (side_channel.unreachable() ? ", whose host does not answer over TCP either" : "") +
            ". Check the cables, switches and `ibstat` at both ends, and `dmesg` for the NICs";
  return fail({Code::kRemote, ETIMEDOUT}, report);
}

// ---- what the peer says

// Handles the frames of the peer. Without queue pairs this thread has nothing else to do, so it reads the
// socket itself.
Status Link::hear() {
  while (const auto frame = side_channel.next(!running())) {
    RAILWISE_TRY(failure);
    RAILWISE_TRY(onFrame(*frame));
  }
  return Status::success();
}

Status Link::onFrame(std::span<const std::byte> bytes) {
  MessageHeader header;
  std::memcpy(&header, bytes.data(), sizeof header);
  if (header.type == MessageType::kClose) {
    CloseFrame frame;
    std::memcpy(&frame, bytes.data(), sizeof frame);
    onClose(frame);
    return Status::success();
  }
  if (header.type == MessageType::kUser) return onUserFrame(frameOf<UserFrame>(bytes));
  if (!canFailOver()) return Status::success();  // the peer's setting is another
  return role->onPeerFrame(header.type, bytes);
}

Status Link::onUserFrame(const UserFrame& frame) {
  const Status taken = user.onFrame(std::as_bytes(std::span(frame.bytes)));
  if (taken.ok() || !failure.ok()) return failure;
  return fail(taken, "the peer sent a frame over the side channel that this end does not expect");
}

void Link::onClose(const CloseFrame& frame) {
  watch_.hearReason(fieldText(frame.reason));
  (void)user.onNews(frame.arrived);
  if (fieldText(frame.reason).empty()) user.onClosed();
}

// ---- queue pairs

void Link::takeDelivered() {
  do {
    completed_since_look = false;
    (void)user.poll();
  } while (completed_since_look);
}

}  // namespace railwise::net
