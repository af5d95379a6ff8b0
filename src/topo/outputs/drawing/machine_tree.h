// A machine in the form in which people draw it: NUMA nodes with their PCIe trees. Internal to outputs/.
#pragma once

#include <vector>

#include "topo/graph/graph.h"

namespace railwise::topo {

struct Branch {
  NodeIndex node = kNoNode;  // kPci, kNic, kDev, or kGpu if the model has no kDev
  float bandwidth = 0;       // GB/s of the PCIe link to the parent
  std::vector<Branch> children;
};

struct CpuTree {
  NodeIndex cpu = kNoNode;
  std::vector<Branch> children;
};

struct HostTree {
  int host = 0;
  std::vector<CpuTree> cpus;
  std::vector<NodeIndex> loose;  // GPUs and NICs that are connected to no CPU
};

// Sorted by rank: a switch has the position of its first GPU.
std::vector<HostTree> hostTrees(const Graph& graph);

// The GPUs (ranks) on a device, and the NETs of a NIC, in order.
std::vector<NodeIndex> gpusOn(const Graph& graph, NodeIndex device);
std::vector<NodeIndex> netsOn(const Graph& graph, NodeIndex nic);

}  // namespace railwise::topo
