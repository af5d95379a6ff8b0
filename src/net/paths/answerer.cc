#include "net/paths/answerer.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/log.h"
#include "net/paths/joiner.h"
#include "net/wireup/pairing.h"

namespace railwise::net {
namespace {

std::string railNames(const EndInfo& end) {
  std::string names;
  for (int i = 0; i < end.rails; ++i) {
    names += (i > 0 ? ", " : "") + fieldText(end.rail[i].device) + " (";
    const verbs::GidList gids = railGids(end.rail[i]);
    for (std::size_t g = 0; g < gids.size(); ++g) names += (g > 0 ? " " : "") + verbs::gidText(gids[g].value);
    names += ")";
  }
  return names;
}

bool sameRails(const std::vector<Rail>& a, const std::vector<Rail>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const Rail& x, const Rail& y) { return x.same(y); });
}

}  // namespace

Answerer::Answerer(Link& link, const EndInfo& request)
    : link_(link),
      maker_(link.maker_),
      most_queue_pairs_(request.queue_pairs > 0 ? request.queue_pairs : kMaxQueuePairs) {
  link_.role = this;
  link_.out_of_order = request.out_of_order != 0;
  link_.joiner =
      makeJoiner(link_.direction, link_.device, link_.config, link_.session, request.connection_manager != 0);
}

bool Answerer::mayLoseFirst(const EndInfo& request) const {
  return request.failover != 0 && maker_.mayBeginLost();
}

bool Answerer::beginsLostWith(const EndInfo& request) const {
  return mayLoseFirst(request) && (!railsWork(link_.endpoint.rails) || beginsLost(request));
}

// Ports that are down now may be the reason.
bool Answerer::unreachableFirst(const EndInfo& request, const std::string& refusal) {
  if (!mayLoseFirst(request) || (allReachable(request) && allReachable(link_.here))) return false;
  maker_.noteWhyLost(refusal);
  return true;
}

Status Answerer::openFirst(const EndInfo& request, std::string& refusal) {
  RAILWISE_TRY(describe(link_.own(), link_.device.rails(), *link_.window, link_.here));
  RAILWISE_TRY(checkLinkLayer(request, refusal));
  const Status opened =
      beginsLostWith(request) ? Status{Code::kSystem, ENETDOWN} : pairFirst(request, refusal);
  const auto survived = [&] {
    return refusal.empty() ? survives(request, opened) : unreachableFirst(request, refusal);
  };
  if (!beginsLostWith(request) && (opened.ok() || !survived())) return opened;
  refusal.clear();
  beginWithoutQueuePairs(request);
  return Status::success();
}

Status Answerer::pairFirst(const EndInfo& request, std::string& refusal) {
  RAILWISE_TRY(pair(request, refusal));
  return openQueuePairs(request);
}

void Answerer::beginWithoutQueuePairs(const EndInfo& request) {
  link_.joiner->drop();
  link_.here.queue_pairs = link_.here.lanes = 0;
  std::memset(link_.here.queue_pair, 0, sizeof link_.here.queue_pair);
  link_.here.out_of_order = request.out_of_order;
  maker_.beginWithoutQueuePairs(link_.here, request);
}

Status Answerer::checkLinkLayer(const EndInfo& request, std::string& refusal) const {
  if (request.rail[0].link_layer == link_.here.rail[0].link_layer) return Status::success();
  refusal = "the ports have different link layers (" + railNames(request) + " on " + fieldText(request.host) +
            ", " + railNames(link_.here) + " on " + fieldText(link_.here.host) +
            "): choose matching NICs with NCCL_IB_HCA";
  return {Code::kRemote, 0};
}

