#include <algorithm>
#include <map>
#include <set>

#include "topo/explain/describe.h"
#include "topo/explain/explain.h"

namespace railwise::topo {
namespace {

constexpr std::size_t kLabelWidth = 13;  // length of "  GPUDirect  "

class TextWriter {
 public:
  TextWriter(const Machine& machine, const MachineExplanation& all, const ExplainStyle& style)
      : machine_(machine), graph_(*machine.graph), all_(all), style_(style), channel_(style.channel) {}

  std::string whole() {
    writeHead();
    if (style_.brief || (style_.rank < 0 && all_.gpus.size() > 1))
      text_ += "\n" + nicTable(machine_, all_, style_.rank);
    if (style_.rank < 0 && !style_.brief) text_ += channelTables(machine_, all_, channel_);
    for (const auto& alike : groups()) {
      if (style_.brief) {
        writeBriefly(alike);
      } else {
        writeGpu(*alike[0], alike);
      }
    }
    writeMachineProblems();
    writeFixes();
    if (!style_.brief) writeLegend();
    return text_;
  }

 private:
  using Group = std::vector<const GpuExplanation*>;

  // Adds one paragraph with a label.
  void addParagraph(const std::string& label, const std::string& paragraph) {
    std::string beginning = "  " + label;
    beginning.resize(std::max(beginning.size() + 1, kLabelWidth), ' ');
    text_ += wrappedText(paragraph, beginning, std::string(kLabelWidth, ' '), style_.columns);
  }

  // The GPUs to write. GPUs that are alike but for names form one group.
  std::vector<Group> groups() const {
    std::vector<Group> groups;
    std::map<std::string, std::size_t> known;
    for (const GpuExplanation& gpu : all_.gpus) {
      if (style_.rank >= 0 && gpu.rank != style_.rank) continue;
      const std::string kind = style_.each    ? std::to_string(gpu.rank)
                               : style_.brief ? wrongWith(gpu)
                                              : kindOf(gpu);
      const auto [at, is_new] = known.emplace(kind, groups.size());
      if (is_new) groups.emplace_back();
      groups[at->second].push_back(&gpu);
    }
    return groups;
  }

  // Equal for GPUs of which the text would say the same with other names.
  std::string kindOf(const GpuExplanation& gpu) const {
    std::string kind = gpu.error + std::to_string(gpu.nets.size());
    const auto add = [&kind](const auto&... parts) { ((kind += std::string("|") + parts), ...); };
    for (const ChosenNic& nic : gpu.chosen) {
      add(viewText(nic.view), gdrSentence(nic.receive), gdrSentence(nic.send), nic.flush.reason,
          std::string(isVirtual(graph_, nic.view.net) ? "virtual" : ""),
          gbText(graph_.of(NodeType::kNet, nic.view.net).bandwidth),
          nic.proxy_rank == gpu.rank ? "own" : "PXN");
      for (const Step& step : nic.view.steps) add(step.link, gbText(step.bandwidth));
    }
    std::map<std::string, int> rejected;
    for (const RejectedNic& nic : gpu.rejected) ++rejected[nic.rule + " " + viewText(nic.view)];
    for (const auto& [rule, number] : rejected) add(rule, std::to_string(number));
    for (const ChannelEnd& end : gpu.ends)
      add(std::to_string(static_cast<int>(end.use)), std::to_string(end.channels.size()), end.rule);
    std::map<std::string, int> peers;
    for (const PeerRoute& route : gpu.peers) ++peers[route.proxy_rank == gpu.rank ? "own" : "PXN"];
    for (const auto& [way, number] : peers) add(way, std::to_string(number));
    for (const Problem& problem : gpu.problems) add(problem.kind, problem.fix);
    add(std::to_string(gpu.one_sided.size()), hasOthers(gpu) ? "others" : "");
    add(std::to_string(ranksOnDeviceOf(graph_, gpu.gpu).size()));
    return kind;
  }

