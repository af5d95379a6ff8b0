#include "net/sender/send_connection.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/log.h"
#include "net/sender/send_work_id.h"

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
    : Connection(Direction::kSend, device, options),
      peer_rails_(handle.rails),
      chooser_(link_, handle.rails, handle.out_of_order != 0) {
  even_ = options.config.split == "even";
  for (Message& message : messages_) {
    message.connection = this;
    message.count = 1;
  }
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
  return {kSendDepth, link_.rules.sender_receives, sizeof(Record), 0};
}

Result<Window> SendConnection::makeWindow(bool registers) {
  const uint32_t entry_bytes = entryBytes(peer_rails_);
  const std::size_t ring = ClearToSendRing::bytesFor(entry_bytes);
  record_stride_ = link_.rules.has_immediates ? 1 : kMaxLanes;
  const std::size_t records = sizeof(Record) * kSlots * record_stride_;
  const std::size_t notices =
      MessageBuffers::bytesFor(link_.rules, groupBytes(entry_bytes), chooser_.mostQueuePairs());
  // On iWARP the receiver reads the begin of the window at any time. This end writes the ring there itself,
  // so the ring lies behind a head that nobody writes.
  const std::size_t head = link_.rules.has_immediates ? 0 : sizeof(WindowHead);
  Result<Window> window = link_.device.windows().take(
      head + ring + records + notices + ArrivalProof::kReadTargetBytes, registers);
  if (!window.ok()) return window.status();
  ring_.use(window->at<std::byte>(head), entry_bytes);
  records_ = window->at<Record>(head + ring);
  notices_.use(window->at<std::byte>(head + ring + records), groupBytes(entry_bytes));
  return window;
}

int SendConnection::postFirstReceives(std::size_t queue_pair) {
  int error = 0;
  for (uint32_t buffer = 0; !link_.rules.has_immediates && buffer < kPostedReceives && error == 0; ++buffer)
    error = tryToPostNoticeReceive(queue_pair, buffer);
  return error;
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
  RAILWISE_INFO(log::kNet, "%s: connection to %s sends %s", link_.device.name(), link_.peer.c_str(),
                pathsText(limits_, facts.lanes).c_str());
  groups_.setLanes(facts.lanes);
  fast_.takes_turns = link_.endpoint.lanes.front().count > 1;
  const bool first = link_.epoch() == 1;  // the next ones begin when both ends are ready
  if (first) fast_path_closed_ = link_.degraded();
  setFastPath(first);
  takeTurnOfSmall();
}

}  // namespace railwise::net
