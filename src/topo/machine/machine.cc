#include "topo/machine/machine.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>

#include "base/text/words.h"
#include "topo/graph/graph.h"
#include "topo/machine/assumed_devices.h"
#include "topo/machine/fusion.h"
#include "topo/machine/known_machines.h"
#include "topo/paths/policy.h"

namespace railwise::topo {
namespace {

// ncclTopoTrimSystem: the domain of each GPU, identified by the lowest GPU index in the domain.
std::vector<int> domainOfGpus(const Paths& paths) {
  const int gpus = paths.graph().count(NodeType::kGpu);
  std::vector<int> domain(static_cast<std::size_t>(gpus));
  for (int g = 0; g < gpus; ++g) {
    auto& own = domain[static_cast<std::size_t>(g)];
    own = g;
    for (int p = 0; p < g; ++p)
      if (paths.get(NodeType::kGpu, g, NodeType::kGpu, p).type < PathType::kNet)
        own = std::min(own, domain[static_cast<std::size_t>(p)]);
  }
  return domain;
}

void finishDomain(Domain& domain) {
  for (const NodeIndex gpu : domain.graph->of(NodeType::kGpu))
    domain.ranks.push_back(domain.graph->node(gpu).rank);
  const SearchBandwidth most = searchBandwidth(*domain.paths, true);
  domain.max_bandwidth = most.channel;
  domain.total_bandwidth = most.gpu;
}

// Returns "", or why NCCL fails.
std::string splitIntoDomains(Machine& machine, const std::shared_ptr<const Paths>& seen) {
  const auto domain_of = domainOfGpus(*seen);
  for (int first = 0; first < static_cast<int>(domain_of.size()); ++first) {
    std::vector<bool> keep;
    for (const int domain : domain_of) keep.push_back(domain == first);
    const auto members = std::count(keep.begin(), keep.end(), true);
    if (members == 0) continue;
    Domain domain;
    if (members == static_cast<std::ptrdiff_t>(domain_of.size())) {
      domain.graph = machine.graph;
      domain.paths = seen;
    } else {
      domain.graph = std::make_shared<Graph>(machine.graph->keeping(NodeType::kGpu, keep));
      auto paths = Paths::compute(*domain.graph, *machine.settings, {.with_communicator = true});
      if (!paths.ok()) return paths.error();
      domain.paths = std::make_shared<Paths>(std::move(*paths));
    }
    finishDomain(domain);
    machine.domains.push_back(std::move(domain));
  }
  const auto lowest = [](const Domain& domain) {
    return *std::min_element(domain.ranks.begin(), domain.ranks.end());
  };
  std::sort(machine.domains.begin(), machine.domains.end(),
            [&lowest](const Domain& a, const Domain& b) { return lowest(a) < lowest(b); });
  return "";
}

// The identity of a <cpu> that has none, if no running CPU can be asked: Sapphire Rapids.
constexpr const char* kDefaultArch = "x86_64";
constexpr const char* kDefaultVendor = "GenuineIntel";
constexpr const char* kDefaultFamily = "6";
constexpr const char* kDefaultModel = "143";
constexpr const char* kHostHash = "0x1";
constexpr const char* kUnknownNode = "-1";  // the numaid of NCCL's place for devices that /sys does not have

bool lacksAny(const XmlNode& node, std::initializer_list<const char*> attributes) {
  return std::any_of(attributes.begin(), attributes.end(),
                     [&node](const char* attribute) { return !node.has(attribute); });
}

bool isLink(const XmlNode& node) { return node.name == "nvlink" || node.name == "xgmi"; }

int hostsOf(const XmlDocument& document) {
  std::set<std::string> hosts;
  for (const XmlNode* node : document.order())
    if (node->name == "cpu") hosts.insert(node->get("host_hash"));
  return static_cast<int>(hosts.size());
}

// What NCCL asks /sys or the driver for, of a device and of the switches above it.
bool linkMissing(const XmlNode* pci) {
  for (; pci != nullptr && pci->name == "pci"; pci = pci->parent)
    if (lacksAny(*pci, {"link_speed", "link_width"})) return true;
  return false;
}

bool gpuNeedsNccl(const XmlNode& gpu) {
  if (!gpu.has("rank") || lacksAny(gpu, {"dev", "sm", "gdr"})) return true;
  const std::string busid = gpu.parent->get("busid");
  if (busid != lowerCase(busid) || linkMissing(gpu.parent) || !gpu.parent->has("class")) return true;
  return std::any_of(gpu.children.begin(), gpu.children.end(),
                     [](const XmlNode* child) { return isLink(*child) && !child->has("tclass"); });
}

void completeCpu(XmlNode& cpu) {
  cpu.set("host_hash", kHostHash);
  cpu.setIfUnset("affinity", "");
  setCpuIdentity(cpu);
}

// Sets the attributes that NCCL sets on all elements above an imported device, if /sys knows nothing
// (ncclTopoGetXmlFromSys).
void fillUpwards(XmlNode* node) {
  for (; node != nullptr && node->name != "system"; node = node->parent) {
    if (node->name == "pci") {
      node->setIfUnset("link_speed", "");
      node->setIfUnset("link_width", "");
    }
  }
}

// The RDMA ports of a NIC, which may be fused ("mlx5_2+mlx5_2:2"), and how many NCCL_IB_HCA leaves out.
struct NetPorts {
  std::size_t all = 0;
  std::size_t left_out = 0;
};
// `otherwise`: the port where the name has none.
NetPorts portsOf(const std::string& net, int otherwise, const Settings& settings) {
  NetPorts ports;
  for (const std::string& name : splitAt(net, '+')) {
    const std::size_t colon = name.find(':');
    const auto port = colon < name.size() ? numberIn<int>(name.substr(colon + 1)) : std::nullopt;
    ++ports.all;
    if (!settings.usesPort(name.substr(0, colon), port.value_or(otherwise))) ++ports.left_out;
  }
  return ports;
}

// Of a <net>. Sockets, to which NCCL gives port 0, have none.
NetPorts portsOf(const XmlNode& net, const Settings& settings) {
  if (net.name != "net" || net.parent == nullptr || !net.has("name") || net.get("port") == "0") return {};
  int port = intOf(net, "port", 1);
  for (const XmlNode* other : net.parent->children) {
    if (other == &net) break;
    port -= portsIn(other->get("name"));
  }
  return portsOf(net.get("name"), std::max(port, 1), settings);
}

class Completion {
 public:
  Completion(XmlDocument document, const Settings& settings, const Detection& detection)
      : document_(std::move(document)),
        settings_(settings),
        detection_(detection),
        devices_(assumeDevices(document_, detection)) {
    leaveOutAssumedNics();
  }