  // Are the NICs of one-sided communication others than those of the plugin?
  bool hasOthers(const GpuExplanation& gpu) const {
    std::set<std::string> names;
    for (const int net : gpu.nets) names.insert(netName(graph_, net));
    return !gpu.one_sided.empty() &&
           names != std::set<std::string>(gpu.one_sided.begin(), gpu.one_sided.end());
  }

  // The text of a problem for every GPU that has it: "mlx5_0 is far from GPU 0" becomes "its NIC is far from
  // the GPU".
  std::string withoutNames(const GpuExplanation& gpu, std::string text) const {
    const auto replace = [&text](const std::string& name, const std::string& with) {
      for (std::size_t at = text.find(name); at != std::string::npos; at = text.find(name, at + 1)) {
        const std::size_t end = at + name.size();
        if (end == text.size() || std::isalnum(static_cast<unsigned char>(text[end])) == 0)
          text.replace(at, name.size(), with);
      }
    };
    replace(gpuName(graph_, gpu.gpu), "the GPU");
    if (gpu.chosen.size() == 1) replace(netName(graph_, gpu.chosen[0].view.net), "its NIC");
    return text;
  }

  std::string wrongWith(const GpuExplanation& gpu) const {
    std::string wrong = gpu.error;
    for (const Problem& problem : gpu.problems)
      wrong += "|" + problem.kind + withoutNames(gpu, problem.text) + problem.fix;
    return wrong;
  }

  // Of a group only what is wrong.
  void writeBriefly(const Group& alike) {
    const GpuExplanation& first = *alike[0];
    if (first.problems.empty() && first.error.empty()) return;
    const bool alone = alike.size() == 1;
    std::string title = titleOf(alike);
    if (!alone) title.insert(title.find(' '), "s");
    text_ += "\n" + title + "\n";
    if (!first.error.empty()) addParagraph("Why", first.error);
    for (Problem problem : first.problems) {
      if (!alone) problem.text = withoutNames(first, problem.text);
      writeProblem(problem);
    }
  }

  // "GPU 0", "GPU 0-7"
  static std::string titleOf(const Group& alike) {
    std::vector<int> ranks;
    for (const GpuExplanation* gpu : alike) ranks.push_back(gpu->rank);
    return "GPU " + rangesText(ranks);
  }

  // Who is like the first GPU of the group.
  void writeAlike(const Group& alike) {
    if (alike.size() < 2) return;
    addParagraph("Alike", titleOf(Group(alike.begin() + 1, alike.end())) +
                              (alike.size() == 2 ? " is" : " are") +
                              " like this but for names (--gpu N and --each show them)");
  }

  // Returns for example "8 GPUs", "2 GPUs with 2 ranks each" or "2 GPUs, 3 ranks".
  std::string gpusText() const {
    const int ranks = graph_.count(NodeType::kGpu);
    int devices = 0;
    bool alike = true;
    const std::size_t first = ranks > 0 ? ranksOnDeviceOf(graph_, 0).size() : 0;
    for (int gpu = 0; gpu < ranks; ++gpu) {
      const auto on = ranksOnDeviceOf(graph_, gpu);
      if (on.front() == graph_.of(NodeType::kGpu, gpu).rank) ++devices;
      alike = alike && on.size() == first;
    }
    const std::string text = counted(devices, "GPU");
    if (devices == ranks) return text;
    if (!alike) return text + ", " + counted(ranks, "rank");
    return text + " with " + std::to_string(first) + " ranks" + (devices > 1 ? " each" : "");
  }

  // The text calls each rank a "GPU", so it must say which ranks share one device.
  void writeSharers(const GpuExplanation& gpu) {
    auto ranks = ranksOnDeviceOf(graph_, gpu.gpu);
    if (ranks.size() < 2) return;
    ranks.erase(std::remove(ranks.begin(), ranks.end(), gpu.rank), ranks.end());
    addParagraph("Shared", "this is rank " + std::to_string(gpu.rank) + "; on the same device " +
                               (ranks.size() == 1 ? "is rank " : "are ranks ") + rangesText(ranks));
  }

