// What the /sys of a machine says besides the model. A topology file says none of it. Plain values;
// thread-safe if the tree is.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "sysfs/file_tree.h"

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

}  // namespace railwise::topo
