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

struct PatternTexts {
  const char* name;
  const char* alone;  // what a channel is without the network
  const char* between_hosts;
};
constexpr const char* kChain = "a chain of all GPUs";
constexpr const char* kNvls = "all GPUs reduce in the NVSwitches, twice as much for the head";
constexpr const char* kHead = "a head, which exchanges a part with every GPU";
constexpr PatternTexts kPatterns[] = {  // by NCCL's numbers, which begin with 1
    {"balanced tree", kChain, "a chain of all GPUs, with the network traffic at its first two"},
    {"split tree", kChain,
     "a chain of all GPUs; the first one receives from the network, the second one sends"},
    {"simple tree", kChain, "a chain of all GPUs, with the network traffic at its first one"},
    {"ring", "through all GPUs and back to the first one", "from a NIC through all GPUs and back to a NIC"},
    {"NVLS", kNvls, kNvls},
    {"CollNet direct", kHead, kHead}};
const PatternTexts& textsOf(Pattern pattern) { return kPatterns[static_cast<std::size_t>(pattern) - 1]; }

}  // namespace

const char* algorithmName(Algorithm algorithm) { return rowOf(kAlgorithmNames, algorithm, "").key; }
const char* algorithmTitle(Algorithm algorithm) { return rowOf(kAlgorithmNames, algorithm, "").words; }

const char* patternName(Pattern pattern) { return textsOf(pattern).name; }

const char* patternMeaning(Pattern pattern, bool inter) {
  return inter ? textsOf(pattern).between_hosts : textsOf(pattern).alone;
}

}  // namespace railwise::topo
