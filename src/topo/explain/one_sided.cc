#include "topo/explain/one_sided.h"

#include <algorithm>

#include "topo/explain/describe.h"

namespace railwise::topo {
namespace {

bool isYes(const std::string& value) { return !value.empty() && value != "0"; }

bool isNet(const XmlNode& node) { return node.name == "net" && node.parent != nullptr; }

// Makes the NICs of one-sided communication the NICs of a document. False: nobody knows of any.
bool keepOneSided(const Machine& machine, XmlDocument& document) {
  const std::string kind =
      machine.settings->nccl.has(NcclRule::kPartitions) ? "rma" : "gin";  // 2.30.7: two tables
  bool listed = false, direct = false;
  for (const XmlNode* node : document.order()) {
    listed = listed || (isNet(*node) && isYes(node->get(kind)));
    direct = direct || (isNet(*node) && isYes(node->get("gdr")) && node->get("port") != "0");
  }
  // Railwise and NCCL's own network find the same devices on this machine. Without GPUDirect NCCL's does not
  // start.
  if (!listed && (!machine.completed || machine.settings->net_ib || !direct)) return false;
  for (XmlNode* node : document.order()) {
    if (node->name == "gpu") node->set("gdr", "1");
    if (!isNet(*node)) continue;
    if (listed) node->set("net", isYes(node->get(kind)) ? "1" : "0");
    node->set("gdr", "1");
  }
  return true;
}

constexpr std::size_t kMostConnections = 4;  // NCCL_RMA_MAX_CONNECTIONS, NCCL_GIN_MAX_CONNECTIONS

std::vector<std::string> namesOf(const Graph& graph, std::vector<int> nets) {
  nets.resize(std::min(nets.size(), kMostConnections));
  std::vector<std::string> names;
  for (const int net : nets) {
    // NCCL's own network knows no fused NICs for one-sided communication.
    const bool fused = graph.of(NodeType::kNet, net).name.find('+') != std::string::npos;
    const std::string name = (fused ? "one port of " : "") + netName(graph, net);
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  }
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
  const auto add = [&](const Paths& paths) {
    const Graph& graph = paths.graph();
    for (int gpu = 0; gpu < graph.count(NodeType::kGpu); ++gpu) {
      const int known = machine.graph->gpuOfRank(graph.of(NodeType::kGpu, gpu).rank);
      const auto nets = localNets(paths, gpu);
      if (known >= 0 && nets.ok())
        all.gpus[static_cast<std::size_t>(known)].one_sided = namesOf(graph, *nets);
    }
  };
  for (const Domain& domain : direct->domains) add(*domain.paths);
  if (direct->domains.empty()) add(*direct->paths);
}

}  // namespace railwise::topo
