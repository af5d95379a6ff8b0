// The options of generate.h: how devices are paired, and which devices are used. Plain values.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "topo/sources/cpu_identity.h"

namespace railwise::topo {

enum class Pairing {
  // On each NUMA node, the NICs are divided among the GPUs; both are in the order of their PCI addresses.
  kOrder,
  // Devices on one PCI bus (domain and bus) share a bridge. A NIC that is alone on its bus is paired with the
  // GPU of its domain that has the nearest bus number.
  kBus,
  // A table lists the bridges, one per line: the PCI addresses of a bridge's GPUs and NICs, and node=N if
  // /sys does not report the NUMA node. "#" begins a comment.
  kTable,
};

struct GenerateOptions {
  Pairing pairing = Pairing::kOrder;
  std::string table;       // the text of the table
  std::string table_name;  // for messages
  // Number of GPUs on one bridge for Pairing::kOrder. 0: chosen by the generation of the GPUs' links, see
  // gpusPerBridge().
  int gpus_per_bridge = 0;
  // Hexadecimal numbers in the next three fields may have 0x or not, in either case. A text that matches
  // nothing is an error.
  std::string nic_class;   // a prefix, "0x0207"; "": InfiniBand if there is any, else Ethernet
  std::string nic_device;  // the NICs' device id, "0x101e" or "0x15b3:0x101e"; "": any
  // Devices that are neither GPU nor NIC: PCI addresses, "0x101a" or "0x15b3:0x101a".
  std::vector<std::string> exclude;
  // Null: the processor of the recorded tree, or this machine's if the tree has none.
  std::optional<CpuIdentity> cpu;
  bool force = false;              // generate a file even if there is a PCIe tree, or no NIC
  bool only_when_certain = false;  // for the plugin: refuse if bare metal cannot be told from a VM
};

}  // namespace railwise::topo
