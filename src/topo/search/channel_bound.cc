#include "topo/search/channel_bound.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace railwise::topo {
namespace {

constexpr int kUnlimited = std::numeric_limits<int>::max();
constexpr float kSlack = 0.01F;  // GB/s: more than all roundings together can add to a link

int times(float bandwidth, float channel) {
  return channel <= 0 ? kUnlimited : static_cast<int>((bandwidth + kSlack) / channel);
}

// Sums of numbers that may be kUnlimited.
int sum(int a, int b) { return a > kUnlimited - b ? kUnlimited : a + b; }

int fewestHops(const Paths& paths, NodeType from, NodeType to) {
  int fewest = kUnlimited;
  for (int i = 0; i < paths.graph().count(from); ++i)
    for (int j = 0; j < paths.graph().count(to); ++j)
      if (from != to || i != j) fewest = std::min<int>(fewest, paths.get(from, i, to, j).hops);
  return fewest == kUnlimited ? 0 : fewest;
}

// The bandwidths of the links by which a GPU reaches the others. `place`: of these links in a path.
std::vector<float> linksToGpus(const Paths& paths, const Node& gpu, std::size_t place) {
  std::vector<const Link*> found;
  for (int other = 0; other < paths.graph().count(NodeType::kGpu); ++other) {
    if (other == gpu.index) continue;
    const auto links = paths.links(paths.get(NodeType::kGpu, gpu.index, NodeType::kGpu, other));
    if (links.size() > place && std::find(found.begin(), found.end(), links[place]) == found.end())
      found.push_back(links[place]);
  }
  std::vector<float> bandwidths;
  for (const Link* link : found) bandwidths.push_back(link->bandwidth);
  return bandwidths;
}

// How channels can enter by a NIC: `shared` is the bandwidth of what each of them uses, the NIC itself and
// the links that are on its paths to all GPUs.
EntryBandwidths entriesBy(const Paths& paths, const Node& net) {
  EntryBandwidths entries{.shared = net.bandwidth};
  std::vector<const Link*> shared;
  for (int g = 0; g < paths.graph().count(NodeType::kGpu); ++g) {
    const auto& path = paths.get(NodeType::kNet, net.index, NodeType::kGpu, g);
    const auto links = paths.links(path);
    if (g == 0) shared.assign(links.begin(), links.end());
    std::erase_if(shared, [&links](const Link* link) {
      return std::find(links.begin(), links.end(), link) == links.end();
    });
    entries.to_gpus.push_back(path.bandwidth);
  }
  for (const Link* link : shared) entries.shared = std::min(entries.shared, link->bandwidth);
  return entries;
}

}  // namespace

ChannelBound::ChannelBound(SearchSpace& space)
    : inter_(space.inter),
      gpus_(space.graph.count(NodeType::kGpu)),
      restores_(space.gives_back),
      gpu_hops_(fewestHops(space.paths, NodeType::kGpu, NodeType::kGpu)),
      in_hops_(fewestHops(space.paths, NodeType::kNet, NodeType::kGpu)),
      out_hops_(fewestHops(space.paths, NodeType::kGpu, NodeType::kNet)) {
  const Graph& graph = space.graph;
  struct Port {
    uint64_t guid;
    int port;
  };
  std::vector<Port> known;
  for (int n = 0; n < graph.count(NodeType::kNet); ++n) {
    const Node& net = graph.of(NodeType::kNet, n);
    nics_.push_back(entriesBy(space.paths, net));
    const auto same = std::find_if(known.begin(), known.end(), [&net](const Port& port) {
      return port.guid == net.guid && port.port == net.port;
    });
    if (same == known.end()) {
      known.push_back({net.guid, net.port});
      ports_.push_back(net.bandwidth);
    } else {
      float& most = ports_[static_cast<std::size_t>(same - known.begin())];
      most = std::max(most, net.bandwidth);
    }
  }
  for (const NodeIndex i : graph.of(NodeType::kGpu)) {
    const Node& gpu = graph.node(i);
    const Node& device = gpu.parent == kNoNode ? gpu : graph.node(gpu.parent);
    for (const Link& link : device.links)
      if (graph.node(link.to).type == NodeType::kGpu && link.type == LinkType::kLoc &&
          graph.node(link.to).rank != gpu.rank)
        shared_gpus_ = true;
    gpus_links_.push_back(linksToGpus(space.paths, gpu, gpu.parent == kNoNode ? 0 : 1));
  }
}

bool ChannelBound::attemptsLeaveNoTrace(Pattern pattern, const Remaining& remaining) const {
  // CollNet direct takes fractions of a bandwidth.
  return restores_ && pattern != Pattern::kCollNetDirect && pattern != Pattern::kNvls &&
         remaining.isRounded();
}

int ChannelBound::channels(Pattern pattern, float intra, float inter) const {
  return std::min(inter_ ? byNics(inter) : kUnlimited, byGpus(pattern, intra));
}

// Each channel takes its bandwidth from the path by which it enters, and, in whole GB/s, from the NIC's port.
int ChannelBound::byNics(float inter) const {
  int nics = 0;
  for (const EntryBandwidths& nic : nics_) {
    int entries = 0;
    for (const float gpu : nic.to_gpus) entries = sum(entries, times(gpu, inter));
    nics = sum(nics, std::min(times(nic.shared, inter), entries));
  }
  int ports = 0;
  for (const float port : ports_) ports = sum(ports, times(port, std::floor(inter)));
  return std::min(nics, ports);
}

// Each GPU of a channel but the last one of a tree sends to the next one.
int ChannelBound::byGpus(Pattern pattern, float intra) const {
  const bool ring = pattern == Pattern::kRing;
  if (gpus_ < 2 || shared_gpus_ || (pattern > Pattern::kTree && !ring)) return kUnlimited;
  // A ring that leaves by a NIC sends from its last GPU there, not to a GPU.
  const int senders = ring && !inter_ ? gpus_ : gpus_ - 1;
  int all = 0;
  for (const auto& links : gpus_links_) {
    int channels = 0;
    for (const float link : links) channels = sum(channels, times(link, intra));
    all = sum(all, channels);
  }
  return all == kUnlimited ? all : all / senders;
}

int ChannelBound::hops(Pattern pattern) const {
  const bool ring = pattern == Pattern::kRing;
  if (pattern > Pattern::kTree && !ring) return 0;
  if (!inter_) return (ring && gpus_ > 1 ? gpus_ : gpus_ - 1) * gpu_hops_;
  const int out = pattern == Pattern::kBalancedTree && gpus_ > 1 ? 2 : 1;
  return in_hops_ + (gpus_ - 1) * gpu_hops_ + out * out_hops_;
}

}  // namespace railwise::topo