// Decides which rail of this end answers each queue pair of the peer. The result is in Link::here, which
// is the reply.
Status Answerer::pair(const EndInfo& request, std::string& refusal) {
  if (beginsLost(request)) {
    refusal = railNames(request) + " on " + fieldText(request.host) +
              " has made no queue pairs (no port works, or the device refuses them), and without failover at "
              "both ends (RAILWISE_FAILOVER) there is no other path";
    return {Code::kRemote, 0};
  }
  const auto pairs = pairRails(request, link_.here, request.lanes, link_.config.ib_subnet_prefix_len);
  bool any = false;
  link_.here.queue_pairs = request.queue_pairs;
  link_.here.lanes = request.lanes;
  link_.here.out_of_order = request.out_of_order;
  for (int i = 0; i < request.queue_pairs; ++i) {
    const auto& found = pairs[static_cast<std::size_t>(i % request.lanes)];
    QueuePairInfo& info = link_.here.queue_pair[i];
    info.used = found ? 1 : 0;
    if (!found) continue;
    any = true;
    info.rail = found->listener_rail;
    info.gid = found->listener_gid;
    info.peer_gid = found->connector_gid;
  }
  if (any) return Status::success();
  refusal = "no rail of one end can reach one of the other: " + railNames(request) + " on " +
            fieldText(request.host) + ", " + railNames(link_.here) + " on " + fieldText(link_.here.host) +
            ": their GIDs are of different kinds; check NCCL_IB_GID_INDEX, NCCL_IB_ADDR_FAMILY and "
            "NCCL_IB_ROCE_VERSION_NUM";
  return {Code::kRemote, 0};
}

Status Answerer::openQueuePairs(const EndInfo& peer) {
  std::vector<uint8_t> rail_of;
  for (int i = 0; i < link_.here.queue_pairs; ++i)
    rail_of.push_back(link_.here.queue_pair[i].used != 0 ? link_.here.queue_pair[i].rail
                                                         : EpochMaker::kNoRail);
  RAILWISE_TRY(maker_.openQueuePairs(rail_of));
  link_.endpoint.makeLanes(link_.here.lanes);
  for (std::size_t i = 0; i < link_.endpoint.queue_pairs.size(); ++i) {
    LaneQueuePair& queue_pair = link_.endpoint.queue_pairs[i];
    if (!queue_pair.rest->used) continue;
    link_.here.rail[queue_pair.rail].window_key =
        link_.windowKeys(link_.endpoint.rails[queue_pair.rail]).remote;
    link_.here.queue_pair[i].number = queue_pair.qp->qp_num;
    queue_pair.peer_rail = peer.queue_pair[i].rail;
  }
  maker_.adopt(peer);
  link_.user.onPaired();
  return Status::success();
}

// ---- bringing the queue pairs up

Status Answerer::prepare(const EndInfo& request, const Session& session) {
  link_.session = session;
  std::size_t failed = 0;
  if (link_.joiner->needsCall()) {
    if (link_.joiner->listens()) return Status::success();
    const Status listens = link_.joiner->listen(link_.epoch(), link_.endpoint, link_.here, &failed);
    return listens.ok() || !giveUpFirst(request) ? listens : Status::success();
  }
  const Status up = link_.joiner->joinAll(link_.ends(link_.here, request), &failed).status();
  const bool asks_again = up.sys_errno == ETIMEDOUT;
  if (!up.ok() && (beginsLostWith(request) || (!asks_again && survives(request, up)))) {
    maker_.noteWhyLost(notConnected(failed, up));
    beginWithoutQueuePairs(request);
  } else {
    RAILWISE_TRY(up);
  }
  describeEce(link_.endpoint, link_.config, link_.here);  // what the devices have made of the peer's offer
  return Status::success();
}

Result<bool> Answerer::establish(const EndInfo& request) {
  std::size_t failed = 0;
  const Result<bool> up = link_.joiner->joinAll(link_.ends(link_.here, request), &failed);
  return up.ok() || !giveUpFirst(request) ? up : Result<bool>(true);
}

bool Answerer::giveUpFirst(const EndInfo& request) {
  if (!mayLoseFirst(request)) return false;
  beginWithoutQueuePairs(request);
  return true;
}

// ---- leaving an epoch

Status Answerer::advanceRecovery() {
  if (link_.phase() == Link::Phase::kLost) {
    if (!link_.endpoint.stop() && !link_.side_channel.ended()) {
      if (link_.endpoint.refusedFor(link_.patience().destroyInstead())) {
        link_.takeDelivered();
        link_.endpoint.hideCompletions();
        link_.endpoint.destroyRefused();
      }
      return Status::success();
    }
    if (!next_.drain) next_.drain = Deadline::after(Patience::kDrain);
    link_.takeDelivered();
    if (!drained() && !next_.drain->passed()) return Status::success();
    if (link_.endpoint.anyUsed()) {
      link_.user.onFenced();
      maker_.drop();
    }
    if (!link_.joiner->mayBegin() && !link_.side_channel.ended()) return Status::success();
    next_.drain.reset();
    toEpoch(link_.recovery.nextEpoch());
  }
  if (link_.phase() == Link::Phase::kWaiting) {
    if (link_.recovery.peerAsksForLater()) {
      toEpoch(link_.recovery.nextEpoch());
    } else if (Clock::now() >= next_.look_at && !link_.side_channel.unheard(MessageType::kReconcile)) {
      // One offer at a time: a peer that hears nothing may be stopped for hours. What has changed meanwhile
      // is offered once it has heard.
      next_.look_at = Clock::now() + Patience::kLookAgain;
      if (!sameRails(link_.usableRails(), offer().rails)) toEpoch(link_.epoch() + 1);
    }
  }
  return link_.phase() == Link::Phase::kConnecting ? connectEpoch() : Status::success();
}

