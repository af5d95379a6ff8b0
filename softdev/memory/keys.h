// Finds the memory of the region that a key names.
#pragma once

#include <cstddef>
#include <cstdint>

#include "softdev/fabric/segment.h"

namespace railwise::softdev {

// Bytes in the memory of the process that has registered the region.
struct Piece {
  std::byte* address;
  uint64_t length;
};

// Finds the memory that `key` names. False: the key, its PD, the range or the access is wrong. The fields are
// loaded with acquire, so that the second look at the key comes after all of them.
[[gnu::always_inline]] inline bool resolveKey(Segment& segment, uint32_t key, uint32_t pd, uint64_t address,
                                              uint64_t length, int access, std::byte** memory) {
  const uint32_t index = key >> 8;
  if (index == 0 || index >= kMaxMrs) return false;
  const MrRecord& mr = segment.mrs[index];
  if (mr.key.load(std::memory_order_seq_cst) != key || mr.pd.load(std::memory_order_acquire) != pd)
    return false;
  const auto wanted = static_cast<uint32_t>(access);
  if ((mr.access.load(std::memory_order_acquire) & wanted) != wanted) return false;
  const uint64_t iova = mr.iova.load(std::memory_order_acquire);
  const uint64_t bytes = mr.length.load(std::memory_order_acquire);
  if (address < iova || length > bytes || address - iova > bytes - length) return false;
  const uint64_t start = mr.address.load(std::memory_order_acquire) + (address - iova);
  *memory = reinterpret_cast<std::byte*>(start);  // NOLINT: an address of the region's process
  return mr.key.load(std::memory_order_relaxed) == key;
}

}  // namespace railwise::softdev
