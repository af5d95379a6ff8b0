// The messages for one receive (a group), and the segments that lanes carry of a group. Plain values of one
// connection; one thread at a time.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>

#include "net/paths/lane.h"
#include "net/protocol/clear_to_send_ring.h"
#include "net/sender/message.h"
#include "net/sender/send_path.h"

namespace railwise::net {

// What one lane carries of a group: a range of the group's bytes, with all messages laid end to end.
struct Segment {
  uint64_t begin = 0;
  uint64_t end = 0;
  uint8_t queue_pair = 0;
};

// The state of a slot's group. These are all moves; the functions of Group make them.
//
//   from                     by           to        when
//   any that mayOpen()       open         matching  isend has the first send for a receive
//   matching                 cut          waiting   isend has the last one: the group goes in segments
//   matching                 postWith     posted    isend has the last one: the batch or pack is posted
//   waiting                  finish       posted    the last segment is posted
//   any that mayOpen()       stripe       posted    a message alone in its receive is posted in parts
//   waiting, posted, repeat  arrive       arrived   after a failure: the receiver says that it has arrived
//   waiting, posted, repeat  repeat       repeat    after a failure: the receiver says that it has not
//   any that mayOpen()       repeatAlone  repeat    after a failure: a message of the fast path had no slot
//   repeat                   cut          waiting   the next epoch begins
//
// When its messages are complete, a posted group stays as it is until another receive takes the slot.
enum class SlotState : uint8_t { kFree, kMatching, kWaiting, kPosted, kRepeat, kArrived };

// Where the posting of a group's segments stands.
struct Cursor {
  uint8_t segment = 0;  // the segment that is being posted
  bool tail = false;    // of this segment only the work request behind the bytes is missing
  uint64_t bytes = 0;   // posted, over all segments
};

// The sends for one receive.
struct Group {
  static constexpr uint8_t kNoRecord = 0xff;

  Group() = default;
  Group(const Group&) = delete;  // its messages count by its segments
  Group& operator=(const Group&) = delete;

  uint64_t number = 0;  // number of the receive; 0: none yet
  SlotState state = SlotState::kFree;
  SendPath form = SendPath::kSegments;  // kBatch: the writes are prepared; kPacked: the bytes are in the pack
  uint8_t count = 0;                    // number of messages
  uint8_t matched = 0;
  uint8_t segments = 0;
  uint8_t record_segment = kNoRecord;  // the segment with the sizes and the number of segments
  bool silent = false;                 // the receiver wants no completion
  bool profiled = false;               // NCCL wants profiler events of some message
  bool alike = false;                  // the messages so far are of one size
  bool in_order = false;               // the messages came in the order of the entries
  uint32_t each = 0;                   // size of the first message that came
  Cursor cursor;
  // Complete segments, of all groups that the slot has had: a message of an earlier group may still count by
  // them, because NCCL has not asked about it. The group is complete when it reaches `due`.
  uint64_t segments_done = 0;
  uint64_t due = 0;
  std::array<Message*, kMaxReceives> messages = {};  // null: not yet given to isend
  Segment* lane_segments = nullptr;                  // room for one for each lane

  uint32_t slot() const { return static_cast<uint32_t>(number % kSlots); }

  // A batch or pack: the messages go in one list of work requests.
  bool small() const { return form != SendPath::kSegments; }
  uint64_t batchBytes() const { return uint64_t{each} * count; }
  // Segments are on their way. Of a batch or pack nothing is kept until its work requests complete.
  bool underWay() const {
    return !small() && (state == SlotState::kWaiting || state == SlotState::kPosted) && segments_done < due;
  }
  // So many are posted and not complete.
  uint64_t bytesUnderWay() const {
    if (underWay()) return cursor.bytes;
    return small() && state == SlotState::kPosted && isOpen(0) && !messages[0]->complete() ? batchBytes() : 0;
  }
  // Another receive may take the slot. A group in matching whose receive is over has no message: a send that
  // did not fit has opened it, and the next one has taken the fast path.
  bool mayOpen() const { return !underWay() && state != SlotState::kRepeat; }
  // The group of `receive`, and all its messages are there.
  bool holds(uint64_t receive) const { return number == receive && state > SlotState::kMatching; }
  // The first open entry with this tag (a tag may stand twice in a group), or -1. Mostly it is the next one.
  int match(int tag, const ClearToSendRing& ring) {
    const auto fits = [&](uint32_t i) { return ring.entry(number, i).tag == static_cast<uint32_t>(tag); };
    if (in_order && fits(matched)) [[likely]]
      return matched;
    in_order = false;
    for (uint32_t i = 0; i < count; ++i) {
      if (messages[i] == nullptr && fits(i)) return static_cast<int>(i);
    }
    return -1;
  }

