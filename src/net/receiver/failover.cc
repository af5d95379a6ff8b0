// The receiver's half of failover: it takes in what its queue pairs still have, says what has arrived and
// what it can be reached by, and makes the queue pairs that the sender proposes. docs/transport.md has the
// protocol.
#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/log.h"
#include "net/receiver/receive_connection.h"

namespace railwise::net {
namespace {

// A queue pair in the error state gives its receives back at once, unless its device is dead.
constexpr Clock::duration kDrainTime = std::chrono::milliseconds(100);

bool sameRails(const std::vector<Rail>& a, const std::vector<Rail>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const Rail& x, const Rail& y) { return x.same(y); });
}

}  // namespace

Status ReceiveConnection::advanceRecovery() {
  if (phase_ == Phase::kLost) {
    if (!drain_) {
      endpoint_.stop();
      drain_ = Deadline::after(kDrainTime);
    }
    do {  // what has arrived counts
      completed_since_check_ = false;
      (void)poll();
    } while (completed_since_check_);
    if (!drained() && !drain_->passed()) return Status::success();
    drain_.reset();
    toEpoch(std::max(epoch_ + 1, asked_epoch_));
  }
  if (phase_ == Phase::kWaiting) {
    int native = 0;
    if (asked_epoch_ > epoch_) {
      toEpoch(asked_epoch_);
    } else if (Clock::now() >= next_look_) {
      next_look_ = Clock::now() + kLookAgain;
      if (!sameRails(usableRails(&native), offered_)) toEpoch(epoch_ + 1);
    }
  }
  return phase_ == Phase::kConnecting ? connectEpoch() : Status::success();
}

bool ReceiveConnection::drained() const {
  return std::all_of(endpoint_.queue_pairs.begin(), endpoint_.queue_pairs.end(),
                     [](const LaneQueuePair& queue_pair) {
                       return queue_pair.consumed + queue_pair.receives_failed >= queue_pair.receives_posted;
                     });
}

// Without queue pairs, and ready for those of this epoch.
void ReceiveConnection::toEpoch(uint64_t epoch) {
  if (phase_ != Phase::kWaiting) dropEndpoint();
  trial_.reset();
  dropFlushPaths();
  forgetParts();
  reply_queue_pair_ = 0;
  epoch_ = epoch;
  phase_ = Phase::kWaiting;
  peer_takes_part_ = false;
  sendSettle();
}

// Messages that are not here as a whole come again as a whole.
void ReceiveConnection::forgetParts() {
  for (Receive& receive : receives_) {
    receive.rails = 0;  // whatever they meant
    if (receive.kind == Request::Kind::kReceive && !receive.done) receive.arrived = receive.parts = 0;
  }
}

void ReceiveConnection::sendSettle() {
  auto frame = makeMessage<SettleFrame>(MessageType::kSettle);
  frame.epoch = epoch_;
  frame.arrived = arrived_;
  for (uint64_t number = arrived_ + 1; number < next_number_; ++number) {
    if (receives_[number % kSlots].done) frame.done |= 1U << (number - arrived_ - 1);
  }
  frame.failed = failed_queue_pair_;
  int native = 0;
  offered_ = usableRails(&native);
  offer_ = describeOffer(offered_);
  frame.native = static_cast<uint8_t>(native);
  frame.open = std::any_of(receives_.begin(), receives_.end(), [](const Receive& receive) {
    return receive.kind == Request::Kind::kReceive && !receive.done;
  });
  copyText(frame.reason, log_.reason());
  frame.end = offer_;
  side_channel_.send(frame);
  side_channel_.breakIsAnswered();
  failed_queue_pair_ = kNoQueuePair;
}

// ---- what the sender says

Status ReceiveConnection::onPeerFrame(MessageType type, std::span<const std::byte> bytes) {
  switch (type) {
    case MessageType::kBreak: {
      const auto frame = frameOf<BreakFrame>(bytes);
      if (frame.epoch > epoch_) {
        const std::string reason = fieldText(frame.reason);
        if (running() && reason == kGoesBack) {
          leaveEpoch(reason);
        } else if (running() || phase_ == Phase::kConnecting) {
          (void)lose(nullptr, {Code::kRemote, 0}, "the sender lost it: " + reason);
        }
        asked_epoch_ = frame.epoch;
      } else {
        side_channel_.breakIsAnswered();
      }
      return Status::success();
    }
    case MessageType::kSearching:
      peer_takes_part_ = peer_takes_part_ || frameOf<EpochFrame>(bytes).epoch == epoch_;
      return Status::success();
    case MessageType::kUnposted:
      // It has sent what has not arrived: it looks, or it has lost that and does not know.
      peer_takes_part_ = peer_takes_part_ || frameOf<ArrivedFrame>(bytes).number > arrived_ + 1;
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
      if (frameOf<EpochFrame>(bytes).epoch != epoch_ || phase_ != Phase::kConnecting || !accept_sent_)
        return Status::success();
      return begin();
    default:
      return fail({Code::kRemote, 0}, "the peer sent a frame over the side channel that senders do not send");
  }
}

Status ReceiveConnection::onPropose(const ProposeFrame& frame) {
  if (frame.epoch != epoch_ || phase_ != Phase::kWaiting) return Status::success();
  peer_takes_part_ = true;
  bool possible = frame.rails <= mostRails(entry_bytes_) && frame.end.out_of_order == local_.out_of_order;
  for (int i = 0; i < frame.rails; ++i) possible = possible && frame.rail[i] < offered_.size();
  for (int i = 0; possible && i < frame.end.queue_pairs; ++i) {
    const QueuePairInfo& pair = frame.pair[i];
    const RailInfo& here = offer_.rail[frame.rail[pair.rail]];
    const RailInfo& there = frame.end.rail[frame.end.queue_pair[i].rail];
    possible =
        pair.gid < here.gid_count && pair.peer_gid < there.gid_count && here.link_layer == there.link_layer;
  }
  if (!possible) return fail({Code::kRemote, 0}, "the peer proposes ways that this end has not offered");
  if (openEpoch(frame)) {
    accept_sent_ = false;
    connect_until_ = Clock::now() + kConnectTime;
    phase_ = Phase::kConnecting;
  } else {
    refuseEpoch(0, "no queue pair can be made");
  }
  return Status::success();
}

