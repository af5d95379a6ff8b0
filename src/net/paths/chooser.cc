#include "net/paths/chooser.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/log.h"
#include "base/text/words.h"

namespace railwise::net {

Chooser::Chooser(Link& link, int peer_rails, bool out_of_order)
    : link_(link),
      maker_(link.maker_),
      peer_rails_(peer_rails),
      paths_(link.patience()),
      failback_(*this, paths_, link.config.ib_subnet_prefix_len) {
  link_.role = this;
  link_.out_of_order = out_of_order && offersOutOfOrder(link_.device, link_.config);
  const int widest = std::max(static_cast<int>(link_.device.rails().size()), peer_rails_);
  most_queue_pairs_ = widest * queuePairsPerLane(static_cast<std::size_t>(widest));
}

int Chooser::queuePairsPerLane(std::size_t lanes) const {
  return std::clamp(link_.options.queue_pairs, 1, std::max(1, most_queue_pairs_ / static_cast<int>(lanes)));
}

// All queue pairs of a lane are on the lane's rail.
Status Chooser::openFirst() {
  const auto rails = static_cast<int>(link_.device.rails().size());
  const int widest = std::max(rails, peer_rails_);
  const int lanes = link_.config.ib_split_data_on_qps != 0 ? std::min(most_queue_pairs_, kMaxLanes) : widest;
  std::vector<uint8_t> rail_of;
  for (int i = 0; i < most_queue_pairs_; ++i) rail_of.push_back(static_cast<uint8_t>(i % lanes % rails));
  const Status opened =
      maker_.mustBeginLost() ? Status{Code::kSystem, ENETDOWN} : maker_.openQueuePairs(rail_of);
  if (opened.ok()) {
    link_.endpoint.makeLanes(lanes);
    return Status::success();
  }
  link_.out_of_order = false;  // no queue pair has shown that it can
  if (!maker_.mustBeginLost() && !maker_.survives(opened)) return opened;
  maker_.drop();
  return Status::success();
}

Status Chooser::describe(EndInfo& end) const {
  RAILWISE_TRY(net::describe(link_.own(), link_.endpoint.rails, *link_.window, end));
  describeQueuePairs(link_.endpoint, link_.config, end);
  end.out_of_order = link_.out_of_order ? 1 : 0;
  return Status::success();
}

// Warns when a connection crosses rails (NCCL_IB_WARN_RAIL_LOCAL).
void Chooser::warnOfRails(const RailInfo& here, const RailInfo& there) const {
  if (link_.config.ib_warn_rail_local == 0 || here.rail < 0 || there.rail < 0 || here.rail == there.rail)
    return;
  RAILWISE_WARN("%s is on rail %d, but reaches %s of %s on rail %d: traffic crosses rails",
                fieldText(here.device).c_str(), here.rail, fieldText(there.device).c_str(),
                link_.peer.c_str(), there.rail);
}

void Chooser::adoptPairing(const EndInfo& local, const EndInfo& reply) {
  for (std::size_t i = 0; i < link_.endpoint.queue_pairs.size(); ++i) {
    link_.endpoint.queue_pairs[i].rest->used = reply.queue_pair[i].used != 0;
    link_.endpoint.queue_pairs[i].peer_rail = reply.queue_pair[i].rail;
  }
  maker_.adopt(reply);
  link_.endpoint.dropUnusedLanes();
  // Several lanes may share a rail of either end.
  std::array<int, kMaxRails> here = {};
  std::array<int, kMaxRails> there = {};
  for (const Lane& lane : link_.endpoint.lanes) {
    ++here[link_.endpoint.queue_pairs[lane.queue_pairs[0]].rail];
    ++there[link_.endpoint.queue_pairs[lane.queue_pairs[0]].peer_rail];
  }
  for (std::size_t i = 0; i < link_.endpoint.lanes.size(); ++i) {
    const LaneQueuePair& first = link_.endpoint.queue_pairs[link_.endpoint.lanes[i].queue_pairs[0]];
    warnOfRails(local.rail[first.rail], reply.rail[first.peer_rail]);
    const int from = static_cast<int>(local.rail[first.rail].speed_mbps) / here[first.rail];
    const int to = static_cast<int>(reply.rail[first.peer_rail].speed_mbps) / there[first.peer_rail];
    link_.endpoint.loads.emplace_back(std::min(from, to));
  }
  epoch_paths_.assign(link_.endpoint.queue_pairs.size(), {});
  for (std::size_t i = 0; i < link_.endpoint.queue_pairs.size(); ++i) {
    const LaneQueuePair& queue_pair = link_.endpoint.queue_pairs[i];
    if (queue_pair.rest->used)
      epoch_paths_[i] = pathOf(local.rail[queue_pair.rail], reply.rail[queue_pair.peer_rail]);
  }
  // A connection that begins while a port is down becomes whole later.
  if (link_.epoch() == 1) whole_ = !maker_.mayBeginLost() || (allReachable(local) && allReachable(reply));
  failback_.use(epoch_paths_, whole_);
  link_.user.onPaired();
}

Result<bool> Chooser::establish(const EndInfo& local, const EndInfo& reply, const Session& session) {
  if (beginsLost(reply)) return beginWithoutQueuePairs(local, reply);
  if (link_.endpoint.loads.empty()) {
    link_.session = session;
    link_.here = local;
    adoptPairing(local, reply);
  }
  bool all = true;
  for (std::size_t i = 0; i < link_.endpoint.queue_pairs.size(); ++i) {
    if (!link_.endpoint.queue_pairs[i].rest->used || link_.endpoint.queue_pairs[i].rest->connected) continue;
    const Result<bool> up = connectQueuePair(i, local, reply);
    const auto refused = [&] {
      return !up.ok() && (link_.joiner->needsCall() ? maker_.mayBeginLost() : maker_.survives(up.status()));
    };
    if (reply.failover != 0 && (((!up.ok() || !*up) && maker_.mustBeginLost()) || refused())) {
      if (!up.ok()) maker_.noteWhyLost(notConnected(i, up.status()));
      return beginWithoutQueuePairs(local, reply);
    }
    if (!up.ok()) return up.status();
    all = all && *up;
  }
  return all;
}

// The first epoch is given up. Through a queue pair that is connected already the peer may write into the
// window, until a proof says that it cannot: so this end takes another one. False: there is none yet that
// needs no memory of a silent driver; call again.
bool Chooser::beginWithoutQueuePairs(const EndInfo& local, const EndInfo& reply) {
  const bool connected = std::ranges::any_of(
      link_.endpoint.queue_pairs, [](const LaneQueuePair& queue_pair) { return queue_pair.rest->connected; });
  if (connected && !link_.endpoint.stop() && !maker_.openWindow(link_.endpoint.driversAnswer()).ok())
    return false;
  maker_.beginWithoutQueuePairs(local, reply);
  link_.here.window_address = link_.window->address();
  return true;
}

Result<bool> Chooser::connectQueuePair(std::size_t index, const EndInfo& local, const EndInfo& reply) {
  const Result<bool> up = link_.joiner->join(index, link_.ends(local, reply));
  if (!link_.joiner->needsCall() && up.status().sys_errno == ETIMEDOUT) return false;
  return up;
}

// ---- leaving an epoch

Status Chooser::advanceRecovery() {
  if (link_.phase() == Link::Phase::kLost) {
    // What completes from now on does not count: the receiver says what has arrived.
    link_.endpoint.hideCompletions();
    sayBreak();
    if (!link_.endpoint.stop()) {
      if (link_.endpoint.refusedFor(link_.patience().destroyInstead())) link_.endpoint.destroyRefused();
      if (!needNotStop()) return Status::success();
    }
    tearDown();
    link_.recovery.wait(link_.recovery.nextEpoch());
    agree().restart();
  }
  if (link_.phase() == Link::Phase::kWaiting && next_ != nullptr && next_->isAnswered(link_.epoch())) {
    if (!std::exchange(next_->reconciled, true)) {
      Words words = {.count = next_->reconcile->count};
      std::copy_n(next_->reconcile->words, words.count, words.word.begin());
      RAILWISE_TRY(link_.user.reconcile(words));
      link_.noteProgress(true);
    }
    // An end that has nothing to send would keep the other one waiting for its Begin.
    if (link_.user.isOpen()) tryToConnect();
  }
  return link_.phase() == Link::Phase::kConnecting ? connectEpoch() : Status::success();
}

// Once for each epoch that this end asks for.
void Chooser::sayBreak() {
  if (link_.recovery.peerAsksForLater() || break_said_ == link_.recovery.nextEpoch()) return;
  break_said_ = link_.recovery.nextEpoch();
  auto frame = makeMessage<BreakFrame>(MessageType::kBreak);
  frame.epoch = break_said_;
  copyText(frame.reason, link_.log.reason());
  link_.side_channel.send(frame);
}

// A receiver that has left takes nothing from the old queue pairs, stopped or not. But a clear-to-send that
// lies in a switch may still come in by an old queue pair that is not stopped: it would overwrite the one of
// a later receive. So this end takes another window, and the old one stays with the old queue pairs. While
// the own driver answers and does not refuse, this end waits.
bool Chooser::needNotStop() {
  if (link_.side_channel.ended()) return true;  // there is no next epoch
  if (link_.user.mustStop()) return false;
  const bool left = next_ != nullptr && next_->reconcile != nullptr &&
                    next_->reconcile->epoch >= link_.recovery.nextEpoch();
  if (!left || (link_.endpoint.driversAnswer() && link_.endpoint.refusal().empty())) return false;
  return maker_.openWindow(link_.endpoint.driversAnswer()).ok();
}

void Chooser::tearDown() {
  for (const LaneQueuePair& queue_pair : link_.endpoint.queue_pairs) {
    if (queue_pair.completed() > 0 && queue_pair.index < epoch_paths_.size())
      paths_.carried(epoch_paths_[queue_pair.index], epoch_began_);
  }
  blamed_ = link_.recovery.failedQueuePair();
  if (blamed_ < epoch_paths_.size())
    paths_.failed(epoch_paths_[blamed_], link_.recovery.failureCost(), Clock::now());
  link_.user.onFenced();
  maker_.drop();
  failback_.stop();
}

// ---- what the peer says

Status Chooser::onPeerFrame(MessageType type, std::span<const std::byte> bytes) {
  switch (type) {
    case MessageType::kReconcile:
      onReconcile(frameOf<ReconcileFrame>(bytes));
      return Status::success();
    case MessageType::kRails:
      if (const auto frame = frameOf<RailsFrame>(bytes); link_.running() && frame.epoch == link_.epoch())
        failback_.onRails(frame, link_.user.mostRails());
      return Status::success();
    case MessageType::kTrialReply:
      if (link_.running()) failback_.onTrialReply(frameOf<TrialReplyFrame>(bytes));
      return Status::success();
    case MessageType::kAccept:
      return onAccept(frameOf<AcceptFrame>(bytes));
    case MessageType::kArrived:
      (void)link_.user.onNews(frameOf<ArrivedFrame>(bytes).number);
      return Status::success();
    default:
      return link_.fail({Code::kRemote, 0},
                        "the peer sent a frame over the side channel that receivers do not send");
  }
}

void Chooser::onReconcile(const ReconcileFrame& frame) {
  if (frame.epoch < link_.epoch() || (frame.epoch == link_.epoch() && link_.phase() != Link::Phase::kWaiting))
    return;
  // The report concerns the epoch that this end has, or has just left.
  const uint8_t known = link_.phase() == Link::Phase::kLost ? link_.recovery.failedQueuePair() : blamed_;
  const bool next = frame.epoch == link_.epoch() + (link_.phase() == Link::Phase::kWaiting ? 0 : 1) ||
                    frame.epoch == link_.epoch() + 1;
  if (next && frame.failed < epoch_paths_.size() && frame.failed != known)
    paths_.failed(epoch_paths_[frame.failed], frame.cost, Clock::now());
  if (frame.epoch > link_.epoch()) {
    const std::string reason = fieldText(frame.reason);
    if (link_.hasQueuePairs())
      (void)link_.lose(nullptr, {Code::kRemote, 0}, "the receiver lost it: " + reason);
    link_.recovery.peerAsksFor(frame.epoch);
    if (link_.phase() == Link::Phase::kWaiting) {
      link_.recovery.wait(frame.epoch);
      agree().reconciled = false;
    }
  }
  // A receiver that waits for nothing may not look for hours.
  link_.recovery.setPeerTakesPart(frame.open != 0);
  agree().reconcile = std::make_unique<ReconcileFrame>(frame);
  next_->try_at = {};
}

Status Chooser::onAccept(const AcceptFrame& frame) {
  if (frame.epoch != link_.epoch() || link_.phase() != Link::Phase::kConnecting || next_->accepted != nullptr)
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
  if (!problem.empty())
    return link_.fail({Code::kRemote, 0}, "the peer's answer after a failure has " + problem);
  next_->accepted = std::move(reply);
  next_->connect_until = Clock::now() + link_.patience().joinEpoch();
  return Status::success();
}

// ---- the next epoch

void Chooser::tryToConnect() {
  const Clock::time_point now = Clock::now();
  if (now < next_->try_at) return;
  next_->try_at = now + Patience::kLookAgain;
  if (!link_.joiner->mayBegin()) return;
  int native = 0;
  const std::vector<Rail> usable = usableRails(link_.own(), &native);
  const EndInfo offer = describeOffer(link_.own(), usable, link_.here);
  PlanAnswer answer =
      planEpoch({offer, native}, {next_->reconcile->end, next_->reconcile->native}, link_.user.mostRails(),
                link_.config.ib_subnet_prefix_len, paths_, now, Purpose::kGoOn);
  if (!answer.plan) {
    next_->try_at = std::min(next_->try_at, answer.again);
    if (std::exchange(next_->searched, link_.epoch()) == link_.epoch()) return;
    auto frame = makeMessage<EpochFrame>(MessageType::kSearching);
    frame.epoch = link_.epoch();
    link_.side_channel.send(frame);
    return;
  }
  std::vector<Rail> rails;
  for (const uint8_t rail : answer.plan->local) rails.push_back(usable[rail]);
  maker_.takeRails(std::move(rails));
  whole_ = isWhole(*answer.plan, offer, native);
  const std::string problem = openEpoch(*answer.plan);
  if (problem.empty()) {
    propose(*answer.plan);
    link_.recovery.connect();
    link_.record_.reconnect();
    return;
  }
  for (const EpochPlan::Lane& lane : answer.plan->lanes) {
    const RailPath path = pathOf(offer.rail[answer.plan->local[lane.local_rail]],
                                 next_->reconcile->end.rail[answer.plan->remote[lane.remote_rail]]);
    paths_.failed(path, FailureCost::kNone, now);
    link_.log.noteTried(path.first + " -> " + path.second + ": " + problem);
  }
  maker_.drop();
}

std::string Chooser::openEpoch(const EpochPlan& plan) {
  const auto paths = static_cast<int>(plan.lanes.size());
  const int queue_pairs = paths * queuePairsPerLane(plan.lanes.size());
  std::vector<uint8_t> rail_of;
  for (int i = 0; i < queue_pairs; ++i)
    rail_of.push_back(plan.lanes[static_cast<std::size_t>(i % paths)].local_rail);
  if (!maker_.openQueuePairs(rail_of).ok()) return maker_.whyLost();
  // Each queue pair has a lane of its own if there are enough lanes; each path has the same number of lanes.
  const int lanes =
      link_.config.ib_split_data_on_qps != 0 ? std::min(queue_pairs, kMaxLanes / paths * paths) : paths;
  link_.endpoint.makeLanes(lanes);
  // An address may have gone since the plan was made.
  describeEpoch(link_.own(), link_.endpoint.rails, *link_.window, link_.here);
  const auto has_address = [&](const EpochPlan::Lane& lane) {
    return lane.local_gid < link_.here.rail[lane.local_rail].gid_count;
  };
  return std::ranges::all_of(plan.lanes, has_address) ? "" : "its address has gone";
}

std::string Chooser::notConnected(std::size_t index, Status why) const {
  const char* const text = why.sys_errno != 0 ? std::strerror(why.sys_errno) : "RDMA CM refuses";
  return link_.endpoint.nameOf(link_.endpoint.queue_pairs[index]) + ": cannot be connected: " + text;
}

void Chooser::propose(const EpochPlan& plan) {
  describeQueuePairs(link_.endpoint, link_.config, link_.here);
  next_->proposal = std::make_unique<ProposeFrame>(makeMessage<ProposeFrame>(MessageType::kPropose));
  next_->proposal->epoch = link_.epoch();
  next_->proposal->rails = static_cast<uint8_t>(plan.remote.size());
  std::copy(plan.remote.begin(), plan.remote.end(), next_->proposal->rail);
  next_->proposal->end = link_.here;
  epoch_paths_.clear();
  blamed_ = kNoQueuePair;
  for (std::size_t i = 0; i < link_.endpoint.queue_pairs.size(); ++i) {
    const EpochPlan::Lane& lane = plan.lanes[i % plan.lanes.size()];
    QueuePairInfo& pair = next_->proposal->pair[i];
    pair.rail = lane.remote_rail;
    pair.gid = lane.remote_gid;
    pair.peer_gid = lane.local_gid;
    pair.used = 1;
    epoch_paths_.push_back(
        pathOf(link_.here.rail[lane.local_rail], next_->reconcile->end.rail[plan.remote[lane.remote_rail]]));
  }
  next_->accepted.reset();
  link_.side_channel.send(*next_->proposal);
}

// Does the plan use all that the rails of both devices allow?
bool Chooser::isWhole(const EpochPlan& plan, const EndInfo& offer, int native) const {
  if (static_cast<std::size_t>(native) != link_.device.rails().size() ||
      next_->reconcile->native != peer_rails_)
    return false;
  const PlanAnswer best = planEpoch({offer, native}, {next_->reconcile->end, next_->reconcile->native},
                                    link_.user.mostRails(), link_.config.ib_subnet_prefix_len,
                                    PathMemory(link_.patience()), Clock::now(), Purpose::kGoOn);
  return best.plan && *best.plan == plan;
}

Status Chooser::connectEpoch() {
  if (next_->accepted == nullptr) return Status::success();
  if (link_.endpoint.loads.empty()) adoptPairing(link_.here, *next_->accepted);
  bool all = true;
  for (std::size_t i = 0; i < link_.endpoint.queue_pairs.size(); ++i) {
    if (link_.endpoint.queue_pairs[i].rest->connected) continue;
    const Result<bool> up = connectQueuePair(i, link_.here, *next_->accepted);
    all = all && up.ok() && *up;
    if (up.ok() && (*up || Clock::now() < next_->connect_until)) continue;
    const Status why = up.ok() ? Status{Code::kRemote, ETIMEDOUT} : up.status();
    return link_.lose(&link_.endpoint.queue_pairs[i], why, notConnected(i, why));
  }
  return all ? begin() : Status::success();
}

Status Chooser::begin() {
  auto frame = makeMessage<EpochFrame>(MessageType::kBegin);
  frame.epoch = link_.epoch();
  link_.side_channel.send(frame);
  const auto text_of = [](const RailPath& path) { return path.first + " -> " + path.second; };
  const std::string paths = joined(epoch_paths_, ", ", text_of);
  const std::string how = "goes on over " + paths + " (epoch " + std::to_string(link_.epoch()) + ")";
  if (!link_.search.end(link_.title(), how)) logLimited(link_.title() + " " + how);
  epoch_began_ = Clock::now();
  failback_.resume(epoch_began_);
  next_.reset();
  return link_.beginEpoch();
}

// ---- going back to better paths (failback.h)

void Chooser::lookForBetter(Clock::time_point now) {
  if (!link_.joiner->mayBegin() && !failback_.trying()) return;
  if ((link_.epoch() > 1 || failback_.reduced()) && link_.canFailOver()) failback_.look(now);
}

void Chooser::askForRails() {
  if (link_.side_channel.broken()) return;  // it asks again
  auto frame = makeMessage<AskRailsFrame>(MessageType::kAskRails);
  frame.epoch = link_.epoch();
  link_.side_channel.send(frame);
}

bool Chooser::connectTrial(TrialQueuePair& trial, const EndInfo& offer, std::size_t local_rail,
                           std::size_t local_gid, const TrialReplyFrame& reply, std::size_t remote_gid) {
  return link_.joiner->callTrial(trial, link_.ends(offer, reply.end), {local_rail, 0, local_gid, remote_gid},
                                 reply.trial);
}

Result<bool> Chooser::readThrough(TrialQueuePair& trial, uint32_t remote_key) {
  if (const Result<bool> up = link_.joiner->advanceTrial(trial); !up.ok() || !*up) return up;
  ibv_sge sge;
  ibv_send_wr work = {};
  work.sg_list = &sge;
  work.send_flags = IBV_SEND_SIGNALED;
  link_.proof.makeRead(work, link_.peer_window, link_.windowKeys(trial.rail).local, remote_key);
  ibv_send_wr* bad = nullptr;
  if (const int error = ibv_post_send(trial.qp(), &work, &bad); error != 0)
    return Status{Code::kSystem, error};
  record::addTotals(trial.rail.record_rail, {.work_requests = 1, .control_bytes = sge.length});
  return true;
}

void Chooser::goBack() {
  logLimited(link_.title() + " goes back: " + kGoesBack);
  link_.record_.noteEvent(record::EventKind::kWentBack, kGoesBack);
  link_.leaveEpoch(kGoesBack, true);
}

}  // namespace railwise::net
