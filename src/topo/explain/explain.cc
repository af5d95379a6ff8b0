#include "topo/explain/explain.h"

#include <algorithm>
#include <cstdlib>
#include <set>

#include "base/text/words.h"
#include "topo/explain/describe.h"

namespace railwise::topo {
namespace {

// How ncclTopoGetLocalNet divides equally near NICs among the GPUs that share them.
struct Deal {
  std::vector<int> nets;  // the equally near NICs, by index
  int sharers = 1;        // number of GPUs to which the first of these NICs is nearest
  int per_gpu = 1;
  int start = 0;          // this GPU's first position in `nets`
  bool reversed = false;  // reversing the bits changed `start`
};

Deal dealOf(const Paths& paths, int gpu) {
  const Settings& settings = paths.settings();
  Deal deal;
  deal.nets = localNodes(paths, NodeType::kGpu, gpu, NodeType::kNet);
  if (deal.nets.empty()) return deal;
  const int count = static_cast<int>(deal.nets.size());
  deal.sharers =
      std::max(1, static_cast<int>(localNodes(paths, NodeType::kNet, deal.nets[0], NodeType::kGpu).size()));
  deal.per_gpu = (count + deal.sharers - 1) / deal.sharers;
  if (settings.netdevs_policy == Settings::NetDevsPolicy::kAll) deal.per_gpu = count;
  if (settings.netdevs_policy == Settings::NetDevsPolicy::kMax) {
    deal.per_gpu = std::min(settings.netdevs_max, count);
  }
  const Turn turn = firstTurn(paths.graph(), settings, gpu, deal.nets, deal.sharers);
  deal.start = std::max(0, turn.number) % count;
  deal.reversed = deal.start != std::max(0, turn.in_order) % count;
  return deal;
}

// Explains the choices of the GPUs of one communicator.
class Explainer {
 public:
  // `peer_devs`: the NVML indices of the GPUs of an equal host.
  Explainer(const Paths& paths, std::vector<int> peer_devs)
      : paths_(paths), graph_(paths.graph()), peer_devs_(std::move(peer_devs)) {
    for (int gpu = 0; gpu < graph_.count(NodeType::kGpu); ++gpu) {
      const auto nets = localNets(paths, gpu);
      taken_.push_back(nets.ok() ? *nets : std::vector<int>{});
      errors_.push_back(nets.ok() ? "" : nets.error());
    }
  }

  GpuExplanation explainGpu(int gpu) const {
    GpuExplanation explanation;
    explanation.rank = graph_.of(NodeType::kGpu, gpu).rank;
    explanation.nets = taken_[static_cast<std::size_t>(gpu)];
    explanation.error = errors_[static_cast<std::size_t>(gpu)];
    const int cpu = paths_.localCpu(gpu);
    if (cpu >= 0) explanation.local_cpu = nodeName(graph_, graph_.at(NodeType::kCpu, cpu));
    for (std::size_t channel = 0; channel < explanation.nets.size(); ++channel) {
      addChannel(explanation, gpu, static_cast<int>(channel));
    }
    addRejected(explanation, gpu);
    addPeers(explanation, gpu);
    return explanation;
  }

 private:
  void addChannel(GpuExplanation& explanation, int gpu, int channel) const {
    const int net = explanation.nets[static_cast<std::size_t>(channel)];
    for (ChosenNic& known : explanation.chosen) {
      if (known.view.net == net) return known.channels.push_back(channel);
    }
    ChosenNic nic{.view = viewOf(paths_, gpu, net), .channels = {channel}};
    const auto proxy = proxyRank(paths_, gpu, net);
    nic.proxy_rank = proxy.ok() ? *proxy : explanation.rank;
    const auto receive = checkGdr(paths_, gpu, net, false);
    const auto send = checkGdr(paths_, gpu, net, true);
    nic.receive = receive.ok() ? *receive : GdrAnswer{.rule = "error", .reason = receive.error()};
    nic.send = send.ok() ? *send : GdrAnswer{.rule = "error", .reason = send.error()};
    nic.flush = needFlush(paths_, gpu, net);
    explanation.chosen.push_back(std::move(nic));
  }

  void addRejected(GpuExplanation& explanation, int gpu) const {
    const Deal deal = dealOf(paths_, gpu);
    for (int net = 0; net < graph_.count(NodeType::kNet); ++net) {
      if (std::count(explanation.nets.begin(), explanation.nets.end(), net) != 0) continue;
      RejectedNic nic{.view = viewOf(paths_, gpu, net)};
      const bool near = std::count(deal.nets.begin(), deal.nets.end(), net) != 0;
      if (near) {
        explainTurn(nic, gpu, deal);
      } else {
        explainDistance(nic, deal.nets.empty() ? NicView{} : viewOf(paths_, gpu, deal.nets[0]));
      }
      explanation.rejected.push_back(std::move(nic));
    }
  }