bool Answerer::drained() const {
  return std::all_of(link_.endpoint.queue_pairs.begin(), link_.endpoint.queue_pairs.end(),
                     [&](const LaneQueuePair& queue_pair) {
                       if (queue_pair.qp == nullptr)
                         return true;  // destroyed, because its driver refused to stop it
                       if (queue_pair.rail < link_.endpoint.rails.size() &&
                           link_.endpoint.rails[queue_pair.rail].hca->state().fatal())
                         return true;  // a dead device gives nothing back
                       return allCameBack(queue_pair.rest->receives_posted,
                                          queue_pair.consumed + queue_pair.rest->receives_failed);
                     });
}

// Drops the queue pairs and waits for those of `epoch`.
void Answerer::toEpoch(uint64_t epoch) {
  link_.user.onFenced();
  if (link_.phase() != Link::Phase::kWaiting) maker_.drop();
  trial_.reset();
  link_.joiner->drop();
  link_.recovery.wait(epoch);
  link_.recovery.setPeerTakesPart(false);
  sendReconcile();
}

void Answerer::renewOffer() {
  offer().rails = usableRails(link_.own(), &offer().native);
  offer().end = describeOffer(link_.own(), offer().rails, link_.here);
}

void Answerer::sendReconcile() {
  auto frame = makeMessage<ReconcileFrame>(MessageType::kReconcile);
  frame.epoch = link_.epoch();
  const Words words = link_.user.words();
  frame.count = words.count;
  std::copy(words.word.begin(), words.word.end(), frame.words);
  frame.failed = link_.recovery.failedQueuePair();
  frame.cost = link_.recovery.failureCost();
  renewOffer();
  frame.native = static_cast<uint8_t>(offer().native);
  frame.open = link_.user.isOpen() ? 1 : 0;
  copyText(frame.reason, link_.log.reason());
  frame.end = offer().end;
  link_.side_channel.send(frame);
  link_.side_channel.breakIsAnswered();
  link_.recovery.blame(kNoQueuePair, FailureCost::kNone);
}

// ---- what the peer says

Status Answerer::onPeerFrame(MessageType type, std::span<const std::byte> bytes) {
  switch (type) {
    case MessageType::kBreak:
      onBreak(frameOf<BreakFrame>(bytes));
      return Status::success();
    case MessageType::kSearching:
      if (frameOf<EpochFrame>(bytes).epoch == link_.epoch()) link_.recovery.setPeerTakesPart(true);
      return Status::success();
    case MessageType::kUnposted:
      // The sender has sent something that has not arrived: it either recovers too, or has lost the path and
      // does not know it.
      if (link_.user.onNews(frameOf<ArrivedFrame>(bytes).number) && !link_.running())
        link_.recovery.setPeerTakesPart(true);
      next_.look_at = {};  // it has heard the latest offer: another one may be due
      if (link_.running()) onPortsChanged();
      return Status::success();
    case MessageType::kAskRails:
      if (link_.running()) sendRails();
      return Status::success();
    case MessageType::kTrial:
      if (link_.running()) onTrial(frameOf<TrialFrame>(bytes));
      return Status::success();
    case MessageType::kPropose:
      return onPropose(frameOf<ProposeFrame>(bytes));
    case MessageType::kBegin:
      if (frameOf<EpochFrame>(bytes).epoch != link_.epoch() || link_.phase() != Link::Phase::kConnecting ||
          !next_.accept_sent)
        return Status::success();
      next_.begin_heard = true;
      next_.connect_until = Clock::now() + link_.patience().joinEpoch();
      return connectEpoch();
    default:
      return link_.fail({Code::kRemote, 0},
                        "the peer sent a frame over the side channel that senders do not send");
  }
}

