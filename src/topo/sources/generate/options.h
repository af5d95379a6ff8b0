// What generate.h may be told: how devices are paired, and which of them count. Plain values.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "topo/sources/cpu_identity.h"

namespace railwise::topo {

enum class Pairing {
  // On each NUMA node the GPUs in the order of their PCI addresses share out the NICs in theirs.
  kOrder,
  // What lies on one PCI bus (domain and bus) shares a bridge; a NIC alone on its bus goes to the GPU of its
  // domain whose bus is nearest.
  kBus,
  // A table says it: one bridge per line, PCI addresses of its GPUs and NICs, and node=N where /sys does not
  // tell the NUMA node; "#" begins a comment.
  kTable,
};

struct GenerateOptions {
  Pairing pairing = Pairing::kOrder;
  std::string table;       // the text of the table
  std::string table_name;  // for messages
  // GPUs on one bridge when pairing by order; 0: by the generation of the GPUs' link, see gpusPerBridge().
  int gpus_per_bridge = 0;
  // In these hexadecimal numbers stand with or without 0x, in either case; what matches nothing is an error.
  std::string nic_class;             // a prefix, "0x0207"; "": InfiniBand where there is any, else Ethernet
  std::string nic_device;            // "0x101e" or "0x15b3:0x101e"; "": any
  std::vector<std::string> exclude;  // PCI addresses, "0x101a" or "0x15b3:0x101a": neither GPU nor NIC
  std::optional<CpuIdentity> cpu;    // else the recorded tree's, else this machine's
  bool force = false;                // also where a PCIe tree is there, or no NIC
  bool only_when_certain = false;    // for the plugin: refuse where bare metal cannot be told from a VM
};

}  // namespace railwise::topo