  void writeHead() {
    std::string title = machine_.name + ": " + gpusText() + ", " +
                        counted(graph_.count(NodeType::kNet), "NIC") + ", " +
                        counted(graph_.count(NodeType::kCpu), "NUMA node");
    if (graph_.hosts() > 1) title += ", " + counted(graph_.hosts(), "host");
    title += "; by the rules of " + rulesText(machine_);
    text_ += wrappedText(title, "", "  ", style_.columns);
    const auto add = [this](const char* label, const std::string& words) {
      text_ += wrappedText(words, label, "    ", style_.columns);
    };
    for (const std::string& set : machine_.settings->from_environment) add("  set: ", set);
    for (const std::string& warning : machine_.settings->warnings) add("  warning: ", warning);
    for (const std::string& remark : machine_.remarks) add("  note: ", remark);
  }

  // The NIC of the requested channel, or all NICs of the GPU.
  std::vector<const ChosenNic*> chosenOf(const GpuExplanation& gpu) const {
    std::vector<const ChosenNic*> chosen;
    for (const ChosenNic& nic : gpu.chosen) {
      const int asked = channel_ < 0 ? -1 : channel_ % static_cast<int>(gpu.nets.size());
      if (asked < 0 || std::count(nic.channels.begin(), nic.channels.end(), asked) != 0)
        chosen.push_back(&nic);
    }
    return chosen;
  }

  void writeGpu(const GpuExplanation& gpu, const Group& alike) {
    const Node& node = graph_.of(NodeType::kGpu, gpu.gpu);
    const auto chosen = chosenOf(gpu);
    std::vector<std::string> names;
    for (const ChosenNic* nic : chosen) names.push_back(netName(graph_, nic->view.net));
    text_ += "\n" + gpuName(graph_, gpu.gpu) + " (" + node.busid + ", " + gpu.local_cpu + ") uses " +
             (names.empty() ? "no NIC" : listText(names)) + "\n";
    writeSharers(gpu);
    if (names.empty()) addParagraph("Why", gpu.error);
    for (const ChosenNic* nic : chosen) writeChosen(gpu, *nic, chosen.size() > 1);
    if (!gpu.nets.empty()) writeChannels(gpu);
    for (const auto& [label, text] : channelParagraphs(machine_, all_, gpu, channel_))
      addParagraph(label, text);
    writePeers(gpu);
    if (hasOthers(gpu)) addParagraph("One-sided", "communication (below) takes " + listText(gpu.one_sided));
    writeRejected(gpu);
    for (const Problem& problem : gpu.problems) writeProblem(problem);
    writeAlike(alike);
  }

  void writeChosen(const GpuExplanation& gpu, const ChosenNic& nic, bool several) {
    const Node& net = graph_.of(NodeType::kNet, nic.view.net);
    types_.insert(nic.view.type);
    addParagraph(several ? netName(graph_, nic.view.net) : "Path",
                 viewText(nic.view) + " (" + meaningText(graph_, nic.view.type) +
                     "); the NIC's port carries " + gbText(net.bandwidth) +
                     " GB/s = " + gbText(net.bandwidth * 8) + " Gb/s");
    addParagraph("", gpuName(graph_, gpu.gpu) + " " + stepsText(nic.view.steps));
    const bool same = nic.receive.mode == nic.send.mode && nic.receive.reason == nic.send.reason;
    if (same) {
      addParagraph("GPUDirect", gdrSentence(nic.receive));
    } else {
      addParagraph("GPUDirect", "receive " + gdrSentence(nic.receive));
      addParagraph("", "send " + gdrSentence(nic.send));
    }
    if (nic.receive.mode != GdrMode::kOff) {
      const char* flush[] = {"not needed", "after every receive", "after every receive, through C2C"};
      addParagraph("Flush", std::string(flush[static_cast<int>(nic.flush.flush)]) + ": " + nic.flush.reason);
    }
  }

