// NCCL's decisions, without texts. The Rerouter of compute.cc needs them while it changes the paths, and
// policy.h turns them into sentences. Pure functions of the paths as they are at the time of the call.
// Thread-safe.
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
  bool failed = false;  // the path goes through a GPU that no rank uses: NCCL's init fails
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
  bool failed = false;  // PXN goes through a GPU that no rank uses: NCCL's init fails
};
GdrDecision decideGdr(const Paths& paths, int gpu, int net, bool read);

// The GPU that forwards the data on a PXN path; on any other path the GPU itself. -1: there is no such GPU,
// and NCCL's init fails.
int decideProxy(const Paths& paths, int gpu, int net);

// The indices of the nodes of type `to` with the highest bandwidth and, among these, the lowest path type
// (ncclTopoGetLocal).
std::vector<int> localNodes(const Paths& paths, NodeType from, int from_index, NodeType to);

// ncclTopoGetLocalNet: chooses one of `locals`, the nearest NETs of the GPU. `sharers`: to how many GPUs the
// first of these NETs is nearest.
int pickLocalNet(const Settings& settings, int gpu_dev, const std::vector<int>& locals, int sharers,
                 int channel);

}  // namespace railwise::topo
