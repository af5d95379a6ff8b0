// NCCL's model of the time that a collective takes (ncclTopoTuneModel and ncclTopoGetAlgoTime in
// src/graph/tuning.cc, from 2.31 on src/tuning/*.cc): the bandwidth and the latency of each algorithm with
// each protocol, from the graphs of the search, and the choice that NCCL makes for a size. Without NCCL_ALGO,
// NCCL_PROTO and a tuner. Plain values; thread-safe.
#pragma once

#include <array>
#include <cstddef>
#include <optional>

#include "topo/graph/graph.h"
#include "topo/search/channel_graph.h"
#include "topo/settings.h"

namespace railwise::topo::tuning {

// NCCL's numbers. The two algorithms of CollNet (2 and 3) are not modelled: Railwise offers no CollNet.
enum class Collective : int {
  kBroadcast = 0,
  kReduce = 1,
  kAllGather = 2,
  kReduceScatter = 3,
  kAllReduce = 4
};
enum class Algorithm : int { kTree = 0, kRing = 1, kNvls = 4, kNvlsTree = 5, kPat = 6 };
enum class Protocol : int { kLl = 0, kLl128 = 1, kSimple = 2 };
inline constexpr std::size_t kCollectives = 5;
inline constexpr std::size_t kAlgorithms = 7;
inline constexpr std::size_t kProtocols = 3;
inline constexpr std::array kModelled = {Algorithm::kTree, Algorithm::kRing, Algorithm::kNvls,
                                         Algorithm::kNvlsTree, Algorithm::kPat};

const char* nameOf(Collective collective);  // "all_reduce"
const char* nameOf(Algorithm algorithm);    // as NCCL prints it: "Tree"
const char* nameOf(Protocol protocol);      // "LL128"

// The graph of the search whose channels an algorithm uses.
const ChannelGraph& graphOf(const CommunicatorGraphs& graphs, Algorithm algorithm);

// The release whose model answers for `version`: its own, from 2.29.7 on. Older models are not known.
NcclVersion modelRelease(NcclVersion version);

// A communicator over equal nodes.
struct Communicator {
  NcclVersion nccl = NcclVersion::kNewest;
  int nodes = 1;
  int ranks_per_node = 1;
  int min_capability = 0;  // compute capability of the GPUs, 90 means 9.0
  int max_capability = 0;
  CpuArch cpu_arch = CpuArch::kUndefined;
  CpuVendor cpu_vendor = CpuVendor::kUndefined;
  float min_net_bandwidth = 0;  // GB/s of the slowest path from a GPU to a NIC of its own; 0: no NIC
  bool nvls = true;             // the driver supports multicast, and NCCL_NVLS_ENABLE is not 0

  int ranks() const { return nodes * ranks_per_node; }
};

// What bounds a bandwidth.
enum class Bound {
  kChannels,  // what the search's channels deliver
  kProtocol,  // the LL protocol: a constant of NCCL's for the GPU or the CPU
  kChannel,   // the algorithm: a constant of NCCL's for one channel
};

struct Cost {
  float latency_us = 0;
  float bandwidth = 0;  // GB/s of the data of the collective. 0: NCCL does not take this combination
  Bound bound = Bound::kChannels;
};

struct Choice {
  Algorithm algorithm = Algorithm::kRing;
  Protocol protocol = Protocol::kSimple;
  float time_us = 0;
};

class CostModel {
 public:
  // `graphs`: of one node if the communicator has one, else of two.
  CostModel(const Communicator& communicator, const CommunicatorGraphs& graphs);

  const Cost& cost(Collective collective, Algorithm algorithm, Protocol protocol) const;

  // For a single collective. `bytes`: the larger one of both buffers of a rank. Nothing: NCCL does not take
  // it.
  std::optional<float> timeUs(Collective collective, Algorithm algorithm, Protocol protocol,
                              std::size_t bytes) const;

  // What NCCL takes: of the smallest time the first one, from 2.31 on the last one. Nothing for a
  // communicator of one rank.
  std::optional<Choice> choose(Collective collective, std::size_t bytes) const;

  // The combination of the highest bandwidth, which large messages approach. Its time is 0.
  std::optional<Choice> fastest(Collective collective) const;

  // Channels of the kernels (ncclTopoPostset), which are a multiple of those that the search has found.
  int channels() const { return channels_; }

 private:
  Cost& at(Collective collective, Algorithm algorithm, Protocol protocol);
  bool offers(Collective collective, Algorithm algorithm) const;

  Communicator its_;
  int channels_ = 0;
  bool nvlink_plateau_ = false;  // gathers inside one node have the plateau of a ring
  std::array<std::array<std::array<Cost, kProtocols>, kAlgorithms>, kCollectives> costs_ = {};
};

// GB/s of the bus for GB/s of data, as nccl-tests counts.
double busFactor(Collective collective, int ranks);

}  // namespace railwise::topo::tuning