  void explainDistance(RejectedNic& nic, const NicView& best) const {
    const NicView& view = nic.view;
    if (view.type == PathType::kDis) {
      nic.rule = "unconnected";
      nic.reason = "not connected: no path from this GPU to it";
    } else if (view.bandwidth < best.bandwidth) {
      nic.rule = "bandwidth";
      nic.reason = "less bandwidth: " + gbText(view.bandwidth) + " < " + gbText(best.bandwidth) + " GB/s";
      if (view.type < best.type) {
        nic.reason += std::string(", though it is nearer (") + pathTypeName(view.type) + " before " +
                      pathTypeName(best.type) + "): " + libraryName(graph_) + " looks at bandwidth first";
      }
    } else {
      nic.rule = "distance";
      nic.reason = std::string("same bandwidth, longer path: ") + pathTypeName(view.type) + " instead of " +
                   pathTypeName(best.type);
    }
  }

  void explainTurn(RejectedNic& nic, int gpu, const Deal& deal) const {
    const auto near = static_cast<int>(deal.nets.size());
    const bool limited = paths_.settings().netdevs_policy == Settings::NetDevsPolicy::kMax;
    nic.rule = limited ? "limit" : "turn";
    const std::vector<int> takers = takersOf(nic.view.net);
    nic.reason = std::string("equally near, but ") +
                 (takers.empty() ? "no GPU's turn" : "it is the turn of GPU " + rangesText(takers));
    if (limited) {
      nic.deal = "NCCL_NETDEVS_POLICY=MAX:" + std::to_string(paths_.settings().netdevs_max) +
                 " lets each GPU use " + counted(deal.per_gpu, "NIC") + "; ";
    }
    nic.deal += counted(deal.sharers, "GPU") + (deal.sharers == 1 ? " has " : " share ") +
                counted(near, "equally near NIC") + ", " + std::to_string(deal.per_gpu) + " for each; " +
                gpuName(graph_, gpu) + " takes " + takenText(deal);
    if (deal.reversed) nic.deal += " by bit reversal";
  }

  std::string takenText(const Deal& deal) const {
    std::string names;
    for (int i = 0; i < deal.per_gpu; ++i) {
      const auto position = static_cast<std::size_t>(deal.start + i) % deal.nets.size();
      names += (names.empty() ? "" : ", ") + netName(graph_, deal.nets[position]);
    }
    return names;
  }

  std::vector<int> takersOf(int net) const {
    std::vector<int> ranks;
    for (int gpu = 0; gpu < graph_.count(NodeType::kGpu); ++gpu) {
      const auto& nets = taken_[static_cast<std::size_t>(gpu)];
      if (std::count(nets.begin(), nets.end(), net) != 0)
        ranks.push_back(graph_.of(NodeType::kGpu, gpu).rank);
    }
    std::sort(ranks.begin(), ranks.end());
    return ranks;
  }

  void addPeers(GpuExplanation& explanation, int gpu) const {
    if (graph_.hosts() > 1 || explanation.nets.empty()) return;
    for (const int dev : peer_devs_) {
      for (std::size_t channel = 0; channel < explanation.nets.size(); ++channel) {
        const auto route = netTowardsPeer(paths_, gpu, dev, static_cast<int>(channel));
        if (route.ok())
          explanation.peers.push_back({dev, static_cast<int>(channel), route->net, route->proxy_rank});
      }
    }
  }

