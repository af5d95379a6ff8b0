// The PCI devices of a /sys tree, read as NCCL reads them (os/linux.cc: ncclOsGetPciPath,
// ncclOsTopoGetStrFromSys). Plain values; thread-safe.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "topo/sources/file_tree.h"

namespace railwise::topo {

// A file of a device as NCCL takes it: the first 255 bytes without the last one, which it assumes to be a
// newline. "" when it cannot be read.
std::string sysAttribute(const FileTree& tree, std::string_view folder, std::string_view file);

// The folder of a device: /sys/class/pci_bus/<bus>/../../<busid> without links; nothing: not there.
std::optional<std::string> pciPath(const FileTree& tree, std::string_view busid);

// True when the folder's "subsystem" link says that it is a PCI device.
bool isPciDevice(const FileTree& tree, std::string_view folder);

// The mask of a NUMA node ("cpumap") as NCCL takes it: at most 254 bytes, no newline at the end; "" when
// there is none.
std::string nodeMask(const FileTree& tree, std::string_view node);
// The NUMA nodes of the tree, ascending.
std::vector<int> numaNodes(const FileTree& tree);

struct PciDevice {
  std::string busid;
  std::string path;          // real path of its folder
  std::string device_class;  // "0x030200"
  std::string vendor;        // "0x10de"
  std::string device;
  int numa = -1;

  // A GPU that NCCL or RCCL can use: display class by NVIDIA; display or accelerator class (0x1200) by AMD.
  // The VGA adapters of a server's management controller or of a hypervisor are by neither.
  bool isNvidiaGpu() const;
  bool isAmdGpu() const;
  bool isGpu() const { return isNvidiaGpu() || isAmdGpu(); }
};

// All devices in the order of their addresses, which is the order of NVML's indices
// too.
std::vector<PciDevice> pciDevices(const FileTree& tree);
// The GPUs among them.
std::vector<PciDevice> gpuDevices(const FileTree& tree);

// The devices above one, towards the root: what NCCL walks up. Root ports and downstream ports are in it.
std::vector<std::string> busIdsAbove(std::string_view path);

}  // namespace railwise::topo
