#include <algorithm>

#include "base/text/text_layout.h"
#include "topo/explain/explain.h"

namespace railwise::topo {
namespace {

// The length of the longest line.
std::size_t longestLine(const std::string& text) {
  std::size_t width = 0;
  for (const std::string& line : linesOf(text)) width = std::max(width, line.size());
  return width;
}

// "5 (like 1)" if the search found four channels: NCCL makes further channels as copies.
std::string numberText(const DomainChannels& channels, int channel) {
  const int searched = channel % channels.channels;
  return std::to_string(channel) + (searched == channel ? "" : " (like " + std::to_string(searched) + ")");
}

// The channels of one domain as a table.
class DomainTable {
 public:
  DomainTable(const Machine& machine, const MachineExplanation& all, const DomainChannels& channels)
      : graph_(*machine.graph), channels_(channels) {
    for (const GpuExplanation& gpu : all.gpus) {
      if (std::binary_search(channels.ranks.begin(), channels.ranks.end(), gpu.rank)) gpus_.push_back(&gpu);
    }
  }

  std::string text(int channel) {
    std::vector<int> shown;
    if (channel >= 0) shown.push_back(channel);
    for (int c = 0; channel < 0 && c < channels_.channels; ++c) shown.push_back(c);
    const std::string whole = table(shown, true, true);
    if (longestLine(whole) <= kTextColumns) return whole;
    return table(shown, true, false) + "\n" + table(shown, false, true);
  }

  bool hasMarks() const { return has_marks_; }

 private:
  // Channels with equal rows stand together.
  std::string table(const std::vector<int>& shown, bool rings, bool trees) {
    std::vector<std::pair<TextRow, std::vector<int>>> alike;
    for (const int c : shown) {
      TextRow cells;
      if (rings) cells = {cell(c, EndUse::kRingEnters), cell(c, EndUse::kRingLeaves)};
      if (trees) cells.push_back(cell(c, EndUse::kTree));
      auto known = std::find_if(alike.begin(), alike.end(), [&](const auto& a) { return a.first == cells; });
      if (known == alike.end()) known = alike.insert(known, {cells, {}});
      known->second.push_back(c);
    }
    std::vector<TextRow> rows = {{shown.size() == 1 ? "channel" : "channels"}};
    if (rings) rows[0].insert(rows[0].end(), {"ring enters by", "ring leaves by"});
    if (trees) rows[0].emplace_back("tree enters and leaves by");
    for (const auto& [cells, channels] : alike) {
      rows.push_back({shown.size() == 1 ? numberText(channels_, shown[0]) : rangesText(channels)});
      rows.back().insert(rows.back().end(), cells.begin(), cells.end());
    }
    return tableText(rows);
  }

  // "mlx5_0 at GPU 0, 3*"
  std::string cell(int channel, EndUse use) {
    std::vector<std::pair<int, std::string>> by_net;  // NETs, and the GPUs at them
    for (const GpuExplanation* gpu : gpus_) {
      for (const ChannelEnd& end : gpu->ends) {
        if (end.use != use || !channels_.has(end, channel)) continue;
        auto known = std::find_if(by_net.begin(), by_net.end(),
                                  [&](const auto& entry) { return entry.first == end.view.net; });
        if (known == by_net.end()) known = by_net.insert(known, {end.view.net, ""});
        known->second += (known->second.empty() ? "" : ", ") + std::to_string(gpu->rank);
        if (end.rule.empty()) continue;
        known->second += "*";
        has_marks_ = true;
      }
    }
    std::string text;
    for (const auto& [net, gpus] : by_net)
      text += (text.empty() ? "" : ", ") + netName(graph_, net) + " at GPU " + gpus;
    return text.empty() ? "no NIC" : text;
  }

  const Graph& graph_;
  const DomainChannels& channels_;
  std::vector<const GpuExplanation*> gpus_;
  bool has_marks_ = false;
};

std::string simpleText(const Graph& graph, const DomainChannels& channels) {
  const char* const found = channels.simple_rings && channels.simple_trees ? "neither ring nor tree"
                            : channels.simple_rings                        ? "no ring"
                                                                           : "no tree";
  return std::string("! The search found ") + found + ": " + libraryName(graph) +
         " takes the GPUs in the order of the list, and counts with 0.1 GB/s; `railwise topo graphs --why` "
         "names the link that is missing";
}

std::string swappedText(const Graph& graph, const DomainChannels& channels, bool split) {
  std::string text = split ? "On every second part (counted through all hosts)" : "On every second host";
  text +=
      channels.channels == 2 ? " rings 0 and 1 change places" : " rings 0 and 1, 2 and 3, ... change places";
  const char* separator = "; with other NICs: ";
  for (const SwappedRing& ring : channels.swapped) {
    if (!ring.other_nics || ring.enter_net < 0 || ring.leave_net < 0) continue;
    text += separator + ("ring " + std::to_string(ring.channel)) + " enters by " +
            netName(graph, ring.enter_net) + " at GPU " + std::to_string(ring.enter_rank) +
            " and leaves by " + netName(graph, ring.leave_net) + " at GPU " + std::to_string(ring.leave_rank);
    separator = "; ";
  }
  return text;
}

// `split`: the machine has several domains. `marks`: the table has asterisks.
std::string notesText(const Graph& graph, const DomainChannels& channels, bool split, bool marks) {
  std::string text;
  if (marks) text += wrappedText("* not the GPU's own NIC: the lines Rings and Trees of that GPU say why");
  if (!channels.swapped.empty()) text += wrappedText(swappedText(graph, channels, split));
  if (channels.channels < std::max(channels.rings, channels.trees))
    text += wrappedText("The search found " + counted(channels.rings, "ring") + " and " +
                        counted(channels.trees, "tree") + ": " + libraryName(graph) + " uses " +
                        std::to_string(channels.channels) +
                        " of each, as many as there are of both in every part of the machine");
  if (channels.simple_rings || channels.simple_trees) text += wrappedText(simpleText(graph, channels));
  if (graph.rccl()) text += wrappedText("By NCCL's search: RCCL's own may find other channels");
  return text;
}

// What one GPU has to do with the rings, or with the trees.
class GpuEnds {
 public:
  GpuEnds(const Graph& graph, const GpuExplanation& gpu, const DomainChannels& channels, int channel)
      : graph_(graph), gpu_(gpu), channels_(channels), channel_(channel) {}

