// The graph of one machine (or of the hosts that share NVLink): what NCCL calls ncclTopoSystem. Nodes are
// GPUs, PCIe switches, NVSwitches, NUMA nodes, NICs and network devices; links carry a type and a bandwidth
// in GB/s. Made by builder.h from the XML and const from then on. Reading is thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "topo/settings.h"

namespace railwise::topo {

enum class NodeType : uint8_t {
  kGpu = 0,  // a rank's view of a GPU; hangs on its kDev (NCCL 2.30) or is the device itself (2.28)
  kPci = 1,  // a PCIe switch
  kNvs = 2,  // NVSwitch: one node for all of them
  kCpu = 3,  // a NUMA node
  kNic = 4,  // a PCIe function with network devices
  kNet = 5,  // a network device of the net plugin
  kGin = 6,
  kRma = 7,
  kDev = 8,  // the physical GPU
  kCxb = 9,  // the shared C2C of a split GPU
};
inline constexpr int kNodeTypes = 10;
const char* nodeTypeName(NodeType type);  // "GPU", "PCI", ...

enum class LinkType : uint8_t { kLoc = 0, kNvl = 1, kC2c = 3, kPci = 4, kSys = 9, kNet = 10 };
const char* linkTypeName(LinkType type);

enum class CpuArch : int8_t { kUndefined = -1, kUnknown = 0, kX86 = 1, kPower = 2, kArm = 3 };
enum class CpuVendor : int8_t { kUndefined = -1, kUnknown = 0, kIntel = 1, kAmd = 2, kZhaoxin = 3 };
enum class CpuModel : int8_t {
  kUndefined = -1,
  kBroadwell = 1,
  kSkylake = 2,
  kSapphireRapids = 3,
  kEmeraldRapids = 4,
  kYongfeng = 5
};

using NodeIndex = int32_t;
inline constexpr NodeIndex kNoNode = -1;

struct Link {
  LinkType type = LinkType::kLoc;
  float bandwidth = 0;  // GB/s, one direction
  NodeIndex to = kNoNode;
};

struct Node {
  NodeType type = NodeType::kPci;
  int64_t id = 0;           // NCCL's: host << 56 | local id
  int host = 0;             // index of the host (NCCL's systemId)
  int index = 0;            // among the nodes of its type
  std::vector<Link> links;  // in NCCL's order: bandwidth descending, the way up last

  std::string busid;  // PCI address as written in the file: kGpu, kDev, kPci, kNic; else empty
  std::string name;   // kNet: the device's name, e.g. "mlx5_0"; kCpu: empty

  // kGpu and kDev
  int dev = -1;   // NVML index; kNet, kGin, kRma: the net plugin's device number
  int rank = -1;  // kGpu
  int sm = -1;    // compute capability, 90 = 9.0; RCCL files: the number of compute units, as RCCL writes it
  int gdr = 0;    // kGpu, kNet: 1 when GPUDirect RDMA is supported
  int mlopart = -1;
  NodeIndex parent = kNoNode;  // kGpu: its kDev
  int gpus = 0;                // kDev: ranks on it
  std::string gcn;             // RCCL: "gfx942"

  // kPci and kDev: vendor, device, subsystem vendor, subsystem device in 16 bits each
  uint64_t pci_device = 0;

  // kNet
  uint64_t guid = 0;
  bool has_guid = false;
  int port = 0;
  float bandwidth = 0;  // GB/s
  float latency = 0;    // microseconds
  int max_comms = 0;
  int coll = 0;
  int rail = -1;
  int plane = -1;

  // kCpu
  int numa = 0;
  CpuArch arch = CpuArch::kUndefined;
  CpuVendor vendor = CpuVendor::kUndefined;
  CpuModel model = CpuModel::kUndefined;
  std::string affinity;  // as the file writes it: 32-bit words, most significant first

  // kPci, kDev, kNic: what the file says of the upstream link, for people
  std::string link_speed;
  int link_width = 0;
};

class Graph {
 public:
  std::span<const Node> nodes() const { return nodes_; }
  const Node& node(NodeIndex i) const { return nodes_[static_cast<std::size_t>(i)]; }
  // Nodes of one type, in NCCL's order.
  const std::vector<NodeIndex>& of(NodeType type) const { return by_type_[static_cast<std::size_t>(type)]; }
  const Node& of(NodeType type, int index) const { return node(of(type)[static_cast<std::size_t>(index)]); }
  int count(NodeType type) const { return static_cast<int>(of(type).size()); }

  int hosts() const { return hosts_; }
  int localHost() const { return local_host_; }
  // RCCL's machine under RCCL's rules: xGMI bandwidths, always a flush, never the network inside a host.
  bool rccl() const { return rccl_; }

  // The GPU index of a rank, or of an NVML index on a host; -1: none.
  int gpuOfRank(int rank) const;
  int gpuOfDev(int host, int dev) const;
  // The first node of that type with that id, as NCCL looks it up; -1: none.
  int indexOf(NodeType type, int64_t id) const;

  // "GPU/3", "NET/0", "CPU/1", "PCI/0000:45:00.0", "NVS/0"; on a second host "GPU/9", "NET/1-0", "CPU/1-0".
  std::string label(NodeIndex i) const;

  // The graph without the GPU nodes for which keep[gpu index] is false (their kDev stays, as in NCCL).
  Graph keepingGpus(const std::vector<bool>& keep) const;

  // For the builder.
  std::vector<Node>& mutableNodes() { return nodes_; }
  NodeIndex add(NodeType type, int64_t id, int host);
  void remove(NodeIndex node);  // renumbers; slow
  void setRccl(bool rccl) { rccl_ = rccl; }
  void setHosts(int hosts, int local) { hosts_ = hosts, local_host_ = local; }
  void finish();  // rebuilds the per-type lists after a change

 private:
  std::vector<Node> nodes_;
  std::array<std::vector<NodeIndex>, kNodeTypes> by_type_;
  int hosts_ = 1;
  int local_host_ = 0;
  bool rccl_ = false;
};

// "0-47,96-143" of NCCL's mask "0000ffff,..."; "" for an empty or unreadable mask.
std::string cpuList(const std::string& affinity);

}  // namespace railwise::topo
