#include "net/sender/message_events.h"

#include <algorithm>

#include "net/profiler.h"

namespace railwise::net {

void MessageEvents::start(const Group& group, uint32_t index, const LaneQueuePair& queue_pair,
                          const ClearToSendRing& ring) {
  const Segment& segment = group.lane_segments[index];
  uint64_t begin = 0;  // of the message
  for (uint32_t i = 0; i < group.count; ++i) {
    const Message& message = *group.messages[i];
    const uint64_t from = std::max(begin, segment.begin);
    const uint64_t to = std::min(begin + message.bytes, segment.end);
    begin += message.bytes;
    if (message.profiler == nullptr || (to <= from && (message.bytes > 0 || index > 0))) continue;
    profiler::Event event = {};
    event.kind = RAILWISE_PROFILER_SEND;
    event.device = device_;
    event.rail = queue_pair.rail;
    event.qp_number = queue_pair.qp->qp_num;
    event.opcode = IBV_WR_RDMA_WRITE;
    event.tag = static_cast<int>(ring.entry(group.number, i).tag);
    event.message = group.number;
    event.bytes = to > from ? to - from : 0;
    if (void* const started = profiler::start(message.profiler, event); started != nullptr)
      events_.push_back({group.slot(), index, started});
  }
}

void MessageEvents::stop(uint32_t slot, uint32_t segment) {
  std::erase_if(events_, [&](const SegmentEvent& event) {
    const bool ended = event.slot == slot && event.segment == segment;
    if (ended) profiler::stop(event.event);
    return ended;
  });
}

void MessageEvents::stopAll() {
  for (const SegmentEvent& event : events_) profiler::stop(event.event);
  events_.clear();
}

}  // namespace railwise::net
