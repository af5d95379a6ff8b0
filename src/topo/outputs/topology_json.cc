#include <map>

#include "base/pci.h"
#include "topo/explain/describe.h"
#include "topo/explain/gpu_topology.h"
#include "topo/outputs/outputs.h"
#include "topo/outputs/parts.h"
#include "topo/transports/transports.h"

namespace railwise::topo {

namespace {

void writePaths(JsonWriter& json, const char* key, const Paths& paths, NodeType from, NodeType to) {
  const Graph& graph = paths.graph();
  json.key(key).beginArray();
  for (int i = 0; i < graph.count(from); ++i) {
    for (int j = 0; j < graph.count(to); ++j) {
      if (from == to && i == j) continue;
      const Path& path = paths.get(from, i, to, j);
      json.beginRow().value(graph.label(from, i));
      json.value(graph.label(to, j)).value(pathTypeName(path.type));
      json.value(path.bandwidth).value(path.hops).array(paths.via(path), [&](const NodeIndex node) {
        return graph.label(node);
      });
      json.endRow();
    }
  }
  json.endArray();
}

void writeLocalNets(JsonWriter& json, const Domain& domain) {
  json.key("local_net").beginObject();
  for (int gpu = 0; gpu < domain.graph->count(NodeType::kGpu); ++gpu) {
    const auto nets = localNets(*domain.paths, gpu);
    if (!nets.ok()) continue;
    json.key(std::to_string(domain.graph->of(NodeType::kGpu, gpu).rank)).row(*nets, [&](const int net) {
      return domain.graph->of(NodeType::kNet, net).dev;
    });
  }
  json.endObject();
}

// The NVML indices of all GPUs, in the order of their ranks.
std::vector<int> devsByRank(const Graph& graph) {
  std::map<int, int> devs;
  for (const NodeIndex gpu : graph.of(NodeType::kGpu))
    devs.emplace(graph.node(gpu).rank, graph.node(gpu).dev);
  std::vector<int> list;
  for (const auto& [rank, dev] : devs) list.push_back(dev);
  return list;
}

// Assumes a second host that is equal to this one, so the peers have the NVML indices of this host's GPUs. A
// graph of several hosts has no such second host.
void writePeerNets(JsonWriter& json, const Machine& machine, const Domain& domain) {
  constexpr int kChannels = 2;  // later channels repeat the first two
  json.key("p2p_net").beginArray();
  const int gpus = machine.graph->hosts() == 1 ? domain.graph->count(NodeType::kGpu) : 0;
  for (int gpu = 0; gpu < gpus; ++gpu) {
    for (const int peer_dev : devsByRank(*machine.graph)) {
      for (int channel = 0; channel < kChannels; ++channel) {
        const auto answer = netTowardsPeer(*domain.paths, gpu, peer_dev, channel);
        if (!answer.ok()) continue;
        json.beginRow().value(domain.graph->of(NodeType::kGpu, gpu).rank).value(peer_dev).value(channel);
        json.value(domain.graph->of(NodeType::kNet, answer->net).dev).value(answer->proxy_rank).endRow();
      }
    }
  }
  json.endArray();
}

class ClassWriter {
 public:
  explicit ClassWriter(JsonWriter& json) : json_(json) {}

  // Writes the rows of a table, and keeps its classes for writeClasses().
  void writeRows(const char* key, const TransportTable& table, const Graph& graph) {
    const auto netId = [&](int net) { return graph.label(NodeType::kNet, net); };
    json_.key(key).rows(table.rows, [&](const TransportRow& row) {
      json_.value(row.pair.from).value(row.pair.to).value(static_cast<int>(classes_.size() + row.index));
      if (row.intermediate_rank >= 0) json_.value(row.intermediate_rank);
      if (table.classes[row.index].first.kind == TransportKind::kNet) {
        json_.value(netId(row.sender.net))
            .value(row.sender.proxy_rank)
            .value(static_cast<int>(row.sender.gdr));
        json_.value(netId(row.receiver.net)).value(static_cast<int>(row.receiver.gdr));
      }
    });
    classes_.insert(classes_.end(), table.classes.begin(), table.classes.end());
  }

  void writeClasses() {
    json_.key("classes").objects(classes_, [&](const TransportClass& each) {
      json_.key("transport").value(transportKindName(each.first.kind)).key("name").value(each.name);
      json_.key("read").value(each.first.read);
      json_.key("pairs").value(each.pairs).key("reason").value(each.reason);
    });
  }

