// The receiver's half of failover. It takes in what its queue pairs still deliver, reports what has arrived
// and by which rails it can be reached, and makes the queue pairs that the sender proposes. docs/transport.md
// has the protocol.
#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/log.h"
#include "net/receiver/receive_connection.h"

namespace railwise::net {
namespace {

bool sameRails(const std::vector<Rail>& a, const std::vector<Rail>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const Rail& x, const Rail& y) { return x.same(y); });
}

}  // namespace

Status ReceiveConnection::advanceRecovery() {
  if (phase() == Phase::kLost) {
    if (!endpoint_.stop() && !side_channel_.ended()) {
      if (endpoint_.refusedFor(patience().destroyInstead())) {
        takeDelivered();
        endpoint_.hideCompletions();
        endpoint_.destroyRefused();
      }
      return Status::success();
    }
    if (!next_.drain) next_.drain = Deadline::after(Patience::kDrain);
    takeDelivered();
    if (!drained() && !next_.drain->passed()) return Status::success();
    if (endpoint_.anyUsed()) {
      keepRailsForFlush();
      dropEndpoint();
    }
    if (!joiner_->mayBegin() && !side_channel_.ended()) return Status::success();
    next_.drain.reset();
    toEpoch(recovery_.nextEpoch());
  }
  if (phase() == Phase::kWaiting) {
    int native = 0;
    if (recovery_.peerAsksForLater()) {
      toEpoch(recovery_.nextEpoch());
    } else if (Clock::now() >= next_.look_at && !side_channel_.unheard(MessageType::kReconcile)) {
      // One offer at a time: a peer that hears nothing may be stopped for hours. What has changed meanwhile
      // is offered once it has heard.
      next_.look_at = Clock::now() + Patience::kLookAgain;
      if (!sameRails(usableRails(own(), &native), offer_.rails)) toEpoch(epoch() + 1);
    }
  }
  return phase() == Phase::kConnecting ? connectEpoch() : Status::success();
}

// What has arrived counts.
void ReceiveConnection::takeDelivered() {
  do {
    completed_since_check_ = false;
    (void)poll();
  } while (completed_since_check_);
}

bool ReceiveConnection::drained() const {
  return std::all_of(
      endpoint_.queue_pairs.begin(), endpoint_.queue_pairs.end(), [&](const LaneQueuePair& queue_pair) {
        if (queue_pair.qp == nullptr) return true;  // destroyed, because its driver refused to stop it
        if (queue_pair.rail < endpoint_.rails.size() && endpoint_.rails[queue_pair.rail].hca->state().fatal())
          return true;  // a dead device gives nothing back
        return allCameBack(queue_pair.rest->receives_posted,
                           queue_pair.consumed + queue_pair.rest->receives_failed);
      });
}

// NCCL may ask for the flush of a receive after its epoch has ended.
void ReceiveConnection::keepRailsForFlush() {
  if (matched_ > earlier_.up_to + kSlots) earlier_.rails.clear();  // nobody knows those any more
  if (!endpoint_.anyUsed()) return;
  for (const Rail& rail : endpoint_.rails) {
    if (placeOf(rail, earlier_.rails) < 0) earlier_.rails.push_back(rail);
  }
  earlier_.up_to = matched_;
}

// Drops the queue pairs and waits for those of `epoch`.
void ReceiveConnection::toEpoch(uint64_t epoch) {
  keepRailsForFlush();
  if (phase() != Phase::kWaiting) dropEndpoint();
  trial_.reset();
  joiner_->drop();
  flusher_.drop();
  forgetSegments();
  reply_queue_pair_ = 0;
  recovery_.wait(epoch);
  recovery_.setPeerTakesPart(false);
  sendReconcile();
}

// A message of which only some segments have arrived is sent again as a whole.
void ReceiveConnection::forgetSegments() {
  for (Receive& receive : receives_) {
    receive.rails = 0;  // whatever they meant
    if (receive.isOpen()) receive.arrived = receive.segments = 0;
  }
}

void ReceiveConnection::renewOffer() {
  offer_.rails = usableRails(own(), &offer_.native);
  offer_.end = describeOffer(own(), offer_.rails, epoch_here_);
}

