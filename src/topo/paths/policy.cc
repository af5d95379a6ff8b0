#include "topo/paths/policy.h"

#include <algorithm>
#include <bit>

#include "base/pci.h"
#include "topo/graph/constants.h"

namespace railwise::topo {
namespace {

std::string name(PathType type) { return pathTypeName(type); }

Error noNet(const Paths& paths, int gpu) {
  return Error{"rank " + std::to_string(paths.graph().of(NodeType::kGpu, gpu).rank) +
               " reaches no network device"};
}

std::string p2pReason(const Paths& paths, const P2pDecision& decision) {
  std::string text = name(decision.type) + (decision.allowed ? " <= " : " > ") + name(decision.level);
  if (paths.settings().p2p_level != Settings::kUnset)
    return text + ": the level that NCCL_P2P_LEVEL or NCCL_P2P_DISABLE sets";
  if (decision.allowed) return text;
  text += ": distance limit; data goes through the CPU's memory";
  if (decision.type <= PathType::kSys) text += "; NCCL_P2P_LEVEL=" + name(decision.type) + " allows it";
  return text;
}

std::string nameOfNet(const Graph& graph, int net) {
  const Node& node = graph.of(NodeType::kNet, net);
  return node.name.empty() ? "NET/" + std::to_string(node.dev) : node.name;
}

std::string distanceReason(const Paths& paths, const GdrDecision& decision) {
  const bool on = decision.mode != GdrMode::kOff;
  std::string text =
      name(decision.distance) + (on ? " <= " : " > ") + name(decision.level) + ": distance limit";
  if (paths.settings().net_gdr_level != Settings::kUnset) text += " set by NCCL_NET_GDR_LEVEL";
  if (on)
    return decision.mode == GdrMode::kPcie
               ? text + "; the mapping is forced through PCIe, since the CPU is behind C2C"
               : text;
  if (decision.distance >= PathType::kNet) return text + "; there is no path between the two";
  return text + ", set NCCL_NET_GDR_LEVEL=" + name(decision.distance) +
         " or give the switch in a topology file";
}

std::string netWithoutReason(const Graph& graph, int net) {
  const std::string text = nameOfNet(graph, net) + " offers no GPUDirect (gdr=0)";
  if (graph.of(NodeType::kNet, net).port == 0)
    return text + ", since it is a socket device (port 0): sockets have no GPUDirect";
  const auto& gpus = graph.of(NodeType::kGpu);
  const bool amd = graph.rccl() || (!gpus.empty() && !graph.node(gpus[0]).gcn.empty());
  if (amd)
    return text + ": it wants the peer memory of the amdgpu driver, or a kernel and driver with DMA-BUF";
  return text +
         ": load nvidia-peermem, or use a kernel and driver with DMA-BUF (Soft-RoCE and soft-iWARP have "
         "none)";
}

struct RuleText {
  const char* rule;
  std::string reason;
};

RuleText gdrText(const Paths& paths, const GdrDecision& decision, int net) {
  switch (decision.rule) {
    case GdrRule::kNetWithout:
      return {"net-gdr", netWithoutReason(paths.graph(), net)};
    case GdrRule::kGpuWithout:
      return {"gpu-gdr", "the GPU offers no GPUDirect (gdr=0): its driver cannot export memory to a NIC"};
    case GdrRule::kPartition:
      return {"mlopart", "the GPU is a partition (MLOPart): NCCL_NET_GDR_MLOPART=1 allows GPUDirect there"};
    case GdrRule::kReadOff:
      return {"read", "NCCL_NET_GDR_READ=0 forbids the NIC to read GPU memory"};
    case GdrRule::kReadWithoutNvlink:
      return {"read", std::string("a GPU ") +
                          (paths.graph().rccl() ? "without an xGMI peer"
                                                : "older than sm 80 without an NVLink peer") +
                          " is not read by the NIC: NCCL_NET_GDR_READ=1 allows it"};
    case GdrRule::kOn:
    case GdrRule::kDistance:
      break;
  }
  return {"distance", distanceReason(paths, decision)};
}

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
  const int devices = graph.count(graph.deviceType());
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
  const bool devs = graph.deviceType() == NodeType::kDev;
  if (path.hops != (devs ? 4 : 2)) return;
  const Node& middle = graph.node(paths.links(path)[devs ? 1 : 0]->to);
  if (middle.type != graph.deviceType()) return;
  const int gpu = devs ? graph.gpuOfDev(middle.host, middle.dev) : middle.index;
  if (gpu < 0) {
    decision.failed = true;
  } else {
    decision.intermediate_rank = graph.of(NodeType::kGpu, gpu).rank;
  }
}

}  // namespace

Outcome<P2pAnswer> checkP2p(const Paths& paths, int from_gpu, int to_gpu) {
  const P2pDecision decision = decideP2p(paths, from_gpu, to_gpu);
  if (decision.failed)
    return Error{std::string(paths.graph().rccl()
                                 ? "the xGMI path goes through a GPU that no rank uses; RCCL"
                                 : "the NVLink path goes through a GPU that no rank uses; NCCL") +
                 " fails its init"};
  return P2pAnswer{.allowed = decision.allowed,
                   .read = decision.read,
                   .intermediate_rank = decision.intermediate_rank,
                   .level = decision.level,
                   .reason = p2pReason(paths, decision)};
}

