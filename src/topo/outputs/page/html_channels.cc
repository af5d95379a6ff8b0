// The channels of NCCL's search as data of the page, which draws them over the machine.
#include "topo/explain/describe.h"
#include "topo/outputs/page/html_parts.h"
#include "topo/search/names.h"

namespace railwise::topo {
namespace {

constexpr Algorithm kShown[] = {Algorithm::kRing, Algorithm::kTree, Algorithm::kCollNetChain,
                                Algorithm::kCollNetDirect, Algorithm::kNvls};

// The domains' graphs of one algorithm and one number of hosts.
using Graphs = std::vector<std::pair<const Domain*, const ChannelGraph*>>;

// How a channel is drawn: "ring" closes; "tree" hangs on the NICs of its first two GPUs; "chain" and "head"
// on one NIC.
const char* shapeOf(const ChannelGraph& graph) {
  switch (graph.pattern) {
    case Pattern::kRing:
      return "ring";
    case Pattern::kBalancedTree:
    case Pattern::kSplitTree:
      return "tree";
    case Pattern::kTree:
      return "chain";
    case Pattern::kNvls:
    case Pattern::kCollNetDirect:
      break;
  }
  return "head";
}

std::string factsOf(const ChannelGraph& graph, bool network) {
  std::string text = counted(static_cast<int>(graph.channels.size()), "channel") + " of " +
                     gbText(graph.bandwidth_intra) + " GB/s, " + pathTypeName(graph.type_intra) +
                     " between GPUs";
  if (network)
    text += "; " + gbText(graph.bandwidth_inter) + " GB/s between hosts, " + pathTypeName(graph.type_inter) +
            " to the NIC";
  return text;
}

void writeChannels(JsonWriter& json, const Machine& machine, const Graphs& graphs) {
  json.beginArray();
  for (const auto& [domain, graph] : graphs) {
    for (std::size_t i = 0; i < graph->channels.size(); ++i) {
      const Channel& channel = graph->channels[i];
      // The NETs of a domain are those of the machine; its GPUs are not.
      json.beginArray().value(static_cast<int>(i)).value(channel.net_in).value(channel.net_out).beginArray();
      for (const int rank : channel.ranks) json.value(machine.graph->gpuOfRank(rank));
      json.endArray().endArray();
    }
  }
  json.endArray();
}

void writeGraphs(JsonWriter& json, const Machine& machine, int nodes, const Graphs& graphs) {
  const Algorithm algorithm = graphs[0].second->algorithm;
  const bool wants_plugin = algorithm == Algorithm::kCollNetChain || algorithm == Algorithm::kCollNetDirect;
  const bool network = graphs[0].second->channels[0].net_in >= 0;
  json.beginObject().key("key").value(algorithmName(algorithm)).key("name");
  json.value(std::string(algorithmTitle(algorithm)) + (wants_plugin ? ", with a plugin" : ""));
  json.key("nodes").value(nodes);
  json.key("shape").value(shapeOf(*graphs[0].second)).key("facts").value(factsOf(*graphs[0].second, network));
  json.key("channels");
  writeChannels(json, machine, graphs);
  json.endObject();
}

}  // namespace

void writeChannelData(JsonWriter& json, const Machine& machine) {
  json.key("graphs").beginArray();
  const auto found = searchMachine(machine, {});
  for (const int nodes : {1, 2}) {
    for (const Algorithm algorithm : kShown) {
      Graphs graphs;
      for (std::size_t i = 0; found.ok() && i < found->size(); ++i) {
        const auto& of_domain = nodes == 1 ? (*found)[i].one_host : (*found)[i].two_hosts;
        if (of_domain && !of_domain->of(algorithm).channels.empty())
          graphs.emplace_back(&machine.domains[i], &of_domain->of(algorithm));
      }
      if (!graphs.empty()) writeGraphs(json, machine, nodes, graphs);
    }
  }
  json.endArray();
}

}  // namespace railwise::topo