void Answerer::onBreak(const BreakFrame& frame) {
  if (frame.epoch <= link_.epoch()) return link_.side_channel.breakIsAnswered();
  const std::string reason = fieldText(frame.reason);
  if (link_.running() && reason == kGoesBack) {
    link_.leaveEpoch(reason, true);
  } else if (link_.hasQueuePairs()) {
    (void)link_.lose(nullptr, {Code::kRemote, 0}, "the sender lost it: " + reason);
  }
  link_.recovery.peerAsksFor(frame.epoch);
}

Status Answerer::onPropose(const ProposeFrame& frame) {
  if (frame.epoch != link_.epoch() || link_.phase() != Link::Phase::kWaiting) return Status::success();
  link_.recovery.setPeerTakesPart(true);
  bool possible = frame.rails <= link_.user.mostRails() &&
                  frame.end.out_of_order == link_.here.out_of_order &&
                  (link_.rules.has_immediates || frame.end.queue_pairs <= most_queue_pairs_);
  for (int i = 0; i < frame.rails; ++i) possible = possible && frame.rail[i] < offer().rails.size();
  for (int i = 0; possible && i < frame.end.queue_pairs; ++i) {
    const QueuePairInfo& pair = frame.pair[i];
    const RailInfo& here = offer().end.rail[frame.rail[pair.rail]];
    const RailInfo& there = frame.end.rail[frame.end.queue_pair[i].rail];
    possible =
        pair.gid < here.gid_count && pair.peer_gid < there.gid_count && here.link_layer == there.link_layer;
  }
  if (!possible)
    return link_.fail({Code::kRemote, 0}, "the peer proposes paths that this end has not offered");
  if (const std::string problem = openEpoch(frame); problem.empty()) {
    next_.accept_sent = next_.begin_heard = false;
    next_.connect_until = Clock::now() + link_.patience().joinEpoch();
    link_.recovery.connect();
    link_.record_.reconnect();
  } else {
    refuseEpoch(0, FailureCost::kNone, problem);
  }
  return Status::success();
}

// The proposed epoch cannot be made. Both ends go on to the next one, this end once its queue pairs are
// stopped: the sender may use them already.
void Answerer::refuseEpoch(uint8_t queue_pair, FailureCost cost, const std::string& what) {
  link_.log.refuse(what);
  link_.recovery.refuse(queue_pair, cost);
  next_.drain.reset();
}

std::string Answerer::openEpoch(const ProposeFrame& frame) {
  std::vector<Rail> rails;
  EndInfo next = offer().end;
  for (int i = 0; i < frame.rails; ++i) {
    rails.push_back(offer().rails[frame.rail[i]]);
    next.rail[i] = offer().end.rail[frame.rail[i]];
  }
  next.rails = frame.rails;
  maker_.takeRails(std::move(rails));
  next.queue_pairs = frame.end.queue_pairs;
  next.lanes = frame.end.lanes;
  for (int i = 0; i < next.queue_pairs; ++i) {
    next.queue_pair[i] = {};
    next.queue_pair[i].rail = frame.pair[i].rail;
    next.queue_pair[i].gid = frame.pair[i].gid;
    next.queue_pair[i].peer_gid = frame.pair[i].peer_gid;
    next.queue_pair[i].used = 1;
  }
  link_.here = next;
  if (!openQueuePairs(frame.end).ok()) return maker_.whyLost();
  return link_.user.takeRails() ? "" : "a device takes no more memory";
}

std::string Answerer::notConnected(std::size_t index, Status why) const {
  return link_.pathText(link_.endpoint.queue_pairs[index]) +
         ": cannot be connected: " + std::strerror(why.sys_errno);
}

Status Answerer::connectEpoch() {
  if (next_.accept_sent) return awaitBegin();
  std::size_t failed = 0;
  if (!link_.joiner->listen(link_.epoch(), link_.endpoint, link_.here, &failed).ok()) {
    refuseEpoch(static_cast<uint8_t>(failed), FailureCost::kNone,
                link_.pathText(link_.endpoint.queue_pairs[failed]) + ": RDMA CM cannot listen");
    return Status::success();
  }
  if (!link_.joiner->needsCall()) {
    const Status up = link_.joiner->joinAll(link_.ends(link_.here, link_.there), &failed).status();
    if (up.sys_errno == ETIMEDOUT && Clock::now() < next_.connect_until) return Status::success();
    if (!up.ok()) {
      refuseEpoch(static_cast<uint8_t>(failed),
                  up.sys_errno == ETIMEDOUT ? FailureCost::kTime : FailureCost::kNone,
                  notConnected(failed, up));
      return Status::success();
    }
  }
  describeEce(link_.endpoint, link_.config, link_.here);
  auto frame = makeMessage<AcceptFrame>(MessageType::kAccept);
  frame.epoch = link_.epoch();
  frame.end = link_.here;
  link_.side_channel.send(frame);
  next_.accept_sent = true;
  return Status::success();
}

