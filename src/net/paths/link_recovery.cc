// What both ends of a connection do when a queue pair, a port, a device or a path is lost. They leave the
// queue pairs of the epoch, agree over the side channel on what has arrived, and make new queue pairs.
// docs/transport.md has the protocol; sender/sender_recovery.cc and receiver/receiver_recovery.cc have what
// each end does differently. A good message calls nothing of this.
#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "base/log.h"
#include "net/paths/link.h"
#include "verbs/queue_pair.h"

namespace railwise::net {

bool Link::canFailOver() const {
  return config.failover != 0 && epoch_there_.failover != 0 && side_channel_.opened();
}

void Link::stopFastPath() noexcept {
  only_cq = nullptr;
  user_.onLost();
}

void Link::allowFastPath() {
  const bool one = endpoint.cqs.size() == 1 && endpoint.oneQueuePair() && rules.has_immediates;
  only_cq = one ? endpoint.cqs.front().get() : nullptr;
}

Status Link::lose(const LaneQueuePair* queue_pair, Status status, const std::string& what) {
  if (!failure.ok()) return failure;
  if (!canFailOver()) return fail(status, what);
  if (recovery_.lost()) return Status::success();
  search_.lost(title(), what);
  record_.lose(what, queue_pair);
  const bool stalled = status.sys_errno == ETIMEDOUT;
  leaveEpoch(what, endpoint.proven() && !stalled);
  log_.noteTried((queue_pair != nullptr ? pathText(*queue_pair) + ": " : "") + what);
  recovery_.blame(queue_pair != nullptr ? queue_pair->index : kNoQueuePair,
                  stalled ? FailureCost::kTime : FailureCost::kNone);
  return Status::success();
}

void Link::leaveEpoch(const std::string& why, bool forgets_stalls) {
  noteProgress();
  record_.leaveEpoch(why);
  side_channel_.expectFrames(Clock::now());
  log_.leave(why, Clock::now());
  watch_.leave(forgets_stalls);
  recovery_.lose();
  stopFastPath();
  bell.ring();
}

void Link::noteProgress(bool keep_last) {
  log_.noteArrived(std::max(numbers().arrived, numbers().complete), keep_last);
}

Status Link::beginEpoch() {
  recovery_.run();
  record_.describeEpoch();
  log_.resume();
  side_channel_.expectNoFrames();
  watch_.begin();
  allowFastPath();
  return user_.onBegun();
}

Status Link::step(Waiting waiting) {
  if (running() && bell.raised()) RAILWISE_TRY(watch_.hearBell(bell.take()));
  if (running()) RAILWISE_TRY(watch_.look(waiting));
  return running() ? Status::success() : recover();
}

Status Link::recover() {
  RAILWISE_TRY(failure);
  RAILWISE_TRY(hear());
  RAILWISE_TRY(role_->advanceRecovery());
  if (running()) return Status::success();
  if (const Clock::time_point now = Clock::now(); now - record_.lookedAt() > Patience::kCheck) {
    record_.noteLook(now, Waiting::kPeer);
    side_channel_.suspect(now);
  }
  bell.ring();
  // What the queue pairs have brought is handled first.
  if (side_channel_.ended() && phase() != Phase::kLost) return watch_.endsInRecovery();
  return giveUpInTime();
}

Status Link::giveUpInTime() {
  // A peer that takes no part has no message under way. It may come back after hours, unless its host takes
  // no calls either, or waits for a driver of this end that refuses to stop queue pairs.
  const bool refused = phase() == Phase::kLost && !endpoint.refusal().empty();
  log_.step(Clock::now(),
            (recovery_.peerTakesPart() && joiner_->mayBegin()) || side_channel_.unreachable() || refused);
  return giveUpWhenLost();
}

Status Link::giveUpWhenLost() {
  if (log_.lostTime() < patience().limit()) return Status::success();
  const std::string attempts = log_.attempts();
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
  report += "; peer " + peer() +
            (side_channel_.unreachable() ? ", whose host does not answer over TCP either" : "") +
            ". Check the cables, switches and `ibstat` at both ends, and `dmesg` for the NICs";
  return fail({Code::kRemote, ETIMEDOUT}, report);
}

// ---- what the peer says

// Handles the frames of the peer. Without queue pairs this thread has nothing else to do, so it reads the
// socket itself.
Status Link::hear() {
  while (const auto frame = side_channel_.next(!running())) {
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
  if (!canFailOver()) return Status::success();  // the peer's setting is another
  return role_->onPeerFrame(header.type, bytes);
}

void Link::onClose(const CloseFrame& frame) {
  watch_.hearReason(fieldText(frame.reason));
  (void)user_.onNews(frame.arrived);
}

// ---- rails

Result<TrialQueuePair> Link::openTrial(const Rail& rail) const {
  TrialQueuePair trial;
  trial.rail = rail;
  trial.remains = Remains::create(1);
  int error = 0;
  trial.cq.reset(verbs::makeOrExplain(
      [&] { return verbs::library().create_cq(rail.hca->context(), 2, nullptr, nullptr, 0); }, error));
  if (trial.cq == nullptr) return Status{Code::kSystem, error};
  Result<verbs::QueuePair> made =
      verbs::createQueuePair(rail.hca->pd(), trial.cq.get(), rail.port, config, {1, 1, 0});
  if (!made.ok()) return made.status();
  trial.made = std::move(*made);
  return trial;
}

// ---- queue pairs

void Link::takeDelivered() {
  do {
    completed_since_look = false;
    (void)user_.poll();
  } while (completed_since_look);
}

void Link::dropEndpoint() {
  watch_.ignore();
  only_cq = nullptr;
  takeRails(endpoint.rails);
  endpoint.lose();
}

void Link::stopLostQueuePairs() noexcept {
  const auto usable = [](const Rail& rail) { return rail.usable(); };
  const bool well = running() && failure.ok() && !joiner_->isJoining(endpoint) &&
                    std::ranges::all_of(endpoint.rails, usable);
  if (well || window_ == nullptr || side_channel_.inForkedChild()) return;
  try {
    (void)endpoint.stop();
  } catch (const std::bad_alloc&) {  // this thread destroys them
  }
}

}  // namespace railwise::net
