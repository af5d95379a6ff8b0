// The CPUs and cores of one host, by NUMA node, from the masks of the model. Plain values; thread-safe.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "topo/exports/device_facts.h"
#include "topo/graph/graph.h"

namespace railwise::topo {

struct NumaCores {
  std::vector<std::vector<int>> cores;  // the CPUs of each core; cores ascend by their first CPU
  int first_core = 0;  // the logical number of the first core, as hwloc and Slurm count: node after node,
                       // by their first CPUs
};

struct HostCores {
  std::map<int, NumaCores> nodes;  // by NUMA node
  bool masks_known = false;        // false: no node has a mask, and each is given one CPU
  std::string note;                // what is assumed; "": nothing
};

// `facts` tell which CPUs are threads of one core, and of NUMA nodes that the model does not have. Without
// them the masks are read as Linux numbers the CPUs of x86: first one thread of all cores, then the other.
// With a single NUMA node that cannot be seen, and each CPU counts as a core.
HostCores hostCores(const Graph& graph, const DeviceFacts& facts);

// "0-47": the logical cores of a NUMA node. "": the node has none.
std::string coresText(const HostCores& host, int numa);

}  // namespace railwise::topo
