// The sender's ring of clear-to-sends. The receiver's device writes into it at any time; this end finds out
// which receives have all their entries. On iWARP, where a clear-to-send comes as a message, this end copies
// it in. One thread at a time, beside the device.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "net/protocol/wire.h"

namespace railwise::net {

class ClearToSendRing {
 public:
  static std::size_t bytesFor(uint32_t entry_bytes) { return std::size_t{kRingEntries} * entry_bytes; }

  // `memory` has bytesFor(entry_bytes), all zero, aligned for an entry.
  void use(std::byte* memory, uint32_t entry_bytes) {
    memory_ = memory;
    entry_bytes_ = entry_bytes;
  }
  uint32_t entryBytes() const { return entry_bytes_; }

  // Entry `i` of receive `number`. Valid only if it has arrived. The keys through further rails stand in
  // front of each entry.
  const ClearToSend& entry(uint64_t number, uint32_t i = 0) const {
    return *reinterpret_cast<const ClearToSend*>(memory_ + std::size_t{ringPlace(number) + i} * entry_bytes_ +
                                                 entry_bytes_ - sizeof(ClearToSend));
  }
  // The stamp of that entry. A caller that has read the stamp then also sees everything that the device wrote
  // into the entry before the stamp.
  uint64_t stamp(uint64_t number, uint32_t i = 0) const {
    return __atomic_load_n(&entry(number, i).stamp, __ATOMIC_ACQUIRE);
  }

  // Have all entries of receive `number` arrived? `first`: the valid stamp of the first one.
  bool isWhole(uint64_t number, uint64_t first) const {
    const auto count = static_cast<uint32_t>(stampCount(first));
    uint32_t whole = 1;
    while (whole < count && stamp(number, whole) == first) ++whole;
    return whole == count;
  }
  // Has the whole clear-to-send for receive `number` been seen?
  bool has(uint64_t number) const { return number < next_; }
  // The caller has seen all clear-to-sends before `number` without look().
  void skipTo(uint64_t number) {
    if (next_ < number) next_ = number;
  }
  // Looks for the clear-to-sends that follow. kInvalid: a stamp has the number of the next receive but makes
  // no sense, so the connection must fail.
  enum class Seen : uint8_t { kNothing, kMore, kInvalid };
  Seen look();
  // The first receive whose clear-to-send has not been seen.
  uint64_t next() const { return next_; }

  // iWARP: copies in a message of `count` entries for receive `number`.
  void put(uint64_t number, const std::byte* entries, uint32_t count) {
    std::memcpy(memory_ + std::size_t{ringPlace(number)} * entry_bytes_, entries,
                std::size_t{count} * entry_bytes_);
  }
  // The receiver will write all clear-to-sends once more, in another epoch.
  void clear() { std::memset(memory_, 0, bytesFor(entry_bytes_)); }
  // Looks from `number` on again.
  void lookFrom(uint64_t number) { next_ = number; }

  // Is `stamp` complete and possible for receive `number`?
  static bool valid(uint64_t stamp, uint64_t number) {
    return (stamp ^ makeStamp(number, 0, 0)) >> kStampFlagsEnd == 0 &&
           static_cast<uint32_t>(stampCount(stamp)) - 1 < kMaxReceives;
  }

 private:
  std::byte* memory_ = nullptr;
  uint64_t next_ = 1;
  uint32_t entry_bytes_ = sizeof(ClearToSend);
};

inline ClearToSendRing::Seen ClearToSendRing::look() {
  uint64_t number = next_;
  for (;; ++number) {
    const uint64_t first = stamp(number);
    if (!valid(first, number)) [[unlikely]] {
      if (stampNumber(first) != number) break;
      next_ = number;
      return Seen::kInvalid;
    }
    if (!isWhole(number, first)) break;
  }
  if (number == next_) return Seen::kNothing;
  next_ = number;
  return Seen::kMore;
}

}  // namespace railwise::net
