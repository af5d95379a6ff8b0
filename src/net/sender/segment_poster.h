// Messages that go in segments (SendPath::kSegments): large ones, groups of different sizes, and everything
// that is spread over lanes or goes by iWARP. There is one segment for each lane, and each is signalled. This
// class cuts a group, posts its segments, and sees them complete. Part of the hot path (datapath.cc). One
// thread at a time.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/clock.h"
#include "net/paths/link.h"
#include "net/paths/stripe_plan.h"
#include "net/protocol/clear_to_send_ring.h"
#include "net/protocol/work_request_chain.h"
#include "net/sender/group.h"
#include "net/sender/message_times.h"
#include "net/sender/send_work_id.h"

namespace railwise::net {

// NCCL's profiler, where it asks for events of a message: one event for what each segment carries of it. This
// allocates, and calls NCCL. One thread at a time.
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

class SegmentPoster {
 public:
  // `ring` has the clear-to-send of each group that is posted.
  SegmentPoster(Link& link, const ClearToSendRing& ring, MessageTimes& times)
      : link_(link),
        ring_(ring),
        times_(times),
        record_stride_(link.rules.has_immediates ? 1 : kMaxLanes),
        even_(link.config.split == "even"),
        events_(link.device.index()) {}

  std::size_t recordBytes() const { return sizeof(Record) * kSlots * record_stride_; }
  // `records`: in the link's window, with recordBytes().
  void use(Record* records) { records_ = records; }
  // A larger segment has its immediate in a work request of its own.
  void setThenImmediate(uint64_t bytes) { then_immediate_ = bytes; }

  // Cuts the group, whose messages are all there. True: the rates of the lanes have moved, so plan() is due.
  bool cut(Group& group);
  struct Cut {
    int segments = 1;
    uint8_t fastest = 0;  // the segment on the fastest lane
  };
  // Which of several lanes carry what of the group's `bytes`: writes it to the group's segments.
  static Cut cutOverLanes(const Group& group, uint64_t bytes, std::span<Lane> lanes,
                          std::span<LaneLoad> loads, bool even);
  // Posts the segments of a group that is cut. False: a send queue has no room, or memory cannot be used, or
  // the link has failed. The next call goes on from there.
  bool post(Group& group);
  // Plans for messages that need no group (SendConnection::sendStriped()). No part is larger than
  // `largest_part`.
  void plan(uint64_t largest_part) { stripes_.make(link_.endpoint.lanes, even_, largest_part); }
  StripePlan& stripes() { return stripes_; }

  // The last work request of a segment is complete.
  void onCompletion(Group& group, uint64_t id, const LaneQueuePair& queue_pair) {
    const uint32_t index = workSegment(id);
    if (link_.endpoint.lanes.size() > 1) {
      measures_ = true;
      const Segment& segment = group.lane_segments[index];
      link_.endpoint.loads[queue_pair.lane].completed(segment.end - segment.begin);
    }
    if (group.profiled) [[unlikely]]
      events_.stop(static_cast<uint32_t>(workSlot(id)), index);
    ++group.segments_done;
  }
  // A part of a striped message is complete.
  void onStripePart(Group& group, uint64_t id, const LaneQueuePair& queue_pair) {
    link_.endpoint.loads[queue_pair.lane].completed(stripePartOf(id));
    ++group.segments_done;
  }
  // Segments have completed, or the plan is being measured, so measureLanes() has something to do.
  bool measures() const { return measures_; }
  // All completions of one poll are there: measures the lanes.
  void measureLanes() {
    measures_ = stripes_.measures();
    const auto measurable = [](const LaneLoad& load) { return load.measurable(); };
    std::vector<LaneLoad>& loads = link_.endpoint.loads;
    if (std::none_of(loads.begin(), loads.end(), measurable)) return;
    const uint64_t now = nowNs();
    for (LaneLoad& load : loads) load.measure(now);
  }
  // The queue pairs are gone. Completions that are owed will not come.
  void drop() {
    events_.stopAll();
    chain_.clear();
  }

 private:
  // A segment that is being posted.
  struct Posting {
    Group& group;
    const Segment& segment;
    LaneQueuePair& queue_pair;
    const uint32_t index;
    const bool records;  // it carries the record of the group
  };

  Record& recordOf(const Group& group, uint32_t segment) const {
    return records_[group.slot() * record_stride_ + (record_stride_ > 1 ? segment : 0)];
  }
  // These return false as post() does.
  bool postSegment(Group& group);
  bool postBytes(const Posting& to, bool last_carries_immediate);
  bool postTail(const Posting& to);
  bool postChain(LaneQueuePair& queue_pair);
  ibv_send_wr* nextWorkRequest(LaneQueuePair& queue_pair, uint32_t room);
  void finish(ibv_send_wr& work, const Posting& to);
  void signal(ibv_send_wr& work, const Posting& to, bool last);
  std::optional<uint32_t> localKey(const Message& message, LaneQueuePair& queue_pair);

  Link& link_;
  const ClearToSendRing& ring_;
  MessageTimes& times_;
  Record* records_ = nullptr;  // source of the records, if they are not inline
  uint64_t then_immediate_ = UINT64_MAX;
  const uint32_t record_stride_;  // records of a slot: one; without immediates one for each segment
  const bool even_;               // RAILWISE_SPLIT=even
  bool measures_ = false;         // measureLanes() has something to do
  MessageEvents events_;
  WorkRequestChain chain_;
  StripePlan stripes_;
};

}  // namespace railwise::net
