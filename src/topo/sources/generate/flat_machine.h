// The GPUs and NICs of a VM, for generate.h: which devices are used, where they are, and how fast their links
// are. Plain values; thread-safe.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/outcome.h"
#include "sysfs/file_tree.h"
#include "sysfs/pci_devices.h"
#include "topo/sources/generate/options.h"

namespace railwise::topo {

struct PciLink {
  std::string speed;  // as the kernel writes it: "32.0 GT/s PCIe"; "": not known
  int width = 0;      // number of lanes; 0: not known
  bool known() const { return width != 0; }
};

struct FlatDevice {
  sysfs::PciDevice pci;
  PciLink link;
  int node = -1;  // NUMA node; -1: not known
  bool is_gpu = false;
};

struct FlatMachine {
  std::vector<FlatDevice> gpus;  // in the order of their PCI addresses
  std::vector<FlatDevice> nics;
  bool amd = false;  // the GPUs are AMD's: the file gets RCCL's format
};

// The devices that share a synthetic switch.
struct Bridge {
  std::vector<const FlatDevice*> gpus;
  std::vector<const FlatDevice*> nics;
};

Outcome<FlatMachine> readFlatMachine(const sysfs::FileTree& tree, const GenerateOptions& options,
                                     std::vector<std::string>& remarks);

// The transfers per second of a link, in GT/s; 0: not known.
float linkSpeed(const PciLink& link);
// The link with the largest product of speed and lanes; null: no device reports its link.
const PciLink* fastestLink(const std::vector<const FlatDevice*>& devices);
const PciLink* fastestLink(const std::vector<FlatDevice>& devices);

// Is the PCIe tree above these GPUs and NICs (real paths of their folders) certainly hidden? A single port
// above a device is a root port of a hypervisor, or of a CPU; the answer is then yes only on a running VM.
bool treeIsHidden(const sysfs::FileTree& tree, std::span<const sysfs::PciDevice> gpus,
                  std::span<const std::string> nics);

}  // namespace railwise::topo
