#include "net/sender/send_connection.h"

#include <algorithm>
#include <cerrno>

#include "base/log.h"

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

SendConnection::SendConnection(const Device& device, const ConnectionOptions& options,
                               const ListenHandle& handle)
    : Connection(Direction::kSend, device, options), chooser_(link_, handle.rails, handle.out_of_order != 0) {
  ring_.use(nullptr, entryBytes(handle.rails));
}

Result<std::unique_ptr<SendConnection>> SendConnection::create(const Device& device,
                                                               const ConnectionOptions& options,
                                                               const ListenHandle& handle) {
  std::unique_ptr<SendConnection> made(new SendConnection(device, options, handle));
  RAILWISE_TRY(made->link_.maker().openWindow());
  RAILWISE_TRY(made->chooser_.openFirst());
  return made;
}

QueuePairNeeds SendConnection::needs() const {
  const uint32_t receives = link_.rules.has_immediates ? 1 : kPostedReceives;  // iWARP: clear-to-sends
  return {kSendDepth, receives, sizeof(Record), 0};
}

Result<Window> SendConnection::makeWindow(bool registers) {
  const std::size_t ring = ClearToSendRing::bytesFor(ring_.entryBytes());
  const std::size_t records = segments_.recordBytes();
  const std::size_t receives = clear_to_sends_.bytesFor(chooser_.mostQueuePairs());
  // On iWARP the receiver reads the begin of the window at any time. This end writes the ring there itself,
  // so the ring lies behind a head that nobody writes.
  const std::size_t head = clear_to_sends_.areMessages() ? sizeof(WindowHead) : 0;
  Result<Window> window = link_.device.windows().take(
      head + ring + records + receives + ArrivalProof::kReadTargetBytes, registers);
  if (!window.ok()) return window.status();
  ring_.use(window->at<std::byte>(head), ring_.entryBytes());
  segments_.use(window->at<Record>(head + ring));
  clear_to_sends_.use(window->at<std::byte>(head + ring + records));
  return window;
}

// Computes the limits of the epoch, which decide the path of every message.
void SendConnection::onPaired() {
  SendFacts facts;
  facts.lanes = link_.endpoint.lanes.size();
  facts.has_immediates = link_.rules.has_immediates;
  facts.in_order = !link_.out_of_order;
  facts.whole = link_.endpoint.native && !link_.degraded();
  facts.inline_bytes = facts.max_request_bytes = UINT32_MAX;
  for (const LaneQueuePair& queue_pair : link_.endpoint.queue_pairs) {
    if (!queue_pair.rest->used) continue;
    facts.inline_bytes = std::min(facts.inline_bytes, queue_pair.inline_bytes);
    facts.max_request_bytes = std::min(facts.max_request_bytes, queue_pair.rest->max_request_bytes);
  }
  facts.adaptive_routing_bytes =
      adaptiveRoutingBytes(link_.config, link_.device.rails().front().port.ethernet);
  facts.max_message_bytes = link_.device.properties().max_message_bytes;
  limits_ = sendLimits(facts);
  segments_.setThenImmediate(limits_.then_immediate);
  RAILWISE_INFO(log::kNet, "%s: connection to %s sends %s", link_.device.name(), link_.peer.c_str(),
                pathsText(limits_, facts.lanes).c_str());
  groups_.setLanes(facts.lanes);
  fast_.takes_turns = facts.lanes > 1 || link_.endpoint.lanes.front().count > 1;
  segments_.stripes().begin(link_.endpoint.loads);
  planLanes();
  const bool first = link_.epoch() == 1;  // the next ones begin when both ends are ready
  if (first) must_look_ = link_.degraded();
  setFastPath(first);
  takeTurnOfSmall();
}

void SendConnection::planLanes() {
  segments_.plan(limits_.whole != 0 ? std::min<uint64_t>(kImmediatePartLimit - 1, limits_.request) : 0);
  std::vector<Lane>& lanes = link_.endpoint.lanes;
  const std::vector<LaneLoad>& loads = link_.endpoint.loads;
  const auto rate = [&](std::size_t lane) { return lane < loads.size() ? loads[lane].rate() : 1.0; };
  std::array<int, kMaxLanes> turns = {};
  for (uint8_t& turn : fast_.turn) {  // the lane that is behind most
    std::size_t next = 0;
    for (std::size_t lane = 1; lane < lanes.size(); ++lane) {
      if ((turns[lane] + 1) / rate(lane) < (turns[next] + 1) / rate(next)) next = lane;
    }
    ++turns[next];
    turn = lanes[next].takeTurn();
  }
}

// ---- a failure

void SendConnection::onFenced() {
  segments_.drop();
  times_.restart(numbers().next);
  batch_.drop();
  recovery_.onFenced();
}

Status SendConnection::reconcile(const Words& words) {
  const Outcome<void> done = recovery_.reconcile(words);
  return done.ok() ? Status::success() : link_.fail({done.failure().code, EIO}, done.error());
}

Status SendConnection::onBegun() {
  for (uint64_t number = nextPost(); number < numbers().next; ++number) {
    Group& group = groups_.of(number);
    if (group.number == number && group.state == SlotState::kRepeat) (void)segments_.cut(group);
  }
  setFastPath(nextPost() == numbers().next);
  must_look_ = link_.degraded();
  needs_slow_test_ = true;
  return Status::success();
}

}  // namespace railwise::net
