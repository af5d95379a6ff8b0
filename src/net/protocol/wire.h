// What the two ends of a connection write into each other's memory. Plain values and pure functions, any
// thread.
//
// Clear-to-send: for a receive with n buffers the receiver writes n entries into the sender's ring, at the
// begin of the slot of that receive. Every entry carries the number of its receive (from 1), so every entry
// is valid by itself, however the write is cut. An entry is aligned to its own size, so no PCIe write splits
// an entry. The ring has a slot for each receive that can be open, so no entry is overwritten before it was
// used.
//
// Data: the sender uses RDMA writes. What one lane carries of a group is a segment. The last work request of
// each segment has an immediate. If one segment carries the whole group, and its messages have one size,
// below 32 MiB in all, then the immediate has all the receiver needs. If segments below 4 MiB carry a message
// that is alone in its receive, each immediate has the number of segments and the size of its own segment.
// Otherwise one of the segments also writes a record: the number of segments, and the sizes of the messages.
//
// A group that fits one cache line, with host memory at both ends, travels packed: one write into the
// receiver's window, from where the receiver copies the messages.
//
// iWARP has no immediate data and no order of placement. There an RDMA send of a record follows the writes of
// every segment, the record has the immediate, and a clear-to-send is an RDMA send too.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "net/limits.h"
#include "net/paths/transport_rules.h"

