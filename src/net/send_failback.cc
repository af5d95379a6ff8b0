// A sender that has lost some of its ways goes back when they work again: it asks the receiver what that can
// be reached by, tries every way that is new by an RDMA read through a queue pair of its own, and only then
// leaves the epoch for a better one. A way that has failed is left alone for a while, longer each time
// (WayMemory), so one that comes and goes is used less and less.
#include <algorithm>
#include <cstring>

#include "net/send_connection.h"

namespace railwise::net {
namespace {

constexpr Clock::duration kLongestLook = std::chrono::seconds(10);
// A round trip takes microseconds.
constexpr Clock::duration kTrialTime = std::chrono::milliseconds(500);

}  // namespace

std::vector<Way> SendConnection::usedWays() const {
  std::vector<Way> ways = epoch_ways_;
  std::erase(ways, Way());  // of queue pairs that are not used
  std::sort(ways.begin(), ways.end());
  ways.erase(std::unique(ways.begin(), ways.end()), ways.end());
  return ways;
}

std::ptrdiff_t SendConnection::asAtFirst(const std::vector<Way>& ways) const {
  return std::count_if(first_ways_.begin(), first_ways_.end(), [&](const Way& way) {
    return std::find(ways.begin(), ways.end(), way) != ways.end();
  });
}

void SendConnection::lookForBetter(Clock::time_point now) {
  if ((epoch_ == 1 && !reduced_) || !canFailOver()) return;
  if (trial_ != nullptr) {
    ibv_wc completion;
    const int count = trial_->reading ? ibv_poll_cq(trial_->end.cq.get(), 1, &completion) : 0;
    if (count > 0 && completion.status == IBV_WC_SUCCESS) {
      ways_.worked(trial_->way, now);
      trial_.reset();
      tryNextWay();
    } else if (count != 0 || (trial_->reading && now > trial_->until)) {
      trialFailed();
    } else if (now > trial_->until) {
      trial_.reset();  // the receiver has nothing to do with us just now
      better_plan_.reset();
    }
    return;
  }
  if (now < next_look_ || !reduced_) return;
  look_pause_ = std::min<Clock::duration>(look_pause_ * 2, kLongestLook);
  next_look_ = now + look_pause_;
  auto frame = makeMessage<AskRailsFrame>(MessageType::kAskRails);
  frame.epoch = epoch_;
  side_channel_.send(frame);
}

// For isend, while not all is well. A connection that never waits would never look.
Status SendConnection::lookAround() {
  RAILWISE_TRY(failure_);
  if (!running()) {
    wants_to_send_ = true;
    return idle(Waiting::kPeer);
  }
  constexpr uint32_t kLookMask = 0x3f;
  return (++looks_ & kLookMask) != 0 && !lost_.raised() && trial_ == nullptr
             ? Status::success()
             : checkPeer(Waiting::kAcknowledgement);
}

void SendConnection::onRails(const RailsFrame& frame) {
  if (frame.epoch != epoch_ || trial_ != nullptr) return;
  int native = 0;
  better_own_ = usableRails(&native);
  const EndInfo offer = describeOffer(better_own_);
  PlanAnswer answer = planEpoch({offer, native}, {frame.end, frame.native}, mostRails(entry_bytes_),
                                config_.ib_subnet_prefix_len, ways_, Clock::now(), Purpose::kGoBack);
  if (!answer.plan) return;
  // What is used now, as a plan over the same offers.
  EpochPlan now;
  const auto add = [](std::vector<uint8_t>& places, const EndInfo& end, const std::string& name) {
    for (uint8_t i = 0; i < end.rails; ++i) {
      const std::string its = wayOf(end.rail[i], end.rail[i]).first;
      if (its == name && std::find(places.begin(), places.end(), i) == places.end()) places.push_back(i);
    }
  };
  for (const Way& way : epoch_ways_) {
    add(now.local, offer, way.first);
    add(now.remote, frame.end, way.second);
  }
  // As many rails as now, but paired as at first, are better, too.
  std::vector<Way> ways;
  for (const EpochPlan::Lane& lane : answer.plan->lanes)
    ways.push_back(wayOf(offer.rail[answer.plan->local[lane.local_rail]],
                         frame.end.rail[answer.plan->remote[lane.remote_rail]]));
  const bool straighter =
      asAtFirst(ways) > asAtFirst(epoch_ways_) && !better(now, *answer.plan, native, frame.native);
  if (!straighter && !better(*answer.plan, now, native, frame.native)) return;
  better_plan_ = std::move(answer.plan);
  better_rails_ = std::make_unique<RailsFrame>(frame);
  tryNextWay();
}

// The next way of the better plan that is not in use; when all have worked the connection goes there.
void SendConnection::tryNextWay() {
  if (!better_plan_) return;
  const EndInfo offer = describeOffer(better_own_);
  for (; !better_plan_->lanes.empty(); better_plan_->lanes.pop_back()) {
    const EpochPlan::Lane lane = better_plan_->lanes.back();
    const uint8_t from = better_plan_->local[lane.local_rail];
    const uint8_t to = better_plan_->remote[lane.remote_rail];
    Way way = wayOf(offer.rail[from], better_rails_->end.rail[to]);
    if (std::find(epoch_ways_.begin(), epoch_ways_.end(), way) != epoch_ways_.end()) continue;
    better_plan_->lanes.pop_back();
    Result<TrialQueuePair> made = openTrial(better_own_[from], config_);
    trial_ = std::make_unique<Trial>();
    trial_->way = std::move(way);
    if (!made.ok()) return trialFailed();
    trial_->number = ++trials_;
    trial_->end = std::move(*made);
    trial_->local_rail = from;
    trial_->local_gid = lane.local_gid;
    trial_->remote_gid = lane.remote_gid;
    trial_->until = Clock::now() + kTrialTime;
    auto frame = makeMessage<TrialFrame>(MessageType::kTrial);
    frame.trial = trial_->number;
    frame.rail = to;
    frame.gid = lane.remote_gid;
    frame.peer_gid = lane.local_gid;
    frame.end = offer;
    frame.end.rails = frame.end.queue_pairs = frame.end.lanes = 1;
    frame.end.rail[0] = offer.rail[from];
    frame.end.queue_pair[0].number = trial_->end.qp->qp_num;
    side_channel_.send(frame);
    return;
  }
  goBack();
}

void SendConnection::trialFailed() {
  ways_.failed(trial_->way, Clock::now());
  trial_.reset();
  better_plan_.reset();
}

void SendConnection::onTrialReply(const TrialReplyFrame& frame) {
  if (trial_ == nullptr || trial_->reading || frame.trial != trial_->number) return;
  const EndInfo offer = describeOffer(better_own_);
  verbs::Gid from;
  const std::string its = wayOf(frame.end.rail[0], frame.end.rail[0]).first;
  if (frame.accepted != 0 && its != trial_->way.second) {  // its list of rails has changed meanwhile
    trial_.reset();
    better_plan_.reset();
    return;
  }
  const bool possible = frame.accepted != 0 && trial_->remote_gid < frame.end.rail[0].gid_count &&
                        trial_->local_gid < offer.rail[trial_->local_rail].gid_count;
  const WayEnds ends = {offer, frame.end, trial_->local_rail, 0, trial_->local_gid, trial_->remote_gid};
  if (!possible || !makeReady(trial_->end.qp.get(), trial_->end.rail, ends, 0, &from).ok())
    return trialFailed();
  LaneQueuePair reader;
  reader.qp = trial_->end.qp.get();
  reader.window_key = windowKeysOn(trial_->end.rail).local;
  reader.peer_window_key = frame.end.rail[0].window_key;
  if (readPeerWindow(reader, probe_target_, 0) != 0) return trialFailed();
  trial_->reading = true;
  trial_->until = Clock::now() + kTrialTime;
}

void SendConnection::goBack() {
  better_plan_.reset();
  sayFew(device_.name() + std::string(": connection to ") + peer() + " goes back: " + kGoesBack);
  leaveEpoch(kGoesBack);
}

}  // namespace railwise::net
