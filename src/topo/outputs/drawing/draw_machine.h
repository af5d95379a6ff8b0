// Draws a whole machine, with its hosts side by side. Internal to outputs/.
#pragma once

#include "topo/explain/explain.h"
#include "topo/outputs/drawing/drawing.h"

namespace railwise::topo {

Drawing drawMachine(const Machine& machine, const MachineExplanation& all);

}  // namespace railwise::topo
