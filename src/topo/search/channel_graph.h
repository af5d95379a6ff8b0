// What NCCL's search finds on a machine: the channels of each algorithm (ncclTopoGraph), their order of GPUs,
// their NICs and their bandwidth. Plain values.
#pragma once

#include <array>
#include <cstddef>
#include <vector>

#include "topo/settings.h"

namespace railwise::topo {

// The graphs that NCCL searches, in the order of its ids: a ring is graph 0, a tree is graph 1.
enum class Algorithm : unsigned char {
  kRing = 0,
  kTree = 1,
  kCollNetChain = 2,
  kNvls = 3,
  kCollNetDirect = 4
};
inline constexpr std::size_t kAlgorithms = 5;

// The shape of a graph, with NCCL's numbers (NCCL_TOPO_PATTERN_...). A search that begins with one pattern
// can end with another: the result keeps the pattern that was found.
enum class Pattern : unsigned char {
  kBalancedTree = 1,  // the NIC traffic of a tree is spread over two GPUs
  kSplitTree = 2,     // one GPU receives from the network, another one sends
  kTree = 3,          // one GPU sends and receives
  kRing = 4,
  kNvls = 5,
  kCollNetDirect = 6,
};

// Where the channels of a graph come from.
enum class ChannelOrigin : unsigned char {
  kSearch,
  kSimpleOrder,  // the search found nothing: NCCL takes one channel in the order of the list
  kFile,         // NCCL_GRAPH_FILE
};

struct Channel {
  // Indices of NETs in the graph of the domain. -1: the search had no network.
  int net_in = -1;
  int net_out = -1;
  std::vector<int> ranks;  // in order; only the head for NVLS and CollNet direct
};

struct ChannelGraph {
  Algorithm algorithm = Algorithm::kRing;
  Pattern pattern = Pattern::kRing;
  int cross_nic = 0;                     // 0: in and out by one NIC; 1: any NICs; 2: alternating pairs
  float bandwidth_intra = 0;             // GB/s of a channel inside the host
  float bandwidth_inter = 0;             // GB/s of a channel between hosts
  float latency_inter = 0;               // microseconds, of the slowest NIC
  PathType type_intra = PathType::kLoc;  // the farthest path between GPUs
  PathType type_inter = PathType::kLoc;  // the farthest path between a GPU and a NIC
  bool same_channels = false;            // all channels have one order of ranks
  int hops = 0;
  ChannelOrigin origin = ChannelOrigin::kSearch;
  std::vector<Channel> channels;  // empty: the search found nothing
};

// All graphs of one communicator: the ranks of a domain alone, or with an equal second host.
struct CommunicatorGraphs {
  int nodes = 1;                                 // hosts of the communicator
  bool inter = false;                            // the network takes part
  float max_bandwidth = 0;                       // GB/s: NCCL's maxBw at the start of the search
  float total_bandwidth = 0;                     // GB/s: NCCL's totalBw
  std::array<ChannelGraph, kAlgorithms> graphs;  // by Algorithm

  const ChannelGraph& of(Algorithm algorithm) const { return graphs[static_cast<std::size_t>(algorithm)]; }
};

}  // namespace railwise::topo
