
#include "base/text/bus_id.h"
#include "topo/explain/describe.h"
#include "topo/explain/gpu_topology.h"
#include "topo/outputs/outputs.h"
#include "topo/outputs/parts.h"

namespace railwise::topo {
namespace {

// The version in docs/topology-json.md. It is raised when a field changes its meaning or is removed.
constexpr int kSchemaVersion = 1;

constexpr std::pair<CpuArch, const char*> kArchNames[] = {
    {CpuArch::kX86, "x86_64"}, {CpuArch::kPower, "ppc64"}, {CpuArch::kArm, "arm64"}};
const char* archName(CpuArch arch) { return nameIn(kArchNames, arch); }

constexpr std::pair<CpuVendor, const char*> kVendorNames[] = {
    {CpuVendor::kIntel, "GenuineIntel"}, {CpuVendor::kAmd, "AuthenticAMD"}, {CpuVendor::kZhaoxin, "Zhaoxin"}};
const char* vendorName(CpuVendor vendor) { return nameIn(kVendorNames, vendor); }

constexpr std::pair<CpuModel, const char*> kModelNames[] = {
    {CpuModel::kBroadwell, "Broadwell or older"},
    {CpuModel::kSkylake, "Skylake"},
    {CpuModel::kSapphireRapids, "Sapphire Rapids"},
    {CpuModel::kEmeraldRapids, "Emerald Rapids or newer"},
    {CpuModel::kYongfeng, "YongFeng"},
    {CpuModel::kZen12, "Zen 1 or 2"},
    {CpuModel::kZen34, "Zen 3 or 4"},
    {CpuModel::kZen5, "Zen 5"}};
const char* modelName(CpuModel model) { return nameIn(kModelNames, model); }

struct Number {
  const char* name;
  int Settings::*field;
};
constexpr Number kNumbers[] = {
    {"NCCL_P2P_LEVEL", &Settings::p2p_level},
    {"NCCL_NET_GDR_LEVEL", &Settings::net_gdr_level},
    {"NCCL_NET_GDR_READ", &Settings::net_gdr_read},
    {"NCCL_NET_GDR_C2C", &Settings::net_gdr_c2c},
    {"NCCL_NET_GDR_MLOPART", &Settings::net_gdr_mlopart},
    {"NCCL_NET_FORCE_FLUSH", &Settings::net_force_flush},
    {"NCCL_NET_DISABLE_INTRA", &Settings::net_disable_intra},
    {"NCCL_NVB_DISABLE", &Settings::nvb_disable},
    {"NCCL_PXN_DISABLE", &Settings::pxn_disable},
    {"NCCL_PXN_C2C", &Settings::pxn_c2c},
    {"NCCL_P2P_PXN_LEVEL", &Settings::p2p_pxn_level},
    {"NCCL_CROSS_NIC", &Settings::cross_nic},
    {"NCCL_SHM_DISABLE", &Settings::shm_disable},
    {"NCCL_TOPO_SPLIT_MLOPART", &Settings::topo_split_mlopart},
    {"NCCL_IGNORE_CPU_AFFINITY", &Settings::ignore_cpu_affinity},
    {"NCCL_P2P_READ_ENABLE", &Settings::p2p_read_enable},
    {"NCCL_P2P_DIRECT_DISABLE", &Settings::p2p_direct_disable},
    {"NCCL_P2P_USE_CUDA_MEMCPY", &Settings::p2p_use_cuda_memcpy},
    {"NCCL_CUMEM_ENABLE", &Settings::cumem_enable},
    {"NCCL_MNNVL_ENABLE", &Settings::mnnvl_enable},
    {"NCCL_NVLS_ENABLE", &Settings::nvls_enable},
    {"NCCL_IGNORE_DISABLED_P2P", &Settings::ignore_disabled_p2p},
    {"NCCL_IB_MERGE_NICS", &Settings::ib_merge_nics},
    {"NCCL_IB_MERGE_VFS", &Settings::ib_merge_vfs},
    {"NCCL_IB_DEVICE_PCI_ORDER", &Settings::ib_device_pci_order},
};

bool isLevel(const Number& number) {
  return number.field == &Settings::p2p_level || number.field == &Settings::net_gdr_level;
}

class TopologyWriter {
 public:
  explicit TopologyWriter(const Machine& machine) : machine_(machine), graph_(*machine.graph) {}

