#include "topo/transports/transports.h"

#include <algorithm>
#include <cstdlib>
#include <map>

#include "base/text/text_layout.h"
#include "topo/paths/policy.h"

namespace railwise::topo {
namespace {

// The first driver branch with CUDA 12.
constexpr int kDriverOfCuda12 = 525;

// The index of a GPU in the answers; -1: it is not there.
int indexOf(const Machine& machine, const Node& gpu) {
  if (machine.gpu_answers == nullptr || gpu.host != machine.graph->localHost()) return -1;
  for (const gpu::Device& device : machine.gpu_answers->gpus)
    if (gpu::isWhole(device) && !device.busid.empty() && device.busid == gpu.busid) return device.index;
  return -1;
}

// False: the driver is known to have no cuMem (CUDA's virtual memory management, as NCCL wants it: CUDA 12).
bool driverOffersCumem(const Machine& machine) {
  if (machine.gpu_answers == nullptr) return true;
  const auto& gpus = machine.gpu_answers->gpus;
  return std::none_of(gpus.begin(), gpus.end(), [](const gpu::Device& device) {
    const int branch = std::atoi(device.driver.c_str());
    return device.vendor == gpu::Vendor::kNvidia && branch > 0 && branch < kDriverOfCuda12;
  });
}

// Empty, or why the driver forbids peer to peer between two GPUs of this host, for example "chipset not
// supported".
std::string whyDriverForbidsP2p(const Machine& machine, const Node& from, const Node& to) {
  const int a = indexOf(machine, from);
  const int b = indexOf(machine, to);
  if (a < 0 || b < 0 || a == b) return "";
  for (const gpu::PeerStatus& peer : machine.gpu_answers->peers)
    if (peer.from == a && peer.to == b && !peer.allowed)
      return peer.reason.empty() ? "not supported" : peer.reason;
  return "";
}

constexpr int kReadsOverNvlink = 80;     // sm of the A100, the only GPU that reads a peer by default
constexpr int kFirstWithMulticast = 90;  // sm of the H100, the first GPU with NVLink SHARP

std::string gigabytes(float value) { return formatText("%.4g GB/s", static_cast<double>(value)); }

// The two ranks of a pair, and what decides besides them.
struct Question {
  const Machine& machine;
  const Settings& settings;
  const Graph& graph;  // of the whole machine
  const Job& job;
  RankPair pair;
  RankPlace from;
  RankPlace to;

