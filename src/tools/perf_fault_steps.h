// What goes wrong in a run with faults, drawn: part of perf_schedule.h.
#pragma once

#include "tools/perf_draw.h"
#include "tools/perf_schedule.h"

namespace railwise::tools {

// One to five faults, in the order in which they begin; a fault is one step, or several.
std::vector<FaultStep> drawFaultSteps(Draw draw, const FaultMachine& machine,
                                      const std::vector<std::pair<int, int>>& talking);

// A step as a sentence.
std::string stepSentence(const std::vector<FaultStep>& steps, std::size_t index);

}  // namespace railwise::tools