  Outcome<XmlDocument> run(std::vector<std::string>* remarks, Assumed* assumed) {
    if (devices_.gpus.empty())
      return Error{
          document_.file +
              ": the file names no GPU: no <gpu> and no pci of class 0x03. NCCL takes the GPUs from the "
              "machine: run this on such a machine, or with --root and a recording of one (`railwise topo "
              "record`), or name the GPUs in the file",
          Code::kNoDevice};
    if (remarks != nullptr) remark(*remarks);
    if (assumed != nullptr) *assumed = devices_.assumed;
    for (XmlNode* node : document_.order())
      // Otherwise the ranks' documents would differ here, and the CPU would appear twice.
      if (node->name == "cpu") completeCpu(*node);
    XmlDocument all;
    for (const AssumedGpu& gpu : devices_.gpus) {
      XmlDocument rank(document_);
      addGpu(rank, gpu);
      std::vector<NetDevice> nets = devices_.nets;  // a copy, because importing adds virtual devices
      std::string failed = importNets(
          rank, nets, settings_,
          [](XmlDocument& into, const NetDevice& device) {
            return device.busid.empty() ? nullptr : placePci(into, device.busid, "0x02");
          },
          devices_.can_merge);
      if (failed.empty()) {
        trimXml(rank);
        failed = fuseXml(all, rank);
      }
      if (!failed.empty()) return Error{document_.file + ": " + failed};
    }
    return all;
  }

