// NCCL's decisions that follow from the paths, as pure functions. Every answer carries its reason. Indices
// count within the node type (GPU index, NET index). Source: paths.cc, topo.cc and search.cc of NCCL 2.30.7.
// Thread-safe.
#pragma once

#include <string>
#include <vector>

#include "topo/paths/paths.h"

namespace railwise::topo {

// NCCL's decisions, without texts. The Rerouter of compute.cc needs them while it changes the paths, and
// the functions below turn them into sentences. Pure functions of the paths as they are at the time of the
// call. Thread-safe.

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

// The answers, with their reasons.

struct P2pAnswer {
  bool allowed = false;
  bool read = false;           // the receiver reads the data (only sm 80 over NVLink)
  int intermediate_rank = -1;  // rank of the GPU that the NVLink path goes through; -1: none
  PathType level = PathType::kPxb;
  std::string reason;  // for example "NVL <= PXB" or "PHB > PXB: ... NCCL_P2P_LEVEL=PHB allows it"
};
// An error if NCCL's init fails because a path goes through a GPU that no rank uses.
Outcome<P2pAnswer> checkP2p(const Paths& paths, int from_gpu, int to_gpu);

struct GdrAnswer {
  GdrMode mode = GdrMode::kOff;
  int proxy_gpu = -1;  // PXN: the GPU whose distance to the NET counts; otherwise the GPU itself
  PathType distance = PathType::kDis;
  PathType level = PathType::kP2c;
  std::string rule;  // short name of the deciding rule: "distance", "net-gdr", "gpu-gdr", "mlopart" or "read"
  std::string reason;  // a sentence; if GPUDirect is off, it also says what to set
};
// `read` true: the NIC reads GPU memory (send side). False: the NIC writes it (receive side).
Outcome<GdrAnswer> checkGdr(const Paths& paths, int gpu, int net, bool read);

enum class Flush { kNone = 0, kAlways = 1, kC2c = 2 };
struct FlushAnswer {
  Flush flush = Flush::kAlways;
  std::string reason;
};
FlushAnswer needFlush(const Paths& paths, int gpu, int net);

// The NET that a GPU uses for a channel (ncclTopoGetLocalNet). An error if the GPU reaches no NET.
Outcome<int> localNet(const Paths& paths, int gpu, int channel);
// The NETs of channel 0, 1, ... until they repeat.
Outcome<std::vector<int>> localNets(const Paths& paths, int gpu);

// The rank that sends to `net` on behalf of `gpu` (PXN). Without PXN, the GPU's own rank.
Outcome<int> proxyRank(const Paths& paths, int gpu, int net);

struct NetTowardsPeer {
  int net = -1;         // NET index
  int proxy_rank = -1;  // the GPU's own rank: PXN is not used
};
// The NIC with which `gpu` sends to or receives from a remote peer with NVML index `peer_dev`, when NCCL uses
// no search graph.
Outcome<NetTowardsPeer> netTowardsPeer(const Paths& paths, int gpu, int peer_dev, int channel);

}  // namespace railwise::topo
