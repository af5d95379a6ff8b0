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

bool isSecondPass(const SearchAttempt& attempt) {
  return attempt.move == SearchMove::kFasterRing || attempt.move == SearchMove::kFasterNetwork ||
         attempt.move == SearchMove::kFasterInside;
}

std::string pathsText(const SearchLimits& limits, bool inter) {
  std::string text = std::string(pathTypeName(limits.type_intra)) + " between GPUs";
  if (inter) text += std::string(", ") + pathTypeName(limits.type_inter) + " to NICs";
  return text;
}

// Attempts in a row: those at one speed, or those at several speeds that found nothing.
class AttemptGroup {
 public:
  AttemptGroup(const std::vector<SearchAttempt>& attempts, std::size_t first, bool inter)
      : attempts_(attempts), first_(first), last_(endOfSpeed(first)), inter_(inter) {
    if (bestIn(first_, last_) != kNone) return;
    while (last_ + 1 < attempts_.size() && isSecondPass(attempts_[last_ + 1]) == secondPass()) {
      const std::size_t end = endOfSpeed(last_ + 1);
      if (bestIn(last_ + 1, end) != kNone) break;
      last_ = end;
    }
  }

  std::size_t next() const { return last_ + 1; }
  bool secondPass() const { return isSecondPass(attempts_[first_]); }

  std::string text() const {
    std::string text = (secondPass() ? "More bandwidth: " : "") + speedsText() + ": ";
    const std::size_t best = bestIn(first_, last_);
    if (best == kNone) return text + nothingText();
    const SearchAttempt& found = attempts_[best];
    text += counted(found.found, "channel") + " in attempt " + std::to_string(best + 1) + " (" +
            limitsOf(found) + ")";
    if (best < last_)
      text += "; " + counted(static_cast<int>(last_ - best), "more attempt") + " found nothing better";
    return text + ".";
  }

 private:
  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);

  std::size_t endOfSpeed(std::size_t first) const {
    std::size_t end = first;
    const SearchLimits& limits = attempts_[first].limits;
    while (end + 1 < attempts_.size() && isSecondPass(attempts_[end + 1]) == isSecondPass(attempts_[first]) &&
           attempts_[end + 1].limits.bandwidth_intra == limits.bandwidth_intra &&
           attempts_[end + 1].limits.bandwidth_inter == limits.bandwidth_inter)
      ++end;
    return end;
  }

  std::size_t bestIn(std::size_t first, std::size_t last) const {
    std::size_t best = kNone;
    for (std::size_t i = first; i <= last; ++i)
      if (attempts_[i].better) best = i;
    return best;
  }

  // "48 GB/s a channel", "10, 9 and 7 GB/s a channel" or "15 to 48 GB/s a channel".
  std::string speedsText() const {
    constexpr std::size_t kListed = 4;
    std::vector<std::string> speeds;
    for (std::size_t i = first_; i <= last_; ++i) {
      const SearchLimits& limits = attempts_[i].limits;
      std::string speed = gbText(limits.bandwidth_intra);
      if (inter_ && limits.bandwidth_intra != limits.bandwidth_inter)
        speed += "/" + gbText(limits.bandwidth_inter);
      if (speeds.empty() || speeds.back() != speed) speeds.push_back(speed);
    }
    const std::string text =
        speeds.size() > kListed ? speeds.front() + " to " + speeds.back() : listText(speeds);
    return text + (text.find('/') == std::string::npos ? " GB/s a channel"
                                                       : " GB/s a channel (inside/between hosts)");
  }

  std::string limitsOf(const SearchAttempt& attempt) const {
    std::string text =
        std::string(patternName(attempt.limits.pattern)) + ", " + pathsText(attempt.limits, inter_);
    if (attempt.limits.same_channels) text += ", one order of GPUs";
    if (inter_ && attempt.limits.cross_nic != 0) text += ", out by another NIC than in";
    return text;
  }

  bool any(SearchMove move) const {
    for (std::size_t i = first_; i <= last_; ++i)
      if (attempts_[i].move == move) return true;
    return false;
  }

  // What was relaxed while nothing was found.
  std::string nothingText() const {
    SearchLimits widest = attempts_[first_].limits;
    bool spent = false;
    for (std::size_t i = first_; i <= last_; ++i) {
      widest.type_intra = std::max(widest.type_intra, attempts_[i].limits.type_intra);
      widest.type_inter = std::max(widest.type_inter, attempts_[i].limits.type_inter);
      spent = spent || attempts_[i].out_of_steps;
    }
    std::vector<std::string> relaxed;
    if (any(SearchMove::kDifferentChannels)) relaxed.push_back("another order for each channel");
    if (any(SearchMove::kSimplerTree)) relaxed.push_back("a simpler tree");
    if (any(SearchMove::kWiderIntra))
      relaxed.push_back(std::string("paths up to ") + pathTypeName(widest.type_intra) + " between GPUs");
    if (any(SearchMove::kWiderInter))
      relaxed.push_back(std::string("paths up to ") + pathTypeName(widest.type_inter) + " to NICs");
    if (any(SearchMove::kCrossNic)) relaxed.push_back("out by another NIC than in");
    std::string text = attempts_[last_].found == 0 ? "nothing" : "nothing better";
    text += " in " + counted(static_cast<int>(last_ - first_ + 1), "attempt");
    if (!relaxed.empty()) text += ", also with " + listText(relaxed);
    if (spent) text += "; the steps of an attempt did not suffice to try everything";
    return text + ".";
  }

  const std::vector<SearchAttempt>& attempts_;
  const std::size_t first_;
  std::size_t last_;
  const bool inter_;
};