 private:
  // Of the NICs that the file describes withChosenNics() has left the chosen ones.
  void leaveOutAssumedNics() {
    std::vector<std::string> names;
    std::erase_if(devices_.nets, [&](const NetDevice& net) {
      const NetPorts ports = portsOf(net.name, 1, settings_);
      if (ports.left_out < ports.all || document_.find("net", "name", net.name) != nullptr) return false;
      names.push_back(net.name);
      return true;
    });
    if (!names.empty()) devices_.remarks.push_back(settings_.leftOutText(joined(names)));
  }

  // The <pci> with that address. NCCL adds one that it does not find. Without /sys it has no other place than
  // below a <cpu> that stands for an unknown NUMA node.
  static XmlNode* placePci(XmlDocument& document, const std::string& busid, const char* device_class) {
    XmlNode* pci = document.find("pci", "busid", busid);
    if (pci == nullptr) {
      pci = document.add(nullptr, "pci");
      pci->set("busid", busid);
      insertByBusId(*unknownNode(document), pci);
    }
    pci->setIfUnset("class", device_class);
    fillUpwards(pci);
    return pci;
  }

  static XmlNode* unknownNode(XmlDocument& document) {
    XmlNode* cpu = document.find("cpu", "numaid", kUnknownNode);
    if (cpu != nullptr) return cpu;
    cpu = document.add(document.system(), "cpu");
    cpu->set("numaid", kUnknownNode);
    completeCpu(*cpu);
    return cpu;
  }

  // Does what ncclTopoFillGpu does, and what ncclTopoGetSystem adds for the rank.
  void addGpu(XmlDocument& document, const AssumedGpu& its) const {
    XmlNode* pci = placePci(document, its.busid, "0x03");
    XmlNode* gpu = pci->child("gpu");
    if (gpu == nullptr) gpu = addDescribed(document, pci, its);
    gpu->setIfUnset("dev", std::to_string(its.dev));
    gpu->setIfUnset("sm", std::to_string(detection_.gpu_sm == 0 ? kAssumedSm : detection_.gpu_sm));
    if (gpu->child("nvlink") == nullptr && detection_.nvswitch_links > 0) {
      XmlNode* link = document.add(gpu, "nvlink");
      link->set("target", kHiddenTarget);
      link->set("count", std::to_string(detection_.nvswitch_links));
      link->set("tclass", kNvswitchClass);
    }
    for (XmlNode* link : gpu->children)
      if (link->name == "xgmi" || (isLink(*link) && settings_.nccl.has(NcclRule::kNvlinkClassFilled)))
        link->setIfUnset("tclass", classAt(document, link->get("target")));
    gpu->set("keep", "1");
    gpu->set("rank", std::to_string(its.rank));
    gpu->setIfUnset("gdr", "1");
    gpu->set("mlopart", its.mlopart);
  }

  // What the driver tells of a GPU that NCCL did not find in the file: what the file says of it under an
  // address with capitals.
  static XmlNode* addDescribed(XmlDocument& document, XmlNode* pci, const AssumedGpu& its) {
    if (its.described == nullptr) return document.add(pci, "gpu");
    XmlNode* gpu = document.copy(pci, *its.described);
    for (XmlNode* link : gpu->children)
      if (link->has("target")) link->set("target", lowerCase(link->get("target")));
    return gpu;
  }

  // The class of the device at the other end of an NVLink. NCCL takes an end that it cannot see for an
  // NVSwitch.
  static std::string classAt(const XmlDocument& document, const std::string& busid) {
    const XmlNode* pci = document.find("pci", "busid", busid);
    return pci == nullptr ? kNvswitchClass : pci->get("class", kNvswitchClass);
  }

  void remark(std::vector<std::string>& remarks) const {
    remarks.insert(remarks.end(), devices_.remarks.begin(), devices_.remarks.end());
    if (const int hosts = hostsOf(document_); hosts > 1)
      remarks.push_back("the file has " + std::to_string(hosts) +
                        " hosts (host_hash): NCCL takes a topology file for one machine");
    if (std::any_of(devices_.gpus.begin(), devices_.gpus.end(), [this](const AssumedGpu& gpu) {
          return linkMissing(document_.find("pci", "busid", gpu.busid));
        }))
      remarks.emplace_back(
          "the file leaves out PCIe links of GPUs or of switches, which the machine tells NCCL: Gen3 x16 "
          "assumed");
    for (const AssumedGpu& gpu : devices_.gpus)
      if (document_.find("pci", "busid", gpu.busid) == nullptr)
        remarks.push_back("the file writes " + gpu.busid +
                          " with capitals: NCCL does not find this GPU and adds it again, here below a NUMA "
                          "node of its own (-1); write it in lower case");
  }

