#include "topo/paths/decisions.h"

#include <algorithm>
#include <bit>

#include "base/pci.h"

namespace railwise::topo {
namespace {

int mirrorBits(int value, int power) {
  int mirrored = 0;
  for (int bit = 1, image = power >> 1; bit < power; bit <<= 1, image >>= 1)
    if ((value & bit) != 0) mirrored |= image;
  return mirrored;
}

// True if NCCL begins to deal out `nets` with the place of a GPU among those that share them. False: with the
// GPU's number (ncclTopoGetLocalNet).
bool dealtByShare(const Graph& graph, const Settings& settings, int gpu, const std::vector<int>& nets) {
  constexpr int kBlackwell = 100;
  if (settings.nccl.has(NcclRule::kNicsByShare)) return true;
  if (!settings.nccl.has(NcclRule::kNicsByShareOfCx8)) return false;
  if (settings.topo_scatter_start_net != 0) return true;
  return graph.of(NodeType::kGpu, gpu).sm >= kBlackwell &&
         std::any_of(nets.begin(), nets.end(), [&graph](int net) {
           const uint64_t id = graph.of(NodeType::kNet, net).pci_device >> 32;  // vendor and device
           return id >> 16 == pci::numberOf(pci::kMellanox) &&
                  ((id & 0xffff) == pci::numberOf(pci::kConnectX8) ||
                   (id & 0xffff) == pci::numberOf(pci::kDataDirect));
         });
}

// Up to 2.22 NCCL allowed P2P through the CPUs of AMD and of POWER.
PathType p2pLevel(const Graph& graph, const Settings& settings) {
  if (settings.p2p_level != Settings::kUnset) return static_cast<PathType>(settings.p2p_level);
  const Node& cpu = graph.of(NodeType::kCpu, 0);
  const bool amd = cpu.arch == CpuArch::kX86 && cpu.vendor == CpuVendor::kAmd;
  const int devices = graph.count(graph.count(NodeType::kDev) > 0 ? NodeType::kDev : NodeType::kGpu);
  if (settings.nccl.has(NcclRule::kP2pBehindSwitches))
    return amd && devices <= 2 ? PathType::kSys : PathType::kPxb;
  const bool behind_switches =
      cpu.arch == CpuArch::kArm ||
      (cpu.arch == CpuArch::kX86 && (cpu.vendor == CpuVendor::kIntel || cpu.vendor == CpuVendor::kZhaoxin));
  return behind_switches ? PathType::kPxb : PathType::kSys;
}

// Finds the rank of the physical GPU in the middle of an NVLink path. -1: the path passes through no GPU.
// `failed`: the GPU in the middle has no rank.
void findIntermediate(const Paths& paths, const Path& path, P2pDecision& decision) {
  const Graph& graph = paths.graph();
  const bool devs = graph.count(NodeType::kDev) > 0;
  if (path.hops != (devs ? 4 : 2)) return;
  const Node& middle = graph.node(paths.links(path)[devs ? 1 : 0]->to);
  if (middle.type != (devs ? NodeType::kDev : NodeType::kGpu)) return;
  const int gpu = devs ? graph.gpuOfDev(middle.host, middle.dev) : middle.index;
  if (gpu < 0) {
    decision.failed = true;
  } else {
    decision.intermediate_rank = graph.of(NodeType::kGpu, gpu).rank;
  }
}

}  // namespace

P2pDecision decideP2p(const Paths& paths, int from_gpu, int to_gpu) {
  from_gpu = paths.firstOfRank(from_gpu);
  to_gpu = paths.firstOfRank(to_gpu);
  const Graph& graph = paths.graph();
  const Path& path = paths.get(NodeType::kGpu, from_gpu, NodeType::kGpu, to_gpu);
  P2pDecision decision;
  decision.type = path.type;
  findIntermediate(paths, path, decision);

  decision.level = p2pLevel(graph, paths.settings());
  decision.allowed = path.type <= decision.level;

  constexpr int kReadsOverNvlink = 80;
  const int from_sm = graph.of(NodeType::kGpu, from_gpu).sm;
  decision.read = path.type == PathType::kNvl && from_sm == kReadsOverNvlink &&
                  graph.of(NodeType::kGpu, to_gpu).sm == kReadsOverNvlink;
  return decision;
}

float nearNicBandwidth(const Paths& paths, int gpu) {
  float most = 0;
  for (int net = 0; net < paths.graph().count(NodeType::kNet); ++net) {
    const Path& path = paths.get(NodeType::kGpu, gpu, NodeType::kNet, net);
    if (path.type <= PathType::kPxb) most = std::max(most, path.bandwidth);
  }
  return most;
}

bool networkAllowedInside(const Settings& settings, bool rccl) {
  return settings.net_disable_intra != 1 && !(settings.net_disable_intra == Settings::kUnset && rccl);
}

bool networkIsFaster(const Paths& paths, int from_gpu, int to_gpu) {
  if (!networkAllowedInside(paths.settings(), paths.graph().rccl())) return false;
  const float between = paths.get(NodeType::kGpu, from_gpu, NodeType::kGpu, to_gpu).bandwidth;
  return nearNicBandwidth(paths, from_gpu) > between && nearNicBandwidth(paths, to_gpu) > between;
}

int decideProxy(const Paths& paths, int gpu, int net) {
  gpu = paths.firstOfRank(gpu);
  net = paths.firstOfId(net);
  const Graph& graph = paths.graph();
  const Path& path = paths.get(NodeType::kGpu, gpu, NodeType::kNet, net);
  if (path.type != PathType::kPxn) return gpu;
  const auto links = paths.links(path);
  std::size_t i = graph.count(NodeType::kDev) > 0 ? 1 : 0;
  while (i < links.size() && graph.node(links[i]->to).type == NodeType::kNvs) ++i;
  if (i >= links.size()) return -1;
  const Node* node = &graph.node(links[i]->to);
  if (node->type == NodeType::kDev) {
    const auto child = std::find_if(node->links.begin(), node->links.end(), [&graph](const Link& link) {
      return graph.node(link.to).type == NodeType::kGpu;
    });
    if (child != node->links.end()) node = &graph.node(child->to);
  }
  if (node->type != NodeType::kGpu) return -1;
  return graph.gpuOfDev(node->host, node->dev);
}

namespace {

bool hasNvlinkPeer(const Paths& paths, int gpu) {
  const int gpus = paths.graph().count(NodeType::kGpu);
  if (gpus == 1) return true;  // the only GPU: reading keeps the data local
  for (int other = 0; other < gpus; ++other)
    if (other != gpu && paths.get(NodeType::kGpu, gpu, NodeType::kGpu, other).type == PathType::kNvl)
      return true;
  return false;
}

// The rule that forbids GPUDirect independently of the distance. kOn: no such rule applies.
GdrRule ruleBeforeDistance(const Paths& paths, const Node& gpu, const Node& net, bool read) {
  constexpr int kReadsAlways = 80;
  const Settings& settings = paths.settings();
  if (net.gdr == 0) return GdrRule::kNetWithout;
  if (gpu.gdr == 0) return GdrRule::kGpuWithout;
  if (gpu.mlopart != -1 && settings.net_gdr_mlopart == 0) return GdrRule::kPartition;
  if (!read) return GdrRule::kOn;
  if (settings.net_gdr_read == 0) return GdrRule::kReadOff;
  const bool always = gpu.sm >= kReadsAlways && settings.nccl.has(NcclRule::kReadsFromAmpere);
  if (settings.net_gdr_read < 0 && !always && !hasNvlinkPeer(paths, gpu.index))
    return GdrRule::kReadWithoutNvlink;
  return GdrRule::kOn;
}

}  // namespace

GdrDecision decideGdr(const Paths& paths, int gpu, int net, bool read) {
  gpu = paths.firstOfRank(gpu);
  net = paths.firstOfId(net);
  const Graph& graph = paths.graph();
  const Settings& settings = paths.settings();
  const bool up_to_p2c = settings.nccl.has(NcclRule::kGpuDirectUpToP2c);
  GdrDecision decision;
  decision.proxy_gpu = gpu;
  decision.distance = paths.get(NodeType::kGpu, gpu, NodeType::kNet, net).type;
  decision.level = settings.net_gdr_c2c != 0 && up_to_p2c ? PathType::kP2c : PathType::kPxb;
  if (settings.net_gdr_level != Settings::kUnset)
    decision.level = static_cast<PathType>(settings.net_gdr_level);
  decision.rule =
      ruleBeforeDistance(paths, graph.of(NodeType::kGpu, gpu), graph.of(NodeType::kNet, net), read);
  if (decision.rule != GdrRule::kOn) return decision;

  if (decision.distance == PathType::kPxn) {
    decision.proxy_gpu = decideProxy(paths, gpu, net);
    decision.failed = decision.proxy_gpu < 0;
    if (decision.failed) return decision;
    decision.distance = paths.get(NodeType::kGpu, decision.proxy_gpu, NodeType::kNet, net).type;
  }
  const bool c2c =
      paths.get(NodeType::kGpu, decision.proxy_gpu, NodeType::kCpu, paths.localCpu(decision.proxy_gpu))
          .type == PathType::kC2c;
  // Before P2C was the limit, such a path counted as C2C.
  const bool is_p2c = settings.nccl.has(NcclRule::kP2c) ? decision.distance == PathType::kP2c
                                                        : c2c && decision.distance == PathType::kPhb;
  const bool as_c2c = !up_to_p2c && settings.net_gdr_c2c != 0 && is_p2c;
  const PathType compared = as_c2c ? PathType::kC2c : decision.distance;
  if (compared > decision.level) {
    decision.rule = GdrRule::kDistance;
    return decision;
  }
  const PathType over_c2c = up_to_p2c ? PathType::kP2c : PathType::kC2c;
  decision.mode = c2c && compared != over_c2c ? GdrMode::kPcie : GdrMode::kOn;
  return decision;
}

std::vector<int> localNodes(const Paths& paths, NodeType from, int from_index, NodeType to) {
  std::vector<int> nearest;
  if (!paths.reaches(from, from_index, to)) return nearest;
  float most = 0;
  PathType least = PathType::kDis;
  for (int i = 0; i < paths.graph().count(to); ++i) {
    const Path& path = paths.get(from, from_index, to, i);
    if (path.bandwidth > most || (path.bandwidth == most && path.type < least)) {
      most = path.bandwidth;
      least = path.type;
      nearest.clear();
    }
    if (path.bandwidth == most && path.type == least) nearest.push_back(i);
  }
  return nearest;
}

Turn firstTurn(const Graph& graph, const Settings& settings, int gpu, const std::vector<int>& locals,
               int sharers) {
  const int dev = graph.of(NodeType::kGpu, gpu).dev;
  const int turn = dealtByShare(graph, settings, gpu, locals) ? dev % sharers : dev;
  const auto count = static_cast<int>(locals.size());
  const bool mirrored =
      settings.nccl.has(NcclRule::kNicsMirrored) && std::has_single_bit(static_cast<unsigned>(count));
  return {turn, mirrored ? mirrorBits(turn, count) : turn};
}

int pickLocalNet(const Graph& graph, const Settings& settings, int gpu, const std::vector<int>& locals,
                 int sharers, int channel) {
  const int count = static_cast<int>(locals.size());
  if (count == 0 || sharers == 0) return -1;
  int nets_per_gpu = (count + sharers - 1) / sharers;
  if (settings.netdevs_policy == Settings::NetDevsPolicy::kAll) nets_per_gpu = count;
  if (settings.netdevs_policy == Settings::NetDevsPolicy::kMax)
    nets_per_gpu = std::min(settings.netdevs_max, count);
  const int net = firstTurn(graph, settings, gpu, locals, sharers).number + channel % nets_per_gpu;
  return locals[static_cast<std::size_t>((net % count + count) % count)];
}

SearchBandwidth searchBandwidth(const Paths& paths, bool network) {
  const Graph& graph = paths.graph();
  if (!network && graph.count(NodeType::kGpu) == 1)
    return {kLocalBandwidth, paths.settings().nccl.has(NcclRule::kOneGpuBandwidth) ? kLocalBandwidth : 0};
  const NodeType device = graph.count(NodeType::kDev) > 0 ? NodeType::kDev : NodeType::kGpu;
  const NodeType to = network ? NodeType::kNet : device;
  SearchBandwidth most;
  for (int d = 0; d < graph.count(device); ++d) {
    for (int i = 0; i < graph.count(to); ++i) {
      const Path& path = paths.get(device, d, to, i);
      if (path.hops != 0) most.channel = std::max(most.channel, path.bandwidth);
    }
    float nvlink = 0;
    float pci = 0;
    for (const Link& link : graph.of(device, d).links) {
      if (link.type == LinkType::kNvl) nvlink += link.bandwidth;
      if (link.type == LinkType::kPci) pci = link.bandwidth;
    }
    most.gpu = std::max({most.gpu, nvlink, pci});
  }
  return most;
}

}  // namespace railwise::topo
