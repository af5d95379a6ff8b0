// What a search tried until it had its channels: for people who ask why. Plain values.
#pragma once

#include <vector>

#include "topo/graph/graph.h"
#include "topo/search/channel_graph.h"

namespace railwise::topo {

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
  bool perfect = false;       // as many channels as allowed
  bool out_of_steps = false;  // it ended because its steps were spent
  int found = 0;              // channels of the best result so far
  float best_intra = 0;       // GB/s of a channel of the best result so far
  float best_inter = 0;
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
  long visited = 0;           // stages that were really searched: NCCL searches one with each step
  int undoubled = 0;          // channels before they were split in two; 0: they were not
  bool simple_order = false;  // nothing was found: one channel in the order of the list
  Pattern failed_pattern = Pattern::kRing;  // simple order: which pattern was not found
  BlockedWalk blocked;
};

struct SearchTrace {
  std::vector<GraphTrace> graphs;  // in the order of the searches
};

}  // namespace railwise::topo
