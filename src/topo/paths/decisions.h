// NCCL's decisions without words: what rerouter.h needs while the paths are rerouted, and what policy.h puts
// into sentences. Pure functions of the paths as they are at that moment. Thread-safe.
#pragma once

#include <vector>

#include "topo/paths/paths.h"

namespace railwise::topo {

struct P2pDecision {
  bool allowed = false;
  bool read = false;
  int intermediate_rank = -1;
  PathType type = PathType::kDis;
  PathType level = PathType::kPxb;
  bool failed = false;  // through a GPU that no rank uses: NCCL fails its init
};
P2pDecision decideP2p(const Paths& paths, int from_gpu, int to_gpu);

enum class GdrMode { kOff = 0, kOn = 1, kPcie = 2 };  // kPcie: the mapping is forced through PCIe
enum class GdrRule { kOn, kNetWithout, kGpuWithout, kPartition, kReadOff, kReadWithoutNvlink, kDistance };
struct GdrDecision {
  GdrMode mode = GdrMode::kOff;
  GdrRule rule = GdrRule::kOn;
  int proxy_gpu = -1;
  PathType distance = PathType::kDis;
  PathType level = PathType::kP2c;
  bool failed = false;  // PXN through a GPU that no rank uses
};
GdrDecision decideGdr(const Paths& paths, int gpu, int net, bool read);

// The GPU that relays on a PXN path; the GPU itself on any other; -1: none can be named (NCCL fails its
// init).
int decideProxy(const Paths& paths, int gpu, int net);

// The indices of `to` nodes with the highest bandwidth, then the lowest path type (ncclTopoGetLocal).
std::vector<int> localNodes(const Paths& paths, NodeType from, int from_index, NodeType to);

// ncclTopoGetLocalNet: of `locals` (the nearest NETs of the GPU), of which the first is nearest to `sharers`
// GPUs.
int pickLocalNet(const Settings& settings, int gpu_dev, const std::vector<int>& locals, int sharers,
                 int channel);

}  // namespace railwise::topo
