// hwloc's XML, version 2.0: NUMA nodes with their cores, the PCI tree, GPUs and RDMA devices.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <set>

#include "base/pci.h"
#include "base/text/printable.h"
#include "base/text/text_layout.h"
#include "topo/explain/describe.h"
#include "topo/exports/exports.h"
#include "topo/exports/host_view.h"

namespace railwise::topo {
namespace {

constexpr int kWordBits = 32;

// hwloc's enum of devices.
constexpr const char* kGpuDevice = "1";
constexpr const char* kNetworkDevice = "2";
constexpr const char* kOpenFabricsDevice = "3";

// The matrix is what the system tells (1) and has bandwidths (8).
constexpr const char* kBandwidthKind = "9";
constexpr int kOwnBandwidth = 1000000;  // MB/s of a GPU to itself, as hwloc's own matrix has it

// "0x0000ffff,0x00000000": a set of numbers as hwloc writes it. The empty set is "0x0".
std::string setText(const std::vector<int>& numbers) {
  if (numbers.empty()) return "0x0";
  const int words = *std::max_element(numbers.begin(), numbers.end()) / kWordBits + 1;
  std::string text;
  for (int word = words - 1; word >= 0; --word) {
    uint32_t bits = 0;
    for (const int number : numbers)
      if (number / kWordBits == word) bits |= uint32_t{1} << (number % kWordBits);
    text += (text.empty() ? "" : ",") + formatText("0x%08x", bits);
  }
  return text;
}

struct PciAddress {
  unsigned domain = 0;
  unsigned bus = 0;
};

PciAddress addressOf(const std::string& busid) {
  PciAddress address;
  std::sscanf(busid.c_str(), "%x:%x", &address.domain, &address.bus);
  return address;
}

// Four digits of "0x10de"; "0000": the file does not tell.
std::string hexDigits(const XmlNode& pci, const char* attribute, std::size_t digits) {
  const std::string value = pci.get(attribute);
  const std::string hex = value.starts_with("0x") ? value.substr(2) : value;
  const bool good =
      hex.size() >= digits && hex.find_first_not_of("0123456789abcdefABCDEF") == std::string::npos;
  return good ? hex.substr(0, digits) : std::string(digits, '0');
}

// GB/s of a PCIe link, as hwloc computes it: with the overhead of the line code.
double linkSpeed(const XmlNode& pci) {
  double transfers = 0;
  int width = 0;
  std::sscanf(pci.get("link_speed").c_str(), "%lf", &transfers);
  std::sscanf(pci.get("link_width").c_str(), "%d", &width);
  const double code = transfers <= 5 ? 0.8 : 128.0 / 130.0;
  return transfers > 0 && width > 0 ? transfers * width * code / 8 : 0;
}

class HwlocWriter {
 public:
  HwlocWriter(const Machine& machine, const HostView& host, const HostCores& cores,
              const ExportOptions& options)
      : machine_(machine), host_(host), cores_(cores), options_(options), notes_(host.notes) {}

  ExportedText write() {
    text_ =
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<!DOCTYPE topology SYSTEM \"hwloc2.dtd\">\n"
        "<topology version=\"2.0\">\n";
    openMachine();
    for (const auto& [numa, node] : cores_.nodes) writeNode(numa, node);
    writeDevicesWithoutNode();
    close();
    writeBandwidths();
    text_ += "</topology>\n";
    noteAssumptions();
    return {std::move(text_), std::move(notes_)};
  }

 private:
  // Opens an object with the attributes `more`; empty values are left out.
  void open(const char* type, const std::vector<std::pair<const char*, std::string>>& more) {
    text_ += std::string(static_cast<std::size_t>(++depth_) * 2, ' ') + "<object type=\"" + type + "\"";
    for (const auto& [name, value] : more)
      if (!value.empty()) text_ += std::string(" ") + name + "=\"" + xmlText(value) + "\"";
    text_ += " gp_index=\"" + std::to_string(++last_index_) + "\">\n";
  }
  void close() { text_ += std::string(static_cast<std::size_t>(depth_--) * 2, ' ') + "</object>\n"; }
  void info(const char* name, const std::string& value) {
    if (value.empty()) return;
    text_ += std::string(static_cast<std::size_t>(depth_) * 2 + 2, ' ') + "<info name=\"" + name +
             "\" value=\"" + xmlText(value) + "\"/>\n";
  }

