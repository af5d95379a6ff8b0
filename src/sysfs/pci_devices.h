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
bool anyOfNvidia(const std::vector<PciDevice>& gpus);
// Do jobs use RCCL here: is AMD's driver of GPUs loaded, and NVIDIA's not?
bool runsRccl(const FileTree& tree);
// Is the kernel's module loaded, by /sys/module or /proc/modules?
bool moduleLoaded(const FileTree& tree, const std::string& name);

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

// The PCIe link of a function: what it runs at, and what it could. Plain values; thread-safe.

struct PciLink {
  double gigatransfers = 0;  // of a lane, per second; 0: not known
  int lanes = 0;             // 0: not known
  std::string speed;         // as the kernel writes it: "32.0 GT/s PCIe"

  bool known() const { return gigatransfers > 0 && lanes > 0; }
  // What it carries in one direction, Mb/s, after the line code and before the headers of PCIe. 0: not known.
  uint32_t mbps() const;
  // "32 GT/s x16".
  std::string text() const;
};

// `path`: the folder of the function. Of virtual functions, and in many VMs, the kernel knows nothing or
// nonsense ("Unknown", 0, 63 or 255 lanes); that is a link that is not known.
PciLink currentLink(const FileTree& tree, const std::string& path);
PciLink bestLink(const FileTree& tree, const std::string& path);
// The best link that the function and the port above it can have together: a card in an older or narrower
// slot is as fast as the slot allows.
PciLink bestLinkInSlot(const FileTree& tree, const std::string& path);
// The narrowest of the links between the function and the root of its tree, as they run now. Links that are
// not known do not count.
PciLink narrowestLink(const FileTree& tree, const std::string& path);

}  // namespace railwise::sysfs
