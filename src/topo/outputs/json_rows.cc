#include <map>

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
  json.key("nvls").beginArray();
  for (const Domain& domain : transports.machine().domains) {
    const NvlsAnswer answer = transports.nvls(domain.ranks.front());
    json.beginObject().key("ranks").row(domain.ranks);
    json.key("used").value(answer.used).key("reason").value(answer.reason).endObject();
  }
  json.endArray();
}

}  // namespace

void writePathTables(JsonWriter& json, const Paths& paths) {
  writePaths(json, "gpu_gpu", paths, NodeType::kGpu, NodeType::kGpu);
  writePaths(json, "gpu_net", paths, NodeType::kGpu, NodeType::kNet);
  writePaths(json, "net_gpu", paths, NodeType::kNet, NodeType::kGpu);
  writePaths(json, "gpu_cpu", paths, NodeType::kGpu, NodeType::kCpu);
  writePaths(json, "net_cpu", paths, NodeType::kNet, NodeType::kCpu);
  writePaths(json, "cpu_cpu", paths, NodeType::kCpu, NodeType::kCpu);
  writePaths(json, "net_net", paths, NodeType::kNet, NodeType::kNet);
}

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

void writeDomains(JsonWriter& json, const Machine& machine) {
  json.key("domains").objects(machine.domains, [&](const Domain& domain) {
    json.key("ranks").row(domain.ranks);
    json.key("max_bw").value(domain.max_bandwidth);
    json.key("total_bw").value(domain.total_bandwidth);
    writeLocalNets(json, domain);
    writePeerNets(json, machine, domain);
  });
}

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

}  // namespace railwise::topo