void ReceiveConnection::sendReconcile() {
  auto frame = makeMessage<ReconcileFrame>(MessageType::kReconcile);
  frame.epoch = epoch();
  frame.arrived = arrivedUpTo();
  for (uint64_t number = arrivedUpTo() + 1; number < numbers().next; ++number) {
    if (receives_[number % kSlots].complete()) frame.done |= 1U << (number - arrivedUpTo() - 1);
  }
  frame.failed = recovery_.failedQueuePair();
  frame.cost = recovery_.failureCost();
  renewOffer();
  frame.native = static_cast<uint8_t>(offer_.native);
  frame.open = std::any_of(receives_.begin(), receives_.end(),
                           [](const Receive& receive) { return receive.isOpen(); });
  copyText(frame.reason, log_.reason());
  frame.end = offer_.end;
  side_channel_.send(frame);
  side_channel_.breakIsAnswered();
  recovery_.blame(kNoQueuePair, FailureCost::kNone);
}

// ---- what the sender says

Status ReceiveConnection::onPeerFrame(MessageType type, std::span<const std::byte> bytes) {
  switch (type) {
    case MessageType::kBreak: {
      const auto frame = frameOf<BreakFrame>(bytes);
      if (frame.epoch > epoch()) {
        const std::string reason = fieldText(frame.reason);
        if (running() && reason == kGoesBack) {
          leaveEpoch(reason);
        } else if (running() || phase() == Phase::kConnecting) {
          (void)lose(nullptr, {Code::kRemote, 0}, "the sender lost it: " + reason);
        }
        recovery_.peerAsksFor(frame.epoch);
      } else {
        side_channel_.breakIsAnswered();
      }
      return Status::success();
    }
    case MessageType::kSearching:
      if (frameOf<EpochFrame>(bytes).epoch == epoch()) recovery_.setPeerTakesPart(true);
      return Status::success();
    case MessageType::kUnposted:
      // The sender has sent something that has not arrived: it either recovers too, or has lost the path and
      // does not know it.
      if (!running() && frameOf<ArrivedFrame>(bytes).number > arrivedUpTo() + 1)
        recovery_.setPeerTakesPart(true);
      next_.look_at = {};  // it has heard the latest offer: another one may be due
      if (running()) onPortsChanged();
      return Status::success();
    case MessageType::kAskRails:
      if (running()) sendRails();
      return Status::success();
    case MessageType::kTrial:
      if (running()) onTrial(frameOf<TrialFrame>(bytes));
      return Status::success();
    case MessageType::kPropose:
      return onPropose(frameOf<ProposeFrame>(bytes));
    case MessageType::kBegin:
      if (frameOf<EpochFrame>(bytes).epoch != epoch() || phase() != Phase::kConnecting || !next_.accept_sent)
        return Status::success();
      next_.begin_heard = true;
      next_.connect_until = Clock::now() + patience().joinEpoch();
      return connectEpoch();
    default:
      return fail({Code::kRemote, 0}, "the peer sent a frame over the side channel that senders do not send");
  }
}

Status ReceiveConnection::onPropose(const ProposeFrame& frame) {
  if (frame.epoch != epoch() || phase() != Phase::kWaiting) return Status::success();
  recovery_.setPeerTakesPart(true);
  bool possible = frame.rails <= mostRails(entry_bytes_) && frame.end.out_of_order == local_.out_of_order &&
                  (rules_.has_immediates || frame.end.queue_pairs <= most_queue_pairs_);
  for (int i = 0; i < frame.rails; ++i) possible = possible && frame.rail[i] < offer_.rails.size();
  for (int i = 0; possible && i < frame.end.queue_pairs; ++i) {
    const QueuePairInfo& pair = frame.pair[i];
    const RailInfo& here = offer_.end.rail[frame.rail[pair.rail]];
    const RailInfo& there = frame.end.rail[frame.end.queue_pair[i].rail];
    possible =
        pair.gid < here.gid_count && pair.peer_gid < there.gid_count && here.link_layer == there.link_layer;
  }
  if (!possible) return fail({Code::kRemote, 0}, "the peer proposes paths that this end has not offered");
  if (openEpoch(frame)) {
    next_.accept_sent = next_.begin_heard = false;
    next_.connect_until = Clock::now() + patience().joinEpoch();
    recovery_.connect();
    record::setState(shown(), record::ConnectionState::kReconnecting);
  } else {
    refuseEpoch(0, FailureCost::kNone, "no queue pair can be made");
  }
  return Status::success();
}

