// What NCCL's search finds on a machine: the channels of each algorithm (ncclTopoGraph), their order of GPUs,
// their NICs and their bandwidth. Plain values.
#pragma once

#include <array>
#include <cstddef>
#include <vector>

#include "topo/graph/graph.h"
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
// In the order in which NCCL searches them, and in which they are listed.
inline constexpr Algorithm kListedAlgorithms[] = {Algorithm::kRing, Algorithm::kTree,
                                                  Algorithm::kCollNetChain, Algorithm::kCollNetDirect,
                                                  Algorithm::kNvls};
constexpr bool isCollNet(Algorithm algorithm) {
  return algorithm == Algorithm::kCollNetChain || algorithm == Algorithm::kCollNetDirect;
}

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

// What one attempt of the search looks for, and the channels that an attempt has found. Plain values.

// The limits of one attempt. Between attempts NCCL relaxes them one by one.
struct SearchLimits {
  Pattern pattern = Pattern::kRing;
  int cross_nic = 0;
  bool same_channels = false;  // all channels have one order of GPUs
  int min_channels = 1;
  int max_channels = 1;
  float bandwidth_intra = 0;
  float bandwidth_inter = 0;
  PathType type_intra = PathType::kLoc;
  PathType type_inter = PathType::kPix;

  bool operator==(const SearchLimits&) const = default;
};

// Channels under the limits with which they were found. GPUs and NETs are indices; of nodes with equal rank
// or id, the first one.
class ChannelSet {
 public:
  ChannelSet(int gpus, int most_channels)
      : gpus_(static_cast<std::size_t>(gpus)),
        order_(gpus_ * static_cast<std::size_t>(most_channels)),
        nets_(2 * static_cast<std::size_t>(most_channels), -1) {}

  SearchLimits limits;
  int count = 0;  // channels that are complete
  // The number of links that the channels use. It can drift: NCCL adds fractions to a whole number.
  int hops = 0;
  float latency = 0;  // microseconds of the NIC that was tried last

  float bandwidthIntra() const { return static_cast<float>(count) * limits.bandwidth_intra; }
  float bandwidthInter() const { return static_cast<float>(count) * limits.bandwidth_inter; }

  int& gpu(int channel, int step) { return order_[place(channel, step)]; }
  int gpu(int channel, int step) const { return order_[place(channel, step)]; }
  int& netIn(int channel) { return nets_[2 * static_cast<std::size_t>(channel)]; }
  int netIn(int channel) const { return nets_[2 * static_cast<std::size_t>(channel)]; }
  int& netOut(int channel) { return nets_[2 * static_cast<std::size_t>(channel) + 1]; }
  int netOut(int channel) const { return nets_[2 * static_cast<std::size_t>(channel) + 1]; }

 private:
  std::size_t place(int channel, int step) const {
    return static_cast<std::size_t>(channel) * gpus_ + static_cast<std::size_t>(step);
  }

  std::size_t gpus_;
  std::vector<int> order_;
  std::vector<int> nets_;
};

// Names of graphs and patterns, for files, messages and people. Thread-safe.

const char* algorithmName(Algorithm algorithm);   // "ring", "tree", "collnet_chain", "collnet_direct", "nvls"
const char* algorithmTitle(Algorithm algorithm);  // "Ring", "Tree", "CollNet chain", "CollNet direct", "NVLS"
const char* patternName(Pattern pattern);         // "ring", "balanced tree", "split tree", "tree", ...
// What a channel of that pattern is, for people who do not know NCCL's names. `inter`: the network takes
// part.
const char* patternMeaning(Pattern pattern, bool inter);

// What a search tried until it had its channels: for people who ask why. Plain values.

// Why an attempt was made: what is different from the attempt before.
enum class SearchMove {
  kBegin,
  kDifferentChannels,  // channels may have different orders of GPUs
  kSimplerTree,        // all network traffic of a tree at one GPU
  kWiderIntra,         // longer paths between GPUs
  kWiderInter,         // longer paths between GPUs and NICs
  kCrossNic,           // out by another NIC than in
  kLowerSpeed,         // less bandwidth for each channel
  kFasterRing,         // second pass: more bandwidth for each channel that was found
  kFasterNetwork,      // second pass: more bandwidth between hosts (NVLS)
  kFasterInside,       // second pass: more bandwidth inside the host (trees)
};

struct SearchAttempt {
  SearchMove move = SearchMove::kBegin;
  SearchLimits limits;
  bool better = false;        // it found channels that are better than all before
  bool out_of_steps = false;  // it ended because its steps were spent
  int found = 0;              // channels of the best result so far
};

// Why there was no search.
enum class SearchSkipped { kNo, kNoNvls, kFromFile };

// Why the first pass, which looks for channels, came to its end.
enum class SearchEnd {
  kPerfect,       // as many channels as allowed
  kAllLinks,      // the channels use all links of a GPU
  kOutOfSteps,    // the steps of all attempts together were spent
  kLowestSpeed,   // there is no lower speed
  kNotWorthwhile  // with half the speed or less the channels would not be better
};

// Why the GPUs in the order of the list, at the lowest speed, are no channel: the first walk that fails.
struct BlockedWalk {
  NodeType from_type = NodeType::kGpu;
  int from = -1;  // index within the type; -1: no walk fails
  NodeType to_type = NodeType::kGpu;
  int to = -1;
  PathType type = PathType::kDis;      // of the path
  PathType farthest = PathType::kSys;  // the farthest type that NCCL allowed
  float needed = 0;                    // GB/s of the channel on the link; 0: the path itself is too far
  float left = 0;                      // GB/s that the link has left for it
  NodeIndex link_from = kNoNode;       // the two ends of the link
  NodeIndex link_to = kNoNode;
};

struct GraphTrace {
  Algorithm algorithm = Algorithm::kRing;
  SearchSkipped skipped = SearchSkipped::kNo;
  std::vector<SearchAttempt> attempts;
  SearchEnd end = SearchEnd::kPerfect;
  long steps = 0;             // of all attempts, as NCCL counts them
  long visited = 0;           // steps of the attempts that were really made: NCCL makes all of them
  int undoubled = 0;          // channels before they were split in two; 0: they were not
  bool simple_order = false;  // nothing was found: one channel in the order of the list
  Pattern failed_pattern = Pattern::kRing;  // simple order: which pattern was not found
  BlockedWalk blocked;
};

struct SearchTrace {
  std::vector<GraphTrace> graphs;  // in the order of the searches
};

}  // namespace railwise::topo
