#include "net/receiver/receive_connection.h"

#include <algorithm>

namespace railwise::net {
namespace {

constexpr std::size_t kFlushTargetBytes = 64;

}  // namespace

ReceiveConnection::ReceiveConnection(const Device& device, const ConnectionOptions& options,
                                     const EndInfo& request)
    : Connection(Direction::kReceive, device, options), answerer_(link_, request) {
  flusher_.countIn(shown().flushes);
  const bool immediates = link_.rules.has_immediates;
  for (std::size_t i = 0; i < kReplenish; ++i) {
    receive_chain_[i].next = i + 1 < kReplenish ? &receive_chain_[i + 1] : nullptr;
    receive_chain_[i].sg_list = immediates ? nullptr : &receive_sges_[i];
    receive_chain_[i].num_sge = immediates ? 0 : 1;
  }
  // A silent receive needs data that become visible in order, which iWARP does not promise. With failover,
  // nobody would know after a failure which silent receives have arrived, because nobody calls test() for
  // them.
  may_be_silent_ =
      options.config.optional_receive_completion != 0 && immediates && options.config.failover == 0;
  fast_path_open_ = plain_ = device.rails().size() == 1 && immediates;
  for (Receive& receive : receives_) receive.connection = this;
}

Result<std::unique_ptr<ReceiveConnection>> ReceiveConnection::create(const Device& device,
                                                                     const ConnectionOptions& options,
                                                                     const EndInfo& request,
                                                                     std::string& refusal) {
  std::unique_ptr<ReceiveConnection> made(new ReceiveConnection(device, options, request));
  RAILWISE_TRY(made->link_.maker().openWindow());
  made->flusher_.keep(made->link_.window);
  RAILWISE_TRY(made->answerer_.openFirst(request, refusal));
  const int pointers = device.properties().pointer_support;
  const bool device_memory = (pointers & (kDevicePointers | kDmaBufPointers)) != 0;
  if (!device_memory || options.config.gdr_flush_disable != 0 || !made->link_.endpoint.anyUsed()) return made;
  for (std::size_t rail = 0; rail < device.rails().size(); ++rail) {
    if (!reachable(made->answerer_.local().rail[rail])) continue;
    const Status opened = made->flusher_.openPath(device.rails()[rail]);
    if (!opened.ok() && !made->answerer_.beginsLostWith(request)) return opened;
  }
  return made;
}

QueuePairNeeds ReceiveConnection::needs() const {
  return {kClearToSendDepth, kPostedReceives, static_cast<uint32_t>(groupBytes(entry_bytes_)),
          sizeof(ClearToSend) - kUnwrittenBytes};
}

Result<Window> ReceiveConnection::makeWindow(bool registers) {
  entry_bytes_ = entryBytes(static_cast<int>(link_.device.rails().size()));
  const std::size_t packs = sizeof(Pack) * kSlots;
  const std::size_t staging = std::size_t{kRingEntries} * entry_bytes_;
  const std::size_t notices =
      MessageBuffers::bytesFor(link_.rules, sizeof(Record), answerer_.mostQueuePairs());
  const std::size_t flush_target = kPacksAt + packs + staging;
  Result<Window> window = link_.device.windows().take(
      flush_target + kFlushTargetBytes + notices + ArrivalProof::kReadTargetBytes, registers);
  if (!window.ok()) return window.status();
  window->at<WindowHead>(0)->mark = kWindowMark;
  records_ = window->at<Record>(kRecordsAt);
  packs_ = window->at<Pack>(kPacksAt);
  staging_ = window->at<std::byte>(kPacksAt + packs);
  flusher_.setTarget(window->at<uint64_t>(flush_target));
  notices_.use(window->at<std::byte>(flush_target + kFlushTargetBytes), sizeof(Record));
  return window;
}

int ReceiveConnection::postFirstReceives(std::size_t queue_pair) {
  int error = 0;
  for (uint32_t posted = 0; posted < kPostedReceives && error == 0; posted += kReplenish)
    error = tryToPostReceives(queue_pair, posted);
  return error;
}

void ReceiveConnection::onPaired() {
  uint32_t depth = kClearToSendDepth;
  reply_queue_pair_ = kMaxQueuePairs;
  for (const LaneQueuePair& queue_pair : link_.endpoint.queue_pairs) {
    if (!queue_pair.rest->used) continue;
    depth = std::min<uint32_t>(depth, queue_pair.send_size);
    reply_queue_pair_ = std::min(reply_queue_pair_, queue_pair.index);
  }
  clear_to_send_signal_ = std::clamp(depth * 3 / 4, 1U, kClearToSendSignal);
}

}  // namespace railwise::net