// The proposed epoch cannot be made. Both ends go on to the next one, this end once its queue pairs are
// stopped: the sender may use them already.
void ReceiveConnection::refuseEpoch(uint8_t queue_pair, FailureCost cost, const std::string& what) {
  log_.refuse(what);
  recovery_.refuse(queue_pair, cost);
  next_.drain.reset();
}

bool ReceiveConnection::openEpoch(const ProposeFrame& frame) {
  std::vector<Rail> rails;
  EndInfo here = offer_.end;
  for (int i = 0; i < frame.rails; ++i) {
    rails.push_back(offer_.rails[frame.rail[i]]);
    here.rail[i] = offer_.end.rail[frame.rail[i]];
  }
  here.rails = frame.rails;
  takeRails(std::move(rails));
  for (std::size_t i = 0; i < endpoint_.rails.size(); ++i) {
    const MemoryKeys keys = windowKeysOn(device_, *window_, endpoint_.rails[i]);
    if (keys.local == 0 && keys.remote == 0) return false;
    here.rail[i].window_key = keys.remote;
  }
  here.queue_pairs = frame.end.queue_pairs;
  here.lanes = frame.end.lanes;
  for (int i = 0; i < here.queue_pairs; ++i) {
    here.queue_pair[i] = {};
    here.queue_pair[i].rail = frame.pair[i].rail;
    here.queue_pair[i].gid = frame.pair[i].gid;
    here.queue_pair[i].peer_gid = frame.pair[i].peer_gid;
    here.queue_pair[i].used = 1;
  }
  local_ = here;
  if (!openQueuePairs().ok()) return false;
  endpoint_.makeLanes(local_.lanes);
  describePairing(frame.end);
  adopt(frame.end);
  for (uint64_t number = arrivedUpTo() + 1; number < numbers().next; ++number) {
    Receive& receive = receives_[number % kSlots];
    if (!receive.complete() && !writeKeys(receive)) return false;
  }
  return true;
}

Status ReceiveConnection::connectEpoch() {
  if (next_.accept_sent) return awaitBegin();
  std::size_t failed = 0;
  if (!joiner_->listen(epoch(), endpoint_, local_, &failed).ok()) {
    refuseEpoch(static_cast<uint8_t>(failed), FailureCost::kNone,
                pathText(endpoint_.queue_pairs[failed]) + ": RDMA CM cannot listen");
    return Status::success();
  }
  if (!joiner_->needsCall()) {
    const Status up = joiner_->joinAll(ends(local_, epoch_there_), &failed).status();
    if (up.sys_errno == ETIMEDOUT && Clock::now() < next_.connect_until) return Status::success();
    if (!up.ok()) {
      refuseEpoch(
          static_cast<uint8_t>(failed), up.sys_errno == ETIMEDOUT ? FailureCost::kTime : FailureCost::kNone,
          pathText(endpoint_.queue_pairs[failed]) + ": cannot be connected: " + std::strerror(up.sys_errno));
      return Status::success();
    }
  }
  describeEce(endpoint_, config_, local_);
  auto frame = makeMessage<AcceptFrame>(MessageType::kAccept);
  frame.epoch = epoch();
  frame.end = local_;
  side_channel_.send(frame);
  next_.accept_sent = true;
  return Status::success();
}

// The sender begins when its queue pairs are up. Those of this end may not be up yet then, if the sender had
// to call.
Status ReceiveConnection::awaitBegin() {
  std::size_t failed = 0;
  const Result<bool> up = joiner_->joinAll(ends(local_, epoch_there_), &failed);
  if (!up.ok()) {
    refuseEpoch(static_cast<uint8_t>(failed), FailureCost::kNone,
                pathText(endpoint_.queue_pairs[failed]) + ": RDMA CM cannot connect it");
    return Status::success();
  }
  if (!*up && next_.begin_heard && Clock::now() > next_.connect_until)
    refuseEpoch(kNoQueuePair, FailureCost::kTime, "RDMA CM does not say that the queue pairs are up");
  return *up && next_.begin_heard ? begin() : Status::success();
}

// ---- going back

