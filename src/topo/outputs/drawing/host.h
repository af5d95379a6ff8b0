// The drawing of one host: its PCIe trees, without NVLink. Internal to outputs/.
#pragma once

#include "topo/outputs/drawing/boxes.h"
#include "topo/outputs/drawing/machine_tree.h"

namespace railwise::topo {

// `levels`: of switches between a CPU and its leaves, in the whole machine, so that all hosts' leaves are
// level.
Drawing drawHost(const BoxMaker& maker, const HostTree& host, int levels);
int switchLevels(const std::vector<HostTree>& hosts, const Graph& graph);

// C2C, NVLink, and links between CPUs or switches, on top of the tree's boxes; makes the drawing higher.
void addCpuLinks(const BoxMaker& maker, Drawing& drawing);
void addNvlinks(const BoxMaker& maker, Drawing& drawing);

// The box of a node, or null.
const Box* boxOf(const Drawing& drawing, NodeIndex node);

}  // namespace railwise::topo
