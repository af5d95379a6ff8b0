// A machine with which nothing is wrong: a DGX H100 as its own kernel would show it, with everything that the
// doctor reads. Tests break one thing of it.
#pragma once

#include <string>

#include "sysfs/file_tree.h"

namespace railwise::doctor::test {

enum class Network { kInfiniband, kRoce };
sysfs::MemoryTree goodMachine(Network network = Network::kInfiniband);

// The folder of the PCI function of mlx5_<index>, and that of the bridge above it.
std::string nicFolder(const sysfs::FileTree& tree, int index = 0);
std::string bridgeFolder(const sysfs::FileTree& tree, int index = 0);
// /sys/class/infiniband/mlx5_<index>/ports/1 without links.
std::string portFolder(const sysfs::FileTree& tree, int index = 0);

// 4096 bytes of PCI configuration with a PCI Express capability, and Access Control Services.
std::string pciConfig(bool relaxed_ordering, unsigned acs_control);

// Adds a line to a file, which must be there.
void append(sysfs::MemoryTree& tree, const std::string& path, const std::string& line);
// Writes a file by a path that may lead through links.
void set(sysfs::MemoryTree& tree, const std::string& path, const std::string& text);
// The tree without a file or folder and all below it.
sysfs::MemoryTree without(const sysfs::MemoryTree& tree, const std::string& path);

}  // namespace railwise::doctor::test
