#include "topo/search/channel_graph.h"

#include "base/text/words.h"

namespace railwise::topo {
namespace {

constexpr Named<Algorithm> kAlgorithmNames[] = {
    {Algorithm::kRing, "Ring", "ring"},
    {Algorithm::kTree, "Tree", "tree"},
    {Algorithm::kCollNetChain, "CollNet chain", "collnet_chain"},
    {Algorithm::kCollNetDirect, "CollNet direct", "collnet_direct"},
    {Algorithm::kNvls, "NVLS", "nvls"},
};

}  // namespace

const char* algorithmName(Algorithm algorithm) { return rowOf(kAlgorithmNames, algorithm, "").key; }
const char* algorithmTitle(Algorithm algorithm) { return rowOf(kAlgorithmNames, algorithm, "").words; }

const char* patternName(Pattern pattern) {
  switch (pattern) {
    case Pattern::kBalancedTree:
      return "balanced tree";
    case Pattern::kSplitTree:
      return "split tree";
    case Pattern::kTree:
      return "simple tree";
    case Pattern::kRing:
      return "ring";
    case Pattern::kNvls:
      return "NVLS";
    case Pattern::kCollNetDirect:
      return "CollNet direct";
  }
  return "";
}

const char* patternMeaning(Pattern pattern, bool inter) {
  switch (pattern) {
    case Pattern::kBalancedTree:
      return inter ? "a chain of all GPUs, with the network traffic at its first two" : "a chain of all GPUs";
    case Pattern::kSplitTree:
      return inter ? "a chain of all GPUs; the first one receives from the network, the second one sends"
                   : "a chain of all GPUs";
    case Pattern::kTree:
      return inter ? "a chain of all GPUs, with the network traffic at its first one" : "a chain of all GPUs";
    case Pattern::kRing:
      return inter ? "from a NIC through all GPUs and back to a NIC"
                   : "through all GPUs and back to the first one";
    case Pattern::kNvls:
      return "all GPUs reduce in the NVSwitches, twice as much for the head";
    case Pattern::kCollNetDirect:
      return "a head, which exchanges a part with every GPU";
  }
  return "";
}

}  // namespace railwise::topo
