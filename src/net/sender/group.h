// What a sender keeps of its messages: the message that is NCCL's request, the group of messages for one
// receive, and the segments that lanes carry of a group. Plain values of one connection; one thread at a
// time.
#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "net/connection/request.h"
#include "net/device/memory.h"
#include "net/protocol/clear_to_send_ring.h"

namespace railwise::net {

// One send: what NCCL holds as its request.
struct alignas(64) Message : Request {
  uint64_t address = 0;
  const MemoryHandle* memory = nullptr;
  void* profiler = nullptr;  // NCCL's handle for events, or null
  // Of a posted message that is not cut into segments: complete when its queue pair has completed so many
  // work requests.
  uint64_t position = UINT64_MAX;
  int tag = 0;
  uint8_t queue_pair = 0;
};
static_assert(sizeof(Message) == 64, "one cache line");

// Which message of a connection the next isend takes. The messages [0..mask] are taken in turn; a message
// that is still in use is skipped. When all of these messages are in use, the mask grows: a small mask keeps
// the messages in the cache.
struct MessageTurn {
  uint32_t next = 0;
  uint32_t mask = 15;

  // The next message, which may still be in use.
  template <std::size_t kCount>
  Message& peek(std::array<Message, kCount>& messages) const {
    return messages[next & mask];
  }
  // Makes a free message the next one and returns it. Null: all are in use.
  template <std::size_t kCount>
  Message* findFree(std::array<Message, kCount>& messages) {
    for (;; mask = 2 * mask + 1) {
      for (uint32_t tries = 0; tries <= mask; ++tries, ++next) {
        if (peek(messages).kind == Request::Kind::kFree) return &peek(messages);
      }
      if (mask + 1 == kCount) return nullptr;
    }
  }
};

// What one lane carries of a group: a range of the group's bytes, with all messages laid end to end.
struct Segment {
  uint64_t begin = 0;
  uint64_t end = 0;
  uint8_t queue_pair = 0;
};

// The sends for one receive.
struct Group {
  uint64_t number = 0;  // number of the receive; 0: none yet
  uint8_t count = 0;    // number of messages
  uint8_t matched = 0;
  uint8_t segments = 0;
  uint8_t segments_posted = 0;
  uint8_t segments_done = 0;
  uint8_t record_segment = 0;
  bool silent = false;    // the receiver wants no completion
  bool profiled = false;  // NCCL wants profiler events of some message
  bool alike = false;     // the messages so far are of one size
  bool small = false;     // the messages need not be signalled; their writes are prepared
  bool packed = false;    // instead, the bytes of the messages are in the pack
  bool in_order = false;  // the messages came in the order of the entries
  uint32_t each = 0;      // size of the first message that came
  bool recorded = false;  // sizes and number of segments are in a record
  bool again = false;     // after a failure the group must be posted once more
  bool tail = false;  // of the segment that is being posted only the work request behind the bytes is missing
  uint64_t posted = 0;                               // bytes posted, over all segments
  std::array<Message*, kMaxReceives> messages = {};  // null: not yet given to isend

  // All segments have completed, or there are none.
  bool free() const { return segments_done == segments; }
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
  // Begins anew, for the receive whose first entry has this stamp.
  void open(uint64_t receive, uint64_t stamp) {
    number = receive;
    count = static_cast<uint8_t>(stampCount(stamp));
    matched = 0;
    messages.fill(nullptr);
    forgetSegments();
    silent = stampSilent(stamp);
    again = profiled = false;
    alike = in_order = true;
  }
  void forgetSegments() { segments = segments_posted = segments_done = 0; }
  void completeMessages() const {
    for (std::size_t i = 0; i < count; ++i) messages[i]->done = true;
  }
  // The messages are complete when the group's segments are, not by their number.
  void completeBySegments() const {
    for (std::size_t i = 0; i < count; ++i) messages[i]->number = UINT64_MAX;
  }
  uint64_t bytes() const {
    uint64_t sum = 0;
    for (std::size_t i = 0; i < count; ++i) sum += messages[i]->bytes;
    return sum;
  }
};

// The groups of a connection, one for each receive that can be open, and their segments.
class SendGroups {
 public:
  // Each group can have as many segments as there are lanes.
  void setLanes(std::size_t lanes) {
    lanes_ = lanes;
    segments_ = std::make_unique<Segment[]>(kSlots * lanes);
  }
  Group& of(uint64_t number) { return groups_[number % kSlots]; }
  Group& at(std::size_t slot) { return groups_[slot]; }
  Segment* segmentsOf(std::size_t slot) const { return &segments_[slot * lanes_]; }
  auto begin() { return groups_.begin(); }
  auto end() { return groups_.end(); }
  auto begin() const { return groups_.begin(); }
  auto end() const { return groups_.end(); }

 private:
  std::unique_ptr<Segment[]> segments_;
  std::size_t lanes_ = 0;
  std::array<Group, kSlots> groups_;
};

}  // namespace railwise::net