void ReceiveConnection::sendRails() {
  if (side_channel_.broken()) return;  // they are sent when the sender asks
  // The answer to the frame that is on its way brings the next one.
  if (side_channel_.unheard(MessageType::kRails)) return;
  auto frame = makeMessage<RailsFrame>(MessageType::kRails);
  frame.epoch = epoch();
  renewOffer();
  frame.native = static_cast<uint8_t>(offer_.native);
  frame.end = offer_.end;
  side_channel_.send(frame);
}

void ReceiveConnection::onPortsChanged() {
  int native = 0;
  if ((epoch() > 1 || !allReachable(local_)) && !sameRails(usableRails(own(), &native), offer_.rails))
    sendRails();
}

// Makes a queue pair for the sender's trial. The queue pair stays until the next trial or epoch.
void ReceiveConnection::onTrial(const TrialFrame& frame) {
  trial_.reset();
  auto reply = makeMessage<TrialReplyFrame>(MessageType::kTrialReply);
  reply.trial = frame.trial;
  const auto open = [&] {
    if (frame.rail >= offer_.rails.size() || frame.gid >= offer_.end.rail[frame.rail].gid_count ||
        frame.peer_gid >= frame.end.rail[0].gid_count ||
        frame.end.rail[0].link_layer != offer_.end.rail[frame.rail].link_layer)
      return false;
    const Rail& rail = offer_.rails[frame.rail];
    Result<TrialQueuePair> made = openTrial(rail, config_);
    if (made.ok()) made->use(window_);
    const MemoryKeys keys = windowKeysOn(device_, *window_, rail);
    if (!made.ok() || (keys.local == 0 && keys.remote == 0)) return false;
    reply.end = offer_.end;
    reply.end.rails = reply.end.queue_pairs = reply.end.lanes = 1;
    reply.end.rail[0] = offer_.end.rail[frame.rail];
    reply.end.rail[0].window_key = keys.remote;
    reply.end.queue_pair[0].number = made->qp()->qp_num;
    const Result<uint16_t> port = joiner_->answerTrial(*made, ends(reply.end, frame.end),
                                                       {0, 0, frame.gid, frame.peer_gid}, frame.trial);
    if (!port.ok()) return false;
    reply.end.rail[0].cm_ports[frame.gid] = *port;
    trial_ = std::move(*made);
    trial_until_ = Clock::now() + patience().trialAtReceiver();
    return true;
  };
  reply.accepted = open() ? 1 : 0;
  side_channel_.send(reply);
}

// Takes the sender's call for a trial, if there must be one, and goes on with it. Nothing else tells this end
// of the call, so the bell rings on until the queue pair is up.
void ReceiveConnection::goOnWithTrial() {
  if (!trial_ || !trial_->listener) return;
  if (Clock::now() < trial_until_) bell_.ring();
  const Result<bool> up = joiner_->advanceTrial(*trial_);
  if (!up.ok()) return trial_.reset();
  if (*up) trial_->listener.reset();
}

// ---- clear to send, once more

// Writes the keys of this epoch's rails into the clear-to-send of a receive. False: the memory of the receive
// cannot be registered with one of the rails.
bool ReceiveConnection::writeKeys(const Receive& receive) {
  for (uint32_t i = 0; i < receive.count; ++i) {
    std::byte* const at = stagingOf(receive.number, i);
    auto& entry = *reinterpret_cast<ClearToSend*>(at + entry_bytes_ - sizeof(ClearToSend));
    const MemoryHandle* const memory = memories_[i][receive.number % kSlots];
    if (memory == nullptr) continue;
    for (uint8_t rail = 0; rail < endpoint_.rails.size(); ++rail) {
      const Result<MemoryKeys> keys = keysOf(device_, endpoint_, *memory, rail);
      if (!keys.ok()) return false;
      if (rail == 0) {
        entry.remote_key = keys->remote;
      } else {
        reinterpret_cast<MoreKeys*>(at)->remote_key[rail] = keys->remote;
      }
    }
  }
  return true;
}

Status ReceiveConnection::begin() {
  std::string paths;
  for (const LaneQueuePair& queue_pair : endpoint_.queue_pairs)
    paths += (paths.empty() ? "" : ", ") + pathText(queue_pair);
  (void)search_.end(title(), "goes on over " + paths + " (epoch " + std::to_string(epoch()) + ")");
  numbers().posted = arrivedUpTo() + 1;
  fast_path_open_ = plain_ && endpoint_.native;
  beginEpoch();
  return postPending();
}

}  // namespace railwise::net