  static std::vector<int> cpusOf(const NumaCores& node) {
    std::vector<int> cpus;
    for (const auto& core : node.cores) cpus.insert(cpus.end(), core.begin(), core.end());
    return cpus;
  }

  void openMachine() {
    std::vector<int> cpus;
    std::vector<int> nodes;
    for (const auto& [numa, node] : cores_.nodes) {
      const std::vector<int> own = cpusOf(node);
      cpus.insert(cpus.end(), own.begin(), own.end());
      nodes.push_back(numa);
    }
    open("Machine", {{"os_index", "0"},
                     {"cpuset", setText(cpus)},
                     {"complete_cpuset", setText(cpus)},
                     {"allowed_cpuset", setText(cpus)},
                     {"nodeset", setText(nodes)},
                     {"complete_nodeset", setText(nodes)},
                     {"allowed_nodeset", setText(nodes)}});
    info("Backend", "Railwise");
    info("HostName", options_.node);
    if (const XmlNode* cpu = machine_.xml->find("cpu"); cpu != nullptr)
      info("Architecture", cpu->get("arch"));
  }

  void openWithSets(const char* type, int os_index, const std::vector<int>& cpus, int numa) {
    open(type, {{"os_index", os_index < 0 ? "" : std::to_string(os_index)},
                {"cpuset", setText(cpus)},
                {"complete_cpuset", setText(cpus)},
                {"nodeset", setText({numa})},
                {"complete_nodeset", setText({numa})}});
  }

  void writeNode(int numa, const NumaCores& node) {
    const std::vector<int> cpus = cpusOf(node);
    // hwloc has no package without a CPU: such a NUMA node and its devices belong to the machine.
    if (!cpus.empty()) openWithSets("Package", numa, cpus, numa);
    openWithSets("NUMANode", numa, cpus, numa);
    close();
    for (const auto& core : node.cores) {
      openWithSets("Core", -1, core, numa);
      for (const int cpu : core) {
        openWithSets("PU", cpu, {cpu}, numa);
        close();
      }
      close();
    }
    for (const XmlNode* cpu : cpusOfXml())
      if (numaOf(*cpu) == numa) writeDevices(*cpu);
    if (!cpus.empty()) close();
  }

  // The <cpu> elements of the first host.
  std::vector<const XmlNode*> cpusOfXml() const {
    std::vector<const XmlNode*> found;
    const XmlNode* const first = machine_.xml->system()->child("cpu");
    for (const XmlNode* node : machine_.xml->system()->children)
      if (node->name == "cpu" && node->get("host_hash") == first->get("host_hash")) found.push_back(node);
    return found;
  }

  // The NUMA node that is written for a <cpu>. -1: none, because the <cpu> is that of devices without a node.
  int numaOf(const XmlNode& cpu) const {
    int numa = 0;
    std::sscanf(cpu.get("numaid").c_str(), "%d", &numa);
    return numa < 0 && cores_.nodes.size() == 1 ? cores_.nodes.begin()->first : std::max(-1, numa);
  }

  void writeDevicesWithoutNode() {
    for (const XmlNode* cpu : cpusOfXml()) {
      if (cores_.nodes.count(numaOf(*cpu)) != 0) continue;
      writeDevices(*cpu);
      notes_.emplace_back("devices whose NUMA node is not known are written below the machine");
    }
  }

