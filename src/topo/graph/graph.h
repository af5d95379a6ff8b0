// The graph of one machine, or of the hosts that share NVLink. NCCL calls it ncclTopoSystem. Nodes are GPUs,
// PCIe switches, NVSwitches, NUMA nodes, NICs and network devices. Links have a type and a bandwidth in GB/s.
// buildGraph() makes the graph from the XML, and it is const from then on. Reading is thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/outcome.h"
#include "topo/document/xml.h"
#include "topo/settings.h"

namespace railwise::topo {

enum class NodeType : uint8_t {
  kGpu = 0,  // a rank on a GPU; linked to its kDev (NCCL 2.30), or the device itself (2.28)
  kPci = 1,  // a PCIe switch
  kNvs = 2,  // all NVSwitches together are one node
  kCpu = 3,  // a NUMA node
  kNic = 4,  // a PCIe function that has network devices
  kNet = 5,  // a network device of the network plugin
  kGin = 6,
  kRma = 7,
  kDev = 8,  // the physical GPU
  kCxb = 9,  // the C2C link that the parts of a split GPU share
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
  kYongfeng = 5,
  kZen12 = 6,
  kZen34 = 7,
  kZen5 = 8
};

using NodeIndex = int32_t;
inline constexpr NodeIndex kNoNode = -1;

struct Link {
  LinkType type = LinkType::kLoc;
  float bandwidth = 0;  // GB/s in one direction
  NodeIndex to = kNoNode;
};

struct Node {
  NodeType type = NodeType::kPci;
  int64_t id = 0;           // NCCL's id: host << 56, combined with the id within the host
  int host = 0;             // index of the host (NCCL's systemId)
  int index = 0;            // index among the nodes of the same type
  std::vector<Link> links;  // in NCCL's order: by falling bandwidth, and the link to the parent last

  std::string busid;  // kGpu, kDev, kPci, kNic: the PCI address as written in the file; otherwise empty
  std::string name;   // kNet: the device's name, e.g. "mlx5_0"; kCpu: empty

  int dev = -1;   // kGpu, kDev: NVML index; kNet, kGin, kRma: the network plugin's device number
  int rank = -1;  // kGpu
  // kGpu, kDev: compute capability, 90 means 9.0; in RCCL's files the number of compute units, as RCCL writes
  // it.
  int sm = -1;
  int gdr = 0;  // kGpu, kNet: 1 if GPUDirect RDMA is supported
  int mlopart = -1;
  NodeIndex parent = kNoNode;  // kGpu: its kDev
  int gpus = 0;                // kDev: number of ranks on the device
  float nvlink = 0;            // kGpu, kDev: GB/s of one NVLink or xGMI link
  std::string gcn;             // kGpu, kDev of RCCL's files: for example "gfx942"

  // kPci, kDev and kNic: vendor, device, subsystem vendor and subsystem device, 16 bits each. kNet: those of
  // its NIC.
  uint64_t pci_device = 0;

  // The next fields belong to kNet.
  uint64_t guid = 0;
  bool has_guid = false;
  int port = 0;
  float bandwidth = 0;  // GB/s
  float latency = 0;    // microseconds
  int max_comms = 0;
  int coll = 0;
  int rail = -1;
  int plane = -1;

  // The next fields belong to kCpu.
  int numa = 0;
  CpuArch arch = CpuArch::kUndefined;
  CpuVendor vendor = CpuVendor::kUndefined;
  CpuModel model = CpuModel::kUndefined;
  std::string affinity;  // CPU mask as the file writes it: 32-bit words, the most significant word first

  // kPci, kDev, kNic: speed and width of the link to the parent as the file writes them, for people.
  std::string link_speed;
  int link_width = 0;
};

class Graph {
 public:
  std::span<const Node> nodes() const { return nodes_; }
  const Node& node(NodeIndex i) const { return nodes_[static_cast<std::size_t>(i)]; }
  // The nodes of one type, in NCCL's order.
  const std::vector<NodeIndex>& of(NodeType type) const { return by_type_[static_cast<std::size_t>(type)]; }
  NodeIndex at(NodeType type, int index) const { return of(type)[static_cast<std::size_t>(index)]; }
  const Node& of(NodeType type, int index) const { return node(at(type, index)); }
  int count(NodeType type) const { return static_cast<int>(of(type).size()); }

  int hosts() const { return hosts_; }
  int localHost() const { return local_host_; }
  // True for an RCCL machine under RCCL's rules: xGMI bandwidths, always a flush, and never the network
  // inside a host.
  bool rccl() const { return rccl_; }

  // The index of the GPU with this rank, or with this NVML index on this host. -1: there is none.
  int gpuOfRank(int rank) const;
  int gpuOfDev(int host, int dev) const;
  // The first node with this type and id, which is the node that NCCL's look-ups find. kNoNode: there is
  // none.
  NodeIndex find(NodeType type, int64_t id) const;
  // The index of that node among those of its type. -1: there is none.
  int indexOf(NodeType type, int64_t id) const;

  // The type of the physical GPUs: nodes of their own since 2.30; before, each GPU node is one.
  NodeType deviceType() const { return count(NodeType::kDev) > 0 ? NodeType::kDev : NodeType::kGpu; }

  // A short name: "GPU/3", "NET/0", "CPU/1", "PCI/0000:45:00.0", "NVS/0". On a second host "GPU/9",
  // "NET/1-0", "CPU/1-0".
  std::string label(NodeIndex i) const;
  std::string label(NodeType type, int index) const { return label(at(type, index)); }

  // A copy of the graph without the nodes of this type for which keep[index] is false. The kDev nodes of GPUs
  // stay, as in NCCL.
  Graph keeping(NodeType type, const std::vector<bool>& keep) const;

  // Only the builder calls the functions below.
  std::vector<Node>& mutableNodes() { return nodes_; }
  NodeIndex add(NodeType type, int64_t id, int host);
  void remove(NodeIndex node);  // changes the indices of later nodes; slow
  void setRccl(bool rccl) { rccl_ = rccl; }
  void setHosts(int hosts, int local) { hosts_ = hosts, local_host_ = local; }
  void finish();  // rebuilds the lists by type after a change

 private:
  std::vector<Node> nodes_;
  std::array<std::vector<NodeIndex>, kNodeTypes> by_type_;
  int hosts_ = 1;
  int local_host_ = 0;
  bool rccl_ = false;
};

// Turns NCCL's mask "0000ffff,..." into "0-47,96-143". "": the mask is empty or cannot be read.
std::string cpuList(const std::string& affinity);

// Builds the Graph from the XML as NCCL's ncclTopoGetSystemFromXml does. Nodes and links are made in NCCL's
// order, because their order decides between equal choices later.

// An error names the file, the line, the attribute or device, and what to do. NCCL's init would fail with the
// same document.
Outcome<Graph> buildGraph(const XmlDocument& document, const Settings& settings);

}  // namespace railwise::topo
