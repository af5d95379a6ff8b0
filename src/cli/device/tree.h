// The /sys of a software machine's host as the kernel would show it: PCI tree, RDMA devices, network
// interfaces and NUMA nodes. `railwise topo --root`, NCCL and other programs read it. Values that only a
// running fabric knows (LIDs, port states after faults) have the values of the configuration. Plain values;
// thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/outcome.h"
#include "gpu/topology.h"
#include "softdev/config/config.h"
#include "sysfs/file_tree.h"

namespace railwise::cli {

sysfs::MemoryTree deviceTree(const softdev::HostConfig& host);

// True if `host` has a place in a PCI tree other than this computer's, so that programs need the host's own
// /sys.
bool hasTree(const softdev::HostConfig& host);

// Writes the tree into `folder`. The folder is made if it does not exist; otherwise it must be empty.
Outcome<void> writeTree(const sysfs::MemoryTree& tree, const std::string& folder);

// The contents of the files of a software machine's /sys: the name and the text of each file, without the
// newline at the end.

using Files = std::vector<std::pair<std::string, std::string>>;

struct PciFunction {
  uint32_t class_code = 0;
  uint32_t vendor = 0;
  uint32_t device = 0;
  uint32_t gen = 0;  // PCIe generation of the link above the function
  uint32_t lanes = 0;
  int32_t numa = -1;
  const char* driver = "";
};

// What a vendor's library would say of a GPU, and of one of its links; the link's `to` stays -1.
gpu::Device gpuAnswer(const softdev::GpuConfig& gpu, int index);
gpu::Link linkAnswer(const softdev::NvlinkConfig& link, const softdev::GpuConfig& gpu, int index);

PciFunction gpuFunction(const softdev::PciConfig& gpu);
PciFunction nvswitchFunction(const softdev::PciConfig& nvswitch);
PciFunction nicFunction(const softdev::DeviceConfig& device);
// Makes the bridge's link as fast as the fastest link below it. `told` is what the configuration says about
// the bridge and has precedence; null: it says nothing.
void describeBridge(PciFunction& bridge, bool is_root_port, const softdev::PciConfig* told);

Files functionFiles(const PciFunction& function, const std::string& busid);
Files deviceFiles(const softdev::DeviceConfig& device);
Files portFiles(const softdev::PortConfig& port);
Files interfaceFiles(const softdev::PortConfig& port, uint32_t number);

// The processors of a NUMA node: as a list ("56-111"), and as a mask of 32-bit words with the highest word
// first.
std::string cpuList(uint32_t node, uint32_t cores);
std::string cpuMask(uint32_t node, const softdev::HostConfig& host);

}  // namespace railwise::cli