  std::string whole() {
    json_.beginObject();
    json_.key("schema").value("railwise-topology").key("schema_version").value(kSchemaVersion);
    json_.key("machine").value(machine_.name);
    json_.key("nccl").value(ncclVersionName(machine_.settings->nccl));
    json_.key("completed").value(machine_.completed);
    writeSettings();
    writeHosts();
    writeCpus();
    writeGpus();
    writeNics();
    writeNets();
    writeSwitches();
    writeLinks();
    writePathTables(json_, *machine_.paths);
    writeP2p(json_, *machine_.paths);
    writeGdr(json_, *machine_.paths);
    writeDomains(json_, machine_);
    json_.key("transports").beginObject();
    writeTransports(json_, Transports(machine_, jobOn(machine_)), {.nodes = 2});
    json_.endObject();
    json_.key("remarks").beginArray();
    for (const std::string& remark : machine_.remarks) json_.value(remark);
    for (const std::string& warning : machine_.settings->warnings) json_.value(warning);
    json_.endArray().endObject();
    return json_.text();
  }

 private:
  void writeSettings() {
    const Settings& settings = *machine_.settings;
    const Settings otherwise;
    json_.key("settings").beginObject();
    for (const Number& number : kNumbers) {
      const int value = settings.*number.field;
      if (value == otherwise.*number.field) continue;
      if (isLevel(number) && value >= 0 && value < kPathTypes) {
        json_.key(number.name).value(pathTypeName(static_cast<PathType>(value)));
      } else {
        json_.key(number.name).value(value);
      }
    }
    if (settings.netdevs_policy == Settings::NetDevsPolicy::kAll)
      json_.key("NCCL_NETDEVS_POLICY").value("ALL");
    if (settings.netdevs_policy == Settings::NetDevsPolicy::kMax) {
      json_.key("NCCL_NETDEVS_POLICY").value("MAX:" + std::to_string(settings.netdevs_max));
    }
    if (settings.net_merge_level != otherwise.net_merge_level) {
      json_.key("NCCL_NET_MERGE_LEVEL").value(pathTypeName(settings.net_merge_level));
    }
    if (settings.net_merge_rail) json_.key("NCCL_NET_MERGE_POLICY").value("RAIL");
    if (!settings.net_force_merge.empty()) json_.key("NCCL_NET_FORCE_MERGE").value(settings.net_force_merge);
    json_.endObject();
  }

  void writeHosts() {
    json_.key("hosts").beginArray();
    for (int host = 0; host < graph_.hosts(); ++host) {
      json_.beginInlineObject().key("host").value(host).key("local").value(host == graph_.localHost());
      json_.endInlineObject();
    }
    json_.endArray();
  }

  void writeId(NodeIndex i) { json_.key("id").value(graph_.label(i)).key("host").value(graph_.node(i).host); }

  // `write` writes what is special to nodes of this type.
  template <typename Write>
  void writeNodes(const char* key, NodeType type, const Write& write) {
    json_.key(key).objects(graph_.of(type), [&](NodeIndex i) {
      writeId(i);
      write(i, graph_.node(i));
    });
  }

  void writePciLink(const Node& node) {
    json_.key("busid").value(node.busid);
    json_.key("link_speed").value(node.link_speed).key("link_width").value(node.link_width);
  }

