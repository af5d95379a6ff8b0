// What the PCIe links above a NIC carry. Pure; thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "sysfs/file_tree.h"

namespace railwise::doctor::pair {

struct PcieLink {
  uint32_t mbps = 0;  // in one direction, after the line code and before the headers of PCIe; 0: not known
  std::string text;   // "32.0 GT/s x16"
};

// `speed`: "32.0 GT/s PCIe", as current_link_speed has it. mbps 0: not a link that is up.
PcieLink pcieLink(std::string_view speed, std::string_view width);

// The narrowest of the links between the function in the folder `path` and the root of its PCI tree. Links
// that /sys does not know (of virtual functions, and in a VM) do not count.
PcieLink narrowestPcieLink(const sysfs::FileTree& tree, const std::string& path);

// The address of the GPU that has the most of the way to the root in common with the function in the folder
// `path`, "0000:1b:00.0"; among equals the first. "": the tree has no GPU.
std::string nearestGpu(const sysfs::FileTree& tree, const std::string& path);

}  // namespace railwise::doctor::pair
