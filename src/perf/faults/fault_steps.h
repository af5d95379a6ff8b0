// What goes wrong in a run with faults, drawn: part of perf/faults/schedule.h.
#pragma once

#include "perf/faults/draw.h"
#include "perf/faults/schedule.h"

namespace railwise::tools {

// One to five faults that begin within `spread_ms`; a fault is one step, or several. In the order of time.
std::vector<FaultStep> drawFaultSteps(Draw draw, const FaultMachine& machine,
                                      const std::vector<std::pair<int, int>>& talking, int spread_ms);

// A step as a sentence.
std::string stepSentence(const std::vector<FaultStep>& steps, std::size_t index);

}  // namespace railwise::tools
