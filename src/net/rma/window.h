// Memory that the ranks of a group have registered: this rank's parts, and what other ranks have said of
// theirs. A window has the number of its registration, which all ranks count alike. Threads: the group's
// lock.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "net/device/memory.h"
#include "net/rma/report.h"

namespace railwise::net {

class RmaGroup;

// A rank's part of a window.
struct Part {
  bool holds(uint64_t offset, uint64_t more) const { return offset <= bytes && more <= bytes - offset; }

  uint64_t address = 0;
  uint64_t bytes = 0;
};

// This rank's part of a window: what NCCL holds as its mhandle.
class RmaWindow : public Part {
 public:
  bool inGpu() const { return memory != nullptr && memory->kind != MemoryKind::kHost; }

  RmaGroup* group = nullptr;       // null: deregistered
  MemoryHandle* memory = nullptr;  // null: deregistered
  uint32_t number = 0;
  bool never_reset = false;
};

// What another rank has said of its part of a window. The size is that of a cache line: a data path looks
// them up by number.
struct alignas(64) Region : Part {
  uint32_t epoch = 0;  // low bits of the epoch that the keys are of; 0: nothing is known
  bool known = false;
  bool gone = false;                          // it was deregistered
  std::array<uint32_t, kMaxRails> keys = {};  // by the target's rails of the epoch
};

class Regions {
 public:
  const Region* find(uint32_t window) const {
    return window < regions_.size() && regions_[window].known ? &regions_[window] : nullptr;
  }
  // Null: nothing was said of it in this epoch, or it does not hold these bytes.
  [[gnu::always_inline]] const Region* reach(uint32_t window, uint32_t epoch, uint64_t offset,
                                             uint64_t bytes) const {
    if (window >= regions_.size()) return nullptr;
    const Region& region = regions_[window];
    return region.epoch == epoch && region.holds(offset, bytes) ? &region : nullptr;
  }
  void take(const RegionFrame& frame) {
    if (frame.window >= regions_.size()) regions_.resize(frame.window + 1);
    Region& region = regions_[frame.window];
    region.address = frame.address;
    region.bytes = frame.bytes;
    region.epoch = frame.epoch;
    region.known = true;
    region.gone = frame.bytes == 0;
    std::copy(std::begin(frame.keys), std::end(frame.keys), region.keys.begin());
  }

 private:
  std::vector<Region> regions_;
};

// A rank cannot have registered more: its frames would take all memory otherwise.
inline constexpr uint32_t kMostWindows = 1 << 20;

}  // namespace railwise::net