  void writeChannels(const GpuExplanation& gpu) {
    const auto period = static_cast<int>(gpu.nets.size());
    if (channel_ >= 0) {
      addParagraph("Channel", "sends and receives on channel " + std::to_string(channel_) + " use " +
                                  netName(graph_, gpu.nets[static_cast<std::size_t>(channel_ % period)]) +
                                  (period > 1 ? "; the channels alternate between " + counted(period, "NIC")
                                              : "; so do all others"));
      return;
    }
    if (period == 1) return;
    std::vector<std::string> turns;
    for (int c = 0; c < period; ++c) {
      turns.push_back(std::to_string(c) + " uses " + netName(graph_, gpu.nets[static_cast<std::size_t>(c)]));
    }
    addParagraph("Channels",
                 "of sends and receives: channel " + listText(turns) + "; then again from the start");
  }

  std::string wayText(const GpuExplanation& gpu, const PeerRoute& route) const {
    const bool direct = route.proxy_rank == gpu.rank;
    return netName(graph_, route.net) +
           (direct ? "" : " through GPU " + std::to_string(route.proxy_rank) + " (PXN)");
  }

  // Peers that are reached by the same NIC form one group. In the usual case each peer is reached through
  // this host's GPU with the peer's number (PXN), which is written as one sentence.
  void writePeers(const GpuExplanation& gpu) {
    std::map<int, std::vector<std::string>> ways;  // by peer
    bool by_number = true;
    for (const PeerRoute& route : gpu.peers) {
      if (channel_ >= 0 && route.channel != channel_ % static_cast<int>(gpu.nets.size())) continue;
      const std::string way = wayText(gpu, route);
      auto& known = ways[route.peer_dev];
      if (std::find(known.begin(), known.end(), way) == known.end()) known.push_back(way);
      const int relay = graph_.gpuOfRank(route.proxy_rank);
      by_number = by_number && relay >= 0 && graph_.of(NodeType::kGpu, relay).dev == route.peer_dev;
    }
    if (ways.empty()) return;
    if (by_number && ways.size() > 2) {
      addParagraph("Remote", std::string("to GPU k of another host like this: over ") +
                                 (isAmd(graph_) ? "xGMI" : "NVLink") +
                                 " to this host's GPU k, and out through the NIC of that one (PXN), so that "
                                 "both ends are on one rail");
      return;
    }
    std::map<std::string, std::vector<int>> groups;
    for (const auto& [dev, way] : ways) groups[listText(way)].push_back(dev);
    std::vector<std::string> parts;
    for (const auto& [way, devs] : groups) {
      parts.push_back((groups.size() == 1 ? "any GPU" : "GPU " + rangesText(devs)) + " by " + way);
    }
    addParagraph("Remote", "to another host like this: " + listText(parts));
  }

  void writeRejected(const GpuExplanation& gpu) {
    std::vector<std::pair<std::string, std::vector<std::string>>> groups;
    const auto add = [&](const std::string& reason, int net) {
      auto group =
          std::find_if(groups.begin(), groups.end(), [&](const auto& g) { return g.first == reason; });
      if (group == groups.end()) group = groups.insert(groups.end(), {reason, {}});
      group->second.push_back(netName(graph_, net));
    };
    for (const ChosenNic& nic : gpu.chosen) {
      const auto chosen = chosenOf(gpu);
      if (std::find(chosen.begin(), chosen.end(), &nic) == chosen.end())
        add("the turn of another channel", nic.view.net);
    }
    for (const RejectedNic& nic : gpu.rejected) {
      add(nic.reason, nic.view.net);
      types_.insert(nic.view.type);
    }
    std::stable_partition(groups.begin(), groups.end(),
                          [](const auto& group) { return group.first.rfind("equally", 0) != 0; });
    const char* label = "Rejected";
    for (const auto& [reason, names] : groups) {
      addParagraph(label, shortList(names, 16) + ": " + reason);
      label = "";
    }
    for (const RejectedNic& nic : gpu.rejected) {
      if (nic.deal.empty()) continue;
      addParagraph(label, "(" + nic.deal + ")");
      break;  // it is equal for all of them
    }
  }

