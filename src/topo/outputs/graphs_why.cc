#include <algorithm>

#include "topo/explain/describe.h"
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

}  // namespace

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

}  // namespace railwise::topo
