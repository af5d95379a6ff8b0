// The sender's half of failover. It learns from the receiver what has arrived, chooses the paths of the next
// epoch, and sends the rest again. docs/transport.md has the protocol.
#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/log.h"
#include "net/profiler.h"
#include "net/sender/send_connection.h"

namespace railwise::net {

Status SendConnection::advanceRecovery() {
  if (phase() == Phase::kLost) {
    // What completes from now on does not count: the receiver says what has arrived.
    endpoint_.hideCompletions();
    sayBreak();
    if (!endpoint_.stop()) {
      if (endpoint_.refusedFor(patience().destroyInstead())) endpoint_.destroyRefused();
      if (!needNotStop()) return Status::success();
    }
    tearDown();
    recovery_.wait(recovery_.nextEpoch());
    agree().restart();
  }
  if (phase() == Phase::kWaiting && next_ != nullptr && next_->isAnswered(epoch())) {
    if (!next_->messages_reconciled) RAILWISE_TRY(reconcileMessages());
    // A sender that has nothing to send would keep the receiver waiting for its Begin.
    if (std::exchange(wants_to_send_, false) || unfinished()) tryToConnect();
  }
  return phase() == Phase::kConnecting ? connectEpoch() : Status::success();
}

// Once for each epoch that this end asks for.
void SendConnection::sayBreak() {
  if (recovery_.peerAsksForLater() || break_said_ == recovery_.nextEpoch()) return;
  break_said_ = recovery_.nextEpoch();
  auto frame = makeMessage<BreakFrame>(MessageType::kBreak);
  frame.epoch = break_said_;
  copyText(frame.reason, log_.reason());
  side_channel_.send(frame);
}

// A receiver that has left takes nothing from the old queue pairs, stopped or not. But a clear-to-send that
// lies in a switch may still come in by an old queue pair that is not stopped: it would overwrite the one of
// a later receive. So this end takes another window, and the old one stays with the old queue pairs. While
// the own driver answers and does not refuse, this end waits.
bool SendConnection::needNotStop() {
  if (side_channel_.ended()) return true;  // there is no next epoch
  const bool left =
      next_ != nullptr && next_->reconcile != nullptr && next_->reconcile->epoch >= recovery_.nextEpoch();
  if (!left || (endpoint_.driversAnswer() && endpoint_.refusal().empty())) return false;
  if (!openWindow(peer_rails_, endpoint_.driversAnswer()).ok()) return false;
  epoch_here_.window_address = window_->address();
  return true;
}

bool SendConnection::unfinished() const {
  return std::any_of(messages_.begin(), messages_.end(), [&](const Message& message) {
    return message.kind == Request::Kind::kSend && !message.complete();
  });
}

void SendConnection::tearDown() {
  leaveFastPath();
  for (const LaneQueuePair& queue_pair : endpoint_.queue_pairs) {
    if (queue_pair.completed() > 0 && queue_pair.index < epoch_paths_.size())
      paths_.carried(epoch_paths_[queue_pair.index], epoch_began_);
  }
  blamed_ = recovery_.failedQueuePair();
  if (blamed_ < epoch_paths_.size())
    paths_.failed(epoch_paths_[blamed_], recovery_.failureCost(), Clock::now());
  // From now on only the receiver's word counts, also for what the peer's device has acknowledged: the peer
  // may not have seen it. And the counters of the queue pairs are gone: the next queue pairs take their
  // memory.
  for (Message& message : messages_) message.counter = &kNever;
  dropEndpoint();
  for (const SegmentEvent& event : events_) profiler::stop(event.event);
  events_.clear();
  chain_.clear();
  sample_at_ = numbers().next;
  batch_.drop();
  ring_.clear();
  failback_.stop();
  completeArrived();
}

// ---- what the receiver says

Status SendConnection::onPeerFrame(MessageType type, std::span<const std::byte> bytes) {
  switch (type) {
    case MessageType::kReconcile:
      onReconcile(frameOf<ReconcileFrame>(bytes));
      return Status::success();
    case MessageType::kRails:
      if (const auto frame = frameOf<RailsFrame>(bytes); running() && frame.epoch == epoch())
        failback_.onRails(frame, mostRails(ring_.entryBytes()));
      return Status::success();
    case MessageType::kTrialReply:
      if (running()) failback_.onTrialReply(frameOf<TrialReplyFrame>(bytes));
      return Status::success();
    case MessageType::kAccept:
      return onAccept(frameOf<AcceptFrame>(bytes));
    case MessageType::kArrived:
      hearArrived(frameOf<ArrivedFrame>(bytes).number);
      return Status::success();
    default:
      return fail({Code::kRemote, 0},
                  "the peer sent a frame over the side channel that receivers do not send");
  }
}

void SendConnection::onReconcile(const ReconcileFrame& frame) {
  if (frame.epoch < epoch() || (frame.epoch == epoch() && phase() != Phase::kWaiting)) return;
  // The report concerns the epoch that this end has, or has just left.
  const uint8_t known = phase() == Phase::kLost ? recovery_.failedQueuePair() : blamed_;
  const bool next =
      frame.epoch == epoch() + (phase() == Phase::kWaiting ? 0 : 1) || frame.epoch == epoch() + 1;
  if (next && frame.failed < epoch_paths_.size() && frame.failed != known)
    paths_.failed(epoch_paths_[frame.failed], frame.cost, Clock::now());
  if (frame.epoch > epoch()) {
    const std::string reason = fieldText(frame.reason);
    if (running() || phase() == Phase::kConnecting)
      (void)lose(nullptr, {Code::kRemote, 0}, "the receiver lost it: " + reason);
    recovery_.peerAsksFor(frame.epoch);
    if (phase() == Phase::kWaiting) {
      recovery_.wait(frame.epoch);
      agree().messages_reconciled = false;
    }
  }
  // A receiver that waits for nothing may not look for hours.
  recovery_.setPeerTakesPart(frame.open != 0);
  agree().reconcile = std::make_unique<ReconcileFrame>(frame);
  next_->try_at = {};
}

Status SendConnection::onAccept(const AcceptFrame& frame) {
  if (frame.epoch != epoch() || phase() != Phase::kConnecting || next_->accepted != nullptr)
    return Status::success();
  auto reply = std::make_unique<EndInfo>(frame.end);
  // The sender decided how the queue pairs are paired.
  for (int i = 0; i < next_->proposal->end.queue_pairs; ++i) {
    QueuePairInfo pair = next_->proposal->pair[i];
    pair.number = frame.end.queue_pair[i].number;
    pair.ece_vendor = frame.end.queue_pair[i].ece_vendor;
    pair.ece_options = frame.end.queue_pair[i].ece_options;
    pair.ece_mask = frame.end.queue_pair[i].ece_mask;
    reply->queue_pair[i] = pair;
  }
  std::string problem = checkPairing(next_->proposal->end, *reply);
  if (reply->rails != next_->proposal->rails) problem = "another number of rails than was proposed";
  if (!problem.empty()) return fail({Code::kRemote, 0}, "the peer's answer after a failure has " + problem);
  next_->accepted = std::move(reply);
  next_->connect_until = Clock::now() + patience().joinEpoch();
  return Status::success();
}

// ---- what has arrived

Message* SendConnection::messageOf(uint64_t number) {
  const auto found = std::find_if(messages_.begin(), messages_.end(), [&](const Message& message) {
    return message.kind == Request::Kind::kSend && message.number == number;
  });
  return found != messages_.end() ? &*found : nullptr;
}

Status SendConnection::failLost(uint64_t number) {
  return fail(
      {Code::kRemote, EIO},
      "message " + std::to_string(number) +
          " is lost: the peer's device has acknowledged it, and failed before it told the peer of it");
}

Status SendConnection::reconcileReceive(uint64_t number, bool arrived) {
  Group& group = groups_.of(number);
  const bool grouped = group.holds(number);  // or the message took the fast path
  Message* const message = grouped ? nullptr : messageOf(number);
  if (arrived) {
    if (grouped) group.arrive();
    else if (message != nullptr) message->counter = &kAlways;
    return Status::success();
  }
  if (grouped) return group.repeat() ? Status::success() : failLost(number);
  if (message == nullptr) return failLost(number);
  group.repeatAlone(number, *message);
  return Status::success();
}

// In any phase the receiver's report completes messages that are posted. Between two epochs it frees their
// slots, too: nothing goes over the old queue pairs any more.
void SendConnection::hearArrived(uint64_t number) {
  onArrived(number);
  if (phase() == Phase::kWaiting || phase() == Phase::kConnecting) {
    completeArrived();
  } else {
    completeMessages(std::min<uint64_t>(arrivedUpTo(), nextPost() - 1));
  }
}

void SendConnection::completeMessages(uint64_t up_to) {
  for (Message& message : messages_) {
    if (message.kind == Request::Kind::kSend && message.number <= up_to) message.counter = &kAlways;
  }
}

// Completes the groups whose receives have arrived, after the queue pairs are torn down.
void SendConnection::completeArrived() {
  completeMessages(arrivedUpTo());
  for (Group& group : groups_) {
    if (group.number <= arrivedUpTo() && group.holds(group.number)) group.arrive();
  }
}

// Completes the messages that the receiver has. The other messages will be sent again, in order, when the
// receiver has written their clear-to-sends once more.
Status SendConnection::reconcileMessages() {
  next_->messages_reconciled = true;
  onArrived(next_->reconcile->arrived);
  const uint64_t arrived = arrivedUpTo();
  if (next_->reconcile->arrived != arrived || numbers().next - arrived > kSlots + 1U)
    return fail({Code::kRemote, 0}, "the peer says that receive " +
                                        std::to_string(next_->reconcile->arrived) +
                                        " is its latest, where receive " + std::to_string(numbers().next) +
                                        " is the next to be sent to");
  completeArrived();
  noteProgress(true);
  for (uint64_t number = numbers().next - 1; number > arrived; --number) {
    const uint64_t bit = number - arrived - 1;
    RAILWISE_TRY(reconcileReceive(number, bit < kSlots && (next_->reconcile->done >> bit & 1) != 0));
  }
  // The group that is being matched goes on, without the work requests that were prepared for the old queue
  // pairs.
  Group& open = groups_.of(numbers().next);
  if (open.number == numbers().next) open.form = SendPath::kSegments;
  nextPost() = arrived + 1;
  ring_.lookFrom(arrived + 1);
  return Status::success();
}

// ---- the next epoch

void SendConnection::tryToConnect() {
  const Clock::time_point now = Clock::now();
  if (now < next_->try_at) return;
  next_->try_at = now + Patience::kLookAgain;
  if (!joiner_->mayBegin()) return;
  int native = 0;
  const std::vector<Rail> usable = usableRails(own(), &native);
  const EndInfo offer = describeOffer(own(), usable, epoch_here_);
  PlanAnswer answer =
      planEpoch({offer, native}, {next_->reconcile->end, next_->reconcile->native},
                mostRails(ring_.entryBytes()), config_.ib_subnet_prefix_len, paths_, now, Purpose::kGoOn);
  if (!answer.plan) {
    next_->try_at = std::min(next_->try_at, answer.again);
    if (std::exchange(next_->searched, epoch()) == epoch()) return;
    auto frame = makeMessage<EpochFrame>(MessageType::kSearching);
    frame.epoch = epoch();
    side_channel_.send(frame);
    return;
  }
  std::vector<Rail> rails;
  for (const uint8_t rail : answer.plan->local) rails.push_back(usable[rail]);
  takeRails(std::move(rails));
  whole_ = isWhole(*answer.plan, offer, native);
  if (openEpoch(*answer.plan)) {
    propose(*answer.plan);
    recovery_.connect();
    record::setState(shown(), record::ConnectionState::kReconnecting);
    return;
  }
  for (const EpochPlan::Lane& lane : answer.plan->lanes) {
    const RailPath path = pathOf(offer.rail[answer.plan->local[lane.local_rail]],
                                 next_->reconcile->end.rail[answer.plan->remote[lane.remote_rail]]);
    paths_.failed(path, FailureCost::kNone, now);
    log_.noteTried(path.first + " -> " + path.second + ": no queue pair");
  }
  dropEndpoint();
}

bool SendConnection::openEpoch(const EpochPlan& plan) {
  const auto paths = static_cast<int>(plan.lanes.size());
  const int queue_pairs = paths * queuePairsPerLane(plan.lanes.size());
  std::vector<uint8_t> rail_of;
  for (int i = 0; i < queue_pairs; ++i)
    rail_of.push_back(plan.lanes[static_cast<std::size_t>(i % paths)].local_rail);
  if (!openQueuePairsOn(rail_of).ok()) return false;
  // Each queue pair has a lane of its own if there are enough lanes; each path has the same number of lanes.
  const int lanes =
      config_.ib_split_data_on_qps != 0 ? std::min(queue_pairs, kMaxLanes / paths * paths) : paths;
  endpoint_.makeLanes(lanes);
  groups_.setLanes(static_cast<std::size_t>(lanes));
  // An address may have gone since the plan was made.
  return describeEpoch(own(), endpoint_.rails, *window_, epoch_here_).ok() &&
         std::all_of(plan.lanes.begin(), plan.lanes.end(), [&](const EpochPlan::Lane& lane) {
           return lane.local_gid < epoch_here_.rail[lane.local_rail].gid_count;
         });
}

void SendConnection::propose(const EpochPlan& plan) {
  describeQueuePairs(endpoint_, config_, epoch_here_);
  next_->proposal = std::make_unique<ProposeFrame>(makeMessage<ProposeFrame>(MessageType::kPropose));
  next_->proposal->epoch = epoch();
  next_->proposal->rails = static_cast<uint8_t>(plan.remote.size());
  std::copy(plan.remote.begin(), plan.remote.end(), next_->proposal->rail);
  next_->proposal->end = epoch_here_;
  epoch_paths_.clear();
  blamed_ = kNoQueuePair;
  for (std::size_t i = 0; i < endpoint_.queue_pairs.size(); ++i) {
    const EpochPlan::Lane& lane = plan.lanes[i % plan.lanes.size()];
    QueuePairInfo& pair = next_->proposal->pair[i];
    pair.rail = lane.remote_rail;
    pair.gid = lane.remote_gid;
    pair.peer_gid = lane.local_gid;
    pair.used = 1;
    epoch_paths_.push_back(
        pathOf(epoch_here_.rail[lane.local_rail], next_->reconcile->end.rail[plan.remote[lane.remote_rail]]));
  }
  next_->accepted.reset();
  side_channel_.send(*next_->proposal);
}

// Does the plan use all that the rails of both devices allow?
bool SendConnection::isWhole(const EpochPlan& plan, const EndInfo& offer, int native) const {
  if (static_cast<std::size_t>(native) != device_.rails().size() || next_->reconcile->native != peer_rails_)
    return false;
  const PlanAnswer best = planEpoch({offer, native}, {next_->reconcile->end, next_->reconcile->native},
                                    mostRails(ring_.entryBytes()), config_.ib_subnet_prefix_len,
                                    PathMemory(patience()), Clock::now(), Purpose::kGoOn);
  return best.plan && *best.plan == plan;
}

Status SendConnection::connectEpoch() {
  if (next_->accepted == nullptr) return Status::success();
  if (endpoint_.loads.empty()) adoptPairing(epoch_here_, *next_->accepted);
  setFastPath(false);
  bool all = true;
  for (std::size_t i = 0; i < endpoint_.queue_pairs.size(); ++i) {
    if (endpoint_.queue_pairs[i].rest->connected) continue;
    const Result<bool> up = connectQueuePair(i, epoch_here_, *next_->accepted);
    all = all && up.ok() && *up;
    if (up.ok() && (*up || Clock::now() < next_->connect_until)) continue;
    const Status why = up.ok() ? Status{Code::kRemote, ETIMEDOUT} : up.status();
    const char* const text = why.sys_errno != 0 ? std::strerror(why.sys_errno) : "RDMA CM refuses";
    return lose(&endpoint_.queue_pairs[i], why,
                endpoint_.nameOf(endpoint_.queue_pairs[i]) + ": cannot be connected: " + text);
  }
  return all ? begin() : Status::success();
}

Status SendConnection::begin() {
  auto frame = makeMessage<EpochFrame>(MessageType::kBegin);
  frame.epoch = epoch();
  side_channel_.send(frame);
  for (uint64_t number = nextPost(); number < numbers().next; ++number) {
    const auto slot = static_cast<uint32_t>(number % kSlots);
    Group& group = groups_.at(slot);
    if (group.number == number && group.state == SlotState::kRepeat) plan(group, slot);
  }
  setFastPath(nextPost() == numbers().next);
  std::string paths;
  for (const RailPath& path : epoch_paths_)
    paths += (paths.empty() ? "" : ", ") + path.first + " -> " + path.second;
  const std::string how = "goes on over " + paths + " (epoch " + std::to_string(epoch()) + ")";
  if (!search_.end(title(), how)) logLimited(title() + " " + how);
  failback_.resume(Clock::now());
  fast_path_closed_ = failback_.reduced();
  epoch_began_ = Clock::now();
  next_.reset();
  beginEpoch();
  return Status::success();
}

// The local key of a message's memory through the rail of a queue pair. Memory that is not yet registered
// with a standby rail is registered now.
Result<uint32_t> SendConnection::localKey(const Message& message, const LaneQueuePair& queue_pair) {
  if (endpoint_.native) [[likely]]
    return message.memory->keys[queue_pair.rail].local();
  const Result<MemoryKeys> keys = keysOf(device_, endpoint_, *message.memory, queue_pair.rail);
  if (keys.ok()) return keys->local;
  RAILWISE_TRY(lose(&queue_pair, keys.status(),
                    endpoint_.nameOf(queue_pair) +
                        ": memory cannot be registered: " + std::strerror(keys.status().sys_errno)));
  return keys.status();
}

// ---- going back to better paths (failback.h)

void SendConnection::lookForBetter(Clock::time_point now) {
  if (!joiner_->mayBegin() && !failback_.trying()) return;
  if ((epoch() > 1 || failback_.reduced()) && canFailOver()) failback_.look(now);
}

// A connection that always has something to send never waits, so isend must look for better paths.
Status SendConnection::lookAround() {
  RAILWISE_TRY(failure_);
  if (!running()) {
    wants_to_send_ = true;
    return idle(Waiting::kPeer);
  }
  constexpr uint32_t kLookMask = 0x3f;
  return (++looks_ & kLookMask) != 0 && !bell_.raised() && !failback_.trying()
             ? Status::success()
             : checkPeer(Waiting::kAcknowledgement);
}

void SendConnection::askForRails() {
  if (side_channel_.broken()) return;  // it asks again
  auto frame = makeMessage<AskRailsFrame>(MessageType::kAskRails);
  frame.epoch = epoch();
  side_channel_.send(frame);
}

bool SendConnection::connectTrial(TrialQueuePair& trial, const EndInfo& offer, std::size_t local_rail,
                                  std::size_t local_gid, const TrialReplyFrame& reply,
                                  std::size_t remote_gid) {
  return joiner_->callTrial(trial, ends(offer, reply.end), {local_rail, 0, local_gid, remote_gid},
                            reply.trial);
}

Result<bool> SendConnection::readThrough(TrialQueuePair& trial, uint32_t remote_key) {
  if (const Result<bool> up = joiner_->advanceTrial(trial); !up.ok() || !*up) return up;
  ibv_sge sge;
  ibv_send_wr work = {};
  work.sg_list = &sge;
  work.send_flags = IBV_SEND_SIGNALED;
  proof_.makeRead(work, peer_window_, windowKeysOn(device_, *window_, trial.rail).local, remote_key);
  ibv_send_wr* bad = nullptr;
  if (const int error = ibv_post_send(trial.qp(), &work, &bad); error != 0)
    return Status{Code::kSystem, error};
  record::addTotals(trial.rail.record_rail, {.work_requests = 1, .control_bytes = sge.length});
  return true;
}

void SendConnection::goBack() {
  logLimited(title() + " goes back: " + kGoesBack);
  noteEvent(record::EventKind::kWentBack, kGoesBack);
  leaveEpoch(kGoesBack);
}

}  // namespace railwise::net
