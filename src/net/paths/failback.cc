#include "net/paths/failback.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "record/writer.h"

namespace railwise::net {
namespace {

bool contains(const std::vector<RailPath>& paths, const RailPath& path) {
  return std::find(paths.begin(), paths.end(), path) != paths.end();
}

// The paths in use, written as a plan over these offers.
EpochPlan planOf(const std::vector<RailPath>& paths, const EndInfo& local, const EndInfo& remote) {
  EpochPlan plan;
  const auto add = [](std::vector<uint8_t>& places, const EndInfo& end, const std::string& name) {
    for (uint8_t i = 0; i < end.rails; ++i) {
      const std::string its = pathOf(end.rail[i], end.rail[i]).first;
      if (its == name && std::find(places.begin(), places.end(), i) == places.end()) places.push_back(i);
    }
  };
  for (const RailPath& path : paths) {
    add(plan.local, local, path.first);
    add(plan.remote, remote, path.second);
  }
  return plan;
}

}  // namespace

TrialQueuePair::~TrialQueuePair() {
  if (remains == nullptr) return;
  if (cm != nullptr) remains->managed.push_back(std::move(cm));
  if (made.qp != nullptr) remains->queue_pairs.push_back(std::move(made.qp));
  if (listener) remains->listeners.push_back(std::move(*listener));
  if (cq != nullptr) remains->cqs.push_back(std::move(cq));
  remains->memory != nullptr ? destroyLater(*rail.hca, remains) : destroyNow(*rail.hca, remains);
}

void Failback::use(const std::vector<RailPath>& paths, bool whole) {
  used_ = paths;
  std::erase(used_, RailPath());  // of queue pairs that are not used
  std::sort(used_.begin(), used_.end());
  used_.erase(std::unique(used_.begin(), used_.end()), used_.end());
  if (first_.empty() && whole) first_ = used_;
  reduced_ = used_ != first_;
}

void Failback::resume(Clock::time_point now) {
  look_pause_ = Patience::kFirstSearch;
  next_look_ = now + look_pause_;
}

void Failback::stop() {
  trial_.reset();
  better_plan_.reset();
}

std::ptrdiff_t Failback::asAtFirst(const std::vector<RailPath>& paths) const {
  return std::count_if(first_.begin(), first_.end(),
                       [&](const RailPath& path) { return contains(paths, path); });
}

void Failback::look(Clock::time_point now) {
  if (trial_ != nullptr && trial_->connecting) read();
  if (trial_ != nullptr) {
    ibv_wc completion;
    const int count = trial_->reading ? ibv_poll_cq(trial_->end.cq.get(), 1, &completion) : 0;
    if (count > 0) record::addTotals(trial_->end.rail.record_rail, {.completions = 1});
    if (count > 0 && completion.status == IBV_WC_SUCCESS) {
      paths_.worked(trial_->path, now);
      trial_.reset();
      tryNext();
    } else if (count != 0 || (trial_->reading && now > trial_->until)) {
      trialFailed(count != 0 ? FailureCost::kNone : FailureCost::kTime);
    } else if (now > trial_->until) {
      stop();  // the receiver has nothing to do with us just now, and with RDMA CM takes no call
    }
    return;
  }
  if (now < next_look_ || !reduced_) return;
  look_pause_ = std::min(look_pause_ * 2, Patience::kLongestSearch);
  next_look_ = now + look_pause_;
  host_.askForRails();
}

void Failback::onRails(const RailsFrame& frame, int most_remote) {
  if (trial_ != nullptr) return;
  int native = 0;
  better_own_ = host_.railsToOffer(&native);
  const EndInfo offer = host_.offerOf(better_own_);
  PlanAnswer answer = planEpoch({offer, native}, {frame.end, frame.native}, most_remote, subnet_prefix_bits_,
                                paths_, Clock::now(), Purpose::kGoBack);
  if (!answer.plan) return;
  const EpochPlan now = planOf(used_, offer, frame.end);
  // A plan with as many rails as now, paired as at the begin, is better too.
  std::vector<RailPath> planned;
  for (const EpochPlan::Lane& lane : answer.plan->lanes)
    planned.push_back(pathOf(offer.rail[answer.plan->local[lane.local_rail]],
                             frame.end.rail[answer.plan->remote[lane.remote_rail]]));
  const bool paired_better =
      asAtFirst(planned) > asAtFirst(used_) && !better(now, *answer.plan, native, frame.native);
  if (!paired_better && !better(*answer.plan, now, native, frame.native)) return;
  better_plan_ = std::move(answer.plan);
  better_rails_ = std::make_unique<RailsFrame>(frame);
  tryNext();
}

// Tries the next path of the better plan that is not in use. When all of them have worked, the connection
// moves to the plan.
void Failback::tryNext() {
  if (!better_plan_) return;
  const EndInfo offer = host_.offerOf(better_own_);
  for (; !better_plan_->lanes.empty(); better_plan_->lanes.pop_back()) {
    const EpochPlan::Lane lane = better_plan_->lanes.back();
    const uint8_t from = better_plan_->local[lane.local_rail];
    const uint8_t to = better_plan_->remote[lane.remote_rail];
    RailPath path = pathOf(offer.rail[from], better_rails_->end.rail[to]);
    if (contains(used_, path)) continue;
    better_plan_->lanes.pop_back();
    Result<TrialQueuePair> made = host_.openTrialOn(better_own_[from]);
    trial_ = std::make_unique<Trial>();
    trial_->path = std::move(path);
    if (!made.ok()) return trialFailed(FailureCost::kNone);
    trial_->number = ++trials_;
    trial_->end = std::move(*made);
    trial_->local_rail = from;
    trial_->local_gid = lane.local_gid;
    trial_->remote_gid = lane.remote_gid;
    trial_->until = Clock::now() + paths_.patience().trial();
    auto frame = makeMessage<TrialFrame>(MessageType::kTrial);
    frame.trial = trial_->number;
    frame.rail = to;
    frame.gid = lane.remote_gid;
    frame.peer_gid = lane.local_gid;
    frame.end = offer;
    frame.end.rails = frame.end.queue_pairs = frame.end.lanes = 1;
    frame.end.rail[0] = offer.rail[from];
    frame.end.queue_pair[0].number = trial_->end.qp()->qp_num;
    host_.sendTrial(frame);
    return;
  }
  better_plan_.reset();
  host_.goBack();
}

void Failback::trialFailed(FailureCost cost) {
  paths_.failed(trial_->path, cost, Clock::now());
  stop();
}

void Failback::onTrialReply(const TrialReplyFrame& frame) {
  if (trial_ == nullptr || trial_->reading || trial_->connecting || frame.trial != trial_->number) return;
  const EndInfo offer = host_.offerOf(better_own_);
  const std::string its = pathOf(frame.end.rail[0], frame.end.rail[0]).first;
  if (frame.accepted != 0 && its != trial_->path.second) return stop();  // its rails have changed meanwhile
  const bool possible = frame.accepted != 0 && trial_->remote_gid < frame.end.rail[0].gid_count &&
                        trial_->local_gid < offer.rail[trial_->local_rail].gid_count;
  if (!possible || !host_.connectTrial(trial_->end, offer, trial_->local_rail, trial_->local_gid, frame,
                                       trial_->remote_gid))
    return trialFailed(FailureCost::kNone);
  trial_->remote_key = frame.end.rail[0].window_key;
  trial_->connecting = true;
  trial_->until = Clock::now() + paths_.patience().trial();
  read();
}

void Failback::read() {
  const Result<bool> posted = host_.readThrough(trial_->end, trial_->remote_key);
  if (!posted.ok()) return trialFailed(FailureCost::kNone);
  trial_->connecting = !*posted;
  trial_->reading = *posted;
}

}  // namespace railwise::net
