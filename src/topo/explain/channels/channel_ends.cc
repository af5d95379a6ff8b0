#include "topo/explain/channels/channel_ends.h"

#include <algorithm>
#include <utility>

#include "topo/graph/constants.h"
#include "topo/search/search.h"

namespace railwise::topo {
namespace {

// Where a channel enters or leaves the host.
struct End {
  EndUse use = EndUse::kRingEnters;
  int rank = -1;
  int net = -1;
  bool second = false;  // the NIC is the second one of the channel (net_out)
};

// NCCL gives the first NIC of a channel to its first GPU, and the second NIC to every other GPU
// (ncclTopoGetNetDev).
int netOf(const Channel& channel, int rank) {
  return rank == channel.ranks.front() ? channel.net_in : channel.net_out;
}

std::vector<End> endsOf(const ChannelGraph& graph, const Channel& channel) {
  const int first = channel.ranks.front();
  const auto end = [&](EndUse use, int rank) { return End{use, rank, netOf(channel, rank), rank != first}; };
  if (graph.algorithm == Algorithm::kRing)
    return {end(EndUse::kRingEnters, first), end(EndUse::kRingLeaves, channel.ranks.back())};
  if (graph.pattern == Pattern::kTree || channel.ranks.size() == 1) return {end(EndUse::kTree, first)};
  return {end(EndUse::kTree, first), end(EndUse::kTree, channel.ranks[1])};
}

// Adds the ends of the channels of one graph to the GPUs of a domain.
class EndWriter {
 public:
  EndWriter(const Machine& machine, const Domain& domain, const ChannelGraph& graph, MachineExplanation& all)
      : machine_(machine), paths_(*domain.paths), graph_(graph), all_(all) {}

  void add(int channel) {
    for (const End& end : endsOf(graph_, graph_.channels[static_cast<std::size_t>(channel)])) {
      const int gpu = machine_.graph->gpuOfRank(end.rank);
      if (gpu < 0 || end.net < 0) continue;
      add(end, channel, all_.gpus[static_cast<std::size_t>(gpu)]);
    }
  }

 private:
  void add(const End& end, int channel, GpuExplanation& gpu) const {
    const int index = paths_.graph().gpuOfRank(end.rank);
    ChannelEnd added{.use = end.use, .view = viewOf(paths_, index, end.net), .channels = {channel}};
    added.proxy_rank = end.rank;
    const auto proxy = proxyRank(paths_, index, end.net);
    if (proxy.ok() && end.use != EndUse::kRingEnters) added.proxy_rank = *proxy;
    added.gpu_direct = (end.use == EndUse::kRingLeaves || hasGpuDirect(index, end.net, false)) &&
                       (end.use == EndUse::kRingEnters || hasGpuDirect(index, end.net, true));
    if (std::count(gpu.nets.begin(), gpu.nets.end(), end.net) == 0) explain(end, channel, gpu, added);
    for (ChannelEnd& known : gpu.ends) {
      if (known.use == added.use && known.view.net == end.net && known.reason == added.reason)
        return known.channels.push_back(channel);
    }
    gpu.ends.push_back(std::move(added));
  }

  bool hasGpuDirect(int gpu, int net, bool read) const {
    const auto answer = checkGdr(paths_, gpu, net, read);
    return answer.ok() && answer->mode != GdrMode::kOff;
  }

  // Says why the NIC is not one that the GPU uses for its own sends and receives, and what that costs.
  void explain(const End& end, int channel, const GpuExplanation& gpu, ChannelEnd& added) const {
    added.rule = ruleOf(end, channel, gpu);
    added.reason = wordsOf(added.rule, channel, end, gpu) + "; " + viewText(added.view);
    if (added.proxy_rank != gpu.rank)
      added.reason += ", sent through GPU " + std::to_string(added.proxy_rank) + " (PXN)";
    if (!added.gpu_direct) added.reason += ", GPUDirect off";
    if (gpu.chosen.empty()) return;
    const NicView& own = gpu.chosen[0].view;
    added.reason += own.type == added.view.type && own.bandwidth == added.view.bandwidth
                        ? ", as its own"
                        : "; its own: " + viewText(own);
  }

  std::string ruleOf(const End& end, int channel, const GpuExplanation& gpu) const {
    if (graph_.origin == ChannelOrigin::kFile) return "file";
    if (graph_.origin == ChannelOrigin::kSimpleOrder) return "simple-order";
    const Channel& own = graph_.channels[static_cast<std::size_t>(channel)];
    if (end.second && graph_.cross_nic == 0 && own.net_in == own.net_out) return "same-nic";
    if (isReturnOfPair(channel)) return "pair";
    if (isEquallyNear(gpu, end.net)) return "turn";
    if (graph_.same_channels && channel > 0) return "same-order";
    return usersOf(gpu.nets).empty() ? "search" : "shared";
  }

  std::string wordsOf(const std::string& rule, int channel, const End& end, const GpuExplanation& gpu) const {
    const bool ring = end.use != EndUse::kTree;
    if (rule == "file") return "the graph file says so";
    if (rule == "simple-order") return "the search found nothing, and the order of the list decides";
    if (rule == "same-nic")
      return std::string(ring ? "NCCL lets a ring leave by the NIC by which it came in"
                              : "both GPUs of the tree use one NIC") +
             (machine_.settings->cross_nic == 0 ? " (NCCL_CROSS_NIC=0)" : "");
    if (rule == "pair")
      return "the ring takes the NICs of ring " + std::to_string(channel - 1) + " in the other direction";
    if (rule == "turn") return "equally near: turns are for sends and receives";
    if (rule == "same-order")
      return std::string("all ") + (ring ? "rings" : "trees") + " have one order of GPUs";
    std::vector<std::string> names;
    for (const int net : gpu.nets) names.push_back(netName(*machine_.graph, net));
    if (names.empty()) return "the GPU has no NIC of its own";
    const std::vector<int> users = usersOf(gpu.nets);
    const std::string noun = ring ? "ring" : "tree";
    if (users.empty()) return "no " + noun + " uses its own " + listText(names);
    return "its own " + listText(names) + (names.size() == 1 ? " carries " : " carry ") + noun +
           (users.size() == 1 ? " " : "s ") + rangesText(users);
  }

