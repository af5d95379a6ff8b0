#include "net/sender/send_connection.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/log.h"
#include "net/protocol/send_work_id.h"

namespace railwise::net {
namespace {

// Entries of the send queue: enough for all groups if their messages are small. Other work requests wait for
// completions.
constexpr uint32_t kSendDepth = 128;

// NCCL_IB_AR_THRESHOLD's default (NCCL 2.30.7, net_ib/common.cc).
constexpr int kAdaptiveRoutingBytes = 8192;

uint64_t adaptiveRoutingBytes(const Config& config, bool ethernet) {
  const bool on = config.ib_adaptive_routing < 0 ? !ethernet : config.ib_adaptive_routing != 0;
  if (!on) return UINT64_MAX;
  return static_cast<uint64_t>(config.ib_ar_threshold < 0 ? kAdaptiveRoutingBytes : config.ib_ar_threshold);
}

}  // namespace

Result<std::unique_ptr<SendConnection>> SendConnection::create(const Device& device,
                                                               const ConnectionOptions& options,
                                                               const ListenHandle& handle) {
  std::unique_ptr<SendConnection> made(new SendConnection(Direction::kSend, device, options));
  const Config& config = options.config;
  const int rails = static_cast<int>(device.rails().size());
  const int peer_rails = handle.rails;
  made->out_of_order_ = handle.out_of_order != 0 && offersOutOfOrder(device, config);
  const int widest = std::max(rails, peer_rails);
  const int queue_pairs = widest * made->queuePairsPerLane(static_cast<std::size_t>(widest));
  made->most_queue_pairs_ = queue_pairs;
  const int lanes = config.ib_split_data_on_qps != 0 ? std::min(queue_pairs, kMaxLanes) : widest;
  RAILWISE_TRY(made->openWindow(peer_rails));
  const auto open = [&] { return made->openQueuePairs(queue_pairs, lanes); };
  const Status opened = made->mustBeginLost() ? Status{Code::kSystem, ENETDOWN} : made->makeFirst(open);
  if (!opened.ok()) made->out_of_order_ = false;  // no queue pair has shown that it can
  if (opened.ok()) {
    made->endpoint_.makeLanes(lanes);
  } else if (made->mustBeginLost() || made->goesElsewhere("queue pairs")) {
    made->dropEndpoint();
  } else {
    return opened;
  }
  made->groups_.setLanes(static_cast<std::size_t>(lanes));
  made->even_ = config.split == "even";
  for (Message& message : made->messages_) {
    message.connection = made.get();
    message.count = 1;
  }
  return made;
}

int SendConnection::queuePairsPerLane(std::size_t lanes) const {
  return std::clamp(options_.queue_pairs, 1, std::max(1, most_queue_pairs_ / static_cast<int>(lanes)));
}

Status SendConnection::openWindow(int peer_rails, bool registers) {
  peer_rails_ = peer_rails;
  const uint32_t entry_bytes = entryBytes(peer_rails);
  const std::size_t ring = ClearToSendRing::bytesFor(entry_bytes);
  record_stride_ = rules_.has_immediates ? 1 : kMaxLanes;
  const std::size_t records = sizeof(Record) * kSlots * record_stride_;
  const std::size_t notices = MessageBuffers::bytesFor(rules_, groupBytes(entry_bytes), most_queue_pairs_);
  // On iWARP the receiver reads the begin of the window at any time. This end writes the ring there itself,
  // so the ring lies behind a head that nobody writes.
  const std::size_t head = rules_.has_immediates ? 0 : sizeof(WindowHead);
  Result<Window> window =
      device_.windows().take(head + ring + records + notices + ArrivalProof::kReadTargetBytes, registers);
  if (!window.ok()) return window.status();
  window_ = std::make_shared<Window>(std::move(*window));
  std::size_t at = head;
  ring_.use(window_->at<std::byte>(at), entry_bytes);
  records_ = window_->at<Record>(at += ring);
  notices_.use(window_->at<std::byte>(at += records), groupBytes(entry_bytes));
  proof_.setReadTarget(*window_, at + notices);
  return Status::success();
}

// All queue pairs of a lane are on the lane's rail.
Status SendConnection::openQueuePairs(int count, int lanes) {
  std::vector<uint8_t> rail_of;
  for (int i = 0; i < count; ++i)
    rail_of.push_back(static_cast<uint8_t>(i % lanes % static_cast<int>(endpoint_.rails.size())));
  return openQueuePairsOn(rail_of);
}

Status SendConnection::openQueuePairsOn(const std::vector<uint8_t>& rail_of) {
  int limit = kSendDepth;
  for (const uint8_t rail : rail_of)
    limit = std::min(limit, endpoint_.rails[rail].hca->attributes().max_qp_wr);
  const auto depth = static_cast<uint32_t>(limit);
  // A failed queue pair flushes all its work requests, signalled or not.
  RAILWISE_TRY(endpoint_.openCompletionQueues(rail_of, depth + rules_.sender_receives, 1, window_, bell_));
  for (std::size_t i = 0; i < rail_of.size(); ++i) {
    RAILWISE_TRY(addQueuePair(rail_of[i], {depth, rules_.sender_receives, sizeof(Record)}));
    for (uint32_t buffer = 0; !rules_.has_immediates && buffer < kPostedReceives; ++buffer) {
      if (const int error = tryToPostNoticeReceive(i, buffer); error != 0)
        return endpoint_.refusedReceives(i, error);
    }
  }
  return Status::success();
}

Status SendConnection::describe(EndInfo& end) const {
  RAILWISE_TRY(net::describe(own(), endpoint_.rails, *window_, end));
  describeQueuePairs(endpoint_, config_, end);
  end.out_of_order = out_of_order_ ? 1 : 0;
  return Status::success();
}

// ---- once the reply is there

// Warns when a connection crosses rails (NCCL_IB_WARN_RAIL_LOCAL).
void SendConnection::warnOfRails(const RailInfo& here, const RailInfo& there) const {
  if (config_.ib_warn_rail_local == 0 || here.rail < 0 || there.rail < 0 || here.rail == there.rail) return;
  RAILWISE_WARN("%s is on rail %d, but reaches %s of %s on rail %d: traffic crosses rails",
                fieldText(here.device).c_str(), here.rail, fieldText(there.device).c_str(), peer().c_str(),
                there.rail);
}

void SendConnection::adoptPairing(const EndInfo& local, const EndInfo& reply) {
  for (std::size_t i = 0; i < endpoint_.queue_pairs.size(); ++i) {
    endpoint_.queue_pairs[i].rest->used = reply.queue_pair[i].used != 0;
    endpoint_.queue_pairs[i].peer_rail = reply.queue_pair[i].rail;
  }
  adopt(reply);
  endpoint_.dropUnusedLanes();
  // Several lanes may share a rail of either end.
  std::array<int, kMaxRails> here = {};
  std::array<int, kMaxRails> there = {};
  for (const Lane& lane : endpoint_.lanes) {
    ++here[endpoint_.queue_pairs[lane.queue_pairs[0]].rail];
    ++there[endpoint_.queue_pairs[lane.queue_pairs[0]].peer_rail];
  }
  for (std::size_t i = 0; i < endpoint_.lanes.size(); ++i) {
    const LaneQueuePair& first = endpoint_.queue_pairs[endpoint_.lanes[i].queue_pairs[0]];
    warnOfRails(local.rail[first.rail], reply.rail[first.peer_rail]);
    const int from = static_cast<int>(local.rail[first.rail].speed_mbps) / here[first.rail];
    const int to = static_cast<int>(reply.rail[first.peer_rail].speed_mbps) / there[first.peer_rail];
    endpoint_.loads.emplace_back(std::min(from, to));
  }
  epoch_paths_.assign(endpoint_.queue_pairs.size(), {});
  for (std::size_t i = 0; i < endpoint_.queue_pairs.size(); ++i) {
    const LaneQueuePair& queue_pair = endpoint_.queue_pairs[i];
    if (queue_pair.rest->used)
      epoch_paths_[i] = pathOf(local.rail[queue_pair.rail], reply.rail[queue_pair.peer_rail]);
  }
  // A connection that begins while a port is down becomes whole later.
  if (epoch() == 1) whole_ = !mayBeginLost() || (allReachable(local) && allReachable(reply));
  failback_.use(epoch_paths_, whole_);
  if (epoch() == 1) fast_path_closed_ = failback_.reduced();
  choosePaths();
}

// Computes the limits of the epoch, which decide the path of every message.
void SendConnection::choosePaths() {
  SendFacts facts;
  facts.lanes = endpoint_.lanes.size();
  facts.has_immediates = rules_.has_immediates;
  facts.in_order = !out_of_order_;
  facts.whole = endpoint_.native && !failback_.reduced();
  facts.inline_bytes = facts.max_request_bytes = UINT32_MAX;
  for (const LaneQueuePair& queue_pair : endpoint_.queue_pairs) {
    if (!queue_pair.rest->used) continue;
    facts.inline_bytes = std::min(facts.inline_bytes, queue_pair.inline_bytes);
    facts.max_request_bytes = std::min(facts.max_request_bytes, queue_pair.rest->max_request_bytes);
  }
  facts.adaptive_routing_bytes = adaptiveRoutingBytes(config_, device_.rails().front().port.ethernet);
  facts.max_message_bytes = device_.properties().max_message_bytes;
  limits_ = sendLimits(facts);
  RAILWISE_INFO(log::kNet, "%s: connection to %s sends %s", device_.name(), peer().c_str(),
                pathsText(limits_, facts.lanes).c_str());
  fast_.takes_turns = endpoint_.lanes.front().count > 1;
  setFastPath(true);
  takeTurnOfSmall();
}

Result<bool> SendConnection::establish(const EndInfo& local, const EndInfo& reply, const Session& session) {
  if (beginsLost(reply)) {
    beginWithoutQueuePairs(local, reply);
    return true;
  }
  if (endpoint_.loads.empty()) {
    session_ = session;
    epoch_here_ = local;
    adoptPairing(local, reply);
  }
  bool all = true;
  for (std::size_t i = 0; i < endpoint_.queue_pairs.size(); ++i) {
    if (!endpoint_.queue_pairs[i].rest->used || endpoint_.queue_pairs[i].rest->connected) continue;
    const Result<bool> up = connectQueuePair(i, local, reply);
    const auto refused = [&] {
      return !up.ok() && (joiner_->needsCall() ? mayBeginLost() : goesElsewhere("a path"));
    };
    if (reply.failover != 0 && (((!up.ok() || !*up) && mustBeginLost()) || refused())) {
      beginWithoutQueuePairs(local, reply);
      return true;
    }
    if (!up.ok()) return up.status();
    all = all && *up;
  }
  return all;
}

void SendConnection::beginWithoutQueuePairs(const EndInfo& local, const EndInfo& reply) {
  stopLostQueuePairs();
  dropEndpoint();
  adopt(reply);
  epoch_here_ = local;
}

Result<bool> SendConnection::connectQueuePair(std::size_t index, const EndInfo& local, const EndInfo& reply) {
  const Result<bool> up = joiner_->join(index, ends(local, reply));
  if (!joiner_->needsCall() && up.status().sys_errno == ETIMEDOUT) return false;
  return up;
}

}  // namespace railwise::net