// The sender begins when its queue pairs are up. Those of this end may not be up yet then, if the sender had
// to call.
Status Answerer::awaitBegin() {
  std::size_t failed = 0;
  const Result<bool> up = link_.joiner->joinAll(link_.ends(link_.here, link_.there), &failed);
  if (!up.ok()) {
    refuseEpoch(static_cast<uint8_t>(failed), FailureCost::kNone,
                link_.pathText(link_.endpoint.queue_pairs[failed]) + ": RDMA CM cannot connect it");
    return Status::success();
  }
  if (!*up && next_.begin_heard && Clock::now() > next_.connect_until)
    refuseEpoch(kNoQueuePair, FailureCost::kTime, "RDMA CM does not say that the queue pairs are up");
  return *up && next_.begin_heard ? begin() : Status::success();
}

Status Answerer::begin() {
  (void)link_.search.end(
      link_.title(), "goes on over " + link_.pathsText() + " (epoch " + std::to_string(link_.epoch()) + ")");
  return link_.beginEpoch();
}

// ---- going back

void Answerer::sendRails() {
  if (link_.side_channel.broken()) return;  // they are sent when the sender asks
  // The answer to the frame that is on its way brings the next one.
  if (link_.side_channel.unheard(MessageType::kRails)) return;
  auto frame = makeMessage<RailsFrame>(MessageType::kRails);
  frame.epoch = link_.epoch();
  renewOffer();
  frame.native = static_cast<uint8_t>(offer().native);
  frame.end = offer().end;
  link_.side_channel.send(frame);
}

void Answerer::onPortsChanged() {
  if ((link_.epoch() > 1 || !allReachable(link_.here)) && !sameRails(link_.usableRails(), offer().rails))
    sendRails();
}

// Makes a queue pair for the sender's trial. The queue pair stays until the next trial or epoch.
void Answerer::onTrial(const TrialFrame& frame) {
  trial_.reset();
  auto reply = makeMessage<TrialReplyFrame>(MessageType::kTrialReply);
  reply.trial = frame.trial;
  const auto open = [&] {
    if (frame.rail >= offer().rails.size() || frame.gid >= offer().end.rail[frame.rail].gid_count ||
        frame.peer_gid >= frame.end.rail[0].gid_count ||
        frame.end.rail[0].link_layer != offer().end.rail[frame.rail].link_layer)
      return false;
    const Rail& rail = offer().rails[frame.rail];
    Result<TrialQueuePair> made = maker_.openTrial(rail);
    const MemoryKeys keys = link_.windowKeys(rail);
    if (!made.ok() || (keys.local == 0 && keys.remote == 0)) return false;
    reply.end = offer().end;
    reply.end.rails = reply.end.queue_pairs = reply.end.lanes = 1;
    reply.end.rail[0] = offer().end.rail[frame.rail];
    reply.end.rail[0].window_key = keys.remote;
    reply.end.queue_pair[0].number = made->qp()->qp_num;
    const Result<uint16_t> port = link_.joiner->answerTrial(*made, link_.ends(reply.end, frame.end),
                                                            {0, 0, frame.gid, frame.peer_gid}, frame.trial);
    if (!port.ok()) return false;
    reply.end.rail[0].cm_ports[frame.gid] = *port;
    trial_ = std::move(*made);
    trial_until_ = Clock::now() + link_.patience().trialAtReceiver();
    return true;
  };
  reply.accepted = open() ? 1 : 0;
  link_.side_channel.send(reply);
}

// Takes the sender's call for a trial, if there must be one, and goes on with it. Nothing else tells this end
// of the call, so the bell rings on until the queue pair is up.
void Answerer::goOnWithTrial() {
  if (!trial_ || !trial_->listener) return;
  if (Clock::now() < trial_until_) link_.bell.ring();
  const Result<bool> up = link_.joiner->advanceTrial(*trial_);
  if (!up.ok()) return trial_.reset();
  if (*up) trial_->listener.reset();
}

}  // namespace railwise::net