  // The children of a <cpu>: a host bridge for each root bus, then NICs without a PCI address.
  void writeDevices(const XmlNode& cpu) {
    std::map<std::pair<unsigned, unsigned>, std::vector<const XmlNode*>> buses;
    for (const XmlNode* child : cpu.children) {
      if (child->name == "nic") writeNic(*child);
      if (child->name != "pci") continue;
      const PciAddress address = rootOf(child->get("busid"));
      if (hasAddress(*child)) buses[{address.domain, address.bus}].push_back(child);
    }
    for (const auto& [bus, children] : buses) {
      unsigned last = bus.second;
      for (const XmlNode* child : children) last = std::max(last, lastBus(*child));
      open("Bridge",
           {{"bridge_type", "0-1"}, {"depth", "0"}, {"bridge_pci", range(bus.first, bus.second, last)}});
      for (const XmlNode* child : children) writePci(*child, 1);
      close();
    }
  }

  bool hasAddress(const XmlNode& pci) {
    if (isBusId(pci.get("busid"))) return true;
    notes_.push_back("'" + withoutControls(pci.get("busid")) +
                     "' is no PCI address: the device and what is below it are left out");
    return false;
  }

  // The root bus above a device; without a /sys the bus of the device itself.
  PciAddress rootOf(const std::string& busid) {
    const auto root = options_.facts.pcie_roots.find(lowerCase(busid));
    if (root != options_.facts.pcie_roots.end()) return addressOf(root->second.substr(3));
    roots_missing_ = true;
    return addressOf(busid);
  }

  static std::string range(unsigned domain, unsigned first, unsigned last) {
    return formatText("%04x:[%02x-%02x]", domain, first, last);
  }

  static unsigned lastBus(const XmlNode& pci) {
    unsigned last = addressOf(pci.get("busid")).bus;
    for (const XmlNode* child : pci.children)
      if (child->name == "pci") last = std::max(last, lastBus(*child));
    return last;
  }

  void writePci(const XmlNode& pci, int depth) {
    const auto is_pci = [](const XmlNode* child) { return child->name == "pci"; };
    const bool bridge = std::any_of(pci.children.begin(), pci.children.end(), is_pci);
    const std::string type = hexDigits(pci, "class", 4) + " [" + hexDigits(pci, "vendor", 4) + ":" +
                             hexDigits(pci, "device", 4) + "] [" + hexDigits(pci, "subsystem_vendor", 4) +
                             ":" + hexDigits(pci, "subsystem_device", 4) + "] 00";
    const std::string speed = formatText("%f", linkSpeed(pci));
    if (bridge) {
      const PciAddress own = addressOf(pci.get("busid"));
      unsigned first = lastBus(pci);
      for (const XmlNode* child : pci.children)
        if (is_pci(child)) first = std::min(first, addressOf(child->get("busid")).bus);
      open("Bridge", {{"bridge_type", "1-1"},
                      {"depth", std::to_string(depth)},
                      {"bridge_pci", range(own.domain, first, lastBus(pci))},
                      {"pci_busid", pci.get("busid")},
                      {"pci_type", type},
                      {"pci_link_speed", speed}});
    } else {
      open("PCIDev", {{"pci_busid", pci.get("busid")}, {"pci_type", type}, {"pci_link_speed", speed}});
    }
    for (const XmlNode* child : pci.children) {
      if (child->name == "pci" && hasAddress(*child)) writePci(*child, depth + 1);
      if (child->name == "gpu") writeGpu(lowerCase(pci.get("busid")));
      if (child->name == "nic") writeNic(*child);
    }
    close();
  }

  void writeGpu(const std::string& busid) {
    const auto at = std::find_if(host_.gpus.begin(), host_.gpus.end(),
                                 [&](const HostGpu& gpu) { return gpu.busid == busid; });
    if (at == host_.gpus.end()) return;
    const auto index = static_cast<std::size_t>(at - host_.gpus.begin());
    if (gpu_indices_.count(index) != 0) return;  // another rank of the GPU
    open("OSDev", {{"subtype", host_.amd ? "RSMI" : "NVML"},
                   {"name", (host_.amd ? "rsmi" : "nvml") + std::to_string(at->dev)},
                   {"osdev_type", kGpuDevice}});
    gpu_indices_[index] = last_index_;
    info("GPUVendor", host_.amd ? "AMD" : "NVIDIA Corporation");
    info("GPUModel", at->model);
    close();
  }

