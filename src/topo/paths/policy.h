// NCCL's decisions that follow from the paths, as pure functions. Every answer carries its reason. Indices
// count within the node type (GPU index, NET index). Source: paths.cc, topo.cc and search.cc of NCCL 2.30.7.
// Thread-safe.
#pragma once

#include <string>
#include <vector>

#include "topo/paths/decisions.h"
#include "topo/paths/paths.h"

namespace railwise::topo {

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
