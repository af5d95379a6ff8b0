#include "topo/search/candidates.h"

#include <algorithm>

#include "topo/graph/constants.h"
#include "topo/paths/policy.h"

namespace railwise::topo {
namespace {

constexpr std::size_t kMostNets = 640;  // NCCL_TOPO_MAX_NODES
constexpr std::size_t kListsPerGpu = kPathTypes + 1;

void addOnce(std::vector<int>& list, int entry) {
  if (std::find(list.begin(), list.end(), entry) == list.end()) list.push_back(entry);
}

}  // namespace

Candidates::Candidates(const Paths& paths)
    : paths_(paths),
      graph_(paths.graph()),
      gpus_(graph_.count(NodeType::kGpu)),
      switched_(graph_.count(NodeType::kNvs) > 0),
      nets_(static_cast<std::size_t>(gpus_ + 1) * kListsPerGpu),
      scores_(switched_ ? 0
                        : static_cast<std::size_t>(gpus_) *
                              static_cast<std::size_t>(graph_.count(NodeType::kNet) + 1)),
      near_(static_cast<std::size_t>(graph_.count(NodeType::kNet))) {}

const std::vector<int>* Candidates::listFor(int gpu, int farthest) {
  NetList& list =
      nets_[static_cast<std::size_t>(gpu + 1) * kListsPerGpu + static_cast<std::size_t>(farthest + 1)];
  if (!list.made) {
    list.made = true;
    list.complete = addPreferred(gpu, list.nets);
    const Settings& settings = paths_.settings();
    std::size_t most = kMostNets;
    if (settings.netdevs_policy == Settings::NetDevsPolicy::kMax)
      most = static_cast<std::size_t>(settings.netdevs_max) * static_cast<std::size_t>(gpu < 0 ? gpus_ : 1);
    if (list.complete && list.nets.size() < most) addWithin(farthest, gpu, most, list.nets);
  }
  return list.complete ? &list.nets : nullptr;
}

bool Candidates::addPreferred(int gpu, std::vector<int>& nets) const {
  const bool scatter = graph_.hosts() > 1 && paths_.settings().mnnvl_scatter_nets != 0;
  return scatter ? addPreferredByGpu(gpu, nets) : addPreferredByChannel(gpu, nets);
}

// Several hosts with one NVLink domain: channel 0 of all GPUs, then channel 1. A GPU ends when its first NET
// comes again.
bool Candidates::addPreferredByGpu(int gpu, std::vector<int>& nets) const {
  struct GpuTurn {
    int gpu;
    int first;
  };
  std::vector<GpuTurn> turns;
  for (int g = 0; g < gpus_; ++g)
    if (gpu < 0 || gpu == g) turns.push_back({g, -1});
  for (int channel = 0; channel < kMaxChannels && !turns.empty(); ++channel) {
    for (std::size_t i = 0; i < turns.size();) {
      const auto net = localNet(paths_, paths_.firstOfRank(turns[i].gpu), channel);
      if (!net.ok()) return false;
      const int local = paths_.firstOfId(*net);
      if (channel > 0 && local == turns[i].first) {
        turns.erase(turns.begin() + static_cast<std::ptrdiff_t>(i));
        continue;
      }
      if (channel == 0) turns[i].first = local;
      addOnce(nets, local);
      ++i;
    }
  }
  return true;
}

// One host: all channels of GPU 0, then those of GPU 1.
bool Candidates::addPreferredByChannel(int gpu, std::vector<int>& nets) const {
  for (int g = 0; g < gpus_; ++g) {
    if (gpu >= 0 && gpu != g) continue;
    int first = -1;
    for (int channel = 0; channel < kMaxChannels; ++channel) {
      const auto net = localNet(paths_, paths_.firstOfRank(g), channel);
      if (!net.ok()) return false;
      const int local = paths_.firstOfId(*net);
      if (channel == 0) {
        first = local;
      } else if (local == first) {
        break;
      }
      addOnce(nets, local);
    }
  }
  return true;
}

void Candidates::addWithin(int farthest, int gpu, std::size_t most, std::vector<int>& nets) const {
  const int count = std::min(graph_.count(NodeType::kNet), maxChannels(paths_.settings().nccl));
  for (int type = 0; type <= farthest; ++type) {
    for (int g = 0; g < gpus_; ++g) {
      if (gpu >= 0 && gpu != g) continue;
      for (int n = 0; n < count; ++n) {
        if (static_cast<int>(paths_.get(NodeType::kGpu, g, NodeType::kNet, n).type) != type) continue;
        addOnce(nets, n);
        if (nets.size() >= most) return;
      }
    }
  }
}

const std::vector<int>& Candidates::gpusNear(int net) {
  auto& near = near_[static_cast<std::size_t>(net)];
  if (!near) near = localNodes(paths_, NodeType::kNet, net, NodeType::kGpu);
  return *near;
}

bool Candidates::isolated(int net) {
  const auto& near = gpusNear(net);
  return near.empty() || paths_.get(NodeType::kNet, net, NodeType::kGpu, near[0]).type == PathType::kDis;
}

bool Candidates::connected(int from, int to) const {
  return paths_.get(NodeType::kGpu, from, NodeType::kGpu, to).hops != 0;
}

bool Candidates::equalNets(PathType one, PathType other) {
  for (int gpu = -1; gpu < gpus_; ++gpu) {
    const auto* const first = nets(gpu, one);
    const auto* const second = nets(gpu, other);
    if ((first == nullptr) != (second == nullptr) || (first != nullptr && *first != *second)) return false;
  }
  return true;
}

void Candidates::next(int gpu, Towards towards, int net, Pattern pattern, const Remaining& remaining,
                      int channel, std::vector<int>& gpus) {
  if (switched_) return neighbours(gpu, pattern, remaining, channel, gpus);
  if (towards == Towards::kGpus) {
    for (const Scored& scored : scores(gpu, -1))
      if (!remaining.used(scored.gpu, channel)) gpus.push_back(scored.gpu);
    return;
  }
  free_.clear();
  const Scored* first = nullptr;
  bool equal = true;
  for (const Scored& scored : scores(gpu, net)) {
    if (remaining.used(scored.gpu, channel)) continue;
    if (first == nullptr) first = &scored;
    equal = equal && scored.bandwidth == first->bandwidth && scored.hops == first->hops;
    // Free PCIe bandwidth comes second, before the rest of rank(). All else is sorted already.
    const Free free{scored.gpu, scored.net_bandwidth, remaining.pciBandwidth(scored.gpu)};
    auto at = free_.end();
    while (at != free_.begin() && std::prev(at)->net_bandwidth == free.net_bandwidth &&
           std::prev(at)->pci_bandwidth < free.pci_bandwidth)
      --at;
    free_.insert(at, free);
  }
  const auto added = static_cast<std::ptrdiff_t>(gpus.size());
  for (const Free& free : free_) gpus.push_back(free.gpu);
  if (towards == Towards::kLaterNet && equal) std::reverse(gpus.begin() + added, gpus.end());
}

// With NVSwitches a channel goes on to one of both neighbours in the order of the GPUs.
void Candidates::neighbours(int gpu, Pattern pattern, const Remaining& remaining, int channel,
                            std::vector<int>& gpus) const {
  const int after = (gpu + 1) % gpus_;
  const int before = (gpu + gpus_ - 1) % gpus_;
  const auto offer = [&](int other) {
    if (other != gpu && connected(gpu, other) && !remaining.used(other, channel)) gpus.push_back(other);
  };
  const bool both = after != before;
  if (pattern == Pattern::kRing) {
    if (both) offer(before);
    offer(after);
  } else if (pattern == Pattern::kSplitTree || pattern == Pattern::kBalancedTree) {
    if (both) offer(after);
    offer(before);
  } else {
    offer(after);
  }
}

const std::vector<Candidates::Scored>& Candidates::scores(int gpu, int net) {
  auto& list =
      scores_[static_cast<std::size_t>(gpu) * static_cast<std::size_t>(graph_.count(NodeType::kNet) + 1) +
              static_cast<std::size_t>(net + 1)];
  if (!list.empty()) return list;
  for (int i = 1; i < gpus_; ++i) {
    const int other = (gpu + i) % gpus_;
    if (!connected(gpu, other)) continue;
    const Path& path = paths_.get(NodeType::kGpu, gpu, NodeType::kGpu, other);
    Scored scored{
        .gpu = other, .distance = i, .hops = path.hops, .bandwidth = static_cast<int>(path.bandwidth)};
    if (net >= 0) {
      const Path& from_net = paths_.get(NodeType::kNet, net, NodeType::kGpu, other);
      scored.net_hops = from_net.hops;
      scored.net_bandwidth = static_cast<int>(from_net.bandwidth);
    }
    list.push_back(scored);
  }
  std::sort(list.begin(), list.end(), [](const Scored& a, const Scored& b) { return rank(a) < rank(b); });
  return list;
}

}  // namespace railwise::topo
