#include "topo/exports/host_view.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <utility>

#include "base/text/printable.h"
#include "base/text/words.h"
#include "topo/explain/describe.h"
#include "topo/explain/explain.h"
#include "topo/explain/gpu_topology.h"

namespace railwise::topo {
namespace {

bool isAlphanumeric(char c) {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z');
}
bool isPlain(char c) { return isAlphanumeric(c) || c == '_' || c == '.' || c == '-'; }

// Cuts `text` to the length of a label of DNS, and removes what is neither a letter nor a digit from both
// ends.
std::string trimmed(std::string text) {
  text = text.substr(0, 63);
  while (!text.empty() && !isAlphanumeric(text.back())) text.pop_back();
  const auto first = std::find_if(text.begin(), text.end(), isAlphanumeric);
  return {first, text.end()};
}

}  // namespace

bool isDeviceName(std::string_view name) {
  return !name.empty() && name.front() != '-' && name.size() <= 63 &&
         std::all_of(name.begin(), name.end(), isPlain);
}

std::string dnsLabel(std::string_view text) {
  std::string label = lowerCase(text);
  for (char& c : label)
    if (!isAlphanumeric(c)) c = '-';
  return trimmed(std::move(label));
}

std::string slurmWord(std::string_view text) {
  std::string word = lowerCase(text);
  for (char& c : word)
    if (!isAlphanumeric(c) && c != '.' && c != '-') c = '_';
  return word;
}

std::string shellWord(const std::string& text) {
  const auto plain = [](char c) { return isPlain(c) || c == '/' || c == ':' || c == '=' || c == ','; };
  if (!text.empty() && std::all_of(text.begin(), text.end(), plain)) return text;
  std::string word = "'";
  for (const char c : text) word += c == '\'' ? "'\\''" : std::string(1, c);
  return word + "'";
}

std::string xmlText(std::string_view text) { return escapeXml(withoutControls(cleanUtf8(text))); }

namespace {

void addPorts(const HostView& host, const HostGpu& gpu, std::vector<NicPort>& ports) {
  for (const GivenNic& given : gpu.nics)
    for (const NicPort& port : host.nics[static_cast<std::size_t>(given.nic)].ports)
      if (std::none_of(ports.begin(), ports.end(), [&](const NicPort& known) {
            return known.device == port.device && known.port == port.port;
          }))
        ports.push_back(port);
}

// The number after the last ':' of "mlx4_0:2", or `otherwise`.
NicPort portOf(std::string name, int otherwise) {
  const std::size_t colon = name.rfind(':');
  int port = 0;
  if (colon != std::string::npos) {
    const char* const end = name.data() + name.size();
    const auto read = std::from_chars(name.data() + colon + 1, end, port);
    if (read.ptr == end && port > 0) return {name.substr(0, colon), port};
  }
  return {std::move(name), otherwise};
}

// The port of the model is that of the first device of a merged NIC.
std::vector<NicPort> portsOf(const Node& net) {
  std::vector<NicPort> ports;
  for (std::size_t at = 0; at <= net.name.size();) {
    const std::size_t plus = std::min(net.name.find('+', at), net.name.size());
    ports.push_back(portOf(net.name.substr(at, plus - at), ports.empty() || net.port == 0 ? net.port : 1));
    at = plus + 1;
  }
  return ports;
}

// The NIC node that has the NET. Null: there is none.
const Node* cardOf(const Graph& graph, const Node& net) {
  for (const Link& link : net.links)
    if (graph.node(link.to).type == NodeType::kNic) return &graph.node(link.to);
  return nullptr;
}

int numaOfNic(const Paths& paths, int net) {
  const Graph& graph = paths.graph();
  int numa = -1;
  auto nearest = PathType::kSys;
  for (int cpu = 0; cpu < graph.count(NodeType::kCpu); ++cpu) {
    const Path& path = paths.get(NodeType::kNet, net, NodeType::kCpu, cpu);
    if (path.type >= nearest) continue;
    nearest = path.type;
    numa = graph.of(NodeType::kCpu, cpu).numa;
  }
  return numa;
}

class HostReader {
 public:
  explicit HostReader(const Machine& machine) : machine_(machine), graph_(*machine.graph) {}

