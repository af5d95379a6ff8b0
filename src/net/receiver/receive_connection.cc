#include "net/receiver/receive_connection.h"

#include <algorithm>
#include <cstring>

#include "base/log.h"
#include "net/paths/choose_joiner.h"
#include "net/wireup/pairing.h"

namespace railwise::net {
namespace {

constexpr std::size_t kFlushTargetBytes = 64;

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

}  // namespace

Result<std::unique_ptr<ReceiveConnection>> ReceiveConnection::create(const Device& device,
                                                                     const ConnectionOptions& options,
                                                                     const EndInfo& request,
                                                                     std::string& refusal) {
  std::unique_ptr<ReceiveConnection> made(new ReceiveConnection(Direction::kReceive, device, options));
  made->out_of_order_ = request.out_of_order != 0;
  made->flusher_.countIn(made->shown().flushes);
  if (request.queue_pairs > 0) made->most_queue_pairs_ = request.queue_pairs;
  RAILWISE_TRY(made->openWindow());
  made->joiner_ = makeJoiner(Direction::kReceive, device, options.config, made->session_,
                             request.connection_manager != 0);
  RAILWISE_TRY(describe(made->own(), device.rails(), *made->window_, made->local_));
  RAILWISE_TRY(made->checkLinkLayer(request, refusal));
  const auto open = [&] { return made->openFirst(request, refusal); };
  const Status opened =
      made->beginsLostWith(request) ? Status{Code::kSystem, ENETDOWN} : made->makeFirst(open);
  const bool lost = made->beginsLostWith(request) || (!opened.ok() && made->refusedFirst(request, refusal));
  if (lost) {
    refusal.clear();
    made->beginWithoutQueuePairs(request);
  } else {
    RAILWISE_TRY(opened);
  }
  // A silent receive needs data that become visible in order, which iWARP does not promise. With failover,
  // nobody would know after a failure which silent receives have arrived, because nobody calls test() for
  // them.
  made->may_be_silent_ = options.config.optional_receive_completion != 0 && made->rules_.has_immediates &&
                         options.config.failover == 0;
  made->fast_path_open_ = made->plain_ = device.rails().size() == 1 && made->rules_.has_immediates;
  for (Receive& receive : made->receives_) receive.connection = made.get();
  const int pointers = device.properties().pointer_support;
  for (std::size_t rail = 0; rail < device.rails().size(); ++rail) {
    const bool reached = reachable(made->local_.rail[rail]);
    const bool device_memory = (pointers & (kDevicePointers | kDmaBufPointers)) != 0;
    if (lost || !reached || !device_memory || options.config.gdr_flush_disable != 0) continue;
    const Status opened_path = made->flusher_.openPath(device.rails()[rail]);
    if (!opened_path.ok() && !made->beginsLostWith(request)) return opened_path;
  }
  return made;
}

Status ReceiveConnection::openWindow() {
  entry_bytes_ = entryBytes(static_cast<int>(device_.rails().size()));
  const std::size_t records = sizeof(Record) * kSlots;
  const std::size_t packs = sizeof(Pack) * kSlots;
  const std::size_t staging = std::size_t{kRingEntries} * entry_bytes_;
  const std::size_t notices = MessageBuffers::bytesFor(rules_, sizeof(Record), most_queue_pairs_);
  Result<Window> window =
      device_.windows().take(sizeof(WindowHead) + records + packs + staging + kFlushTargetBytes + notices +
                             ArrivalProof::kReadTargetBytes);
  if (!window.ok()) return window.status();
  window_ = std::make_shared<Window>(std::move(*window));
  window_->at<WindowHead>(0)->mark = kWindowMark;
  records_ = window_->at<Record>(kRecordsAt);
  packs_ = window_->at<Pack>(kPacksAt);
  std::size_t at = kPacksAt + packs;
  staging_ = window_->at<std::byte>(at);
  flusher_.setTarget(window_->at<uint64_t>(at += staging), window_);
  notices_.use(window_->at<std::byte>(at += kFlushTargetBytes), sizeof(Record));
  proof_.setReadTarget(*window_, at + notices);
  return Status::success();
}

bool ReceiveConnection::mayLoseFirst(const EndInfo& request) const {
  return request.failover != 0 && mayBeginLost();
}

bool ReceiveConnection::beginsLostWith(const EndInfo& request) const {
  return mayLoseFirst(request) && (!railsWork(endpoint_.rails) || beginsLost(request));
}

// `refusal`: not empty when no rail of one end can reach one of the other. Ports that are down now may be the
// reason.
bool ReceiveConnection::refusedFirst(const EndInfo& request, const std::string& refusal) {
  if (!mayLoseFirst(request)) return false;
  if (refusal.empty()) return goesElsewhere("queue pairs");
  if (allReachable(request) && allReachable(local_)) return false;
  why_lost_ = refusal;
  return true;
}

Status ReceiveConnection::openFirst(const EndInfo& request, std::string& refusal) {
  RAILWISE_TRY(pair(request, refusal));
  RAILWISE_TRY(openQueuePairs());
  endpoint_.makeLanes(request.lanes);
  describePairing(request);
  adopt(request);
  return Status::success();
}

// The recovery finds a path.
void ReceiveConnection::beginWithoutQueuePairs(const EndInfo& request) {
  joiner_->drop();
  stopLostQueuePairs();
  dropEndpoint();
  local_.queue_pairs = local_.lanes = 0;
  std::memset(local_.queue_pair, 0, sizeof local_.queue_pair);
  local_.out_of_order = request.out_of_order;
  epoch_here_ = local_;
  adopt(request);
}

Status ReceiveConnection::checkLinkLayer(const EndInfo& request, std::string& refusal) const {
  if (request.rail[0].link_layer == local_.rail[0].link_layer) return Status::success();
  refusal = "the ports have different link layers (" + railNames(request) + " on " + fieldText(request.host) +
            ", " + railNames(local_) + " on " + fieldText(local_.host) +
            "): choose matching NICs with NCCL_IB_HCA";
  return {Code::kRemote, 0};
}

// Decides which rail of this end answers each queue pair of the peer. The result is in local_, which is the
// reply.
Status ReceiveConnection::pair(const EndInfo& request, std::string& refusal) {
  if (beginsLost(request)) {
    refusal = railNames(request) + " on " + fieldText(request.host) +
              " has made no queue pairs (no port works, or the device refuses them), and without failover at "
              "both ends (RAILWISE_FAILOVER) there is no other path";
    return {Code::kRemote, 0};
  }
  const auto pairs = pairRails(request, local_, request.lanes, config_.ib_subnet_prefix_len);
  bool any = false;
  local_.queue_pairs = request.queue_pairs;
  local_.lanes = request.lanes;
  local_.out_of_order = request.out_of_order;
  for (int i = 0; i < request.queue_pairs; ++i) {
    const auto& found = pairs[static_cast<std::size_t>(i % request.lanes)];
    QueuePairInfo& info = local_.queue_pair[i];
    info.used = found ? 1 : 0;
    if (!found) continue;
    any = true;
    info.rail = found->listener_rail;
    info.gid = found->listener_gid;
    info.peer_gid = found->connector_gid;
  }
  if (any) return Status::success();
  refusal = "no rail of one end can reach one of the other: " + railNames(request) + " on " +
            fieldText(request.host) + ", " + railNames(local_) + " on " + fieldText(local_.host) +
            ": their GIDs are of different kinds; check NCCL_IB_GID_INDEX, NCCL_IB_ADDR_FAMILY and "
            "NCCL_IB_ROCE_VERSION_NUM";
  return {Code::kRemote, 0};
}

Status ReceiveConnection::openQueuePairs() {
  std::vector<uint8_t> rails;
  for (int i = 0; i < local_.queue_pairs; ++i) rails.push_back(local_.queue_pair[i].rail);
  for (std::size_t i = 0; i < kReplenish; ++i) {
    receive_chain_[i].next = i + 1 < kReplenish ? &receive_chain_[i + 1] : nullptr;
    receive_chain_[i].sg_list = rules_.has_immediates ? nullptr : &receive_sges_[i];
    receive_chain_[i].num_sge = rules_.has_immediates ? 0 : 1;
  }
  int limit = kClearToSendDepth;
  for (const uint8_t rail : rails) limit = std::min(limit, endpoint_.rails[rail].hca->attributes().max_qp_wr);
  const auto depth = static_cast<uint32_t>(limit);
  clear_to_send_signal_ = std::clamp(depth * 3 / 4, 1U, kClearToSendSignal);
  RAILWISE_TRY(endpoint_.openCompletionQueues(rails, kPostedReceives + depth, 1, window_, bell_));
  const auto inline_bytes = static_cast<uint32_t>(groupBytes(entry_bytes_));
  for (std::size_t i = 0; i < rails.size(); ++i) {
    const QueuePairInfo& info = local_.queue_pair[i];
    if (info.used == 0) {
      endpoint_.queue_pairs.add().rest->used = false;
      continue;
    }
    RAILWISE_TRY(addQueuePair(rails[i], {depth, kPostedReceives, inline_bytes}));
    for (uint32_t posted = 0; posted < kPostedReceives; posted += kReplenish) {
      if (const int error = tryToPostReceives(i, posted); error != 0)
        return endpoint_.refusedReceives(i, error);
    }
  }
  const auto first = std::find_if(endpoint_.queue_pairs.begin(), endpoint_.queue_pairs.end(),
                                  [](const LaneQueuePair& queue_pair) { return queue_pair.rest->used; });
  reply_queue_pair_ = static_cast<uint8_t>(first - endpoint_.queue_pairs.begin());
  return Status::success();
}

void ReceiveConnection::describePairing(const EndInfo& request) {
  for (std::size_t i = 0; i < endpoint_.queue_pairs.size(); ++i) {
    LaneQueuePair& queue_pair = endpoint_.queue_pairs[i];
    if (!queue_pair.rest->used) continue;
    local_.queue_pair[i].number = queue_pair.qp->qp_num;
    queue_pair.peer_rail = request.queue_pair[i].rail;
  }
  epoch_here_ = local_;
}

// ---- bringing the queue pairs up

Status ReceiveConnection::prepare(const EndInfo& request, const Session& session) {
  session_ = session;
  std::size_t failed = 0;
  if (joiner_->needsCall()) {
    if (joiner_->listens()) return Status::success();
    const Status listens = joiner_->listen(epoch(), endpoint_, local_, &failed);
    return listens.ok() || !giveUpFirst(request) ? listens : Status::success();
  }
  const Status up = joiner_->joinAll(ends(local_, request), &failed).status();
  const bool asks_again = up.sys_errno == ETIMEDOUT;
  if (!up.ok() && (beginsLostWith(request) || (!asks_again && refusedFirst(request, "")))) {
    beginWithoutQueuePairs(request);
  } else {
    RAILWISE_TRY(up);
  }
  describeEce(endpoint_, config_, local_);  // what the devices have made of the peer's offer
  return Status::success();
}

Result<bool> ReceiveConnection::establish(const EndInfo& request) {
  std::size_t failed = 0;
  const Result<bool> up = joiner_->joinAll(ends(local_, request), &failed);
  return up.ok() || !giveUpFirst(request) ? up : Result<bool>(true);
}

}  // namespace railwise::net