std::string endText(const GraphTrace& trace, const CommunicatorGraphs& graphs) {
  switch (trace.end) {
    case SearchEnd::kPerfect:
      return "These are as many channels as allowed: the search ended.";
    case SearchEnd::kAllLinks:
      return "Together the channels have the bandwidth of all links of a GPU (" +
             gbText(graphs.total_bandwidth) + " GB/s): the search ended.";
    case SearchEnd::kOutOfSteps:
      return "The steps of all attempts together were spent: the search ended with what it had.";
    case SearchEnd::kLowestSpeed:
      return "There is no lower speed: the search ended.";
    case SearchEnd::kNotWorthwhile:
      return "Less than half of that speed could not be better: the search ended.";
  }
  return "";
}

std::string stopText(const Graph& graph, NodeType type, int index) {
  return type == NodeType::kNet ? netName(graph, index) : gpuName(graph, index);
}

std::string blockedText(const GraphTrace& trace, const Graph& graph) {
  const BlockedWalk& blocked = trace.blocked;
  if (blocked.from < 0)
    return "In the order of the list one channel would fit, but NCCL wanted at least " +
           std::to_string(trace.attempts.empty() ? 1 : trace.attempts[0].limits.min_channels) + ".";
  const std::string walk = "from " + stopText(graph, blocked.from_type, blocked.from) + " to " +
                           stopText(graph, blocked.to_type, blocked.to);
  if (blocked.type >= PathType::kDis) return "What is missing: there is no path " + walk + ".";
  if (blocked.needed == 0)
    return "What is missing: the path " + walk + " is " + pathTypeName(blocked.type) +
           ", and the farthest that NCCL allowed is " + pathTypeName(blocked.farthest) + ".";
  return "What is missing: the link from " + nodeName(graph, blocked.link_from) + " to " +
         nodeName(graph, blocked.link_to) + ", on the path " + walk + ", has " + gbText(blocked.left) +
         " GB/s left, and a channel at the lowest speed that NCCL tries on these GPUs needs " +
         gbText(blocked.needed) + ".";
}

constexpr std::pair<SearchMove, const char*> kMoveTexts[] = {
    {SearchMove::kBegin, "begin"},
    {SearchMove::kDifferentChannels, "another order for each channel"},
    {SearchMove::kSimplerTree, "a simpler tree"},
    {SearchMove::kWiderIntra, "longer paths between GPUs"},
    {SearchMove::kWiderInter, "longer paths to NICs"},
    {SearchMove::kCrossNic, "out by another NIC than in"},
    {SearchMove::kLowerSpeed, "less bandwidth"},
    {SearchMove::kFasterRing, "more bandwidth"},
    {SearchMove::kFasterNetwork, "more bandwidth between hosts"},
    {SearchMove::kFasterInside, "more bandwidth inside the host"}};
const char* moveText(SearchMove move) { return nameIn(kMoveTexts, move, ""); }

std::vector<std::string> whySentences(const GraphTrace& trace, const CommunicatorGraphs& graphs,
                                      const Graph& graph) {
  std::vector<std::string> sentences;
  if (trace.skipped == SearchSkipped::kFromFile) return {"The graph is from the file, and was not searched."};
  if (trace.skipped == SearchSkipped::kNoNvls)
    return {"Not searched: NVLS needs NVSwitches and GPUs from sm 90 on."};
  if (trace.attempts.empty()) return {};
  const SearchLimits& first = trace.attempts[0].limits;
  std::string wanted =
      first.min_channels == first.max_channels
          ? counted(first.max_channels, "channel")
          : std::to_string(first.min_channels) + " to " + counted(first.max_channels, "channel");
  sentences.push_back("NCCL looked for " + wanted + " of the pattern " + patternName(first.pattern) + ": " +
                      patternMeaning(first.pattern, graphs.inter) + ".");
  bool ended = false;
  const auto end = [&] {
    if (ended) return;
    ended = true;
    if (!trace.simple_order) sentences.push_back(endText(trace, graphs));
    if (trace.undoubled > 0)
      sentences.push_back("The " + counted(trace.undoubled, "channel") +
                          " were fast enough to be split in two, with half of the bandwidth each.");
  };
  for (std::size_t i = 0; i < trace.attempts.size();) {
    if (isSecondPass(trace.attempts[i])) end();
    const AttemptGroup group(trace.attempts, i, graphs.inter);
    sentences.push_back(group.text());
    i = group.next();
  }
  end();
  if (trace.simple_order) {
    sentences.push_back("Could not find a path for pattern " +
                        std::to_string(static_cast<int>(trace.failed_pattern)) +
                        ", falling back to simple order: one channel through the GPUs in the order of the "
                        "list, which NCCL counts with 0.1 GB/s.");
    sentences.push_back(blockedText(trace, graph));
  }
  return sentences;
}

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
    json.key("attempts").rows(searched.attempts, [&](const SearchAttempt& attempt) {
      const SearchLimits& limits = attempt.limits;
      json.value(moveText(attempt.move)).value(static_cast<int>(limits.pattern));
      json.value(limits.bandwidth_intra).value(limits.bandwidth_inter);
      json.value(pathTypeName(limits.type_intra)).value(pathTypeName(limits.type_inter));
      json.value(limits.cross_nic).value(limits.same_channels ? 1 : 0);
      json.value(attempt.better ? attempt.found : 0);
    });
    json.endObject();
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
  for (const Algorithm algorithm : kListedAlgorithms)
    if (!isCollNet(algorithm) || graph.count(NodeType::kNet) > 0)
      writeGraph(json, graph, graphs->of(algorithm));
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
    for (const Algorithm algorithm : kListedAlgorithms) {
      if (isCollNet(algorithm) && graph_.count(NodeType::kNet) == 0) continue;
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