  // Message `index` is there. The first one decides which path the group takes; a later one that does not fit
  // the path leaves it: the group then goes in segments. `may_be_small`: the fast path is open. `host`: the
  // receiver's memory is host memory.
  void add(uint32_t index, Message& message, const SendLimits& limits, bool may_be_small, bool host) {
    messages[index] = &message;
    profiled = profiled || message.profiler != nullptr;
    const bool host_here = message.memory != nullptr && message.memory->kind == MemoryKind::kHost;
    const bool may = may_be_small && !silent && !profiled;
    if (matched++ == 0) {
      each = message.bytes;
      form = may ? limits.pathOfGroup(each, count, host && host_here) : SendPath::kSegments;
      return;
    }
    alike = alike && message.bytes == each;
    if (!may || !alike || (form == SendPath::kPacked && !host_here)) form = SendPath::kSegments;
  }

  // ---- the moves

  // Begins anew, for the receive whose first entry has this stamp.
  void open(uint64_t receive, uint64_t stamp) {
    state = SlotState::kMatching;
    number = receive;
    count = static_cast<uint8_t>(stampCount(stamp));
    matched = 0;
    messages.fill(nullptr);
    silent = stampSilent(stamp);
    profiled = false;
    alike = in_order = true;
  }
  // All messages go in this many segments, from the first byte on.
  void cut(int into, uint8_t with_record) {
    state = SlotState::kWaiting;
    form = SendPath::kSegments;
    segments = static_cast<uint8_t>(into);
    record_segment = with_record;
    cursor = {};
    due = segments_done + segments;
    for (std::size_t i = 0; i < count; ++i) messages[i]->completeAt(segments_done, due);
  }
  void finish() { state = SlotState::kPosted; }
  // All of the receive is `message`, which is posted in this many parts.
  void stripe(uint64_t receive, Message& message, uint8_t parts) {
    beAlone(receive, message);
    state = SlotState::kPosted;
    segments = parts;
    cursor.bytes = message.bytes;
    due = segments_done + parts;
    message.completeAt(segments_done, due);
  }
  // A batch or pack, whose work requests are the last that `queue_pair` has posted.
  void postWith(const LaneQueuePair& queue_pair) {
    state = SlotState::kPosted;
    const uint64_t at = queue_pair.fullAtWhenDone();
    for (std::size_t i = 0; i < count; ++i) messages[i]->completeAt(queue_pair.full_at, at);
  }
  void arrive() {
    state = SlotState::kArrived;
    for (std::size_t i = 0; i < count; ++i) {
      if (isOpen(i)) messages[i]->counter = &kAlways;
    }
  }
  // False: NCCL knows of a message that it is complete, so the message cannot be sent again.
  bool repeat() {
    for (std::size_t i = 0; i < count; ++i) {
      if (state == SlotState::kArrived || !isOpen(i)) return false;
      messages[i]->counter = &kNever;
    }
    state = SlotState::kRepeat;
    form = SendPath::kSegments;
    return true;
  }
  // A message that had no group must be repeated.
  void repeatAlone(uint64_t receive, Message& message) {
    beAlone(receive, message);
    state = SlotState::kRepeat;
  }

  // Is message `i` still NCCL's request? Later it may be the message of another receive.
  bool isOpen(std::size_t i) const {
    return messages[i]->kind == Request::Kind::kSend && messages[i]->number == number;
  }
  uint64_t bytes() const {
    uint64_t sum = 0;
    for (std::size_t i = 0; i < count; ++i) sum += messages[i]->bytes;
    return sum;
  }

 private:
  void beAlone(uint64_t receive, Message& message) {
    number = receive;
    count = matched = 1;
    messages[0] = &message;
    silent = profiled = false;
    alike = in_order = true;
    each = message.bytes;
    form = SendPath::kSegments;
  }
};

// The groups of a connection, one for each receive that can be open, and their segments.
class SendGroups {
 public:
  // Each group can have as many segments as there are lanes.
  void setLanes(std::size_t lanes) {
    segments_ = std::make_unique<Segment[]>(kSlots * lanes);
    for (std::size_t slot = 0; slot < kSlots; ++slot) groups_[slot].lane_segments = &segments_[slot * lanes];
  }
  Group& of(uint64_t number) { return groups_[number % kSlots]; }
  Group& at(std::size_t slot) { return groups_[slot]; }
  auto begin() { return groups_.begin(); }
  auto end() { return groups_.end(); }
  // Bytes that are posted of the largest group under way.
  uint64_t largestUnderWay() const {
    uint64_t largest = 0;
    for (const Group& group : groups_) largest = std::max(largest, group.bytesUnderWay());
    return largest;
  }

 private:
  std::unique_ptr<Segment[]> segments_;
  std::array<Group, kSlots> groups_;
};

}  // namespace railwise::net
