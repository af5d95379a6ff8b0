// The PCI devices of a /sys tree, read as NCCL reads them (os/linux.cc: ncclOsGetPciPath,
// ncclOsTopoGetStrFromSys). Plain values; thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sysfs/file_tree.h"

namespace railwise::sysfs {

// A file of a device in the form that NCCL uses: the first 255 bytes without the last byte, which NCCL
// assumes to be a newline. "" if the file cannot be read.
std::string attribute(const FileTree& tree, std::string_view folder, std::string_view file);

// The folder of a device: /sys/class/pci_bus/<bus>/../../<busid> without links. Nothing: there is no such
// device.
std::optional<std::string> pciPath(const FileTree& tree, std::string_view busid);

// Does the "subsystem" link of the folder say that it is a PCI device?
bool isPciDevice(const FileTree& tree, std::string_view folder);

// The mask of a NUMA node ("cpumap") in the form that NCCL uses: at most 254 bytes, without a newline at the
// end. "" if there is none.
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

  // A GPU that NCCL or RCCL can use: vendor NVIDIA with display class, or vendor AMD with display or
  // accelerator class (0x1200). The VGA adapters of management controllers and hypervisors have other
  // vendors.
  bool isNvidiaGpu() const;
  bool isAmdGpu() const;
  bool isGpu() const { return isNvidiaGpu() || isAmdGpu(); }
};

// All devices in the order of their addresses. NVML's indices have that order too.
std::vector<PciDevice> pciDevices(const FileTree& tree);
// The GPUs of `tree`.
std::vector<PciDevice> gpuDevices(const FileTree& tree);

// The address of the GPU that has the most of the way to the root in common with the function in the folder
// `path`, "0000:1b:00.0"; among equals the first. "": the tree has no GPU.
std::string nearestGpu(const FileTree& tree, const std::string& path);

// "0000:3b:00.1" at the end of `path` as a number; these numbers have the order in which NCCL sorts devices.
// -1 if there is no address.
int64_t pciOrder(std::string_view path);
// The last PCI function in a path. Folders may follow it, because a driver may have put its own devices below
// it (virtio, USB). "": none.
std::string functionIn(std::string path);

// The devices above the device, towards the root, in the order in which NCCL walks up. Includes root ports
// and downstream ports.
std::vector<std::string> busIdsAbove(std::string_view path);

}  // namespace railwise::sysfs