  bool sameDomain() const { return from.domain == to.domain; }
  bool sameHost() const { return !pair.other_host && from.node->host == to.node->host; }
  const Paths& paths() const { return *from.domain->paths; }
};

bool usesCumem(const Settings& settings, const Job& job) {
  return settings.cumem_enable >= 0 ? settings.cumem_enable != 0 : settings.cumem_enable == -2 && job.cumem;
}

// "": hosts of an NVLink domain reach each other over NVLink (ncclMnnvlCheck).
std::string whyNoMnnvl(const Settings& settings, const Job& job) {
  if (settings.mnnvl_enable == 0) return "NCCL_MNNVL_ENABLE=0 forbids NVLink between hosts";
  if (settings.mnnvl_enable != 1 && settings.p2p_level == static_cast<int>(PathType::kLoc))
    return "P2P is off, and NVLink between hosts with it";
  if (!usesCumem(settings, job)) return "NVLink between hosts needs cuMem, which is off";
  return "";
}

// What ncclTopoCheckNet says of two ranks of one host.
struct InsideHost {
  bool keeps_from_shm = false;
  bool allows_net = false;
  std::string reason;
};

InsideHost askNetworkInside(const Question& q) {
  if (!networkAllowedInside(q.settings, q.graph.rccl()))
    return {.reason = q.graph.rccl() && q.settings.net_disable_intra != 1
                          ? "RCCL does not use the network inside a host"
                          : "NCCL_NET_DISABLE_INTRA=1 forbids the network inside a host"};
  if (!q.sameDomain()) {
    return {.keeps_from_shm = !q.settings.nccl.has(NcclRule::kShmBetweenParts),
            .allows_net = true,
            .reason = "the GPUs are in two parts of the host"};
  }
  const float between = q.paths().get(NodeType::kGpu, q.from.gpu, NodeType::kGpu, q.to.gpu).bandwidth;
  const float nics = std::min(nearNicBandwidth(q.paths(), q.from.gpu), nearNicBandwidth(q.paths(), q.to.gpu));
  const bool faster = networkIsFaster(q.paths(), q.from.gpu, q.to.gpu);
  return {.keeps_from_shm = faster,
          .allows_net = faster,
          .reason = std::string("the NICs near both GPUs (") + gigabytes(nics) + ") are " +
                    (faster ? "" : "not ") + "faster than the path between the GPUs (" + gigabytes(between) +
                    ")"};
}

std::string meansReason(const Question& q, const Transport& transport) {
  switch (transport.means) {
    case P2pMeans::kDirectPointer:
      return "one process: pointers are used as they are";
    case P2pMeans::kMnnvl:
      return "the hosts share an NVLink domain: memory is mapped by cuMem with fabric handles";
    case P2pMeans::kCumem:
      return "two processes: memory is mapped by cuMem";
    case P2pMeans::kIpc:
      if (q.graph.rccl()) return "two processes: memory is mapped by IPC";
      return std::string("two processes: memory is mapped by CUDA IPC, since ") +
             (q.settings.cumem_enable == 0 ? "NCCL_CUMEM_ENABLE=0" : "the driver offers no cuMem");
    case P2pMeans::kIndirect:
      break;
  }
  return "a third GPU has NVLinks to both";
}

std::string readReason(const Question& q, const P2pDecision& decision, const Transport& transport) {
  if (transport.read) {
    if (!decision.read) return "the receiver reads, since NCCL_P2P_READ_ENABLE is set";
    return "the receiver reads, as between GPUs of sm " + std::to_string(kReadsOverNvlink) + " over NVLink";
  }
  if (decision.read && q.settings.p2p_use_cuda_memcpy != 0) return "the copy engine writes";
  return decision.read ? "the sender writes, since NCCL_P2P_READ_ENABLE=0" : "the sender writes";
}

// Which form of P2P (p2pSendSetup).
void choose(const Question& q, const P2pDecision& decision, Transport& transport) {
  const Settings& settings = q.settings;
  const bool copies = settings.p2p_use_cuda_memcpy != 0;
  transport.kind = TransportKind::kP2p;
  transport.read = !copies && (settings.p2p_read_enable != Settings::kUnset ? settings.p2p_read_enable != 0
                                                                            : decision.read);
  transport.intermediate_rank = decision.intermediate_rank;
  if (decision.intermediate_rank >= 0) {
    transport.means = P2pMeans::kIndirect;
    return;
  }
  if (q.sameHost() && q.job.one_process && settings.p2p_direct_disable == 0 && !copies) {
    transport.means = P2pMeans::kDirectPointer;
    return;
  }
  transport.copy_engine = copies;
  const bool several_hosts = q.graph.hosts() > 1 && whyNoMnnvl(settings, q.job).empty();
  transport.means = q.graph.rccl() || !usesCumem(settings, q.job) ? P2pMeans::kIpc
                    : several_hosts                               ? P2pMeans::kMnnvl
                                                                  : P2pMeans::kCumem;
}

// "": NCCL asks the paths.
std::string whyNoP2pAtAll(const Question& q) {
  if (q.pair.other_host) return "the ranks are on two hosts";
  if (!q.sameHost()) {
    const std::string reason = whyNoMnnvl(q.settings, q.job);
    if (!reason.empty()) return "the ranks are on two hosts of an NVLink domain; " + reason;
  }
  if (!q.sameDomain())
    return std::string("NCCL split this host into parts, since ") +
           (q.settings.shm_disable == 1 ? "neither P2P nor shared memory connects them"
                                        : "its NICs are faster than the paths between the parts");
  return "";
}

// Empty, or why the driver forbids one of the steps of a path that the paths allow.
std::string askDriver(const Question& q, const P2pDecision& decision) {
  constexpr int kIgnored = 2;
  if (q.settings.ignore_disabled_p2p == kIgnored) return "";
  std::vector<const Node*> gpus = {q.from.node, q.to.node};
  const Graph& graph = q.paths().graph();
  if (decision.intermediate_rank >= 0)
    gpus.insert(gpus.begin() + 1, &graph.of(NodeType::kGpu, graph.gpuOfRank(decision.intermediate_rank)));
  for (std::size_t i = 1; i < gpus.size(); ++i) {
    const std::string reason = whyDriverForbidsP2p(q.machine, *gpus[i - 1], *gpus[i]);
    if (!reason.empty()) return "the driver forbids it (" + reason + "; nvidia-smi topo -p2p rw shows it)";
  }
  return "";
}

TransportStep askP2p(const Question& q, Transport& transport) {
  TransportStep step{.kind = TransportKind::kP2p, .taken = false, .reason = whyNoP2pAtAll(q)};
  if (!step.reason.empty()) return step;
  const P2pDecision decision = decideP2p(q.paths(), q.from.gpu, q.to.gpu);
  const auto answer = checkP2p(q.paths(), q.from.gpu, q.to.gpu);
  step.reason = answer.ok() ? answer->reason : answer.error();
  if (!answer.ok() || !decision.allowed) return step;
  const std::string forbidden = askDriver(q, decision);
  if (!forbidden.empty()) {
    step.reason = forbidden;
    if (decision.type <= PathType::kNvb && q.settings.ignore_disabled_p2p == 0 && !q.graph.rccl())
      transport.warning =
          "NCCL fails its init, because the GPUs have NVLink: probably the hardware is broken; "
          "NCCL_IGNORE_DISABLED_P2P=1 goes on without P2P";
    return step;
  }
  if (decision.intermediate_rank >= 0) {
    if (q.settings.p2p_use_cuda_memcpy != 0) {
      step.reason = "NCCL_P2P_USE_CUDA_MEMCPY: the copy engine cannot pass through a third GPU";
      return step;
    }
  } else if (networkIsFaster(q.paths(), q.from.gpu, q.to.gpu)) {
    step.reason = askNetworkInside(q).reason;
    return step;
  }
  step.taken = true;
  choose(q, decision, transport);
  step.reason += std::string(", ") + pathTypeMeaning(decision.type) + "; " + meansReason(q, transport) +
                 "; " + readReason(q, decision, transport);
  return step;
}

TransportStep askShm(const Question& q, Transport& transport) {
  TransportStep step{.kind = TransportKind::kShm, .taken = false, .reason = ""};
  if (q.settings.shm_disable == 1) {
    step.reason = "NCCL_SHM_DISABLE=1 forbids it";
    return step;
  }
  if (!q.sameHost()) {
    step.reason = "the ranks are on two hosts";
    return step;
  }
  const InsideHost network = askNetworkInside(q);
  step.taken = !network.keeps_from_shm;
  step.reason = network.reason;
  if (!step.taken) return step;
  transport.kind = TransportKind::kShm;
  step.reason = "one host: through the memory of the CPU";
  if (!q.sameDomain() && network.allows_net)
    step.reason +=
        "; the NICs would be faster, but NCCL since 2.30.3 does not compare them, because its graph of one "
        "part lacks the other: NCCL_SHM_DISABLE=1 takes them";
  return step;
}

// Why another rank sends: it is near the NIC of the GPU here that has the peer's number.
std::string whyPxn(const Question& q, const NetEnd& sender) {
  const Paths& paths = *q.from.domain->paths;
  const int proxy = paths.graph().gpuOfRank(sender.proxy_rank);
  const PathType type = paths.get(NodeType::kGpu, proxy, NodeType::kNet, sender.net).type;
  return "GPU " + std::to_string(sender.proxy_rank) + " sends for GPU " + std::to_string(q.pair.from) +
         ": it is " + pathTypeName(type) +
         " from the NIC that belongs to the peer's GPU number, and has NVLink to GPU " +
         std::to_string(q.pair.from) + " (NCCL_P2P_PXN_LEVEL=0 forbids it)";
}

// The NIC and GPUDirect of both ends (ncclTopoGetNetDev without a graph). "", or why an end has no NIC.
std::string findEnds(const Question& q, Transport& transport) {
  const Paths& sends = *q.from.domain->paths;
  const Paths& receives = *q.to.domain->paths;
  const auto towards = netTowardsPeer(sends, q.from.gpu, q.to.node->dev, q.pair.channel);
  if (!towards.ok()) return towards.error();
  const auto own = localNet(receives, q.to.gpu, q.pair.channel);
  if (!own.ok()) return own.error();
  const auto sending = checkGdr(sends, q.from.gpu, towards->net, true);
  if (!sending.ok()) return sending.error();
  const auto receiving = checkGdr(receives, q.to.gpu, *own, false);
  if (!receiving.ok()) return receiving.error();
  transport.sender = {.net = towards->net,
                      .proxy_rank = towards->proxy_rank,
                      .gdr = sending->mode,
                      .gdr_reason = sending->reason};
  if (transport.sender.proxy_rank != q.from.node->rank) transport.pxn_reason = whyPxn(q, transport.sender);
  transport.receiver = {
      .net = *own, .proxy_rank = q.to.node->rank, .gdr = receiving->mode, .gdr_reason = receiving->reason};
  return "";
}

// NCCL looks for its PXN helpers without a place for the device number, which this level writes to.
bool crashesWithPxnLevel1(const Question& q, int net) {
  const Paths& paths = *q.from.domain->paths;
  return q.pair.other_host && !q.graph.rccl() && q.settings.pxn_disable != 1 &&
         q.settings.p2p_pxn_level == 1 &&
         paths.get(NodeType::kGpu, q.from.gpu, NodeType::kNet, net).type <= PathType::kPxn;
}

TransportStep askNet(const Question& q, Transport& transport) {
  TransportStep step{.kind = TransportKind::kNet, .taken = true, .reason = "the ranks are on two hosts"};
  if (q.sameHost()) {
    const InsideHost network = askNetworkInside(q);
    step.taken = network.allows_net;
    step.reason = network.reason;
  }
  if (!step.taken) return step;
  const std::string error = findEnds(q, transport);
  if (!error.empty()) {
    step.taken = false;
    step.reason = error;
    return step;
  }
  transport.kind = TransportKind::kNet;
  if (crashesWithPxnLevel1(q, transport.sender.net))
    transport.warning =
        "NCCL (2.28.9 to 2.30.7) crashes at init with NCCL_P2P_PXN_LEVEL=1, for it writes through a null "
        "pointer: set 0 or 2";
  return step;
}

std::string gdrText(const NetEnd& end) {
  return (end.gdr == GdrMode::kOff ? "off (" : "on (") + end.gdr_reason + ")";
}

}  // namespace

std::string nvlinkDomain(const Machine& machine) {
  if (machine.gpu_answers == nullptr) return "";
  for (const gpu::Device& device : machine.gpu_answers->gpus)
    if (device.fabric_state == "completed" &&
        device.fabric_cluster.find_first_not_of("0-") != std::string::npos)
      return device.fabric_cluster;
  return "";
}

const char* transportKindName(TransportKind kind) {
  constexpr const char* kNames[] = {"none", "P2P", "SHM", "NET"};
  return kNames[static_cast<std::size_t>(kind)];
}

std::string transportName(const Transport& transport) {
  std::string name = transportKindName(transport.kind);
  if (transport.kind == TransportKind::kP2p) {
    constexpr const char* kMeans[] = {"/direct pointer", "/IPC", "/CUMEM", "/MNNVL", "/indirect"};
    name += kMeans[static_cast<std::size_t>(transport.means)];
    if (transport.read) name += "/read";
    if (transport.copy_engine) name += "/CE";
  }
  if (transport.kind == TransportKind::kNet) {
    const bool sends = transport.sender.gdr != GdrMode::kOff;
    const bool receives = transport.receiver.gdr != GdrMode::kOff;
    if (sends && receives) name += "/GDRDMA";
    if (sends != receives) name += sends ? "/GDRDMA of the sender only" : "/GDRDMA of the receiver only";
  }
  return name;
}

std::string transportReason(const Transport& transport) {
  std::string text;
  for (const TransportStep& step : transport.steps) {
    if (!text.empty()) text += "; ";
    if (!step.taken) text += std::string("no ") + transportKindName(step.kind) + ": ";
    text += step.reason;
  }
  if (transport.kind == TransportKind::kNet) {
    text += "; GPUDirect of the sender " + gdrText(transport.sender) + ", of the receiver " +
            gdrText(transport.receiver);
  }
  return transport.warning.empty() ? text : text + "; " + transport.warning;
}

Job jobOn(const Machine& machine) { return {.one_process = false, .cumem = driverOffersCumem(machine)}; }

Transports::Transports(const Machine& machine, const Job& job) : machine_(machine), job_(job) {
  for (const Domain& domain : machine.domains)
    ranks_.insert(ranks_.end(), domain.ranks.begin(), domain.ranks.end());
  std::sort(ranks_.begin(), ranks_.end());
  places_.resize(ranks_.size());
  for (const Domain& domain : machine.domains) {
    for (const int rank : domain.ranks) {
      const int gpu = domain.graph->gpuOfRank(rank);
      places_[positionOf(rank)] = {
          .domain = &domain, .gpu = gpu, .node = &domain.graph->of(NodeType::kGpu, gpu)};
    }
  }
}

std::size_t Transports::positionOf(int rank) const {
  return static_cast<std::size_t>(std::lower_bound(ranks_.begin(), ranks_.end(), rank) - ranks_.begin());
}

Transport Transports::fromEnd(const RankPair& pair) const {
  const Question q{.machine = machine_,
                   .settings = *machine_.settings,
                   .graph = *machine_.graph,
                   .job = job_,
                   .pair = pair,
                   .from = places_[positionOf(pair.from)],
                   .to = places_[positionOf(pair.to)]};
  Transport transport;
  for (const auto ask : {askP2p, askShm, askNet}) {
    transport.steps.push_back(ask(q, transport));
    if (transport.steps.back().taken) break;
  }
  return transport;
}

Transport Transports::between(const RankPair& pair) const {
  Transport transport = fromEnd(pair);
  // Each end chooses by itself, from its own paths.
  RankPair back = pair;
  std::swap(back.from, back.to);
  const TransportKind other_end = fromEnd(back).kind;
  if (!transport.warning.empty()) return transport;
  if (transport.kind == TransportKind::kNone) {
    transport.warning = "NCCL finds no transport for this pair, and fails";
  } else if (other_end != transport.kind) {
    transport.warning = std::string("the sender takes ") + transportKindName(transport.kind) +
                        ", but the receiver " + transportKindName(other_end) +
                        ": the connection fails, because the paths of the two directions differ";
  }
  return transport;
}

NvlsAnswer Transports::nvls(int rank) const {
  const Graph& graph = *places_[positionOf(rank)].domain->graph;
  const Settings& settings = *machine_.settings;
  if (graph.rccl()) return {.used = false, .reason = "RCCL has none"};
  if (settings.nvls_enable == 0) return {.used = false, .reason = "NCCL_NVLS_ENABLE=0"};
  if (graph.count(NodeType::kGpu) < 2) return {.used = false, .reason = "a single GPU"};
  const auto& devices = graph.of(NodeType::kDev);
  if (std::any_of(devices.begin(), devices.end(), [&](NodeIndex i) { return graph.node(i).gpus > 1; }))
    return {.used = false, .reason = "several ranks share a GPU"};
  if (graph.count(NodeType::kNvs) == 0) return {.used = false, .reason = "there is no NVSwitch"};
  for (const NodeIndex i : graph.of(NodeType::kGpu)) {
    const Node& gpu = graph.node(i);
    if (gpu.sm < kFirstWithMulticast)
      return {.used = false,
              .reason = "GPUs of sm " + std::to_string(gpu.sm) + " cannot multicast; sm " +
                        std::to_string(kFirstWithMulticast) + " and later can"};
  }
  return {.used = true, .reason = "GPUs of sm 90 or later behind NVSwitches, if the driver offers multicast"};
}

std::vector<std::string> Transports::logLines(const RankPair& pair, const Transport& transport) const {
  const int ranks = static_cast<int>(ranks_.size());
  const auto named = [&](int rank, bool second_host) {
    return std::to_string(rank + (second_host ? ranks : 0)) + "[" +
           std::to_string(places_[positionOf(rank)].node->dev) + "]";
  };
  const std::string channel = formatText("Channel %02d", pair.channel);
  const std::string ends = " : " + named(pair.from, false) + " -> " + named(pair.to, pair.other_host);
  const auto by = [&](const NetEnd& end, int rank) {
    const bool relayed = end.proxy_rank != rank;
    return " via NET/Railwise/" + std::to_string(machine_.graph->of(NodeType::kNet, end.net).dev) +
           (relayed ? "(" + std::to_string(end.proxy_rank) + ")" : "") +
           (end.gdr != GdrMode::kOff ? "/GDRDMA" : "") + (end.gdr == GdrMode::kPcie ? "(PCI)" : "");
  };
  switch (transport.kind) {
    case TransportKind::kP2p: {
      std::string name = transportName(transport);
      if (transport.means == P2pMeans::kIndirect)
        name = "P2P/indirect/" + named(transport.intermediate_rank, false) + (transport.read ? "/read" : "");
      return {channel + "/1" + ends + " via " + name};
    }
    case TransportKind::kShm:
      return {channel + ends + " via SHM/direct" +
              (machine_.settings->nccl < NcclVersion::k2_30 ? "/direct" : "")};
    case TransportKind::kNet:
      return {channel + "/1" + ends + " [send]" + by(transport.sender, pair.from),
              channel + "/1" + ends + " [receive]" + by(transport.receiver, pair.to)};
    case TransportKind::kNone:
      break;
  }
  return {"No transport found for rank " + std::to_string(pair.from)};
}

TransportTable tabulate(const Transports& transports, const PairFilter& filter) {
  TransportTable table;
  std::map<std::string, std::size_t> known;  // name and reason -> index of the class
  for (const int from : transports.ranks()) {
    if (filter.from >= 0 && filter.from != from) continue;
    for (const int to : transports.ranks()) {
      if (filter.to >= 0 && filter.to != to) continue;
      if (from == to && !filter.other_host) continue;
      TransportRow row{
          .pair = {.from = from, .to = to, .other_host = filter.other_host, .channel = filter.channel}};
      const Transport transport = transports.between(row.pair);
      const std::string name = transportName(transport);
      const std::string reason = transportReason(transport);
      const auto [at, is_new] = known.emplace(name + '\n' + reason, table.classes.size());
      if (is_new) table.classes.push_back({.first = transport, .name = name, .reason = reason});
      row.index = at->second;
      ++table.classes[row.index].pairs;
      row.intermediate_rank = transport.intermediate_rank;
      row.sender = transport.sender;
      row.receiver = transport.receiver;
      row.sender.gdr_reason.clear();
      row.receiver.gdr_reason.clear();
      table.rows.push_back(std::move(row));
    }
  }
  return table;
}

}  // namespace railwise::topo