Outcome<GdrAnswer> checkGdr(const Paths& paths, int gpu, int net, bool read) {
  const GdrDecision decision = decideGdr(paths, gpu, net, read);
  if (decision.failed)
    return Error{"no rank uses the GPU that relays towards " + nameOfNet(paths.graph(), net)};
  RuleText text = gdrText(paths, decision, net);
  return GdrAnswer{.mode = decision.mode,
                   .proxy_gpu = decision.proxy_gpu,
                   .distance = decision.distance,
                   .level = decision.level,
                   .rule = text.rule,
                   .reason = std::move(text.reason)};
}

FlushAnswer needFlush(const Paths& paths, int gpu, int net) {
  constexpr int kOrdersByItself = 90;
  const Settings& settings = paths.settings();
  if (settings.net_force_flush != 0) return {Flush::kAlways, "NCCL_NET_FORCE_FLUSH is set"};
  if (paths.graph().rccl()) return {Flush::kAlways, "RCCL flushes after each receive"};
  const PathType cpu = paths.get(NodeType::kGpu, gpu, NodeType::kCpu, paths.localCpu(gpu)).type;
  const PathType nic = paths.get(NodeType::kGpu, gpu, NodeType::kNet, net).type;
  const bool by_c2c = nic <= PathType::kPxb && cpu == PathType::kC2c;
  const std::string c2c = "the flag goes over C2C and the data over PCIe";
  if (by_c2c && !settings.nccl.has(NcclRule::kFlushC2c)) return {Flush::kAlways, c2c};
  if (!settings.nccl.has(NcclRule::kHopperOrders))
    return {Flush::kAlways, "NCCL before 2.19 flushes after each receive"};
  if (paths.graph().of(NodeType::kGpu, gpu).sm < kOrdersByItself)
    return {Flush::kAlways, "GPUs before sm 90 need a flush after each receive"};
  if (by_c2c) return {Flush::kC2c, c2c};
  return {Flush::kNone, "GPUs of sm 90 and later need none"};
}

Outcome<int> localNet(const Paths& paths, int gpu, int channel) {
  const auto& nets = paths.localNets(gpu);
  const int sharers = nets.empty() ? 0 : paths.localGpuCount(nets[0]);
  const int net = pickLocalNet(paths.graph(), paths.settings(), gpu, nets, sharers, channel);
  if (net < 0) return noNet(paths, gpu);
  return net;
}

Outcome<std::vector<int>> localNets(const Paths& paths, int gpu) {
  std::vector<int> nets;
  for (int channel = 0; channel < kMaxChannels; ++channel) {
    const auto net = localNet(paths, gpu, channel);
    if (!net.ok()) return Error{net.error()};
    if (!nets.empty() && *net == nets[0]) break;
    nets.push_back(*net);
  }
  return nets;
}

Outcome<int> proxyRank(const Paths& paths, int gpu, int net) {
  const int proxy = decideProxy(paths, gpu, net);
  if (proxy < 0) return Error{"no rank uses the GPU that relays towards " + nameOfNet(paths.graph(), net)};
  return paths.graph().of(NodeType::kGpu, proxy).rank;
}

namespace {

// For NCCL_P2P_PXN_LEVEL=2: the GPU near that NIC sends for `gpu`, if NVLink and GPUDirect allow it. -1: they
// do not.
int relayFor(const Paths& paths, int gpu, int net) {
  const Settings& settings = paths.settings();
  const int relay = paths.localGpu(net);
  if (relay < 0) return -1;
  const bool over_c2c = settings.pxn_c2c != 0 && settings.nccl.has(NcclRule::kRelayBeyondPxn);
  const PathType level = over_c2c ? PathType::kP2c : PathType::kPxb;
  const GdrDecision gdr = decideGdr(paths, relay, net, false);
  const bool direct = gdr.mode != GdrMode::kOff || !settings.nccl.has(NcclRule::kRelayNeedsGpuDirect);
  const bool near = paths.get(NodeType::kGpu, relay, NodeType::kGpu, gpu).type <= PathType::kNvl &&
                    paths.get(NodeType::kGpu, relay, NodeType::kNet, net).type <= level;
  return near && direct ? relay : -1;
}

}  // namespace

Outcome<NetTowardsPeer> netTowardsPeer(const Paths& paths, int gpu, int peer_dev, int channel) {
  const Graph& graph = paths.graph();
  const Settings& settings = paths.settings();
  const auto own = localNet(paths, gpu, channel);
  if (!own.ok()) return Error{own.error()};
  NetTowardsPeer answer{*own, graph.of(NodeType::kGpu, gpu).rank};
  const int pxn_level = settings.pxn_disable == 1 ? 0 : settings.p2p_pxn_level;
  if (settings.cross_nic != 0 && pxn_level == 0) return answer;
  // The GPU with the peer's NVML index on the host of `gpu`.
  const int twin = graph.gpuOfDev(graph.of(NodeType::kGpu, gpu).host, peer_dev);
  if (twin < 0) return answer;
  const auto preferred = localNet(paths, twin, channel);
  if (!preferred.ok()) return Error{preferred.error()};
  if (settings.cross_nic == 0) answer.net = *preferred;
  if (pxn_level == 1 && paths.get(NodeType::kGpu, gpu, NodeType::kNet, *preferred).type <= PathType::kPxn) {
    const auto proxy = proxyRank(paths, gpu, *preferred);
    if (!proxy.ok()) return Error{proxy.error()};
    return NetTowardsPeer{*preferred, *proxy};
  }
  if (pxn_level != 2) return answer;
  const int relay = relayFor(paths, gpu, *preferred);
  if (relay < 0) return answer;
  return NetTowardsPeer{*preferred, graph.of(NodeType::kGpu, relay).rank};
}

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
  const NodeType device = graph.deviceType();
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
