// The GPUs and NICs of one host as the exports list them, with the NICs that NCCL gives each GPU (explain.h).
// Plain values; thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/outcome.h"
#include "gpu/topology.h"
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

}  // namespace railwise::topo
