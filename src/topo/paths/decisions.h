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

// The bandwidth of the fastest NIC that the GPU reaches without passing through the CPU. 0: there is none.
float nearNicBandwidth(const Paths& paths, int gpu);
// May ranks of one host talk through the network (NCCL_NET_DISABLE_INTRA)?
bool networkAllowedInside(const Settings& settings, bool rccl);
// Do both GPUs reach their NICs faster than each other? NCCL then prefers the network (ncclTopoCheckNet).
bool networkIsFaster(const Paths& paths, int from_gpu, int to_gpu);

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
// first of these NETs is nearest. -1: there is none to choose from.
int pickLocalNet(const Graph& graph, const Settings& settings, int gpu, const std::vector<int>& locals,
                 int sharers, int channel);
// Where pickLocalNet() begins to count `locals` for a GPU: modulo their count. `sharers` > 0.
struct Turn {
  int in_order = 0;  // the GPU's number, or its place among the GPUs that share the NETs
  int number = 0;    // the same number after bit reversal, if their count is a power of two
};
Turn firstTurn(const Graph& graph, const Settings& settings, int gpu, const std::vector<int>& locals,
               int sharers);

// The bandwidths at which a search begins, in GB/s (ncclTopoSearchInit).
struct SearchBandwidth {
  float channel = 0;  // the fastest path: no channel can have more (NCCL's maxBw)
  float gpu = 0;      // all links of the fastest GPU together (NCCL's totalBw)
};
// `network`: the network takes part, and the paths to the NETs count.
SearchBandwidth searchBandwidth(const Paths& paths, bool network);

}  // namespace railwise::topo
