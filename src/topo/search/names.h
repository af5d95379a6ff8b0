// Names of graphs and patterns, for files, messages and people. Thread-safe.
#pragma once

#include "topo/search/channel_graph.h"

namespace railwise::topo {

const char* algorithmName(Algorithm algorithm);   // "ring", "tree", "collnet_chain", "collnet_direct", "nvls"
const char* algorithmTitle(Algorithm algorithm);  // "Ring", "Tree", "CollNet chain", "CollNet direct", "NVLS"
const char* patternName(Pattern pattern);         // "ring", "balanced tree", "split tree", "tree", ...
// What a channel of that pattern is, for people who do not know NCCL's names. `inter`: the network takes
// part.
const char* patternMeaning(Pattern pattern, bool inter);

}  // namespace railwise::topo
