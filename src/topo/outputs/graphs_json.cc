#include "base/text/json.h"
#include "topo/outputs/graphs_why.h"
#include "topo/outputs/outputs.h"
#include "topo/search/channel_graph.h"

namespace railwise::topo {
namespace {

// A NIC's device number, or its label where several hosts have NICs.
void writeNet(JsonWriter& json, const Graph& graph, int net) {
  if (net < 0) {
    json.value(-1);
  } else if (graph.hosts() > 1) {
    json.value(graph.label(graph.of(NodeType::kNet)[static_cast<std::size_t>(net)]));
  } else {
    json.value(graph.of(NodeType::kNet, net).dev);
  }
}

void writeGraph(JsonWriter& json, const Graph& graph, const ChannelGraph& channels) {
  json.key(algorithmName(channels.algorithm)).beginObject();
  json.key("rc").value(0);
  json.key("pattern").value(static_cast<int>(channels.pattern));
  json.key("cross_nic").value(channels.cross_nic);
  json.key("channels").value(static_cast<int>(channels.channels.size()));
  json.key("bw_intra").value(channels.bandwidth_intra);
  json.key("bw_inter").value(channels.bandwidth_inter);
  json.key("latency_inter").value(channels.latency_inter);
  json.key("type_intra").value(pathTypeName(channels.type_intra));
  json.key("type_inter").value(pathTypeName(channels.type_inter));
  json.key("same").value(channels.same_channels ? 1 : 0);
  json.key("hops").value(channels.hops);
  json.key("order").beginArray();
  for (const Channel& channel : channels.channels) {
    json.beginRow();
    writeNet(json, graph, channel.net_in);
    json.row(channel.ranks);
    writeNet(json, graph, channel.net_out);
    json.endRow();
  }
  json.endArray().endObject();
}

void writeWhy(JsonWriter& json, const Graph& graph, const CommunicatorGraphs& graphs,
              const SearchTrace& trace) {
  json.key("why").beginObject();
  for (const GraphTrace& searched : trace.graphs) {
    json.key(algorithmName(searched.algorithm)).beginObject();
    json.key("sentences").array(whySentences(searched, graphs, graph));
    json.key("attempts").beginArray();
    for (const SearchAttempt& attempt : searched.attempts) {
      const SearchLimits& limits = attempt.limits;
      json.beginRow().value(moveText(attempt.move)).value(static_cast<int>(limits.pattern));
      json.value(limits.bandwidth_intra).value(limits.bandwidth_inter);
      json.value(pathTypeName(limits.type_intra)).value(pathTypeName(limits.type_inter));
      json.value(limits.cross_nic).value(limits.same_channels ? 1 : 0);
      json.value(attempt.better ? attempt.found : 0).endRow();
    }
    json.endArray().endObject();
  }
  json.endObject();
}

void writeCommunicator(JsonWriter& json, const char* key, const Graph& graph,
                       const std::optional<CommunicatorGraphs>& graphs, const SearchTrace* why) {
  if (!graphs) return;
  json.key(key).beginObject();
  json.key("inter").value(graphs->inter ? 1 : 0);
  json.key("max_bw").value(graphs->max_bandwidth);
  json.key("total_bw").value(graphs->total_bandwidth);
  const bool collnet = graph.count(NodeType::kNet) > 0;
  writeGraph(json, graph, graphs->of(Algorithm::kRing));
  writeGraph(json, graph, graphs->of(Algorithm::kTree));
  if (collnet) {
    writeGraph(json, graph, graphs->of(Algorithm::kCollNetChain));
    writeGraph(json, graph, graphs->of(Algorithm::kCollNetDirect));
  }
  writeGraph(json, graph, graphs->of(Algorithm::kNvls));
  if (why != nullptr) writeWhy(json, graph, *graphs, *why);
  json.endObject();
}

}  // namespace

std::string graphsJson(const Machine& machine, const std::vector<DomainGraphs>& graphs, bool why) {
  JsonWriter json;
  json.beginObject();
  json.key("machine").value(machine.name);
  json.key("nccl").value(ncclVersionName(machine.settings->nccl));
  json.key("hosts").value(machine.graph->hosts());
  json.key("domains").beginArray();
  for (std::size_t i = 0; i < graphs.size(); ++i) {
    const Domain& domain = machine.domains[i];
    json.beginObject().key("ranks").row(domain.ranks);
    json.key("graphs").beginObject();
    writeCommunicator(json, "nodes1", *domain.graph, graphs[i].one_host,
                      why ? &graphs[i].one_host_trace : nullptr);
    writeCommunicator(json, "nodes2", *domain.graph, graphs[i].two_hosts,
                      why ? &graphs[i].two_hosts_trace : nullptr);
    json.endObject().endObject();
  }
  json.endArray().endObject();
  return json.text();
}

}  // namespace railwise::topo