  const Paths& paths_;
  const Graph& graph_;
  const std::vector<int> peer_devs_;
  std::vector<std::vector<int>> taken_;  // the NETs that each GPU uses, by GPU index
  std::vector<std::string> errors_;
};

std::vector<int> devsOf(const Graph& graph) {
  std::vector<int> devs;
  for (const NodeIndex gpu : graph.of(NodeType::kGpu)) devs.push_back(graph.node(gpu).dev);
  std::sort(devs.begin(), devs.end());
  devs.erase(std::unique(devs.begin(), devs.end()), devs.end());
  return devs;
}

}  // namespace

bool DomainChannels::has(const ChannelEnd& end, int channel) const {
  return channel < 0 || std::count(end.channels.begin(), end.channels.end(), channel % channels) != 0;
}

const DomainChannels* MachineExplanation::channelsOf(int rank) const {
  for (const DomainChannels& domain : channels) {
    if (std::binary_search(domain.ranks.begin(), domain.ranks.end(), rank)) return &domain;
  }
  return nullptr;
}

MachineExplanation explain(const Machine& machine) {
  MachineExplanation all;
  all.gpus.resize(static_cast<std::size_t>(machine.graph->count(NodeType::kGpu)));
  for (const Domain& domain : machine.domains) {
    const Paths& paths = *domain.paths;
    const Explainer explainer(paths, devsOf(*machine.graph));
    for (int gpu = 0; gpu < paths.graph().count(NodeType::kGpu); ++gpu) {
      GpuExplanation explanation = explainer.explainGpu(gpu);
      explanation.gpu = machine.graph->gpuOfRank(explanation.rank);
      if (explanation.gpu < 0) continue;
      addGpuProblems(machine, paths, gpu, explanation);
      all.gpus[static_cast<std::size_t>(explanation.gpu)] = std::move(explanation);
    }
  }
  // NCCL finds only the first GPU of a rank: of the others nothing is known but that they are there.
  for (std::size_t gpu = 0; gpu < all.gpus.size(); ++gpu) {
    if (all.gpus[gpu].gpu >= 0) continue;
    all.gpus[gpu].gpu = static_cast<int>(gpu);
    all.gpus[gpu].rank = machine.graph->of(NodeType::kGpu, static_cast<int>(gpu)).rank;
  }
  addMachineProblems(machine, all);
  return all;
}

NicView viewOf(const Paths& paths, int gpu, int net) {
  const Path& path = paths.get(NodeType::kGpu, gpu, NodeType::kNet, net);
  NicView view{.net = net, .type = path.type};
  if (path.type == PathType::kDis) return view;
  view.bandwidth = path.bandwidth;
  view.hops = path.hops;
  view.steps = stepsOf(paths, path);
  return view;
}

std::string viewText(const NicView& view) {
  if (view.type == PathType::kDis) return "not connected";
  return std::string(pathTypeName(view.type)) + ", " + gbText(view.bandwidth) + " GB/s";
}

const char* gdrText(GdrMode mode) {
  constexpr const char* kTexts[] = {"off", "on", "on, forced through PCIe"};
  return kTexts[static_cast<std::size_t>(mode)];
}

std::string gdrSentence(const GdrAnswer& answer) {
  const std::string mode = std::string(gdrText(answer.mode)) + ": ";
  if (answer.rule != "distance" || answer.distance >= PathType::kNet) return mode + answer.reason;
  const std::string distance = pathTypeName(answer.distance);
  const std::string level = pathTypeName(answer.level);
  if (answer.mode == GdrMode::kOn)
    return mode + "the NIC is near enough (" + distance + "; the limit is " + level + ")";
  if (answer.mode == GdrMode::kPcie) {
    return mode + "the NIC is near enough (" + distance + "; the limit is " + level +
           "), and GPU memory is mapped through PCIe because the CPU is behind C2C";
  }
  return mode + "the NIC is too far away (" + distance + " > " + level +
         ", the distance limit); NCCL_NET_GDR_LEVEL=" + distance +
         " lifts the limit; if a PCIe switch is hidden from this machine, write a topology file (`railwise "
         "topo generate`)";
}

const char* gdrSummary(const ChosenNic& nic) {
  const bool receive = nic.receive.mode != GdrMode::kOff;
  const bool send = nic.send.mode != GdrMode::kOff;
  return receive && send ? "on" : receive ? "receive only" : send ? "send only" : "off";
}

std::string gdrSummary(const Machine& machine, const ChosenNic& nic) {
  const bool off = nic.receive.mode == GdrMode::kOff && nic.send.mode == GdrMode::kOff;
  return std::string(gdrSummary(nic)) + (machine.assumed.gpudirect && !off ? " (assumed)" : "");
}

namespace {

bool isYes(const std::string& value) { return !value.empty() && value != "0"; }

bool isNetElement(const XmlNode& node) { return node.name == "net" && node.parent != nullptr; }

// The devices behind a NIC of Railwise, as NCCL's own network names them: "mlx5_0" and "mlx5_1" of
// "mlx5_0+mlx5_1", "mlx5_2" of its second port "mlx5_2:2".
std::vector<std::string> devicesOf(const std::string& name) {
  std::vector<std::string> devices = splitAt(name, '+');
  for (std::string& device : devices) device.resize(std::min(device.find(':'), device.size()));
  return devices;
}

bool hasFused(const XmlDocument& document) {
  return std::any_of(document.order().begin(), document.order().end(), [](const XmlNode* node) {
    return isNetElement(*node) && node->get("net", "1") != "0" && devicesOf(node->get("name")).size() > 1;
  });
}

// Makes of each NIC the devices behind it, each once: NCCL's own network knows no fused NICs for one-sided
// communication, and has one <net> for two ports of one name.
void splitIntoDevices(XmlDocument& document) {
  const std::vector<XmlNode*> nodes = document.order();  // a copy, because splitting adds nodes
  int dev = 0;
  for (const XmlNode* node : nodes)
    if (isNetElement(*node)) dev = std::max(dev, std::atoi(node->get("dev").c_str()) + 1);
  std::set<std::string> known;
  for (XmlNode* nic : nodes) {
    if (!isNetElement(*nic) || nic->get("name").empty()) continue;
    std::vector<std::string> devices = devicesOf(nic->get("name"));
    if (devices.size() > 1)
      nic->set("speed",
               std::to_string(std::atoi(nic->get("speed").c_str()) / static_cast<int>(devices.size())));
    std::erase_if(devices, [&](const std::string& device) { return !known.insert(device).second; });
    if (devices.empty()) nic->set("net", "0");
    for (std::size_t i = 0; i < devices.size(); ++i) {
      XmlNode* const device = i == 0 ? nic : document.copy(nic->parent, *nic);
      device->set("name", devices[i]);
      if (i > 0) device->set("dev", std::to_string(dev++));
    }
  }
}

// Of the NICs that Railwise and NCCL's own network find on this machine. False: nobody knows which NICs
// serve.
bool takeDevices(const Machine& machine, bool fused, XmlDocument& document) {
  const Settings& settings = *machine.settings;
  if (!machine.completed || settings.net_ib) return false;
  // A NIC that is fused across switches does not say where its members are.
  if (fused && (settings.net_merge_level > PathType::kPix || !settings.net_force_merge.empty())) return false;
  // NCCL's own network does not start without GPUDirect.
  if (std::none_of(document.order().begin(), document.order().end(),
                   [](const XmlNode* node) { return isNetElement(*node) && isYes(node->get("gdr")); }))
    return false;
  splitIntoDevices(document);
  return true;
}

// Leaves in a document only the NICs that serve one-sided communication. False: no such NIC is known.
bool keepOneSided(const Machine& machine, XmlDocument& document) {
  const bool two_tables = machine.settings->nccl.has(NcclRule::kPartitions);  // 2.30.7
  const bool fused = hasFused(document);
  // A release before 2.30.7 has neither windows across hosts nor GIN if a NIC of the network is fused.
  if (fused && !two_tables) return false;
  const std::string kind = two_tables ? "rma" : "gin";
  const bool listed = std::any_of(document.order().begin(), document.order().end(), [&](const XmlNode* node) {
    return isNetElement(*node) && isYes(node->get(kind));
  });
  if (!listed && !takeDevices(machine, fused, document)) return false;
  for (XmlNode* node : document.order()) {
    if (node->name == "gpu") node->set("gdr", "1");
    if (!isNetElement(*node)) continue;
    if (listed) node->set("net", isYes(node->get(kind)) ? "1" : "0");
    node->set("gdr", "1");
  }
  return true;
}

constexpr std::size_t kMostConnections = 4;  // NCCL_RMA_MAX_CONNECTIONS, NCCL_GIN_MAX_CONNECTIONS

std::vector<std::string> namesOf(const Graph& graph, std::vector<int> nets) {
  nets.resize(std::min(nets.size(), kMostConnections));
  std::vector<std::string> names;
  names.reserve(nets.size());
  for (const int net : nets) names.push_back(netName(graph, net));
  return names;
}

}  // namespace

void addOneSided(const Machine& machine, MachineExplanation& all) {
  if (machine.graph->rccl() || !machine.settings->nccl.has(NcclRule::kGinDevices)) return;
  XmlDocument document(*machine.xml);
  if (!keepOneSided(machine, document)) return;
  Settings settings = *machine.settings;
  settings.pxn_disable = 1;
  settings.net_gdr_level = static_cast<int>(PathType::kSys);
  settings.net_gdr_read = 1;
  const auto direct = makeMachine(std::move(document), settings, machine.name);
  if (!direct.ok()) return;
  for (const Domain& domain : direct->domains) {
    const Paths& paths = *domain.paths;
    const Graph& graph = paths.graph();
    for (int gpu = 0; gpu < graph.count(NodeType::kGpu); ++gpu) {
      const int known = machine.graph->gpuOfRank(graph.of(NodeType::kGpu, gpu).rank);
      const auto nets = localNets(paths, gpu);
      if (known >= 0 && nets.ok())
        all.gpus[static_cast<std::size_t>(known)].one_sided = namesOf(graph, *nets);
    }
  }
}

}  // namespace railwise::topo
