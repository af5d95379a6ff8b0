#include "net/receiver/receive_connection.h"

#include <algorithm>

namespace railwise::net {
namespace {

constexpr std::size_t kFlushTargetBytes = 64;

}  // namespace

ReceiveConnection::ReceiveConnection(const Device& device, const ConnectionOptions& options,
                                     const EndInfo& request)
    : Connection(Direction::kReceive, device, options), answerer_(link_, request) {
  // A silent receive needs data that become visible in order, which iWARP does not promise. With failover,
  // nobody would know after a failure which silent receives have arrived, because nobody calls test() for
  // them.
  may_be_silent_ = options.config.optional_receive_completion != 0 && link_.rules.has_immediates &&
                   options.config.failover == 0;
}

Result<std::unique_ptr<ReceiveConnection>> ReceiveConnection::create(const Device& device,
                                                                     const ConnectionOptions& options,
                                                                     const EndInfo& request,
                                                                     std::string& refusal) {
  std::unique_ptr<ReceiveConnection> made(new ReceiveConnection(device, options, request));
  RAILWISE_TRY(made->link_.maker().openWindow());
  RAILWISE_TRY(made->answerer_.openFirst(request, refusal));
  const int pointers = device.properties().pointer_support;
  const bool device_memory = (pointers & (kDevicePointers | kDmaBufPointers)) != 0;
  if (!device_memory || options.config.gdr_flush_disable != 0 || !made->link_.endpoint.anyUsed()) return made;
  for (std::size_t rail = 0; rail < device.rails().size(); ++rail) {
    if (!reachable(made->answerer_.local().rail[rail])) continue;
    const Status opened = made->flusher_.openPath(device.rails()[rail]);
    // Else the first flush asks again.
    if (!opened.ok() && !made->answerer_.survives(request, opened)) return opened;
  }
  return made;
}

QueuePairNeeds ReceiveConnection::needs() const {
  return {ClearToSendWriter::kDepth, kPostedReceives,
          static_cast<uint32_t>(groupBytes(clear_to_sends_.entryBytes())),
          clear_to_sends_.entryBytes() - kUnwrittenBytes};
}

Result<Window> ReceiveConnection::makeWindow(bool registers) {
  const uint32_t entry_bytes = entryBytes(static_cast<int>(link_.device.rails().size()));
  const std::size_t staging = kPacksAt + sizeof(Pack) * kSlots;
  const std::size_t flush_target = staging + std::size_t{kRingEntries} * entry_bytes;
  const std::size_t notices = flush_target + kFlushTargetBytes;
  const std::size_t end = notices + posted_receives_.bytesFor(answerer_.mostQueuePairs());
  Result<Window> window = link_.device.windows().take(end + ArrivalProof::kReadTargetBytes, registers);
  if (!window.ok()) return window.status();
  window->at<WindowHead>(0)->mark = kWindowMark;
  records_ = window->at<Record>(kRecordsAt);
  packs_ = window->at<Pack>(kPacksAt);
  clear_to_sends_.use(window->at<std::byte>(staging), entry_bytes);
  flusher_.setTarget(window->at<uint64_t>(flush_target));
  posted_receives_.use(window->at<std::byte>(notices));
  return window;
}

void ReceiveConnection::onPaired() {
  uint32_t depth = ClearToSendWriter::kDepth;
  reply_queue_pair_ = kMaxQueuePairs;
  for (const LaneQueuePair& queue_pair : link_.endpoint.queue_pairs) {
    if (!queue_pair.rest->used) continue;
    depth = std::min<uint32_t>(depth, queue_pair.send_size);
    reply_queue_pair_ = std::min(reply_queue_pair_, queue_pair.index);
  }
  clear_to_sends_.setDepth(depth);
  // Later epochs begin when both ends are ready.
  fast_path_ = link_.epoch() == 1 ? fastReceive() : FastReceive::kClosed;
}

// Open on all of the connection's own rails, and not on iWARP. The fast path does not look at the bell: with
// fewer or other rails the sender may want to go back to them.
ReceiveConnection::FastReceive ReceiveConnection::fastReceive() const {
  const Endpoint& endpoint = link_.endpoint;
  const std::size_t rails = link_.device.rails().size();
  const bool whole =
      endpoint.native && endpoint.rails.size() == rails &&
      std::ranges::all_of(endpoint.queue_pairs, [](const LaneQueuePair& each) { return each.rest->used; });
  if (!whole || !link_.rules.has_immediates) return FastReceive::kClosed;
  return rails == 1 ? FastReceive::kOneKey : FastReceive::kMoreKeys;
}

}  // namespace railwise::net