  // Where rings may leave by another NIC, every second ring takes both NICs of the ring before it.
  bool isReturnOfPair(int channel) const {
    if (graph_.algorithm != Algorithm::kRing || graph_.cross_nic != 2 || channel % 2 == 0) return false;
    const Channel& own = graph_.channels[static_cast<std::size_t>(channel)];
    const Channel& before = graph_.channels[static_cast<std::size_t>(channel - 1)];
    return own.net_in == before.net_out && own.net_out == before.net_in;
  }

  static bool isEquallyNear(const GpuExplanation& gpu, int net) {
    return std::any_of(gpu.rejected.begin(), gpu.rejected.end(),
                       [&](const RejectedNic& nic) { return nic.view.net == net && !nic.deal.empty(); });
  }

  // The channels of the graph that enter or leave by one of these NETs.
  std::vector<int> usersOf(const std::vector<int>& nets) const {
    const auto is_own = [&](int net) { return std::count(nets.begin(), nets.end(), net) != 0; };
    std::vector<int> users;
    for (std::size_t c = 0; c < graph_.channels.size(); ++c) {
      if (is_own(graph_.channels[c].net_in) || is_own(graph_.channels[c].net_out))
        users.push_back(static_cast<int>(c));
    }
    return users;
  }

  const Machine& machine_;
  const Paths& paths_;
  const ChannelGraph& graph_;
  MachineExplanation& all_;
};

DomainChannels channelsOf(const Domain& domain, const std::optional<CommunicatorGraphs>& found) {
  DomainChannels channels;
  channels.ranks = domain.ranks;
  std::sort(channels.ranks.begin(), channels.ranks.end());
  if (!found) {
    channels.missing = "there is no NIC";
    return channels;
  }
  const ChannelGraph& ring = found->of(Algorithm::kRing);
  const ChannelGraph& tree = found->of(Algorithm::kTree);
  channels.rings = static_cast<int>(ring.channels.size());
  channels.trees = static_cast<int>(tree.channels.size());
  channels.channels = std::min(channels.rings, channels.trees);
  channels.simple_rings = ring.origin == ChannelOrigin::kSimpleOrder;
  channels.simple_trees = tree.origin == ChannelOrigin::kSimpleOrder;
  return channels;
}

// All ranks of a communicator have as many channels as the domain with the fewest.
void limitChannels(std::vector<DomainChannels>& domains) {
  int least = kMaxChannels;
  for (const DomainChannels& domain : domains)
    if (domain.missing.empty()) least = std::min(least, domain.channels);
  for (DomainChannels& domain : domains) {
    domain.channels = domain.missing.empty() ? least : 0;
    if (least == 0 && domain.missing.empty()) domain.missing = "the search found none";
  }
}

// On every second host NCCL exchanges the GPUs of the rings 0 and 1, 2 and 3, ... (ncclTopoPostset), so that
// a ring stays on its rail. It does not exchange their NICs.
std::vector<SwappedRing> swappedRings(const ChannelGraph& graph, int channels) {
  std::vector<SwappedRing> rings;
  if (graph.cross_nic != 2 || channels % 2 != 0) return rings;
  for (int c = 0; c < channels; ++c) {
    const Channel& own = graph.channels[static_cast<std::size_t>(c)];
    const Channel& other = graph.channels[static_cast<std::size_t>(c ^ 1)];
    SwappedRing ring{.channel = c, .enter_rank = other.ranks.front(), .leave_rank = other.ranks.back()};
    ring.enter_net = netOf(own, ring.enter_rank);
    ring.leave_net = netOf(own, ring.leave_rank);
    ring.other_nics =
        ring.enter_net != netOf(other, ring.enter_rank) || ring.leave_net != netOf(other, ring.leave_rank);
    rings.push_back(ring);
  }
  return rings;
}

}  // namespace

void addChannels(const Machine& machine, MachineExplanation& all) {
  const auto found = searchMachine(machine, {});
  for (std::size_t i = 0; i < machine.domains.size(); ++i) {
    all.channels.push_back(channelsOf(machine.domains[i], found.ok() ? (*found)[i].two_hosts : std::nullopt));
    if (!found.ok()) all.channels.back().missing = found.error();
  }
  if (!found.ok()) {
    auto [text, fix] = splitAdvice(found.error());
    all.problems.push_back({.kind = "init-fails", .text = std::move(text), .fix = std::move(fix)});
    return;
  }
  limitChannels(all.channels);
  for (std::size_t i = 0; i < machine.domains.size(); ++i) {
    DomainChannels& channels = all.channels[i];
    if (!channels.missing.empty()) continue;
    const CommunicatorGraphs& graphs = *(*found)[i].two_hosts;
    channels.swapped = swappedRings(graphs.of(Algorithm::kRing), channels.channels);
    for (const Algorithm algorithm : {Algorithm::kRing, Algorithm::kTree}) {
      EndWriter writer(machine, machine.domains[i], graphs.of(algorithm), all);
      for (int c = 0; c < channels.channels; ++c) writer.add(c);
    }
  }
}

}  // namespace railwise::topo
