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
  // The target tells of its windows in the order of their numbers: one that it has left out is gone.
  void take(const RegionFrame& frame) {
    for (std::size_t i = regions_.size(); i <= frame.window; ++i)
      regions_.push_back(Region{{}, 0, true, true, {}});
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

// Windows of a rank at a time: it tells a peer of all of them when an epoch begins, and less than
// SideChannel::kMostUserFrames may be under way.
inline constexpr std::size_t kMostWindows = 4000;
// And in all. Their records would take all memory otherwise.
inline constexpr std::size_t kMostNumbers = std::size_t{1} << 20;

}  // namespace railwise::net
