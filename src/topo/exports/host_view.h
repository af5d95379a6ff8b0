// The GPUs and NICs of one host as the exports list them, with the NICs that NCCL gives each GPU (explain.h).
// Plain values; thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/outcome.h"
#include "gpu/topology.h"
#include "sysfs/file_tree.h"
#include "topo/graph/graph.h"
#include "topo/machine/machine.h"

namespace railwise::topo {

// Exports describe the first host of a machine.
inline constexpr int kExportedHost = 0;

// A port of an RDMA device. A merged NIC has several.
struct NicPort {
  std::string device;  // "mlx5_0"; for NCCL's Socket plugin an interface: "eth0"
  int port = 1;        // 0: `device` is an interface
};

struct HostNic {
  int net = -1;  // index in the graph
  std::string name;
  std::vector<NicPort> ports;
  std::string busid;  // in lower case, as /sys has it; "": NCCL knows no PCI address
  int numa = -1;      // -1: not known
  int64_t mbps = 0;
  bool used = false;  // by a GPU
};

// A NIC that NCCL gives a GPU.
struct GivenNic {
  int nic = -1;  // index in HostView::nics
  PathType type = PathType::kDis;
};

struct HostGpu {
  int gpu = -1;  // index in the graph, of the lowest rank
  int dev = -1;  // NVML's or RCCL's index
  // The local ranks of a job with one rank for each rank of the model: usually the GPU's place in the list.
  std::vector<int> local_ranks;
  std::string busid;
  std::string kind;   // "sm_90", "gfx942"; "": not known
  std::string model;  // "NVIDIA H100 80GB HBM3"; "": the vendor's library was not asked
  int numa = -1;
  std::vector<GivenNic> nics;  // in the order of NCCL's channels, each once
};

struct HostView {
  std::vector<HostGpu> gpus;  // by `dev`
  std::vector<HostNic> nics;  // by the number of the net plugin
  // links[a][b]: NVLinks (xGMI links) from gpus[a] to gpus[b]. Through an NVSwitch: all links to the switch.
  std::vector<std::vector<int>> links;
  bool switched = false;  // an NVSwitch joins the GPUs
  bool amd = false;
  std::vector<std::string> notes;  // what is left out
};

// The first host of the machine. An error: a NIC has a name that no device can have.
Outcome<HostView> hostView(const Machine& machine);

// The first line of an export: what made it, and from what.
std::string originText(const Machine& machine, const HostView& host, const char* form);

// The NICs of GPUs as lists of ports, in the words of UCX. Pure; thread-safe.

// The ports of the NICs of a GPU, each once, in the order of NCCL's channels.
std::vector<NicPort> portsOfGpu(const HostView& host, const HostGpu& gpu);
// The ports of the NICs of all GPUs, each once.
std::vector<NicPort> portsOfAllGpus(const HostView& host);

// "mlx5_0:1,mlx5_1:1"; an interface has no port: "eth0".
std::string ucxDevices(const std::vector<NicPort>& ports);

// The error for a host without a NIC, or without a GPU that has one. "": some GPU has a NIC.
std::string nothingToChoose(const Machine& machine, const HostView& host);

// The grammars of names in the exports, and how a text becomes such a name. Pure; thread-safe.

// Can it be the name of an RDMA device or network interface: letters, digits, '_', '.' and '-'? Such a name
// needs no quotes in a shell, a list, JSON or a configuration file.
bool isDeviceName(std::string_view name);

// A label of DNS (RFC 1123) from a text: "mlx5_0" becomes "mlx5-0". At most 63 characters. "": the text
// has no letter and no digit.
std::string dnsLabel(std::string_view text);

// A word for Slurm: lower case, and characters other than letters, digits, '.' and '-' become '_'.
std::string slurmWord(std::string_view text);

// The text in single quotes, as a shell reads it back; as it is if it needs none.
std::string shellWord(const std::string& text);

// A text that XML and its attributes can hold: bytes that are not UTF-8, and characters that XML forbids,
// become U+FFFD or '?'.
std::string xmlText(std::string_view text);

// What the /sys of a machine says besides the model. A topology file says none of it. Plain values;
// thread-safe if the tree is.

struct DeviceFacts {
  std::map<std::string, std::string> pcie_roots;    // by PCI address: "pci0000:c9"
  std::map<std::string, std::string> uverbs;        // by RDMA device: "uverbs3"
  std::map<std::string, std::string> render_nodes;  // by PCI address of a GPU: "renderD128"
  // The masks of all NUMA nodes, in the form of the model. It has only those with GPUs or NICs.
  std::map<int, std::string> numa_masks;
  // The first CPU of the core of each CPU. Empty: not known.
  std::map<int, int> first_sibling;
  // Does a VM hide the PCIe tree? Nothing: not known.
  std::optional<bool> tree_hidden;
};

DeviceFacts readDeviceFacts(const sysfs::FileTree& tree);

// The device nodes of GPUs and NICs. Pure; thread-safe.

// "/dev/nvidia3", or "/dev/dri/renderD131" for AMD. `dev`: NVML's or RCCL's index, from which the number is
// assumed; `render_node`: what /sys says, "" if it says nothing.
std::string gpuDeviceFile(bool amd, int dev, const std::string& render_node);

struct NicFile {
  std::string device;  // "mlx5_0"
  std::string path;    // "/dev/infiniband/uverbs0"
  int nic = -1;        // index in HostView::nics
};
// The RDMA devices of the host, each once. *assumed: /sys does not tell some of the numbers; they are those
// at the end of the devices' names, or count up.
std::vector<NicFile> nicFiles(const HostView& host, const DeviceFacts& facts, bool* assumed);

// The CPUs and cores of one host, by NUMA node, from the masks of the model. Plain values; thread-safe.

struct NumaCores {
  std::vector<std::vector<int>> cores;  // the CPUs of each core; cores ascend by their first CPU
  int first_core = 0;  // the logical number of the first core, as hwloc and Slurm count: node after node,
                       // by their first CPUs
};

struct HostCores {
  std::map<int, NumaCores> nodes;  // by NUMA node
  bool masks_known = false;        // false: no node has a mask, and each is given one CPU
  std::string note;                // what is assumed; "": nothing
};

// `facts` tell which CPUs are threads of one core, and of NUMA nodes that the model does not have. Without
// them the masks are read as Linux numbers the CPUs of x86: first one thread of all cores, then the other.
// With a single NUMA node that cannot be seen, and each CPU counts as a core.
HostCores hostCores(const Graph& graph, const DeviceFacts& facts);

// "0-47": the logical cores of a NUMA node. "": the node has none.
std::string coresText(const HostCores& host, int numa);

}  // namespace railwise::topo
