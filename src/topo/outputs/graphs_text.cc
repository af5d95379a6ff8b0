#include <algorithm>
#include <map>

#include "base/text/text_layout.h"
#include "topo/explain/describe.h"
#include "topo/outputs/graphs_why.h"
#include "topo/outputs/outputs.h"
#include "topo/search/channel_graph.h"

namespace railwise::topo {
namespace {

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

}  // namespace railwise::topo