  void writeCpus() {
    writeNodes("cpus", NodeType::kCpu, [&](NodeIndex, const Node& cpu) {
      json_.key("numa").value(cpu.numa).key("arch").value(archName(cpu.arch));
      json_.key("vendor").value(vendorName(cpu.vendor)).key("model").value(modelName(cpu.model));
      json_.key("affinity").value(cpuList(cpu.affinity));
    });
  }

  void writeGpus() {
    const gpu::GpuTopology topology = gpuTopology(machine_);
    writeNodes("gpus", NodeType::kGpu, [&](NodeIndex i, const Node& gpu) {
      json_.key("rank").value(gpu.rank).key("dev").value(gpu.dev);
      json_.key("sm").value(gpu.sm).key("gcn").known(gpu.gcn);
      json_.key("gdr").value(gpu.gdr != 0).key("mlopart").value(gpu.mlopart);
      const gpu::Device* physical = physicalGpu(topology, graph_, gpu.index);
      const bool known = physical != nullptr && !physical->model.empty();
      json_.key("model").known(known ? gpuModelText(*physical) : "");
      json_.key("memory_bytes").known(known ? std::optional(physical->memory_bytes) : std::nullopt);
      writePciLink(graph_.node(deviceOf(graph_, i)));
      const int cpu = machine_.paths->localCpu(gpu.index);
      json_.key("local_cpu").known(cpu < 0 ? "" : graph_.label(NodeType::kCpu, cpu));
    });
  }

  void writeNics() {
    writeNodes("nics", NodeType::kNic, [&](NodeIndex, const Node& nic) {
      writePciLink(nic);
      json_.key("nets").beginRow();
      for (const Link& link : nic.links) {
        if (graph_.node(link.to).type == NodeType::kNet) json_.value(graph_.label(link.to));
      }
      json_.endRow();
    });
  }

  void writeNets() {
    writeNodes("nets", NodeType::kNet, [&](NodeIndex, const Node& net) {
      json_.key("dev").value(net.dev).key("name").value(net.name);
      json_.key("nic").known(net.links.empty() ? "" : graph_.label(net.links[0].to));
      json_.key("bandwidth").value(net.bandwidth).key("port").value(net.port);
      json_.key("guid").value(hexText(net.guid)).key("latency_us").value(net.latency);
      json_.key("gdr").value(net.gdr != 0).key("coll").value(net.coll != 0);
      json_.key("max_comms").value(net.max_comms).key("rail").value(net.rail).key("plane").value(net.plane);
      const int gpu = machine_.paths->localGpu(net.index);
      json_.key("local_gpu").known(gpu < 0 ? "" : graph_.label(NodeType::kGpu, gpu));
    });
  }

  void writeSwitches() {
    json_.key("switches").beginArray();
    for (const NodeType type : {NodeType::kPci, NodeType::kNvs}) {
      for (const NodeIndex i : graph_.of(type)) {
        json_.beginObject();
        writeId(i);
        json_.key("kind").value(type == NodeType::kPci ? "pci" : "nvswitch");
        if (type == NodeType::kPci) writePciLink(graph_.node(i));
        if (type == NodeType::kPci) json_.key("pci_device").value(hexText(graph_.node(i).pci_device));
        json_.endObject();
      }
    }
    json_.endArray();
  }

  void writeLinks() {
    json_.key("links").beginArray();
    for (std::size_t i = 0; i < graph_.nodes().size(); ++i) {
      const auto from = static_cast<NodeIndex>(i);
      for (const Link& link : graph_.node(from).links) {
        json_.beginRow().value(graph_.label(from)).value(graph_.label(link.to));
        json_.value(linkTypeName(link.type)).value(link.bandwidth).endRow();
      }
    }
    json_.endArray();
  }

  const Machine& machine_;
  const Graph& graph_;
  JsonWriter json_;
};

}  // namespace

std::string topologyJson(const Machine& machine) { return TopologyWriter(machine).whole(); }

}  // namespace railwise::topo