  void writeNic(const XmlNode& nic) {
    for (const XmlNode* net : nic.children) {
      if (net->name != "net") continue;
      const auto at = std::find_if(host_.nics.begin(), host_.nics.end(),
                                   [&](const HostNic& known) { return known.name == net->get("name"); });
      if (at == host_.nics.end()) continue;
      if (at->ports.size() > 1)
        notes_.push_back("the devices of the merged NIC " + at->name +
                         " are written below the PCI address of the first");
      for (const NicPort& port : at->ports) {
        if (!nics_written_.insert(port.device).second) continue;
        open("OSDev",
             {{"name", port.device}, {"osdev_type", port.port == 0 ? kNetworkDevice : kOpenFabricsDevice}});
        close();
      }
    }
  }

  // hwloc's own matrix of the NVLinks between GPUs, in MB/s.
  void writeBandwidths() {
    if (gpu_indices_.size() < 2) return;
    std::string indices;
    std::string values;
    bool linked = false;
    for (const auto& [from, gp_index] : gpu_indices_) {
      indices += std::to_string(gp_index) + " ";
      const Node& device = machine_.graph->node(
          deviceOf(*machine_.graph, machine_.graph->at(NodeType::kGpu, host_.gpus[from].gpu)));
      for (const auto& other : gpu_indices_) {
        const int links = host_.links[from][other.first];
        linked = linked || links > 0;
        const long mbps = from == other.first
                              ? kOwnBandwidth
                              : std::lround(static_cast<double>(device.nvlink) * 1000 * links);
        values += std::to_string(mbps) + " ";
      }
    }
    if (!linked) return;
    text_ += "  <distances2 type=\"OSDev\" nbobjs=\"" + std::to_string(gpu_indices_.size()) + "\" kind=\"" +
             kBandwidthKind + "\" name=\"" + (host_.amd ? "XGMIBandwidth" : "NVLinkBandwidth") +
             "\" indexing=\"gp\">\n    <indexes length=\"" + std::to_string(indices.size()) + "\">" +
             indices + "</indexes>\n    <u64values length=\"" + std::to_string(values.size()) + "\">" +
             values + "</u64values>\n  </distances2>\n";
  }

  void noteAssumptions() {
    if (!cores_.masks_known) notes_.push_back(cores_.note + ": one CPU for each NUMA node is written");
    if (cores_.masks_known && !cores_.note.empty()) notes_.push_back("cores: " + cores_.note);
    if (cores_.nodes.size() > 1)
      notes_.emplace_back("each NUMA node is written as a package: the model does not tell sockets");
    notes_.emplace_back("caches and sizes of memory are left out: the model does not have them");
    if (roots_missing_)
      notes_.emplace_back(
          "host bridges are those of the devices' buses: the model does not have the root ports");
  }

  const Machine& machine_;
  const HostView& host_;
  const HostCores& cores_;
  const ExportOptions& options_;
  std::vector<std::string> notes_;
  std::string text_;
  int depth_ = 0;
  int last_index_ = 0;
  std::map<std::size_t, int> gpu_indices_;  // of a GPU in HostView::gpus, and of its object
  std::set<std::string> nics_written_;
  bool roots_missing_ = false;
};

}  // namespace

Exported exportHwlocXml(const Machine& machine, const ExportOptions& options) {
  const auto host = hostView(machine);
  if (!host.ok()) return host.failure();
  // hwloc writes a bit for each node up to the highest number.
  constexpr int kHighestNode = 4095;
  for (const NodeIndex i : machine.graph->of(NodeType::kCpu))
    if (machine.graph->node(i).numa > kHighestNode)
      return Error{machine.name + ": NUMA node " + std::to_string(machine.graph->node(i).numa) +
                   " is above 4095, the highest that is written: correct its <cpu numaid> in the file"};
  const HostCores cores = hostCores(*machine.graph, options.facts);
  return HwlocWriter(machine, *host, cores, options).write();
}

}  // namespace railwise::topo
