// NCCL's profiler, where it asks for events of a message: one event for what each segment carries of it. This
// allocates, and calls NCCL. One thread at a time.
#pragma once

#include <cstdint>
#include <vector>

#include "net/protocol/clear_to_send_ring.h"
#include "net/sender/group.h"

namespace railwise::net {

class MessageEvents {
 public:
  explicit MessageEvents(int device) : device_(device) {}
  // Segment `segment` of the group goes to `queue_pair`. `ring` has the tags of its messages.
  void start(const Group& group, uint32_t segment, const LaneQueuePair& queue_pair,
             const ClearToSendRing& ring);
  // The segment is complete.
  void stop(uint32_t slot, uint32_t segment);
  void stopAll();

 private:
  struct SegmentEvent {
    uint32_t slot;
    uint32_t segment;
    void* event;
  };

  const int device_;                  // as the profiler knows it
  std::vector<SegmentEvent> events_;  // of segments that are under way
};

}  // namespace railwise::net
