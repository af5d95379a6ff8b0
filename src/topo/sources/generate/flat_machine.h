// The GPUs and NICs of a VM, for generate.h: which devices are used, where they are, and how fast their links
// are. Plain values; thread-safe.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/outcome.h"
#include "sysfs/file_tree.h"
#include "sysfs/pci_devices.h"
#include "topo/sources/cpu_identity.h"

namespace railwise::topo {

// The options of generate.h: how devices are paired, and which devices are used. Plain values.

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

using sysfs::PciLink;

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

// Which GPUs and NICs share a synthetic bridge, by the pairing rules above (pairing.cc).

// The plan for one NUMA node.
struct NodePlan {
  std::vector<Bridge> bridges;
  std::vector<const FlatDevice*> loose;  // devices connected directly to the CPU
};

using Plan = std::map<int, NodePlan>;

// The plan contains pointers into `machine`.
Outcome<Plan> pairDevices(const FlatMachine& machine, const GenerateOptions& options,
                          std::vector<std::string>& remarks);

// How many GPUs share a switch if no option says so. 0: the GPUs are not behind PCIe switches.
//
// The number depends on how many lanes CPUs and switch chips had at the time. Up to PCIe Gen4, boards put two
// GPUs with their NICs behind one switch with one x16 uplink: DGX-1, DGX A100 and HGX A100, AWS p4d (two A100
// and a NIC per switch), Azure ND A100 v4. With Gen5, each GPU got a NIC of 400 Gb/s, which fills an x16
// link. So each GPU has a switch, or a part of a switch, with an uplink of its own: DGX H100, HGX H100 and
// B200, AWS p5, Nebius, Azure ND H100 v5, MI300X. A GPU with a single lane has its data path elsewhere
// (NVLink-C2C to Grace).
int gpusPerBridge(const FlatMachine& machine, std::vector<std::string>& remarks);

// The transfers of all lanes per second, in GT/s; 0: not known.
inline double transfersOf(const PciLink& link) { return link.gigatransfers * link.lanes; }
// The link with the largest product of speed and lanes; null: no device reports its link.
const PciLink* fastestLink(const std::vector<const FlatDevice*>& devices);
const PciLink* fastestLink(const std::vector<FlatDevice>& devices);

// Is the PCIe tree above these GPUs and NICs (real paths of their folders) certainly hidden? A single port
// above a device is a root port of a hypervisor, or of a CPU; the answer is then yes only on a running VM.
bool treeIsHidden(const sysfs::FileTree& tree, std::span<const sysfs::PciDevice> gpus,
                  std::span<const std::string> nics);

}  // namespace railwise::topo