  Outcome<HostView> read() {
    host_.amd = isAmd(graph_);
    if (std::string wrong = readNics(); !wrong.empty()) return Error{machine_.name + ": " + wrong};
    readGpus();
    if (std::string wrong = wrongGpu(); !wrong.empty()) return Error{machine_.name + ": " + wrong};
    countLocalRanks();
    readLinks();
    noteOtherHosts();
    return std::move(host_);
  }

 private:
  // "" or what is wrong with a name.
  std::string readNics() {
    for (int net = 0; net < graph_.count(NodeType::kNet); ++net) {
      const Node& node = graph_.of(NodeType::kNet, net);
      if (node.host != kExportedHost) continue;
      HostNic nic{.net = net, .name = node.name, .ports = portsOf(node)};
      for (const NicPort& port : nic.ports)
        if (!isDeviceName(port.device))
          return "the NIC '" + withoutControls(node.name) +
                 "' has a name that no device can have; names have letters, digits, '_', '.' and '-': "
                 "correct its <net name> in the file";
      if (node.port < 0)
        return "the NIC '" + withoutControls(node.name) + "' has port " + std::to_string(node.port) +
               "; ports begin with 1: correct its <net port> in the file";
      const Node* const card = cardOf(graph_, node);
      if (card != nullptr) nic.busid = lowerCase(card->busid);
      nic.numa = nic.busid.empty() ? -1 : numaOfNic(*machine_.paths, net);
      nic.mbps = std::llround(static_cast<double>(node.bandwidth) * 8000);
      host_.nics.push_back(std::move(nic));
    }
    std::stable_sort(host_.nics.begin(), host_.nics.end(), [this](const HostNic& a, const HostNic& b) {
      return graph_.of(NodeType::kNet, a.net).dev < graph_.of(NodeType::kNet, b.net).dev;
    });
    return "";
  }

  void readGpus() {
    const MachineExplanation explanation = explain(machine_);
    const gpu::GpuTopology vendors = gpuTopology(machine_);
    for (const GpuExplanation& explained : explanation.gpus) {
      if (explained.gpu < 0) continue;
      const Node& node = graph_.of(NodeType::kGpu, explained.gpu);
      if (node.host != kExportedHost) continue;
      const std::vector<int> ranks = ranksOnDeviceOf(graph_, explained.gpu);
      if (ranks.front() != node.rank) continue;
      if (ranks.size() > 1)
        host_.notes.push_back("GPU " + std::to_string(node.dev) + " has the ranks " + rangesText(ranks) +
                              ": it is listed once, with the NICs of rank " + std::to_string(node.rank));
      HostGpu gpu{
          .gpu = explained.gpu, .dev = node.dev, .local_ranks = ranks, .busid = lowerCase(node.busid)};
      gpu.kind = !node.gcn.empty() ? node.gcn : node.sm > 0 ? "sm_" + std::to_string(node.sm) : "";
      const int cpu = machine_.paths->localCpu(explained.gpu);
      gpu.numa = cpu < 0 ? -1 : graph_.of(NodeType::kCpu, cpu).numa;
      if (const gpu::Device* device = physicalGpu(vendors, graph_, explained.gpu); device != nullptr)
        gpu.model = gpuModelText(*device);
      for (const ChosenNic& chosen : explained.chosen) addNic(gpu, chosen);
      if (gpu.nics.empty())
        host_.notes.push_back("GPU " + std::to_string(gpu.dev) + " has no NIC" +
                              (explained.error.empty() ? "" : ": " + explained.error));
      host_.gpus.push_back(std::move(gpu));
    }
    const auto instances = std::count_if(vendors.gpus.begin(), vendors.gpus.end(),
                                         [](const gpu::Device& device) { return !gpu::isWhole(device); });
    if (instances > 0)
      host_.notes.push_back(counted(static_cast<int>(instances), "MIG instance") + " left out");
    std::stable_sort(host_.gpus.begin(), host_.gpus.end(),
                     [](const HostGpu& a, const HostGpu& b) { return a.dev < b.dev; });
  }

  // "" or what is wrong with the numbers of the GPUs, which are sorted.
  std::string wrongGpu() const {
    for (std::size_t i = 0; i < host_.gpus.size(); ++i) {
      const HostGpu& gpu = host_.gpus[i];
      const bool twice = i > 0 && host_.gpus[i - 1].dev == gpu.dev;
      if (gpu.dev < 0 || twice)
        return "the GPU at " + gpu.busid + " has the device number " + std::to_string(gpu.dev) +
               (twice ? ", as another one has" : "") + ": correct its <gpu dev> in the file";
    }
    return "";
  }

