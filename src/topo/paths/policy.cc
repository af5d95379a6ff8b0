#include "topo/paths/policy.h"

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

}  // namespace railwise::topo
