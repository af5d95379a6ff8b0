// Draws what goes wrong in a run with faults; a part of tests/campaign/schedule.h.
#pragma once

#include "tests/campaign/draw.h"
#include "tests/campaign/schedule.h"

namespace railwise::cli {

// Draws one to five faults that begin within `spread_ms` milliseconds. A fault is one step or several steps.
// The steps are sorted by time.
std::vector<FaultStep> drawFaultSteps(Draw draw, const FaultMachine& machine,
                                      const std::vector<std::pair<int, int>>& talking, int spread_ms);

// In some runs processes stand still for a while. Adds the steps.
void addPauses(Draw draw, const FaultMachine& machine, int spread_ms, std::vector<FaultStep>& steps);

// In some runs the driver of a device refuses to stop queue pairs, or to destroy them, while work is late on
// the wire. Adds the steps.
void addRefusedEnds(Draw draw, const FaultMachine& machine, int spread_ms, std::vector<FaultStep>& steps);

// Describes a step in a sentence.
std::string stepSentence(const std::vector<FaultStep>& steps, std::size_t index);

}  // namespace railwise::cli
