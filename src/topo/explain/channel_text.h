// How explain writes for people by which NICs rings and trees enter and leave a host. Internal to explain.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "topo/explain/explain.h"

namespace railwise::topo {

// One table for each domain, with what must be known to read it; after a blank line. `channel` -1: all.
std::string channelTables(const Machine& machine, const MachineExplanation& all, int channel);

// Paragraphs about the rings and trees at one GPU: a label, which may be empty, and the text.
std::vector<std::pair<std::string, std::string>> channelParagraphs(const Machine& machine,
                                                                   const MachineExplanation& all,
                                                                   const GpuExplanation& gpu, int channel);

}  // namespace railwise::topo
