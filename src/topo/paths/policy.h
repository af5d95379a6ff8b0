// NCCL's decisions on top of the paths, as pure functions; every answer carries its reason. Indices are those
// within the node type (GPU index, NET index). Source: paths.cc, topo.cc and search.cc of NCCL 2.30.7.
// Thread-safe.
#pragma once

#include <string>
#include <vector>

#include "topo/paths/decisions.h"
#include "topo/paths/paths.h"

namespace railwise::topo {

struct P2pAnswer {
  bool allowed = false;
  bool read = false;           // the receiver reads (sm 80 over NVLink only)
  int intermediate_rank = -1;  // NVLink through that rank's GPU
  PathType level = PathType::kPxb;
  std::string reason;  // "NVL <= PXB", "PHB > PXB: ... NCCL_P2P_LEVEL=PHB allows it"
};
// An error where NCCL fails its init (a path through a GPU that no rank uses).
Outcome<P2pAnswer> checkP2p(const Paths& paths, int from_gpu, int to_gpu);

struct GdrAnswer {
  GdrMode mode = GdrMode::kOff;
  int proxy_gpu = -1;  // PXN: the GPU whose distance counts; else the GPU itself
  PathType distance = PathType::kDis;
  PathType level = PathType::kP2c;
  std::string rule;    // short name of the deciding rule: "distance", "net-gdr", "gpu-gdr", "mlopart", "read"
  std::string reason;  // a sentence; what to set when it is off
};
// read: the NIC reads GPU memory (send side); else it writes (receive side).
Outcome<GdrAnswer> checkGdr(const Paths& paths, int gpu, int net, bool read);

enum class Flush { kNone = 0, kAlways = 1, kC2c = 2 };
struct FlushAnswer {
  Flush flush = Flush::kAlways;
  std::string reason;
};
FlushAnswer needFlush(const Paths& paths, int gpu, int net);

// The NET of a GPU for a channel (ncclTopoGetLocalNet). An error when the GPU reaches none.
Outcome<int> localNet(const Paths& paths, int gpu, int channel);
// The NETs of channel 0, 1, ... until they repeat.
Outcome<std::vector<int>> localNets(const Paths& paths, int gpu);

// The rank that relays for `gpu` towards `net` (PXN), or the GPU's own rank.
Outcome<int> proxyRank(const Paths& paths, int gpu, int net);

struct NetTowardsPeer {
  int net = -1;         // NET index
  int proxy_rank = -1;  // the GPU's own rank: no PXN
};
// Send/receive without a search graph: the NIC of `gpu` towards a remote peer with NVML index `peer_dev`.
Outcome<NetTowardsPeer> netTowardsPeer(const Paths& paths, int gpu, int peer_dev, int channel);

}  // namespace railwise::topo
