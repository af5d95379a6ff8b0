// What the two ends of a connection write into each other's memory.
//
// Clear to send: for receive number k (from 1) with n buffers the receiver writes n entries into slot k mod
// kSlots of the sender's ring. Every entry carries the number, so an entry is valid by itself however the
// write is cut; it is aligned to its own size, so no PCIe write splits one. Data: RDMA writes, the last one
// with an immediate that names the slot and, for one message below 64 MiB, its size. Else the sizes of the
// group travel in a record of their own, written by the work request that has the immediate.
#pragma once

#include <cstdint>

#include "net/limits.h"

namespace railwise::net {

inline constexpr int kSlots = kOutstandingReceives;

struct alignas(32) ClearToSend {
  uint64_t address;
  uint32_t remote_key;
  uint32_t tag;
  uint64_t bytes;  // room in the buffer
  uint64_t stamp;  // number of the receive << 8 | entries in the group; the last word to be written
};
static_assert(sizeof(ClearToSend) == 32);

inline constexpr uint64_t makeStamp(uint64_t number, int count) {
  return number << 8 | static_cast<uint64_t>(count);
}
inline constexpr uint64_t stampNumber(uint64_t stamp) { return stamp >> 8; }
inline constexpr int stampCount(uint64_t stamp) { return static_cast<int>(stamp & 0xff); }

using SlotEntries = ClearToSend[kMaxReceives];
using SlotSizes = uint32_t[kMaxReceives];

// Immediate, in host order: bit 31: sizes are in the record; bits 30..26: slot; bits 25..0: size.
inline constexpr uint32_t kImmediateSizeBits = 26;
inline constexpr uint32_t kImmediateSizeLimit = 1U << kImmediateSizeBits;
inline constexpr uint32_t kSizesInRecord = 1U << 31;
static_assert(kSlots == 32, "five bits of the immediate name the slot");

inline constexpr uint32_t immediate(uint32_t slot, uint32_t size) {
  return slot << kImmediateSizeBits | size;
}
inline constexpr uint32_t immediateSlot(uint32_t value) {
  return (value >> kImmediateSizeBits) & (kSlots - 1);
}
inline constexpr uint32_t immediateSize(uint32_t value) { return value & (kImmediateSizeLimit - 1); }

}  // namespace railwise::net