  // Ends with one reason stand together, those at the GPU's own NICs first.
  std::vector<std::string> sentences(bool rings) const {
    std::vector<std::pair<std::string, std::string>> by_reason = {{"", ""}};
    for (const ChannelEnd& end : gpu_.ends) {
      if ((end.use != EndUse::kTree) != rings || !channels_.has(end, channel_)) continue;
      if (end.use == EndUse::kRingLeaves && counterpart(end, EndUse::kRingEnters)) continue;
      auto known = std::find_if(by_reason.begin(), by_reason.end(),
                                [&](const auto& entry) { return entry.first == end.reason; });
      if (known == by_reason.end()) known = by_reason.insert(known, {end.reason, ""});
      known->second += (known->second.empty() ? "" : "; ") + endText(end);
    }
    std::vector<std::string> sentences;
    for (const auto& [reason, ends] : by_reason) {
      if (ends.empty()) continue;
      const bool several = ends.find(';') != std::string::npos;
      sentences.push_back(
          reason.empty() ? ends : ends + (several ? " (none its own: " : " (not its own: ") + reason + ")");
    }
    return sentences;
  }

 private:
  // The ring of a single GPU enters and leaves at this GPU.
  bool counterpart(const ChannelEnd& end, EndUse use) const {
    return std::any_of(gpu_.ends.begin(), gpu_.ends.end(), [&](const ChannelEnd& other) {
      return other.use == use && other.view.net == end.view.net && other.channels == end.channels;
    });
  }

  // "channels 0, 4 enter by mlx5_0"
  std::string endText(const ChannelEnd& end) const {
    const bool one = channel_ >= 0 || end.channels.size() == 1;
    const char* const s = one ? "s" : "";
    std::string text = one ? "channel " : "channels ";
    text += channel_ < 0 ? rangesText(end.channels) : numberText(channels_, channel_);
    if (end.use == EndUse::kRingEnters) text += std::string(" enter") + s;
    if (end.use == EndUse::kRingEnters && counterpart(end, EndUse::kRingLeaves)) text += " and leave";
    if (end.use == EndUse::kRingLeaves) text += " leave";
    if (end.use == EndUse::kRingLeaves || text.ends_with(" and leave")) text += s;
    return text + " by " + netName(graph_, end.view.net);
  }

  const Graph& graph_;
  const GpuExplanation& gpu_;
  const DomainChannels& channels_;
  const int channel_;
};

}  // namespace

std::string channelTables(const Machine& machine, const MachineExplanation& all, int channel) {
  std::string text;
  for (const DomainChannels& channels : all.channels) {
    const bool split = all.channels.size() > 1;
    const std::string title = split ? "Rings and trees of GPU " + rangesText(channels.ranks) +
                                          ", with the others and a second, equal machine"
                                    : "Rings and trees with a second, equal machine";
    text += '\n';
    text += wrappedText(channels.missing.empty() ? title : title + ": none: " + channels.missing);
    if (!channels.missing.empty()) continue;
    DomainTable table(machine, all, channels);
    text += "\n" + table.text(channel);
    text += notesText(*machine.graph, channels, split, table.hasMarks());
  }
  return text;
}

std::vector<std::pair<std::string, std::string>> channelParagraphs(const Machine& machine,
                                                                   const MachineExplanation& all,
                                                                   const GpuExplanation& gpu, int channel) {
  const DomainChannels* const channels = all.channelsOf(gpu.rank);
  if (channels == nullptr || !channels->missing.empty()) return {};
  const GpuEnds ends(*machine.graph, gpu, *channels, channel);
  std::vector<std::string> rings = ends.sentences(true);
  std::vector<std::string> trees = ends.sentences(false);
  if (rings.empty() && trees.empty())
    return {{"Rings", "no ring and no tree enters or leaves the host at this GPU"}};
  if (rings.empty()) rings.emplace_back("none enters or leaves the host at this GPU");
  if (trees.empty()) trees.emplace_back("none enters or leaves the host at this GPU");
  std::vector<std::pair<std::string, std::string>> paragraphs;
  for (const bool is_ring : {true, false}) {
    const std::vector<std::string>& sentences = is_ring ? rings : trees;
    for (const std::string& sentence : sentences)
      paragraphs.emplace_back(&sentence != sentences.data() ? "" : is_ring ? "Rings" : "Trees", sentence);
  }
  return paragraphs;
}

}  // namespace railwise::topo
