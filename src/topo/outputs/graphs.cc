#include <algorithm>
#include <map>

#include "base/text/json.h"
#include "base/text/text_layout.h"
#include "topo/explain/describe.h"
#include "topo/outputs/outputs.h"
#include "topo/outputs/parts.h"
#include "topo/search/channel_graph.h"

namespace railwise::topo {
namespace {

// A NIC's device number, or its label where several hosts have NICs.
void writeNet(JsonWriter& json, const Graph& graph, int net) {
  if (net < 0) {
    json.value(-1);
  } else if (graph.hosts() > 1) {
    json.value(graph.label(NodeType::kNet, net));
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
  json.key("order").rows(channels.channels, [&](const Channel& channel) {
    writeNet(json, graph, channel.net_in);
    json.row(channel.ranks);
    writeNet(json, graph, channel.net_out);
  });
  json.endObject();
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

// "0 7..1": from four numbers on that rise or fall by one, only the ends are written.
std::string orderText(const std::vector<int>& ranks) {
  constexpr std::size_t kRun = 4;
  std::string text;
  for (std::size_t i = 0; i < ranks.size();) {
    std::size_t last = i;
    for (const int step : {1, -1}) {
      std::size_t end = i;
      while (end + 1 < ranks.size() && ranks[end + 1] == ranks[end] + step) ++end;
      last = std::max(last, end);
    }
    if (last - i + 1 < kRun) last = i;
    if (!text.empty()) text += ' ';
    text += std::to_string(ranks[i]);
    if (last > i) text += ".." + std::to_string(ranks[last]);
    i = last + 1;
  }
  return text;
}

class CommunicatorText {
 public:
  CommunicatorText(const Graph& graph, const CommunicatorGraphs& graphs, const SearchTrace* trace)
      : graph_(graph), graphs_(graphs), trace_(trace) {}

  std::string text() {
    for (const Algorithm algorithm : {Algorithm::kRing, Algorithm::kTree, Algorithm::kCollNetChain,
                                      Algorithm::kCollNetDirect, Algorithm::kNvls}) {
      const bool collnet = algorithm == Algorithm::kCollNetChain || algorithm == Algorithm::kCollNetDirect;
      if (collnet && graph_.count(NodeType::kNet) == 0) continue;
      addGraph(graphs_.of(algorithm));
      addWhy(algorithm);
    }
    return text_;
  }

 private:
  void addGraph(const ChannelGraph& channels) {
    const std::string title = std::string(algorithmTitle(channels.algorithm)) + ": ";
    if (channels.channels.empty()) {
      text_ += title + "none\n";
      return;
    }
    text_ += wrappedText(summaryOf(channels), title);
    std::map<std::string, std::vector<int>> alike;
    std::vector<std::string> rows;
    for (std::size_t c = 0; c < channels.channels.size(); ++c) {
      const std::string row = rowOf(channels.channels[c]);
      if (alike[row].empty()) rows.push_back(row);
      alike[row].push_back(static_cast<int>(c));
    }
    for (const std::string& row : rows) {
      std::string lead = "  " + rangesText(alike[row]);
      lead.resize(std::max<std::size_t>(lead.size() + 2, 9), ' ');
      text_ += wrappedText(row, lead);
    }
  }

  std::string summaryOf(const ChannelGraph& channels) const {
    std::string text = counted(static_cast<int>(channels.channels.size()), "channel") + ", " +
                       gbText(channels.bandwidth_intra) + " GB/s ";
    text += graphs_.inter ? "inside, " + gbText(channels.bandwidth_inter) + " between hosts" : "each";
    if (graph_.count(NodeType::kGpu) > 1)
      text += std::string("; ") + pathTypeName(channels.type_intra) + " between GPUs";
    if (graphs_.inter) text += std::string(", ") + pathTypeName(channels.type_inter) + " to NICs";
    if (channels.algorithm == Algorithm::kTree) text += std::string("; ") + patternName(channels.pattern);
    if (graphs_.inter && channels.cross_nic != 0) text += "; out by another NIC than in";
    return text;
  }

  std::string rowOf(const Channel& channel) const {
    const std::string order = orderText(channel.ranks);
    if (!graphs_.inter) return order;
    return netOf(channel.net_in) + " > " + order + " > " + netOf(channel.net_out);
  }

  std::string netOf(int net) const { return net < 0 ? "no NIC" : netName(graph_, net); }

  void addWhy(Algorithm algorithm) {
    if (trace_ == nullptr) return;
    for (const GraphTrace& trace : trace_->graphs) {
      if (trace.algorithm != algorithm) continue;
      for (const std::string& sentence : whySentences(trace, graphs_, graph_))
        text_ += wrappedText(sentence, "    - ");
    }
  }

  const Graph& graph_;
  const CommunicatorGraphs& graphs_;
  const SearchTrace* trace_;
  std::string text_;
};

}  // namespace

std::string graphsText(const Machine& machine, const std::vector<DomainGraphs>& graphs, bool why) {
  std::string text = "The graphs that the search of NCCL " +
                     std::string(ncclVersionName(machine.settings->nccl)) + " finds (ranks in order)\n";
  for (std::size_t i = 0; i < graphs.size(); ++i) {
    const Domain& domain = machine.domains[i];
    std::vector<int> sorted = domain.ranks;
    std::sort(sorted.begin(), sorted.end());
    const std::string ranks = (sorted.size() == 1 ? "Rank " : "Ranks ") + rangesText(sorted);
    const auto add = [&](const std::optional<CommunicatorGraphs>& found, const SearchTrace& trace,
                         const std::string& who) {
      if (!found) return;
      text += "\n" + ranks + who + "\n\n";
      text += CommunicatorText(*domain.graph, *found, why ? &trace : nullptr).text();
    };
    const char* const alone = machine.domains.size() > 1 ? ", with the other ranks over the network"
                                                         : " alone, without the network";
    add(graphs[i].one_host, graphs[i].one_host_trace, alone);
    add(graphs[i].two_hosts, graphs[i].two_hosts_trace, ", with a second, equal machine");
  }
  return text;
}

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
