// The GPUs and NICs of a VM for generate.h: which devices count, where they are, how fast their links are.
// Plain values; thread-safe.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "topo/outcome.h"
#include "topo/sources/file_tree.h"
#include "topo/sources/generate/options.h"
#include "topo/sources/pci_devices.h"

namespace railwise::topo {

struct PciLink {
  std::string speed;  // as the kernel writes it: "32.0 GT/s PCIe"; "": not told
  int width = 0;      // 0: not told
  bool known() const { return width != 0; }
};

struct FlatDevice {
  PciDevice pci;
  PciLink link;
  int node = -1;  // NUMA node; -1: not told
  bool is_gpu = false;
};

struct FlatMachine {
  std::vector<FlatDevice> gpus;  // in the order of the PCI addresses
  std::vector<FlatDevice> nics;
  bool amd = false;  // the GPUs' maker: RCCL's file format
};

// What shares a synthetic switch.
struct Bridge {
  std::vector<const FlatDevice*> gpus;
  std::vector<const FlatDevice*> nics;
};

Outcome<FlatMachine> readFlatMachine(const FileTree& tree, const GenerateOptions& options,
                                     std::vector<std::string>& remarks);

// The transfers per second of a link, in GT/s; 0: not told.
float linkSpeed(const PciLink& link);
// That with the most speed times lanes; null: none tells.
const PciLink* fastestLink(const std::vector<const FlatDevice*>& devices);
const PciLink* fastestLink(const std::vector<FlatDevice>& devices);

}  // namespace railwise::topo
