// Draws a whole machine, with its hosts side by side. Internal to outputs/.
#pragma once

#include "topo/explain/explain.h"
#include "topo/outputs/drawing/boxes.h"
#include "topo/outputs/drawing/drawing.h"

namespace railwise::topo {

Drawing drawMachine(const Machine& machine, const MachineExplanation& all);

// Draws one host: its PCIe trees, without NVLink. Internal to outputs/.

// `levels`: the number of levels of switches between a CPU and its leaves, counted over the whole machine, so
// that the leaves of all hosts are at the same height.
Drawing drawHost(const BoxMaker& maker, const HostTree& host, int levels);
int switchLevels(const std::vector<HostTree>& hosts, const Graph& graph);

// Add C2C, NVLink, and the links between CPUs or switches to the drawing of the tree. The drawing becomes
// higher.
void addCpuLinks(const BoxMaker& maker, Drawing& drawing);
void addNvlinks(const BoxMaker& maker, Drawing& drawing);

// The box of a node, or null.
const Box* boxOf(const Drawing& drawing, NodeIndex node);

}  // namespace railwise::topo
