#include <algorithm>
#include <set>

#include "topo/explain/explain.h"
#include "topo/graph/constants.h"

namespace railwise::topo {
namespace {

// A path slower than this fraction of the NIC's own speed wastes the NIC. PCIe's nominal bandwidth is a
// little below that of the matching port (48 against 50 GB/s), which is not a problem.
constexpr float kWasted = 0.75F;

// True if there is no PCIe switch between the device and its CPU. A VM with a hidden PCIe tree looks like
// this.
bool hangsOnCpu(const Graph& graph, NodeIndex device) {
  for (const Link& link : graph.node(device).links) {
    if (link.type == LinkType::kPci && graph.node(link.to).type == NodeType::kPci) return false;
  }
  return true;
}

NodeIndex nicOf(const Graph& graph, int net) {
  for (const Link& link : graph.of(NodeType::kNet, net).links) {
    if (link.type == LinkType::kNet) return link.to;
  }
  return kNoNode;
}

std::string farFix(const Graph& graph, int gpu, int net) {
  const NodeIndex device = deviceOf(graph, graph.at(NodeType::kGpu, gpu));
  const NodeIndex nic = nicOf(graph, net);
  if (nic != kNoNode && hangsOnCpu(graph, device) && hangsOnCpu(graph, nic)) {
    return std::string("in a VM or container the PCIe switches are often hidden: give ") +
           libraryName(graph) +
           " a topology file in NCCL_TOPO_FILE; `railwise topo generate`, run there or with --root "
           "RECORDING, writes one or says why it cannot. On bare metal this is how the slots are wired";
  }
  return "put a NIC below the same PCIe switch as the GPU if the board has such a slot";
}

// True if the path passes a node twice: without GPUDirect NCCL takes the path up to the CPU and back down,
// also where a PCIe switch joins the two.
bool turnsBack(const NicView& view) {
  std::set<NodeIndex> passed;
  return std::any_of(view.steps.begin(), view.steps.end(),
                     [&](const Step& step) { return !passed.insert(step.to).second; });
}

// Adds one problem for all NICs of the GPU that are equally far. Of a path that turns back addGdrOff() says
// why.
void addFarNics(const Graph& graph, int gpu, GpuExplanation& explanation) {
  std::vector<std::string> names;
  const NicView* far = nullptr;
  for (const ChosenNic& nic : explanation.chosen) {
    if (nic.view.type != PathType::kPhb && nic.view.type != PathType::kSys) continue;
    if (turnsBack(nic.view)) continue;
    far = &nic.view;
    names.push_back(netName(graph, nic.view.net));
  }
  if (far == nullptr) return;
  Problem problem{.kind = "far-nic"};
  problem.text = listText(names) + (names.size() == 1 ? " is" : " are") + " far from " + gpuName(graph, gpu) +
                 " (" + pathTypeName(far->type) + "): every byte goes through " +
                 meaningText(graph, far->type);
  problem.fix = farFix(graph, gpu, far->net);
  explanation.problems.push_back(std::move(problem));
}

// The lower node of a PCIe link, whose link_speed and link_width describe the link.
const Node* pciEnd(const Graph& graph, NodeIndex a, NodeIndex b) {
  for (const NodeIndex end : {a, b}) {
    const Node& node = graph.node(end);
    const NodeIndex other = end == a ? b : a;
    const bool way_up = node.type == NodeType::kPci && !node.links.empty() && node.links.back().to == other;
    if (way_up || (node.type != NodeType::kPci && node.type != NodeType::kCpu)) return &node;
  }
  return nullptr;
}

void addSpeedReason(const Graph& graph, NodeIndex from, NodeIndex to, Problem& problem) {
  const Node* end = pciEnd(graph, from, to);
  if (end == nullptr || end->busid.empty()) return;
  if (!pciSpeedKnown(end->link_speed)) {
    problem.text += std::string("; ") + libraryName(graph) + " does not understand link_speed=\"" +
                    end->link_speed + "\" of " + end->busid + " and takes it as PCIe Gen3";
    problem.fix =
        "write the true speed into the topology file, e.g. link_speed=\"32.0 GT/s PCIe\"; `railwise topo "
        "lint` shows the lines";
    return;
  }
  problem.text += "; " + end->busid + " is linked at " + end->link_speed + " x" +
                  std::to_string(end->link_width == 0 ? 16 : end->link_width);
  problem.fix =
      "compare LnkCap and LnkSta in `lspci -vv` of that device and of the port above it: where LnkSta is "
      "lower, the slot, a riser or the BIOS holds it down; else the device, or the port, can do no more";
}

NodeIndex sameNode(const Graph& from, const Graph& to, NodeIndex node) {
  return to.find(from.node(node).type, from.node(node).id);
}

// Adds the links that make a path slower than the port of its NIC, unless the explanation already has them.
void addSlowLinks(const Machine& machine, const Paths& paths, int gpu, const NicView& view,
                  GpuExplanation& explanation) {
  const Graph& graph = paths.graph();
  if (machine.assumed.nic_speed) return;  // a remark says so; a link is not slow by an assumption
  const float port = graph.of(NodeType::kNet, view.net).bandwidth;
  if (view.bandwidth >= kWasted * port) return;
  NodeIndex from = deviceOf(graph, graph.at(NodeType::kGpu, gpu));
  for (const Step& step : view.steps) {
    NodeIndex to = step.to;
    if (graph.node(to).type == NodeType::kNet) to = nicOf(graph, view.net);
    if (step.bandwidth <= view.bandwidth && to != kNoNode) {
      Problem problem{.kind = "slow-link"};
      problem.from = sameNode(graph, *machine.graph, from);
      problem.to = sameNode(graph, *machine.graph, to);
      const bool sys = graph.node(from).type == NodeType::kCpu && graph.node(to).type == NodeType::kCpu;
      problem.text = "the " + (sys ? "link " + step.link : step.link + " link") + " from " +
                     nodeName(graph, from) + " to " + nodeName(graph, to) + " carries " +
                     gbText(step.bandwidth) + " GB/s, but the port of " + netName(graph, view.net) + " " +
                     gbText(port) + " GB/s";
      if (step.link == "PCIe") addSpeedReason(graph, from, to, problem);
      const bool known =
          std::any_of(explanation.problems.begin(), explanation.problems.end(), [&](const Problem& p) {
            return p.from == problem.from && p.to == problem.to && p.from != kNoNode;
          });
      if (!known) explanation.problems.push_back(std::move(problem));
    }
    from = deviceOf(graph, to);
  }
}

void addGdrOff(const Graph& graph, int gpu, GpuExplanation& explanation) {
  std::vector<std::string> names;
  const ChosenNic* off = nullptr;
  for (const ChosenNic& nic : explanation.chosen) {
    if (nic.receive.mode != GdrMode::kOff && nic.send.mode != GdrMode::kOff) continue;
    off = &nic;
    names.push_back(netName(graph, nic.view.net));
  }
  if (off == nullptr) return;
  const bool receive = off->receive.mode != GdrMode::kOff;
  const bool send = off->send.mode != GdrMode::kOff;
  const char* what = receive ? "sending" : send ? "receiving" : "sending and receiving";
  Problem problem{.kind = "gpudirect-off"};
  problem.text = "GPUDirect RDMA between " + gpuName(graph, gpu) + " and " + listText(names) +
                 " is off for " + what + ": the data makes a detour through host memory";
  problem.fix = "GPUDirect " + gdrSentence(receive ? off->send : off->receive);
  explanation.problems.push_back(std::move(problem));
}

// Adds the reason why a nearer NIC was not chosen. The usual reason is a link that is slower than it should
// be.
void addNearerLost(const Machine& machine, const Paths& paths, int gpu, GpuExplanation& explanation) {
  const Graph& graph = paths.graph();
  if (explanation.chosen.empty()) return;
  const NicView& best = explanation.chosen[0].view;
  for (const RejectedNic& nic : explanation.rejected) {
    if (nic.rule != "bandwidth" || nic.view.type >= best.type || best.type < PathType::kPxn) continue;
    Problem problem{.kind = "nearer-nic-lost"};
    problem.text = netName(graph, nic.view.net) + " is nearer to " + gpuName(graph, gpu) + " (" +
                   viewText(nic.view) + ") than " + netName(graph, best.net) + " (" + viewText(best) +
                   "), but " + libraryName(graph) + " takes the higher bandwidth first";
    problem.fix =
        "if the link of the nearer NIC is slower than it should be, mend that first; else NCCL_IB_HCA can "
        "leave the farther NIC out";
    explanation.problems.push_back(std::move(problem));
    addSlowLinks(machine, paths, gpu, nic.view, explanation);
    return;
  }
}

void addSplit(const Machine& machine, MachineExplanation& all) {
  if (machine.domains.size() < 2) return;
  std::vector<std::string> groups;
  for (const Domain& domain : machine.domains) groups.push_back("GPU " + rangesText(domain.ranks));
  Problem problem{.kind = "split"};
  problem.text =
      std::string(libraryName(*machine.graph)) + " treats this machine as " + std::to_string(groups.size()) +
      " separate nodes (" + listText(groups) +
      "): between them the network is faster than PCIe and the CPUs, so they talk through their NICs";
  problem.fix = std::string("this is right when there really is no ") +
                (isAmd(*machine.graph)
                     ? "xGMI; if there is, it is missing in the file (xgmi tags"
                     : "NVLink; if there is, it is missing in the file (nvlink tags, or --nvswitch-links") +
                "). NCCL_NET_DISABLE_INTRA=1 keeps the machine together";
  all.problems.push_back(std::move(problem));
}

// GPUs in different domains communicate through their NICs. Only GPUs of one domain would copy through host
// memory.
bool samePart(const Machine& machine, int rank, int other) {
  for (const Domain& domain : machine.domains) {
    const auto in = [&](int r) { return std::count(domain.ranks.begin(), domain.ranks.end(), r) != 0; };
    if (in(rank)) return in(other);
  }
  return true;
}

void addP2pOff(const Machine& machine, MachineExplanation& all) {
  const Graph& graph = *machine.graph;
  const int gpus = graph.count(NodeType::kGpu);
  int pairs = 0;
  std::string reason;
  for (int a = 0; a < gpus; ++a) {
    for (int b = a + 1; b < gpus; ++b) {
      const Node& first = graph.of(NodeType::kGpu, a);
      const Node& second = graph.of(NodeType::kGpu, b);
      if (first.host != second.host) continue;
      const auto answer = checkP2p(*machine.paths, a, b);
      if (!answer.ok() || answer->allowed || !samePart(machine, first.rank, second.rank)) continue;
      if (pairs++ == 0)
        reason = "e.g. " + gpuName(graph, a) + " and " + gpuName(graph, b) + ": " + answer->reason;
    }
  }
  if (pairs == 0) return;
  all.problems.push_back(
      {.kind = "p2p-off",
       .text = counted(pairs, "pair") +
               " of GPUs cannot reach each other directly (P2P) and copy through host memory",
       .fix = reason});
}

// Is it a fused NIC? NCCL may attach a fused NIC to a CPU above all its members. That is not a mistake.
bool isFused(const std::string& name) { return name.find('+') != std::string::npos; }

// Reports a NIC whose PCI address NCCL does not know, if other NICs have theirs: NCCL prefers its invented
// link to all real ones.
void addVirtualNics(const Machine& machine, MachineExplanation& all) {
  const Graph& graph = *machine.graph;
  std::vector<bool> lost(static_cast<std::size_t>(graph.count(NodeType::kNet)), false);
  std::vector<std::string> names;
  bool placed = false;
  for (int net = 0; net < graph.count(NodeType::kNet); ++net) {
    if (!isVirtual(graph, net)) {
      placed = true;
    } else if (!isFused(graph.of(NodeType::kNet, net).name)) {
      lost[static_cast<std::size_t>(net)] = true;
      names.push_back(netName(graph, net));
    }
  }
  if (names.empty() || !placed) return;
  std::vector<int> takers;
  for (const GpuExplanation& gpu : all.gpus) {
    if (std::any_of(gpu.nets.begin(), gpu.nets.end(),
                    [&](int n) { return lost[static_cast<std::size_t>(n)]; }))
      takers.push_back(gpu.rank);
  }
  std::sort(takers.begin(), takers.end());
  const bool one = names.size() == 1;
  const std::string library = libraryName(graph);
  Problem problem{.kind = "virtual-nic"};
  problem.text = "the PCI address of " + listText(names) + " is not known to " + library + ", which takes " +
                 (one ? "it" : "them") + " as " + gbText(kLocalBandwidth) + " GB/s from the CPU";
  if (!takers.empty())
    problem.text += "; so GPU " + rangesText(takers) + " take" + (takers.size() == 1 ? "s" : "") +
                    (one ? " it" : " such a NIC") + " before the NICs that have a place";
  problem.text +=
      ". E.g. Soft-RoCE runs on an interface that is no PCI device, or NCCL's own plugin (net_ib) moves a VF "
      "at a device number other than 0 to an address that does not exist (NCCL_IB_MERGE_VFS=1, the default)";
  problem.fix = std::string("leave ") + (one ? "it" : "them") +
                " out with NCCL_IB_HCA, or set NCCL_IB_MERGE_VFS=0, or give the place in a topology file "
                "(NCCL_TOPO_FILE)";
  all.problems.push_back(std::move(problem));
}

// Reports GPUs that reach every NIC through another GPU, if other GPUs have a NIC near them: often the NIC of
// the GPU is missing, or its port is down.
void addLostNics(const Machine& machine, MachineExplanation& all) {
  std::vector<int> without;
  bool others = false;
  for (const GpuExplanation& gpu : all.gpus) {
    if (gpu.chosen.empty()) continue;
    if (gpu.chosen[0].view.type == PathType::kPxn) without.push_back(gpu.rank);
    others = others || gpu.chosen[0].view.type < PathType::kPxn;
  }
  if (without.empty() || !others) return;
  std::sort(without.begin(), without.end());
  const bool one = without.size() == 1;
  all.problems.push_back(
      {.kind = "no-near-nic",
       .text = "GPU " + rangesText(without) + (one ? " has" : " have") + " no NIC nearby and " +
               (one ? "shares" : "share") + " the NICs of other GPUs, through these GPUs (" +
               pathTypeName(PathType::kPxn) + "): less bandwidth for all of them",
       .fix = std::string("look for a NIC that is missing or whose port is down (`railwise doctor`), or that "
                          "NCCL_IB_HCA leaves out. If the board has no NIC there, ") +
              libraryName(*machine.graph) + " can do no better"});
}

void addIdleNics(const Machine& machine, MachineExplanation& all) {
  std::vector<bool> used(static_cast<std::size_t>(machine.graph->count(NodeType::kNet)), false);
  for (const GpuExplanation& gpu : all.gpus) {
    for (const int net : gpu.nets) used[static_cast<std::size_t>(net)] = true;
  }
  std::vector<std::string> idle;
  for (std::size_t net = 0; net < used.size(); ++net) {
    if (!used[net]) idle.push_back(netName(*machine.graph, static_cast<int>(net)));
  }
  if (idle.empty() || idle.size() == used.size()) return;
  const char* verb = idle.size() == 1 ? " is" : " are";
  all.problems.push_back(
      {.kind = "idle-nic",
       .text = shortList(std::move(idle), 8) + verb + " not the NIC of any GPU",
       .fix = "all right for management and storage; leave such a NIC out with NCCL_IB_HCA. A NIC meant for "
              "the GPUs wants the same speed and distance as the others"});
}

}  // namespace

void addGpuProblems(const Machine& machine, const Paths& paths, int gpu, GpuExplanation& explanation) {
  const Graph& graph = paths.graph();
  if (explanation.nets.empty()) return;  // the machine has no NIC
  for (const ChosenNic& nic : explanation.chosen) {
    addSlowLinks(machine, paths, gpu, nic.view, explanation);
  }
  addFarNics(graph, gpu, explanation);
  addGdrOff(graph, gpu, explanation);
  addNearerLost(machine, paths, gpu, explanation);
}

void addMachineProblems(const Machine& machine, MachineExplanation& all) {
  if (machine.graph->count(NodeType::kNet) == 0) {
    all.problems.push_back({.kind = "no-nic",
                            .text = std::string("no NIC is described: ") + libraryName(*machine.graph) +
                                    " has those that its network plugin finds on the machine, and without "
                                    "any it uses sockets or fails",
                            .fix = "`railwise devices` on the machine lists what the plugin finds"});
  }
  addSplit(machine, all);
  addP2pOff(machine, all);
  addVirtualNics(machine, all);
  addLostNics(machine, all);
  addIdleNics(machine, all);
}

}  // namespace railwise::topo