  // The fix is written once at the end of the text, under the number that it gets here.
  void writeProblem(const Problem& problem) {
    std::string note;
    if (!problem.fix.empty()) {
      auto fix = std::find(fixes_.begin(), fixes_.end(), problem.fix);
      if (fix == fixes_.end()) fix = fixes_.insert(fix, problem.fix);
      note = " [" + std::to_string(fix - fixes_.begin() + 1) + "]";
    }
    addParagraph("! Problem", problem.text + note);
  }

  void writeMachineProblems() {
    if (all_.problems.empty()) return;
    text_ += "\nThe machine as a whole\n";
    for (const Problem& problem : all_.problems) writeProblem(problem);
  }

  void writeFixes() {
    if (!fixes_.empty()) text_ += "\nWhat to do\n";
    for (std::size_t i = 0; i < fixes_.size(); ++i)
      addParagraph("[" + std::to_string(i + 1) + "]", fixes_[i]);
  }

  void writeLegend() {
    text_ += std::string("\nHow ") + libraryName(graph_) + " chooses\n";
    addParagraph("1.",
                 "of all NICs those that the GPU reaches with the highest bandwidth (GB/s, one direction)");
    addParagraph("2.", "of these the nearest by type: PIX < PXB < P2C < PXN < PHB < SYS");
    addParagraph("3.", std::string("what is left is dealt out to the GPUs that share it, by their ") +
                           (isAmd(graph_) ? "GPU" : "NVML") + " number and channel");
    if (std::any_of(all_.channels.begin(), all_.channels.end(),
                    [](const DomainChannels& channels) { return channels.missing.empty(); }))
      addParagraph("4.", "rings and trees: the search gives NICs to their channels (topo graphs --why)");
    if (std::any_of(all_.gpus.begin(), all_.gpus.end(),
                    [](const auto& gpu) { return !gpu.one_sided.empty(); }))
      addParagraph("One-sided",
                   "communication (windows, host RMA, GIN) gets NICs by 1 to 3 too, but never by PXN. Where "
                   "the net plugin has no tables for it, NCCL's own IB network serves it beside the plugin");
    for (const PathType type : types_) addParagraph(pathTypeName(type), meaningText(graph_, type));
  }

  const Machine& machine_;
  const Graph& graph_;
  const MachineExplanation& all_;
  const ExplainStyle& style_;
  const int channel_;
  std::string text_;
  std::vector<std::string> fixes_;
  std::set<PathType> types_;  // the path types that the text mentions
};

}  // namespace

std::string nicTable(const Machine& machine, const MachineExplanation& all, int rank) {
  std::vector<TextRow> rows = {{"GPU", "NIC", "path", "GB/s", "GPUDirect", "channels"}};
  for (const GpuExplanation& gpu : all.gpus) {
    if (rank >= 0 && gpu.rank != rank) continue;
    const std::string name = gpuName(*machine.graph, gpu.gpu);
    if (gpu.chosen.empty()) rows.push_back({name, "none"});
    for (const ChosenNic& nic : gpu.chosen) {
      std::string channels = "all";
      if (gpu.nets.size() > 1) {
        channels = rangesText(nic.channels) + " of every " + std::to_string(gpu.nets.size());
      }
      rows.push_back({&nic == &gpu.chosen[0] ? name : "", netName(*machine.graph, nic.view.net),
                      pathTypeName(nic.view.type), gbText(nic.view.bandwidth), gdrSummary(machine, nic),
                      channels});
    }
  }
  return tableText(rows);
}

Outcome<std::string> explainText(const Machine& machine, const MachineExplanation& all,
                                 const ExplainStyle& style) {
  if (style.rank >= 0 && machine.graph->gpuOfRank(style.rank) < 0) {
    return Error{noGpuText(machine, style.rank)};
  }
  return TextWriter(machine, all, style).whole();
}

}  // namespace railwise::topo
