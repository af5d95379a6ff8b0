// What the two ends of a connection write into each other's memory.
//
// Clear to send: for receive number k (from 1) with n buffers the receiver writes n entries into slot k mod
// kSlots of the sender's ring. Every entry carries the number, so an entry is valid by itself however the
// write is cut; it is aligned to its own size, so no PCIe write splits one. Data: RDMA writes. What a lane
// carries of a group is a part; the last request of each part has an immediate. One part with one message
// below 32 MiB says everything in the immediate; else one of the parts also writes a record: how many parts
// there are, and the sizes.
//
// iWARP has no immediate data and no order of placement: there a record with the immediate is sent behind the
// writes of every part, and clear to send is a send too.
#pragma once

#include <cstddef>
#include <cstdint>

#include "net/limits.h"

namespace railwise::net {

inline constexpr int kSlots = kOutstandingReceives;

struct alignas(32) ClearToSend {
  uint64_t address;
  uint32_t remote_key;  // through the receiver's rail 0
  uint32_t tag;
  uint64_t bytes;  // room in the buffer
  uint64_t stamp;  // number of the receive << 8 | flags | entries in the group; the last word to be written
};
static_assert(sizeof(ClearToSend) == 32);

// In front of an entry when the receiver has several rails: the keys of the others.
struct alignas(32) MoreKeys {
  uint32_t remote_key[kMaxRails];  // [0] is not used
};
static_assert(sizeof(MoreKeys) == 32);

// Bytes from one entry of a slot to the next.
inline constexpr uint32_t entryBytes(int receiver_rails) {
  return receiver_rails > 1 ? sizeof(MoreKeys) + sizeof(ClearToSend) : sizeof(ClearToSend);
}

// Bytes of a slot of the ring.
inline constexpr std::size_t slotBytes(uint32_t entry_bytes) {
  return std::size_t{kMaxReceives} * entry_bytes;
}

inline constexpr uint64_t kStampCountMask = 0xf;
// The receiver wants no completion (NCCL_NET_OPTIONAL_RECV_COMPLETION): the data come without immediate.
inline constexpr uint64_t kStampSilent = 0x80;
static_assert(kMaxReceives <= static_cast<int>(kStampCountMask));

inline constexpr uint64_t makeStamp(uint64_t number, int count, bool silent) {
  return number << 8 | (silent ? kStampSilent : 0) | static_cast<uint64_t>(count);
}
inline constexpr uint64_t stampNumber(uint64_t stamp) { return stamp >> 8; }
inline constexpr int stampCount(uint64_t stamp) { return static_cast<int>(stamp & kStampCountMask); }
inline constexpr bool stampSilent(uint64_t stamp) { return (stamp & kStampSilent) != 0; }

// Only as many sizes as the group has messages are written.
struct alignas(64) Record {
  uint32_t immediate;  // iWARP only
  uint32_t number;     // low half of the receive's
  uint32_t parts;
  uint32_t sizes[kMaxReceives];
};
static_assert(sizeof(Record) == 64);
inline constexpr uint32_t recordBytes(int messages) {
  return static_cast<uint32_t>(sizeof(uint32_t)) * (3 + static_cast<uint32_t>(messages));
}

// Immediate, in host order: form (2 bits), slot (5 bits), then the size (25 bits) of a whole message, or
// number of the part (4 bits) and low bits (21) of the number of the receive.
enum class ImmediateForm : uint32_t { kWhole = 0, kPart = 1, kPartWithRecord = 2 };

inline constexpr uint32_t kImmediateSizeBits = 25;
inline constexpr uint32_t kImmediateSizeLimit = 1U << kImmediateSizeBits;
inline constexpr uint32_t kImmediateNumberBits = 21;
static_assert(kSlots == 32, "five bits of the immediate name the slot");
static_assert(kMaxLanes == 16, "four bits of the immediate name the part");

inline constexpr uint32_t wholeImmediate(uint32_t slot, uint32_t size) {
  return slot << kImmediateSizeBits | size;
}
inline constexpr uint32_t partImmediate(ImmediateForm form, uint32_t slot, uint32_t part, uint64_t number) {
  return static_cast<uint32_t>(form) << 30 | slot << kImmediateSizeBits | part << kImmediateNumberBits |
         static_cast<uint32_t>(number & ((1U << kImmediateNumberBits) - 1));
}
inline constexpr ImmediateForm immediateForm(uint32_t value) {
  return static_cast<ImmediateForm>(value >> 30);
}
inline constexpr uint32_t immediateSlot(uint32_t value) {
  return (value >> kImmediateSizeBits) & (kSlots - 1);
}
inline constexpr uint32_t immediateSize(uint32_t value) { return value & (kImmediateSizeLimit - 1); }
inline constexpr uint32_t immediatePart(uint32_t value) {
  return (value >> kImmediateNumberBits) & (kMaxLanes - 1);
}
inline constexpr uint32_t immediateNumber(uint32_t value) {
  return value & ((1U << kImmediateNumberBits) - 1);
}

}  // namespace railwise::net