// Another epoch must do.
void ReceiveConnection::refuseEpoch(uint8_t queue_pair, const std::string& what) {
  log_.refuse(what);
  failed_queue_pair_ = queue_pair;
  phase_ = Phase::kLost;
  drain_.reset();
  toEpoch(std::max(epoch_ + 1, asked_epoch_));
}

bool ReceiveConnection::openEpoch(const ProposeFrame& frame) {
  std::vector<Rail> rails;
  EndInfo here = offer_;
  for (int i = 0; i < frame.rails; ++i) {
    rails.push_back(offered_[frame.rail[i]]);
    here.rail[i] = offer_.rail[frame.rail[i]];
  }
  here.rails = frame.rails;
  takeRails(std::move(rails));
  for (std::size_t i = 0; i < endpoint_.rails.size(); ++i) {
    const MemoryKeys keys = windowKeys(i);
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
  for (uint64_t number = arrived_ + 1; number < next_number_; ++number) {
    Receive& receive = receives_[number % kSlots];
    if (!receive.done && !writeKeys(receive)) return false;
  }
  return true;
}

Status ReceiveConnection::connectEpoch() {
  if (accept_sent_) return Status::success();
  for (std::size_t i = 0; i < endpoint_.queue_pairs.size(); ++i) {
    if (endpoint_.queue_pairs[i].connected) continue;
    const Status up =
        bringUp(i, local_, epoch_there_, local_.queue_pair[i].gid, local_.queue_pair[i].peer_gid);
    if (up.sys_errno == ETIMEDOUT && Clock::now() < connect_until_) return Status::success();
    if (up.ok()) continue;
    refuseEpoch(static_cast<uint8_t>(i),
                pathText(endpoint_.queue_pairs[i]) + ": cannot be connected: " + std::strerror(up.sys_errno));
    return Status::success();
  }
  describeEce(local_);
  auto frame = makeMessage<AcceptFrame>(MessageType::kAccept);
  frame.epoch = epoch_;
  frame.end = local_;
  side_channel_.send(frame);
  accept_sent_ = true;
  return Status::success();
}

// ---- going back

void ReceiveConnection::sendRails() {
  auto frame = makeMessage<RailsFrame>(MessageType::kRails);
  frame.epoch = epoch_;
  int native = 0;
  offered_ = usableRails(&native);
  offer_ = describeOffer(offered_);
  frame.native = static_cast<uint8_t>(native);
  frame.end = offer_;
  side_channel_.send(frame);
}

void ReceiveConnection::onPortsChanged() {
  int native = 0;
  if ((epoch_ > 1 || !allReachable(local_)) && !sameRails(usableRails(&native), offered_)) sendRails();
}

// A queue pair for the sender's trial; it stays until the next trial or epoch.
void ReceiveConnection::onTrial(const TrialFrame& frame) {
  trial_.reset();
  auto reply = makeMessage<TrialReplyFrame>(MessageType::kTrialReply);
  reply.trial = frame.trial;
  const auto open = [&] {
    if (frame.rail >= offered_.size() || frame.gid >= offer_.rail[frame.rail].gid_count ||
        frame.peer_gid >= frame.end.rail[0].gid_count ||
        frame.end.rail[0].link_layer != offer_.rail[frame.rail].link_layer)
      return false;
    const Rail& rail = offered_[frame.rail];
    Result<TrialQueuePair> made = openTrial(rail, config_);
    const MemoryKeys keys = windowKeysOn(rail);
    if (!made.ok() || (keys.local == 0 && keys.remote == 0)) return false;
    verbs::Gid from;
    if (!makeReady(made->qp.get(), rail, {offer_, frame.end, frame.rail, 0, frame.gid, frame.peer_gid}, 0,
                   &from)
             .ok())
      return false;
    trial_ = std::move(*made);
    reply.end = offer_;
    reply.end.rails = reply.end.queue_pairs = reply.end.lanes = 1;
    reply.end.rail[0] = offer_.rail[frame.rail];
    reply.end.rail[0].window_key = keys.remote;
    reply.end.queue_pair[0].number = trial_->qp->qp_num;
    return true;
  };
  reply.accepted = open() ? 1 : 0;
  side_channel_.send(reply);
}

// ---- clear to send, once more

// What stands in the staging ring for a receive, with the keys of this epoch's rails. False: its memory
// cannot be registered with one of them.
bool ReceiveConnection::writeKeys(const Receive& receive) {
  for (uint32_t i = 0; i < receive.count; ++i) {
    std::byte* const at = stagingOf(receive.number, i);
    auto& entry = *reinterpret_cast<ClearToSend*>(at + entry_bytes_ - sizeof(ClearToSend));
    const MemoryHandle* const memory = memories_[i][receive.number % kSlots];
    if (memory == nullptr) continue;
    for (uint8_t rail = 0; rail < endpoint_.rails.size(); ++rail) {
      const Result<MemoryKeys> keys = keysOf(*memory, rail);
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
  posted_number_ = arrived_ + 1;
  fast_path_open_ = plain_ && endpoint_.native;
  beginEpoch();
  return postPending();
}

}  // namespace railwise::net
