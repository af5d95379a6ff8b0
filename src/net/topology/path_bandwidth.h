// What the machine lets pass between each GPU and each port: the bandwidth of the path as the topology model
// says (PIX, PXB, PHB, SYS), so that a rail behind a slow path gets the share that it can carry. Computed
// once at init, then constant; a look-up is an array access. Reading is thread-safe.
#pragma once

#include <cstddef>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "topo/machine/machine.h"

namespace railwise::net {

// A port of a device: its index among the physical devices, and its speed.
struct RailPort {
  std::size_t device;
  int speed_mbps;
};

class PathBandwidth {
 public:
  static constexpr int kUnlimited = std::numeric_limits<int>::max();  // nothing is known of the path

  // Knows nothing: every path is unlimited, and there are no GPUs.
  PathBandwidth() = default;
  // The paths that data of one GPU takes: never by way of another GPU's rank (PXN), which has connections of
  // its own. The NETs of `machine` are `devices` physical devices, by their number (Node::dev).
  static PathBandwidth compute(const topo::Machine& machine, std::size_t devices);

  int gpus() const { return static_cast<int>(gpus_.size()); }
  const std::string& busId(int gpu) const { return gpus_[static_cast<std::size_t>(gpu)]; }
  // The GPU at a PCI address, in any of its spellings; -1: it is not in the model.
  int findGpu(std::string_view pci_address) const;

  // Mb/s between `gpu` and the port, no more than the port's speed in the model; kUnlimited when gpu is -1 or
  // the path is not known.
  int mbps(int gpu, std::size_t device) const;
  topo::PathType type(int gpu, std::size_t device) const;

  // The GPU from which the ports together can carry most; of equals the one with the shortest paths, then the
  // first. -1: no GPU.
  int nearestGpu(std::span<const RailPort> rails) const;

 private:
  struct Entry {
    int mbps = kUnlimited;
    topo::PathType type = topo::PathType::kDis;
  };
  const Entry* find(int gpu, std::size_t device) const;

  std::vector<std::string> gpus_;  // PCI addresses
  std::size_t devices_ = 0;
  std::vector<Entry> table_;  // by GPU, then device
};

// What a rail can carry at start, Mb/s: the least of its port's speed and the path from `gpu` (-1: not
// known). At least 1, so that shares can be divided.
int railMbps(const PathBandwidth& paths, int gpu, const RailPort& rail);

}  // namespace railwise::net
