#include "topo/search/names.h"

namespace railwise::topo {

const char* algorithmName(Algorithm algorithm) {
  switch (algorithm) {
    case Algorithm::kRing:
      return "ring";
    case Algorithm::kTree:
      return "tree";
    case Algorithm::kCollNetChain:
      return "collnet_chain";
    case Algorithm::kCollNetDirect:
      return "collnet_direct";
    case Algorithm::kNvls:
      return "nvls";
  }
  return "";
}

const char* algorithmTitle(Algorithm algorithm) {
  switch (algorithm) {
    case Algorithm::kRing:
      return "Ring";
    case Algorithm::kTree:
      return "Tree";
    case Algorithm::kCollNetChain:
      return "CollNet chain";
    case Algorithm::kCollNetDirect:
      return "CollNet direct";
    case Algorithm::kNvls:
      return "NVLS";
  }
  return "";
}

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