 private:
  JsonWriter& json_;
  std::vector<TransportClass> classes_;
};

void writeNvls(JsonWriter& json, const Transports& transports) {
  json.key("nvls").objects(transports.machine().domains, [&](const Domain& domain) {
    const NvlsAnswer answer = transports.nvls(domain.ranks.front());
    json.key("ranks").row(domain.ranks);
    json.key("used").value(answer.used).key("reason").value(answer.reason);
  });
}

// Writes "gpu_gpu": [[from, to, type, GB/s, hops, [via...]], ...], and six more tables of the same form.
void writePathTables(JsonWriter& json, const Paths& paths) {
  writePaths(json, "gpu_gpu", paths, NodeType::kGpu, NodeType::kGpu);
  writePaths(json, "gpu_net", paths, NodeType::kGpu, NodeType::kNet);
  writePaths(json, "net_gpu", paths, NodeType::kNet, NodeType::kGpu);
  writePaths(json, "gpu_cpu", paths, NodeType::kGpu, NodeType::kCpu);
  writePaths(json, "net_cpu", paths, NodeType::kNet, NodeType::kCpu);
  writePaths(json, "cpu_cpu", paths, NodeType::kCpu, NodeType::kCpu);
  writePaths(json, "net_net", paths, NodeType::kNet, NodeType::kNet);
}

// Writes "p2p": [[from, to, allowed, read, intermediate rank, reason], ...].
void writeP2p(JsonWriter& json, const Paths& paths) {
  const Graph& graph = paths.graph();
  const int gpus = graph.count(NodeType::kGpu);
  json.key("p2p").beginArray();
  for (int from = 0; from < gpus; ++from) {
    for (int to = 0; to < gpus; ++to) {
      if (from == to) continue;
      const auto outcome = checkP2p(paths, from, to);
      const P2pAnswer answer = outcome.ok() ? *outcome : P2pAnswer{.reason = outcome.error()};
      json.beginRow().value(graph.label(NodeType::kGpu, from));
      json.value(graph.label(NodeType::kGpu, to));
      json.value(answer.allowed ? 1 : 0).value(answer.read ? 1 : 0).value(answer.intermediate_rank);
      json.value(answer.reason).endRow();
    }
  }
  json.endArray();
}

// Writes "gdr": [[gpu, net, receive, send, flush, PXN rank, rule and reason of receive, rule and reason of
// send, reason of flush], ...].
void writeGdr(JsonWriter& json, const Paths& paths) {
  const Graph& graph = paths.graph();
  const auto answerOf = [](const Outcome<GdrAnswer>& outcome) {
    return outcome.ok() ? *outcome : GdrAnswer{.rule = "error", .reason = outcome.error()};
  };
  json.key("gdr").beginArray();
  for (int gpu = 0; gpu < graph.count(NodeType::kGpu); ++gpu) {
    for (int net = 0; net < graph.count(NodeType::kNet); ++net) {
      const GdrAnswer receive = answerOf(checkGdr(paths, gpu, net, false));
      const GdrAnswer send = answerOf(checkGdr(paths, gpu, net, true));
      const FlushAnswer flush = needFlush(paths, gpu, net);
      const auto proxy = proxyRank(paths, gpu, net);
      json.beginRow().value(graph.label(NodeType::kGpu, gpu));
      json.value(graph.label(NodeType::kNet, net));
      json.value(static_cast<int>(receive.mode)).value(static_cast<int>(send.mode));
      json.value(static_cast<int>(flush.flush));
      json.value(proxy.ok() ? *proxy : graph.of(NodeType::kGpu, gpu).rank);
      json.value(receive.rule).value(receive.reason);
      json.value(send.rule).value(send.reason);
      json.value(flush.reason).endRow();
    }
  }
  json.endArray();
}

// Writes "domains": [{ranks, max_bw, total_bw, local_net, p2p_net}, ...].
void writeDomains(JsonWriter& json, const Machine& machine) {
  json.key("domains").objects(machine.domains, [&](const Domain& domain) {
    json.key("ranks").row(domain.ranks);
    json.key("max_bw").value(domain.max_bandwidth);
    json.key("total_bw").value(domain.total_bandwidth);
    writeLocalNets(json, domain);
    writePeerNets(json, machine, domain);
  });
}

// Writes the fields of an object: "pairs" and "other_host" (rows), "classes", "nvls", "one_process" and
// "channel".
void writeTransports(JsonWriter& json, const Transports& transports, const TransportsShown& shown) {
  const Graph& graph = *transports.machine().graph;
  PairFilter filter{.from = shown.from, .to = shown.to, .other_host = false, .channel = shown.channel};
  json.key("one_process").value(transports.job().one_process).key("channel").value(shown.channel);
  ClassWriter writer(json);
  writer.writeRows("pairs", tabulate(transports, filter), graph);
  filter.other_host = true;
  if (shown.nodes > 1) writer.writeRows("other_host", tabulate(transports, filter), graph);
  writer.writeClasses();
  writeNvls(json, transports);
}

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
    writeLevel("NCCL_P2P_LEVEL", settings.p2p_level);
    writeLevel("NCCL_NET_GDR_LEVEL", settings.net_gdr_level);
    for (const auto table :
         {std::span<const NumberSetting>(kNumberSettings), std::span<const NumberSetting>(kNicSettings)})
      for (const NumberSetting& number : table)
        if (number.in_json && settings.*number.field != otherwise.*number.field)
          json_.key(number.variable).value(settings.*number.field);
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

  void writeLevel(const char* variable, int level) {
    if (level == Settings::kUnset) return;
    json_.key(variable);
    const bool named = level >= 0 && level < kPathTypes;
    named ? json_.value(pathTypeName(static_cast<PathType>(level))) : json_.value(level);
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

std::string transportsJson(const Transports& transports, const TransportsShown& shown) {
  const Machine& machine = transports.machine();
  JsonWriter json;
  json.beginObject().key("schema").value("railwise-transports").key("schema_version").value(1);
  json.key("machine").value(machine.name).key("nccl").value(ncclVersionName(machine.settings->nccl));
  json.key("nodes").value(shown.nodes);
  writeTransports(json, transports, shown);
  json.endObject();
  return json.text();
}

std::string topologyJson(const Machine& machine) { return TopologyWriter(machine).whole(); }

}  // namespace railwise::topo
