// The bandwidth between each GPU and each port: the bandwidth of their path in the topology model (PIX, PXB,
// PHB, SYS), so that a rail behind a slow path gets the share that it can carry. Computed once, then
// constant; a look-up is an array access. Any thread may read it.
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
  // The bandwidth of a path that is not known.
  static constexpr int kUnlimited = std::numeric_limits<int>::max();

  // Knows no path: every path is unlimited, and there are no GPUs.
  PathBandwidth() = default;
  // Computes the paths that data of one GPU takes. PXN (a path through another GPU's rank) is left out,
  // because the other rank has connections of its own. The NET nodes of `machine` are `devices` physical
  // devices, in the order of Node::dev.
  static PathBandwidth compute(const topo::Machine& machine, std::size_t devices);

  int gpus() const { return static_cast<int>(gpus_.size()); }
  // The GPU at a PCI address, in any spelling; -1: the model has no such GPU.
  int findGpu(std::string_view pci_address) const;

  // Mb/s between `gpu` and the port, at most the port's speed in the model. kUnlimited if `gpu` is -1 or the
  // path is not known.
  int mbps(int gpu, std::size_t device) const;
  topo::PathType type(int gpu, std::size_t device) const;

  // The GPU from which the ports together can carry most. Among equals: the GPU with the shortest paths, then
  // the first one. -1: there is no GPU.
  int nearestGpu(std::span<const RailPort> rails) const;

 private:
  struct Entry {
    int mbps = kUnlimited;
    topo::PathType type = topo::PathType::kDis;
  };
  const Entry* find(int gpu, std::size_t device) const;

  std::vector<std::string> gpus_;  // PCI addresses
  std::size_t devices_ = 0;
  std::vector<Entry> table_;  // one row of devices for each GPU
};

// What a rail can carry at start, Mb/s: the lesser of its port's speed and the bandwidth of the path from
// `gpu` (-1: not known). At least 1, so that shares can be divided.
int railMbps(const PathBandwidth& paths, int gpu, const RailPort& rail);

}  // namespace railwise::net