  XmlDocument document_;
  const Settings& settings_;
  const Detection& detection_;
  AssumedDevices devices_;
};

// Returns "", or why no communicator can be made of hosts that were described by several files.
std::string repeatedRank(const XmlDocument& document) {
  std::map<int, const XmlNode*> ranks;
  for (const XmlNode* node : document.order()) {
    if (node->name != "gpu" || !node->has("rank")) continue;
    const auto [first, added] = ranks.emplace(intOf(*node, "rank", 0), node);
    if (added || first->second->parent == node->parent) continue;
    return where(document, node->position) + ": rank " + std::to_string(first->first) + " is in line " +
           std::to_string(first->second->position.line) +
           " already, on another GPU of this NVLink domain; give each GPU its own rank";
  }
  return "";
}

void identifyCpus(XmlDocument& document, std::vector<std::string>& remarks) {
  for (XmlNode* node : document.order()) {
    if (node->name != "cpu" || (node->has("arch") && node->has("vendor"))) continue;
    setCpuIdentity(*node);
    if (node->get("arch") == "x86_64")
      remarks.push_back("<cpu numaid=\"" + node->get("numaid") +
                        "\"> has no identity: Sapphire Rapids assumed");
  }
}

// A file that lists GPUs by their PCI ids alone leaves out compute capability and NVLinks.
void fillInGpus(const XmlDocument& document, Detection& detection, std::vector<std::string>& remarks) {
  if (!detection.takesKnownGpus()) return;
  const KnownDetection known = knownDetection(document);
  if (known.gpu_sm == 0) return;
  detection.gpu_sm = known.gpu_sm;
  detection.nvswitch_links = known.nvswitch_links;
  remarks.push_back("the file does not describe its GPUs; " + knownText(known));
}

// Removes a net, and what holds nothing any more, as NCCL does it.
void trim(XmlNode* node) {
  while (node->children.empty() &&
         (node->name == "net" || node->name == "nic" || node->name == "pci" || node->name == "cpu")) {
    XmlNode* const above = node->parent;
    XmlDocument::detach(node);
    if (above == nullptr) return;
    node = above;
  }
}

// Adds the names of the RDMA devices of a NIC, which may be fused ("mlx5_2+mlx5_2:2"), each once.
void addDeviceNames(const std::string& net, std::vector<std::string>& names) {
  for (const std::string& port : splitAt(net, '+')) {
    const std::string name = port.substr(0, port.find(':'));
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  }
}

// The RDMA devices that the file names.
std::vector<std::string> deviceNames(const XmlDocument& document, const Settings& settings) {
  std::vector<std::string> names;
  for (const XmlNode* node : document.order())
    if (portsOf(*node, settings).all > 0) addDeviceNames(node->get("name"), names);
  return names;
}

// The file without the NICs that NCCL_IB_HCA leaves out; those after them move up in NCCL's numbers.
XmlDocument withChosenNics(XmlDocument document, const Settings& settings,
                           std::vector<std::string>& remarks) {
  std::vector<XmlNode*> others;
  std::vector<std::string> names, in_part;
  std::set<std::pair<std::string, int>> free;  // numbers of NICs, by host
  for (XmlNode* node : document.order()) {
    const NetPorts ports = portsOf(*node, settings);
    if (ports.left_out == 0) continue;
    if (ports.left_out < ports.all) {
      in_part.push_back(node->get("name"));
      continue;
    }
    others.push_back(node);
    names.push_back(node->get("name"));
    if (node->has("dev")) free.emplace(hostOf(*node), intOf(*node, "dev", 0));
  }
  if (!in_part.empty())
    remarks.push_back(settings.leftOutText(joined(in_part), " in part") +
                      ", and in use as the file has them");
  if (others.empty()) return document;
  remarks.push_back(settings.leftOutText(joined(names)));
  for (XmlNode* net : others) trim(net);
  XmlDocument chosen;
  chosen.file = document.file;
  chosen.version = document.version;
  for (const XmlNode* node : document.order())
    if (node->parent == nullptr) chosen.copy(nullptr, *node);
  for (XmlNode* net : chosen.order()) {
    if (net->name != "net" || !net->has("dev")) continue;
    const int dev = intOf(*net, "dev", 0);
    const std::string host = hostOf(*net);
    const auto before = std::ranges::count_if(
        free, [&](const auto& gone) { return gone.first == host && gone.second < dev; });
    net->set("dev", std::to_string(dev - before));
  }
  return chosen;
}

}  // namespace

Outcome<Machine> makeMachine(XmlDocument document, const Settings& settings, std::string name) {
  Machine machine;
  machine.name = std::move(name);
  machine.settings = std::make_unique<Settings>(settings);
  machine.xml = std::make_unique<XmlDocument>(std::move(document));
  auto graph = buildGraph(*machine.xml, *machine.settings);
  if (!graph.ok()) return Error{graph.error()};
  machine.graph = std::make_shared<Graph>(std::move(*graph));
  auto paths = Paths::compute(*machine.graph, *machine.settings);
  if (!paths.ok()) return Error{machine.xml->file + ": " + paths.error()};
  machine.paths = std::make_shared<Paths>(std::move(*paths));

  std::shared_ptr<const Paths> seen = machine.paths;
  if (machine.paths->anyNetworkPreferred()) {
    auto marked = Paths::compute(*machine.graph, *machine.settings, {.with_communicator = true});
    if (!marked.ok()) return Error{machine.xml->file + ": " + marked.error()};
    seen = std::make_shared<Paths>(std::move(*marked));
  }
  const std::string failed = splitIntoDomains(machine, seen);
  if (!failed.empty()) return Error{machine.xml->file + ": " + failed};
  return machine;
}

Outcome<Machine> loadDocument(XmlDocument document, const Settings& settings, Detection detection,
                              std::string name) {
  std::vector<std::string> remarks;
  if (std::string text = settings.noDeviceText(deviceNames(document, settings)); !text.empty())
    remarks.push_back(std::move(text));
  document = withChosenNics(std::move(document), settings, remarks);
  fillInGpus(document, detection, remarks);
  Assumed assumed;
  identifyCpus(document, remarks);
  const bool complete = detection.fuse_nics || needsCompletion(document);
  if (complete) {
    auto completed = completeDocument(std::move(document), settings, detection, &remarks, &assumed);
    if (!completed.ok()) return completed.failure();
    document = std::move(*completed);
  } else if (const std::string failed = repeatedRank(document); !failed.empty()) {
    return Error{failed};
  }
  auto machine = makeMachine(std::move(document), settings, std::move(name));
  if (!machine.ok()) return machine;
  machine->completed = complete;
  machine->remarks = std::move(remarks);
  machine->assumed = assumed;
  return machine;
}

void setCpuIdentity(XmlNode& cpu) {
  cpu.setIfUnset("arch", kDefaultArch);
  cpu.setIfUnset("vendor", kDefaultVendor);
  if (cpu.has("familyid")) return;
  cpu.set("familyid", kDefaultFamily);
  cpu.set("modelid", kDefaultModel);
}

bool needsCompletion(const XmlDocument& document) {
  std::set<int> ranks;
  const bool one_host = hostsOf(document) == 1;
  for (const XmlNode* node : document.order()) {
    if (node->name == "net" && lacksAny(*node, {"name", "dev", "speed", "port", "gdr"})) return true;
    // Without a guid NCCL takes the number of the NIC. Of several hosts completion would make one.
    if (node->name == "net" && one_host && !node->has("guid")) return true;
    if (node->name != "gpu") continue;
    if (gpuNeedsNccl(*node)) return true;
    if (!ranks.insert(intOf(*node, "rank", 0)).second && one_host) return true;
  }
  return ranks.empty();
}

Outcome<XmlDocument> completeDocument(XmlDocument document, const Settings& settings,
                                      const Detection& detection, std::vector<std::string>* remarks,
                                      Assumed* assumed) {
  return Completion(std::move(document), settings, detection).run(remarks, assumed);
}

}  // namespace railwise::topo
