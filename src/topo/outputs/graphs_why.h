// What a search of rings and trees tried, in sentences for people: the speeds, what was relaxed at each of
// them and why, what was found, and why the search ended. Internal to outputs/.
#pragma once

#include <string>
#include <vector>

#include "topo/search/search.h"

namespace railwise::topo {

// Sentences in the order of the search. `graph`: of the domain.
std::vector<std::string> whySentences(const GraphTrace& trace, const CommunicatorGraphs& graphs,
                                      const Graph& graph);

// What is different from the attempt before, in a few words.
const char* moveText(SearchMove move);

}  // namespace railwise::topo
