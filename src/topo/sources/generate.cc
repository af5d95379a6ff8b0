#include "topo/sources/generate.h"

#include <algorithm>
#include <cstdio>

#include "topo/sources/pairing.h"
#include "topo/sources/pci_devices.h"
#include "topo/xml.h"

namespace railwise::topo {
namespace {

constexpr const char* kBridgeClass = "0x060400";
// What NCCL makes of a link it cannot read: Gen3, 16 lanes.
constexpr const char* kUnreadSpeed = "8.0 GT/s PCIe";
constexpr int kUnreadWidth = 16;

// Addresses that no machine has, as the clouds' own files use them: ffff:ff:01.0, ffff:ff:02.0, ...
std::string bridgeAddress(unsigned number) {
  constexpr unsigned kPerBus = 0xff;
  char text[32];
  std::snprintf(text, sizeof text, "ffff:%02x:%02x.0", 0xffU - (number - 1) / kPerBus,
                (number - 1) % kPerBus + 1);
  return text;
}

const PciLink* firstKnown(const std::vector<const FlatDevice*>& devices) {
  for (const FlatDevice* device : devices) {
    if (device->link.known()) return &device->link;
  }
  return nullptr;
}

class Writer {
 public:
  Writer(const FileTree& tree, const FlatMachine& machine, const CpuIdentity& cpu,
         std::vector<std::string>& remarks)
      : tree_(tree), machine_(machine), cpu_(cpu), remarks_(remarks) {}

  std::string write(const Plan& plan) {
    findFallback();
    XmlNode* system = document_.add(nullptr, "system");
    system->set("version", "1");
    for (const auto& [number, node] : plan) {
      if (node.bridges.empty() && node.loose.empty()) continue;
      XmlNode* cpu = addCpu(system, number);
      for (const Bridge& bridge : node.bridges) addBridge(cpu, bridge);
      for (const FlatDevice* device : node.loose) addDevice(cpu, *device, linkOf(*device, nullptr));
    }
    if (replaced_ != 0) {
      remarks_.push_back(std::to_string(replaced_) + (replaced_ == 1 ? " device does" : " devices do") +
                         " not tell the link (a VF says \"Unknown\"): that of the group's GPU is written");
    }
    if (document_.order().size() > static_cast<std::size_t>(kXmlMaxNodes)) {
      remarks_.push_back("the file has more than " + std::to_string(kXmlMaxNodes) +
                         " elements: NCCL refuses it; --exclude leaves devices out");
    }
    return writeXml(document_);
  }

 private:
  void findFallback() {
    fallback_ = {kUnreadSpeed, kUnreadWidth};
    for (const FlatDevice& gpu : machine_.gpus) {
      if (!gpu.link.known()) continue;
      fallback_ = gpu.link;
      return;
    }
    remarks_.push_back(
        "no GPU tells its link: 8.0 GT/s and 16 lanes are written, which is what NCCL assumes");
  }

  XmlNode* addCpu(XmlNode* system, int number) {
    const std::string numaid = std::to_string(number);
    XmlNode* cpu = document_.add(system, "cpu");
    const std::string mask = nodeMask(tree_, numaid);
    if (mask.empty()) remarks_.push_back("NUMA node " + numaid + " has no cpumap: its affinity is empty");
    cpu->set("numaid", numaid);
    cpu->set("affinity", mask);
    cpu->set("arch", cpu_.arch);
    if (cpu_.vendor.empty()) return cpu;
    cpu->set("vendor", cpu_.vendor);
    cpu->set("familyid", std::to_string(cpu_.family));
    cpu->set("modelid", std::to_string(cpu_.model));
    return cpu;
  }

  // The link of the device; else that of the GPU it is grouped with; else that of any GPU.
  const PciLink& linkOf(const FlatDevice& device, const PciLink* group) {
    if (device.link.known()) return device.link;
    ++replaced_;
    return group != nullptr ? *group : fallback_;
  }

  XmlNode* addPci(XmlNode* parent, const std::string& busid, const std::string& pci_class,
                  const PciLink& link) {
    XmlNode* pci = document_.add(parent, "pci");
    pci->set("busid", busid);
    pci->set("class", pci_class);
    pci->set("link_speed", link.speed);
    pci->set("link_width", std::to_string(link.width));
    return pci;
  }

  void addDevice(XmlNode* parent, const FlatDevice& device, const PciLink& link) {
    addPci(parent, device.pci.busid, device.pci.device_class, link);
  }

  // Each GPU before its share of the NICs; where they do not come out even, all GPUs first.
  void addBridge(XmlNode* cpu, const Bridge& bridge) {
    const PciLink* group = firstKnown(bridge.gpus);
    XmlNode* pci =
        addPci(cpu, bridgeAddress(++bridges_), kBridgeClass, group != nullptr ? *group : fallback_);
    // Zero ids say "none of the switches that NCCL has rules for"; to NCCL no ids say the same. Written as
    // files of the time are: kernels that spell "16 GT/s" (up to 5.6) are older than NCCL's rules for ids
    // (2.20).
    if (pci->get("link_speed").ends_with("PCIe")) {
      for (const char* id : {"vendor", "device", "subsystem_vendor", "subsystem_device"})
        pci->set(id, "0x0000");
    }
    const std::size_t gpus = bridge.gpus.size();
    const bool even = gpus != 0 && bridge.nics.size() % gpus == 0;
    std::size_t next = 0;
    for (const FlatDevice* gpu : bridge.gpus) {
      addDevice(pci, *gpu, linkOf(*gpu, group));
      const PciLink* own = gpu->link.known() ? &gpu->link : group;
      for (std::size_t i = 0; even && i < bridge.nics.size() / gpus; ++i)
        addNic(pci, *bridge.nics[next++], own);
    }
    while (next < bridge.nics.size()) addNic(pci, *bridge.nics[next++], group);
  }

  void addNic(XmlNode* bridge, const FlatDevice& nic, const PciLink* group) {
    addDevice(bridge, nic, linkOf(nic, group));
  }

  const FileTree& tree_;
  const FlatMachine& machine_;
  const CpuIdentity& cpu_;
  std::vector<std::string>& remarks_;
  XmlDocument document_;
  PciLink fallback_;
  unsigned bridges_ = 0;
  int replaced_ = 0;
};

}  // namespace

Outcome<std::string> generateTopology(const FileTree& tree, const GenerateOptions& options,
                                      std::vector<std::string>* remarks) {
  std::vector<std::string> ignored;
  std::vector<std::string>& told = remarks != nullptr ? *remarks : ignored;
  const Outcome<FlatMachine> machine = readFlatMachine(tree, options, told);
  if (!machine.ok()) return Error{machine.error()};
  const Outcome<Plan> plan = pairDevices(*machine, options, told);
  if (!plan.ok()) return Error{plan.error()};
  const CpuAnswer found = cpuOf(tree);
  if (!options.cpu && found.guessed) {
    told.push_back("the tree does not tell its CPU: " + cpuIdentityText(found.cpu) +
                   " of this machine is written; --cpu=arch,vendor,family,model tells it");
  }
  return Writer(tree, *machine, options.cpu.value_or(found.cpu), told).write(*plan);
}

}  // namespace railwise::topo