namespace railwise::net {

inline constexpr int kSlots = kOutstandingReceives;
inline constexpr uint32_t kRingEntries = uint32_t{kSlots} * kMaxReceives;

// The first four bytes are not written: the other 28 fit inline into one 64-byte block of mlx5's send queue.
struct alignas(32) ClearToSend {
  uint32_t unwritten;
  uint32_t remote_key;  // through the receiver's rail 0
  uint64_t address;
  uint32_t tag;
  uint32_t bytes;  // room in the buffer
  uint64_t stamp;  // number of the receive, flags, number of entries; the last word to be written
};
static_assert(sizeof(ClearToSend) == 32);
inline constexpr uint32_t kUnwrittenBytes = offsetof(ClearToSend, remote_key);

// Stands in front of an entry if the receiver has several rails: the keys through the other rails.
struct alignas(32) MoreKeys {
  uint32_t remote_key[kMaxRails];  // [0] is not used
};
static_assert(sizeof(MoreKeys) == 32);

// The remote key through one of the receiver's rails.
inline uint32_t keyOfRail(const ClearToSend& entry, uint8_t rail) {
  return rail == 0 ? entry.remote_key : reinterpret_cast<const MoreKeys*>(&entry)[-1].remote_key[rail];
}

// Bytes from one entry to the next.
inline constexpr uint32_t entryBytes(int receiver_rails) {
  return receiver_rails > 1 ? sizeof(MoreKeys) + sizeof(ClearToSend) : sizeof(ClearToSend);
}

// For how many of the receiver's rails an entry has room for keys.
inline constexpr int mostRails(uint32_t entry_bytes) {
  return entry_bytes > sizeof(ClearToSend) ? kMaxRails : 1;
}

// Bytes of the entries of the largest group.
inline constexpr std::size_t groupBytes(uint32_t entry_bytes) {
  return std::size_t{kMaxReceives} * entry_bytes;
}

// Where the entries of a receive begin in the ring, counted in entries.
inline constexpr uint32_t ringPlace(uint64_t number) {
  return static_cast<uint32_t>(number % kSlots) * kMaxReceives;
}

// Stamp: number of the receive (48 bits), zeroes (8 bits), silent, host memory, two zeroes, count.
inline constexpr int kStampNumberShift = 16;
inline constexpr int kStampFlagsEnd = 8;
inline constexpr uint64_t kStampCountMask = 0xf;
// The receiver wants no completion (NCCL_NET_OPTIONAL_RECV_COMPLETION): the data come without an immediate.
inline constexpr uint64_t kStampSilent = 0x80;
// All buffers of a group are host memory, so the group may come packed.
inline constexpr uint64_t kStampHost = 0x40;
static_assert(kMaxReceives <= static_cast<int>(kStampCountMask));

inline constexpr uint64_t makeStamp(uint64_t number, int count, uint64_t flags) {
  return number << kStampNumberShift | flags | static_cast<uint64_t>(count);
}
inline constexpr uint64_t stampNumber(uint64_t stamp) { return stamp >> kStampNumberShift; }
inline constexpr int stampCount(uint64_t stamp) { return static_cast<int>(stamp & kStampCountMask); }
inline constexpr bool stampHost(uint64_t stamp) { return (stamp & kStampHost) != 0; }
inline constexpr bool stampSilent(uint64_t stamp) { return (stamp & kStampSilent) != 0; }

// The sizes and segments of a group. Only as many sizes as the group has messages are written.
struct alignas(64) Record {
  uint32_t immediate;  // iWARP only
  uint32_t number;     // low half of the number of the receive
  uint32_t segments;
  uint32_t sizes[kMaxReceives];
};
static_assert(sizeof(Record) == 64);
inline constexpr uint32_t recordBytes(int messages) {
  return static_cast<uint32_t>(sizeof(uint32_t)) * (3 + static_cast<uint32_t>(messages));
}

// The messages of a packed group, one behind the other.
inline constexpr uint32_t kPackBytes = 64;
struct alignas(kPackBytes) Pack {
  std::byte bytes[kPackBytes];
};
inline void copyShort(void* to, const void* from, uint32_t bytes) {
  if (bytes == sizeof(uint64_t)) {
    std::memcpy(to, from, sizeof(uint64_t));
  } else {
    for (uint32_t i = 0; i < bytes; ++i) static_cast<char*>(to)[i] = static_cast<const char*>(from)[i];
  }
}

// Where the records and packs begin in the receiver's window.
inline constexpr std::size_t kRecordsAt = sizeof(WindowHead);
inline constexpr std::size_t kPacksAt = kRecordsAt + kSlots * sizeof(Record);

// Immediate, in host order: form (2 bits), slot (5 bits), and 25 bits more:
//
//   whole, packed   the size of each message
//   segment         the index of the segment (4 bits), whether it brings the record (1 bit), and the low bits
//                   (20) of the number of the receive
//   counted         the number of segments less one (3 bits), and the bytes of this segment (22 bits)
enum class ImmediateForm : uint32_t { kWhole = 0, kSegment = 1, kCounted = 2, kPacked = 3 };

inline constexpr uint32_t kImmediateSizeBits = 25;
inline constexpr uint32_t kImmediateSizeLimit = 1U << kImmediateSizeBits;
inline constexpr uint32_t kImmediateNumberBits = 20;
inline constexpr uint32_t kImmediateRecord = 1U << kImmediateNumberBits;
inline constexpr uint32_t kImmediatePartBits = 22;
inline constexpr uint32_t kImmediatePartLimit = 1U << kImmediatePartBits;
inline constexpr uint32_t kMostCountedParts = 1U << (kImmediateSizeBits - kImmediatePartBits);
static_assert(kSlots == 32, "five bits of the immediate name the slot");
static_assert(kMaxLanes == 16, "four bits of the immediate name the segment");

inline constexpr uint32_t makeImmediate(ImmediateForm form, uint32_t slot, uint32_t rest) {
  return static_cast<uint32_t>(form) << 30 | slot << kImmediateSizeBits | rest;
}
inline constexpr uint32_t wholeImmediate(uint32_t slot, uint32_t size) {
  return makeImmediate(ImmediateForm::kWhole, slot, size);
}
inline constexpr uint32_t packedImmediate(uint32_t slot, uint32_t size) {
  return makeImmediate(ImmediateForm::kPacked, slot, size);
}
inline constexpr uint32_t segmentImmediate(bool record, uint32_t slot, uint32_t segment, uint64_t number) {
  return makeImmediate(ImmediateForm::kSegment, slot,
                       segment << (kImmediateNumberBits + 1) | (record ? kImmediateRecord : 0) |
                           static_cast<uint32_t>(number & (kImmediateRecord - 1)));
}
inline constexpr uint32_t countedImmediate(uint32_t slot, uint32_t parts, uint32_t bytes) {
  return makeImmediate(ImmediateForm::kCounted, slot, (parts - 1) << kImmediatePartBits | bytes);
}
inline constexpr ImmediateForm immediateForm(uint32_t value) {
  return static_cast<ImmediateForm>(value >> 30);
}
inline constexpr uint32_t immediateSlot(uint32_t value) {
  return (value >> kImmediateSizeBits) & (kSlots - 1);
}
inline constexpr uint32_t immediateSize(uint32_t value) { return value & (kImmediateSizeLimit - 1); }
inline constexpr bool immediateBringsRecord(uint32_t value) { return (value & kImmediateRecord) != 0; }
inline constexpr uint32_t immediateSegment(uint32_t value) {
  return (value >> (kImmediateNumberBits + 1)) & (kMaxLanes - 1);
}
inline constexpr uint32_t immediateNumber(uint32_t value) { return value & (kImmediateRecord - 1); }
inline constexpr uint32_t immediateParts(uint32_t value) {
  return ((value >> kImmediatePartBits) & (kMostCountedParts - 1)) + 1;
}
inline constexpr uint32_t immediatePartBytes(uint32_t value) { return value & (kImmediatePartLimit - 1); }

}  // namespace railwise::net
