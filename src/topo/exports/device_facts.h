// What the /sys of a machine says besides the model. A topology file says none of it. Plain values;
// thread-safe if the tree is.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "sysfs/file_tree.h"
#include "topo/exports/host_view.h"
#include "topo/graph/graph.h"

namespace railwise::topo {

struct DeviceFacts {
  std::map<std::string, std::string> pcie_roots;    // by PCI address: "pci0000:c9"
  std::map<std::string, std::string> uverbs;        // by RDMA device: "uverbs3"
  std::map<std::string, std::string> render_nodes;  // by PCI address of a GPU: "renderD128"
  // The masks of all NUMA nodes, in the form of the model. It has only those with GPUs or NICs.
  std::map<int, std::string> numa_masks;
  // The first CPU of the core of each CPU. Empty: not known.
  std::map<int, int> first_sibling;
  // Does a VM hide the PCIe tree? Nothing: not known.
  std::optional<bool> tree_hidden;
};

DeviceFacts readDeviceFacts(const sysfs::FileTree& tree);

// The device nodes of GPUs and NICs. Pure; thread-safe.

// "/dev/nvidia3", or "/dev/dri/renderD131" for AMD. `dev`: NVML's or RCCL's index, from which the number is
// assumed; `render_node`: what /sys says, "" if it says nothing.
std::string gpuDeviceFile(bool amd, int dev, const std::string& render_node);

struct NicFile {
  std::string device;  // "mlx5_0"
  std::string path;    // "/dev/infiniband/uverbs0"
  int nic = -1;        // index in HostView::nics
};
// The RDMA devices of the host, each once. *assumed: /sys does not tell some of the numbers; they are those
// at the end of the devices' names, or count up.
std::vector<NicFile> nicFiles(const HostView& host, const DeviceFacts& facts, bool* assumed);

// The CPUs and cores of one host, by NUMA node, from the masks of the model. Plain values; thread-safe.

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
