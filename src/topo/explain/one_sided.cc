#include <algorithm>
#include <cstdlib>
#include <set>

#include "topo/explain/describe.h"
#include "topo/explain/explain.h"

namespace railwise::topo {
namespace {

bool isYes(const std::string& value) { return !value.empty() && value != "0"; }

bool isNet(const XmlNode& node) { return node.name == "net" && node.parent != nullptr; }

// The devices behind a NIC of Railwise, as NCCL's own network names them: "mlx5_0" and "mlx5_1" of
// "mlx5_0+mlx5_1", "mlx5_2" of its second port "mlx5_2:2".
std::vector<std::string> devicesOf(const std::string& name) {
  std::vector<std::string> devices;
  for (std::size_t begin = 0; begin <= name.size();) {
    const std::size_t end = std::min(name.find('+', begin), name.size());
    devices.push_back(name.substr(begin, std::min(name.find(':', begin), end) - begin));
    begin = end + 1;
  }
  return devices;
}

bool hasFused(const XmlDocument& document) {
  return std::any_of(document.order().begin(), document.order().end(), [](const XmlNode* node) {
    return isNet(*node) && node->get("net", "1") != "0" && devicesOf(node->get("name")).size() > 1;
  });
}

// Makes of each NIC the devices behind it, each once: NCCL's own network knows no fused NICs for one-sided
// communication, and has one <net> for two ports of one name.
void splitIntoDevices(XmlDocument& document) {
  const std::vector<XmlNode*> nodes = document.order();  // a copy, because splitting adds nodes
  int dev = 0;
  for (const XmlNode* node : nodes)
    if (isNet(*node)) dev = std::max(dev, std::atoi(node->get("dev").c_str()) + 1);
  std::set<std::string> known;
  for (XmlNode* nic : nodes) {
    if (!isNet(*nic) || nic->get("name").empty()) continue;
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
                   [](const XmlNode* node) { return isNet(*node) && isYes(node->get("gdr")); }))
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
    return isNet(*node) && isYes(node->get(kind));
  });
  if (!listed && !takeDevices(machine, fused, document)) return false;
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