  // Launchers count local ranks by GPU. If several ranks share a GPU, only the model tells which.
  void countLocalRanks() {
    std::vector<int> all;
    for (const HostGpu& gpu : host_.gpus)
      all.insert(all.end(), gpu.local_ranks.begin(), gpu.local_ranks.end());
    std::sort(all.begin(), all.end());
    const bool shared = all.size() > host_.gpus.size();
    for (std::size_t i = 0; i < host_.gpus.size(); ++i) {
      std::vector<int>& ranks = host_.gpus[i].local_ranks;
      if (!shared) ranks = {static_cast<int>(i)};
      for (int& rank : ranks)
        if (shared) rank = static_cast<int>(std::lower_bound(all.begin(), all.end(), rank) - all.begin());
    }
  }

  void addNic(HostGpu& gpu, const ChosenNic& chosen) {
    const auto at = std::find_if(host_.nics.begin(), host_.nics.end(),
                                 [&](const HostNic& nic) { return nic.net == chosen.view.net; });
    if (at == host_.nics.end()) return;
    at->used = true;
    gpu.nics.push_back({.nic = static_cast<int>(at - host_.nics.begin()), .type = chosen.view.type});
  }

  void readLinks() {
    std::map<NodeIndex, std::size_t> place;
    for (std::size_t i = 0; i < host_.gpus.size(); ++i) place[deviceNode(i)] = i;
    std::vector<int> to_switch(host_.gpus.size());
    host_.links.assign(host_.gpus.size(), std::vector<int>(host_.gpus.size()));
    for (std::size_t from = 0; from < host_.gpus.size(); ++from) {
      const Node& device = graph_.node(deviceNode(from));
      for (const Link& link : device.links) {
        if (link.type != LinkType::kNvl) continue;
        const int count = std::max(1, nvlinkCount(device, link.bandwidth));
        if (graph_.node(link.to).type == NodeType::kNvs) to_switch[from] += count;
        if (const auto at = place.find(link.to); at != place.end()) host_.links[from][at->second] += count;
      }
    }
    for (std::size_t from = 0; from < to_switch.size(); ++from)
      for (std::size_t to = 0; to < to_switch.size(); ++to)
        if (from != to) host_.links[from][to] += std::min(to_switch[from], to_switch[to]);
    host_.switched = std::any_of(to_switch.begin(), to_switch.end(), [](int count) { return count > 0; });
  }

  NodeIndex deviceNode(std::size_t i) const {
    return deviceOf(graph_, graph_.at(NodeType::kGpu, host_.gpus[i].gpu));
  }

  void noteOtherHosts() {
    if (graph_.hosts() > 1)
      host_.notes.push_back("only the first host of " + std::to_string(graph_.hosts()) +
                            " is written: an export describes one host");
  }

  const Machine& machine_;
  const Graph& graph_;
  HostView host_;
};

}  // namespace

Outcome<HostView> hostView(const Machine& machine) { return HostReader(machine).read(); }

std::string originText(const Machine& machine, const HostView& host, const char* form) {
  return std::string("railwise topo export --for ") + form + ": " + withoutControls(machine.name) + ", " +
         counted(host.gpus.size(), "GPU") + ", " + counted(host.nics.size(), "NIC") + ", by the rules of " +
         rulesText(machine);
}

std::vector<NicPort> portsOfGpu(const HostView& host, const HostGpu& gpu) {
  std::vector<NicPort> ports;
  addPorts(host, gpu, ports);
  return ports;
}

std::vector<NicPort> portsOfAllGpus(const HostView& host) {
  std::vector<NicPort> ports;
  for (const HostGpu& gpu : host.gpus) addPorts(host, gpu, ports);
  return ports;
}

std::string ucxDevices(const std::vector<NicPort>& ports) {
  std::string text;
  for (const NicPort& port : ports)
    text += (text.empty() ? "" : ",") + port.device +
            (port.port == 0 ? std::string() : ":" + std::to_string(port.port));
  return text;
}

std::string nothingToChoose(const Machine& machine, const HostView& host) {
  if (!portsOfAllGpus(host).empty()) return "";
  return machine.name + ": no GPU has a NIC, so there is nothing to choose; railwise explain says why";
}

}  // namespace railwise::topo
