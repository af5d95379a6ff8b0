#include "topo/tuning/expect.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/text/text_layout.h"
#include "topo/graph/constants.h"
#include "topo/paths/policy.h"
#include "topo/search/search.h"

namespace railwise::topo::tuning {
namespace {

std::string netName(const Graph& graph, int net) {
  const NodeIndex node = graph.of(NodeType::kNet)[static_cast<std::size_t>(net)];
  const std::string& name = graph.node(node).name;
  return graph.label(node) + (name.empty() ? "" : " (" + name + ")");
}

// The NIC that the channels fill most: GB/s that they want of it, in the direction that carries more.
struct BusiestNic {
  int net = -1;
  int channels = 0;
  float wanted = 0;
};
BusiestNic busiestNic(const Graph& graph, const ChannelGraph& channels) {
  BusiestNic busiest;
  float busiest_share = 0;
  for (int net = 0; net < graph.count(NodeType::kNet); ++net) {
    int in = 0, out = 0;
    for (const Channel& channel : channels.channels) {
      in += channel.net_in == net ? 1 : 0;
      out += channel.net_out == net ? 1 : 0;
    }
    const int most = std::max(in, out);
    const float wanted = static_cast<float>(most) * channels.bandwidth_inter;
    const float share = wanted / std::max(graph.of(NodeType::kNet, net).bandwidth, 0.001F);
    if (most == 0 || share <= busiest_share) continue;
    busiest = {net, most, wanted};
    busiest_share = share;
  }
  return busiest;
}

// A NIC is the limit if less than this share of it is free: the search goes down in steps of some percent.
constexpr float kFull = 0.85F;

std::string limitOf(const Domain& domain, const CommunicatorGraphs& graphs, const CostModel& model, int nodes,
                    Collective collective, const Choice& choice) {
  const ChannelGraph& channels = graphOf(graphs, choice.algorithm);
  const int count = static_cast<int>(channels.channels.size());
  const Cost& cost = model.cost(collective, choice.algorithm, choice.protocol);
  if (cost.bound == Bound::kProtocol)
    return formatText("The limit is the protocol %s: NCCL has a constant for it.", nameOf(choice.protocol));
  if (cost.bound == Bound::kChannel)
    return formatText("The limit is a channel of %s/%s: NCCL has a constant for it, times %d channels.",
                      nameOf(choice.algorithm), nameOf(choice.protocol), count);
  if (nodes > 1) {
    const BusiestNic nic = busiestNic(*domain.graph, channels);
    const float has = nic.net < 0 ? 0 : domain.graph->of(NodeType::kNet, nic.net).bandwidth;
    if (nic.net >= 0 && nic.wanted >= kFull * has)
      return formatText("The limit is the network: %s carries %d of the %d channels, %.1f of its %.1f GB/s.",
                        netName(*domain.graph, nic.net).c_str(), nic.channels, count,
                        static_cast<double>(nic.wanted), static_cast<double>(has));
    if (channels.type_inter > PathType::kPxb)
      return formatText("The limit is the way to the NICs, which is %s: %s. A channel has %.1f GB/s.",
                        pathTypeName(channels.type_inter), pathTypeMeaning(channels.type_inter),
                        static_cast<double>(channels.bandwidth_inter));
  }
  if (channels.type_intra == PathType::kNvl)
    return formatText("The limit is NVLink: %s has %d channels of %.1f GB/s; %.1f GB/s leave a GPU.",
                      nameOf(choice.algorithm), count, static_cast<double>(channels.bandwidth_intra),
                      static_cast<double>(domain.total_bandwidth));
  return formatText("The limit is the way between GPUs, which is %s: %s. %d channel%s of %.1f GB/s.",
                    pathTypeName(channels.type_intra), pathTypeMeaning(channels.type_intra), count,
                    count == 1 ? "" : "s", static_cast<double>(channels.bandwidth_intra));
}

// NCCL's cost model does not count it. "": each GPU of the domain reaches its NICs with GPUDirect.
std::string withoutGpuDirect(const Domain& domain) {
  const Graph& graph = *domain.graph;
  for (int gpu = 0; gpu < graph.count(NodeType::kGpu); ++gpu) {
    const auto nets = localNets(*domain.paths, gpu);
    if (!nets.ok()) continue;
    for (const int net : *nets) {
      const auto send = checkGdr(*domain.paths, gpu, net, true);
      const auto receive = checkGdr(*domain.paths, gpu, net, false);
      if (!send.ok() || !receive.ok() || (send->mode != GdrMode::kOff && receive->mode != GdrMode::kOff))
        continue;
      return formatText(
          " GPUDirect is off between GPU %d and %s, which costs bandwidth that is not taken off here: on VMs "
          "with a hidden PCIe tree users measured 180 instead of 320 GB/s (railwise doctor, railwise "
          "explain).",
          graph.of(NodeType::kGpu, gpu).rank, netName(graph, net).c_str());
    }
  }
  return "";
}

void addRingNetwork(Expectation& its, const Graph& graph, const ChannelGraph& rings) {
  std::set<std::string> names;
  for (const Channel& channel : rings.channels)
    for (const int net : {channel.net_in, channel.net_out})
      if (net >= 0) names.insert(graph.of(NodeType::kNet, net).name);
  if (names.empty()) return;
  its.ring_network = static_cast<double>(rings.bandwidth_inter) * static_cast<double>(rings.channels.size());
  its.ring_nics.assign(names.begin(), names.end());
}

Expectation begun(const Domain& domain, int nodes) {
  Expectation its;
  its.ranks = domain.ranks;
  its.nodes = nodes;
  return its;
}

// GB/s with which all GPUs can send to other nodes at once, each as much as the others, and what bounds it: a
// NIC, or the path of a GPU to a NIC.
struct NetworkShare {
  double per_gpu = 0;
  int gpu = -1;
  int net = -1;
  int sharers = 0;       // GPUs that send by this NIC
  bool by_path = false;  // the path is narrower than the share of the NIC
  double bandwidth = 0;  // GB/s of the NIC, or of the path
};

// GB/s of a NIC: of its port, or of its PCIe link, which all GPUs that send by the NIC share.
double nicBandwidth(const Paths& paths, int net) {
  const float port = paths.graph().of(NodeType::kNet, net).bandwidth;
  // The first link leads from the port to the card.
  const auto links = paths.links(paths.get(NodeType::kNet, net, NodeType::kCpu, 0));
  return static_cast<double>(links.size() > 1 ? std::min(port, links[1]->bandwidth) : port);
}

NetworkShare networkShare(const Machine& machine, const Domain& domain) {
  constexpr int kChannels = 2;  // later channels repeat the first two
  const Graph& graph = *domain.graph;
  const int gpus = graph.count(NodeType::kGpu);
  // Of all that a GPU sends to other nodes, the share that each NIC carries. Peers are the GPUs of equal
  // machines.
  std::vector<std::map<int, double>> shares(static_cast<std::size_t>(gpus));
  std::map<int, double> load;
  std::map<int, int> sharers;
  for (int gpu = 0; gpu < gpus; ++gpu) {
    std::vector<int> nets;
    for (const NodeIndex peer : machine.graph->of(NodeType::kGpu)) {
      for (int channel = 0; channel < kChannels; ++channel) {
        const auto answer = netTowardsPeer(*domain.paths, gpu, machine.graph->node(peer).dev, channel);
        if (answer.ok() && answer->net >= 0) nets.push_back(answer->net);
      }
    }
    auto& its = shares[static_cast<std::size_t>(gpu)];
    for (const int net : nets) its[net] += 1.0 / static_cast<double>(nets.size());
    for (const auto& [net, share] : its) {
      load[net] += share;
      ++sharers[net];
    }
  }
  NetworkShare least;
  const auto consider = [&](const NetworkShare& its) {
    if (least.net < 0 || its.per_gpu < least.per_gpu) least = its;
  };
  for (int gpu = 0; gpu < gpus; ++gpu) {
    for (const auto& [net, share] : shares[static_cast<std::size_t>(gpu)]) {
      const double nic = nicBandwidth(*domain.paths, net);
      const double path = domain.paths->get(NodeType::kGpu, gpu, NodeType::kNet, net).bandwidth;
      consider({nic / load[net], gpu, net, sharers[net], false, nic});
      if (path > 0 && path < nic) consider({path / share, gpu, net, sharers[net], true, path});
    }
  }
  return least;
}

// Microseconds until the first bytes of an all-to-all arrive: our assumption. NCCL's model has no sends and
// receives.
constexpr double kStartUs = 10;

// ncclTopoGetMinNetBw, of all ranks.
float minNetBandwidth(const Paths& paths) {
  float least = 0;
  for (int gpu = 0; gpu < paths.graph().count(NodeType::kGpu); ++gpu) {
    const int from = paths.firstOfRank(gpu);
    int first = -1;
    for (int channel = 0; channel < kMaxChannels; ++channel) {
      const auto id = localNet(paths, from, channel);
      if (!id.ok()) return 0;
      const int net = paths.firstOfId(*id);
      if (net == first) break;
      if (channel == 0) first = net;
      const float bandwidth = paths.get(NodeType::kGpu, from, NodeType::kNet, net).bandwidth;
      least = least == 0 ? bandwidth : std::min(least, bandwidth);
    }
  }
  return least;
}

}  // namespace

Communicator communicatorOn(const Machine& machine, const Domain& domain, int nodes, bool nvls) {
  Communicator its;
  its.nccl = machine.settings->nccl;
  its.nodes = nodes;
  its.ranks_per_node = static_cast<int>(domain.ranks.size());
  its.nvls = nvls && its.ranks_per_node >= 2;
  bool first = true;
  for (const NodeIndex gpu : domain.graph->of(NodeType::kGpu)) {
    const int sm = domain.graph->node(gpu).sm;
    its.min_capability = first ? sm : std::min(its.min_capability, sm);
    its.max_capability = first ? sm : std::max(its.max_capability, sm);
    first = false;
  }
  if (domain.graph->count(NodeType::kCpu) > 0) {
    const Node& cpu = domain.graph->of(NodeType::kCpu, 0);  // ncclTopoCpuType
    its.cpu_arch = cpu.arch;
    its.cpu_vendor = cpu.vendor;
  }
  its.min_net_bandwidth = minNetBandwidth(*domain.paths);
  return its;
}

Expectation expectCollective(const Machine& machine, const Domain& domain, const CommunicatorGraphs& graphs,
                             int nodes, bool nvls, Collective collective,
                             std::span<const std::size_t> sizes) {
  Expectation its = begun(domain, nodes);
  its.collective = collective;
  const Communicator communicator = communicatorOn(machine, domain, nodes, nvls);
  const CostModel model(communicator, graphs);
  its.channels = model.channels();
  if (nodes > 1) addRingNetwork(its, *domain.graph, graphs.of(topo::Algorithm::kRing));
  const double factor = busFactor(collective, communicator.ranks());
  for (const std::size_t bytes : sizes) {
    const auto choice = model.choose(collective, bytes);
    if (!choice) continue;
    const double time = choice->time_us;
    its.sizes.push_back({bytes, choice, time, factor * static_cast<double>(bytes) / (1000 * time)});
  }
  for (const Algorithm algorithm : kModelled)
    for (const Protocol protocol : {Protocol::kLl, Protocol::kLl128, Protocol::kSimple})
      its.costs.push_back({algorithm, protocol, model.cost(collective, algorithm, protocol)});
  its.peak_choice = model.fastest(collective);
  if (!its.peak_choice) {
    its.limit = "A communicator of one rank moves no data.";
    return its;
  }
  const Choice& best = *its.peak_choice;
  its.peak = factor * static_cast<double>(model.cost(collective, best.algorithm, best.protocol).bandwidth);
  its.limit = limitOf(domain, graphs, model, nodes, collective, best);
  if (nodes > 1) its.limit += withoutGpuDirect(domain);
  return its;
}

Expectation expectAllToAll(const Machine& machine, const Domain& domain, int nodes,
                           std::span<const std::size_t> sizes) {
  Expectation its = begun(domain, nodes);
  const double here = static_cast<double>(domain.ranks.size());
  const double all = here * nodes;
  if (all < 2) {
    its.limit = "A communicator of one rank moves no data.";
    return its;
  }
  // Microseconds for each byte of a rank's buffer, inside a node and between nodes; both go on at once.
  const double inside =
      (here - 1) / all / (1000 * std::max(static_cast<double>(domain.total_bandwidth), 0.001));
  const NetworkShare network = nodes > 1 ? networkShare(machine, domain) : NetworkShare{};
  const double between = network.net < 0 ? 0 : (all - here) / all / (1000 * network.per_gpu);
  const double per_byte = std::max(inside, between);
  if (nodes > 1 && network.net < 0) {
    its.limit = "No GPU reaches a NIC, so there is no communicator of several nodes.";
    return its;
  }
  its.peak = (all - 1) / all / (1000 * per_byte);
  for (const std::size_t bytes : sizes) {
    const double time = kStartUs + static_cast<double>(bytes) * per_byte;
    its.sizes.push_back(
        {bytes, std::nullopt, time, (all - 1) / all * static_cast<double>(bytes) / (1000 * time)});
  }
  if (between >= inside) {
    const Graph& graph = *domain.graph;
    const int rank = graph.of(NodeType::kGpu, network.gpu).rank;
    const std::string nic = netName(graph, network.net);
    its.limit = network.by_path ? formatText("The limit is the way from GPU %d to %s: %.1f GB/s.", rank,
                                             nic.c_str(), network.bandwidth)
                                : formatText(
                                      "The limit is the network: GPU %d sends to other nodes by %s, which "
                                      "has %.1f GB/s for %d GPU%s.",
                                      rank, nic.c_str(), network.bandwidth, network.sharers,
                                      network.sharers == 1 ? "" : "s");
  } else {
    its.limit = formatText("The limit is inside a node: %.1f GB/s leave a GPU.",
                           static_cast<double>(domain.total_bandwidth));
  }
  if (nodes > 1) its.limit += withoutGpuDirect(domain);
  return its;
}

Outcome<std::vector<Expectation>> expectOn(const Machine& machine, const Question& question,
                                           std::span<const std::size_t> sizes) {
  std::vector<Expectation> expectations;
  if (!question.collective) {
    for (const Domain& domain : machine.domains)
      expectations.push_back(expectAllToAll(machine, domain, question.nodes, sizes));
    return expectations;
  }
  const bool alone = question.nodes == 1;
  const auto graphs = searchMachine(machine, {.one_host = alone, .two_hosts = !alone, .nvls = question.nvls});
  if (!graphs.ok()) return graphs.failure();
  for (std::size_t i = 0; i < graphs->size(); ++i) {
    const auto& found = alone ? (*graphs)[i].one_host : (*graphs)[i].two_hosts;
    if (!found)
      return Error{machine.name + ": no GPU reaches a NIC, so there is no communicator of " +
                       std::to_string(question.nodes) + " nodes",
                   Code::kNoDevice};
    expectations.push_back(expectCollective(machine, machine.domains[i], *found, question.nodes,
                                            question.nvls, *question.collective, sizes));
  }
  return expectations;
}

}  // namespace railwise::topo::tuning
