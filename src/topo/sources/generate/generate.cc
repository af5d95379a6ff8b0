#include "topo/sources/generate/generate.h"

#include <algorithm>
#include <map>

#include "base/text/text_layout.h"
#include "base/text/words.h"
#include "sysfs/pci_devices.h"
#include "topo/document/xml.h"

namespace railwise::topo {
namespace {

constexpr const char* kBridgeClass = "0x060400";
// What NCCL assumes for a link that it cannot read: Gen3 with 16 lanes.
const PciLink kUnread{8, 16, "8.0 GT/s PCIe"};

// Addresses that exist on no machine, as the clouds' own files use them: ffff:ff:01.0, ffff:ff:02.0, ...
std::string bridgeAddress(unsigned number) {
  constexpr unsigned kPerBus = 0xff;
  return formatText("ffff:%02x:%02x.0", 0xffU - (number - 1) / kPerBus, (number - 1) % kPerBus + 1);
}

// The link that is written for a device that does not report its own, and the device that it is taken from.
struct LinkSource {
  PciLink link;
  std::string owner;
};

LinkSource groupLink(const Bridge& bridge, const LinkSource& otherwise) {
  for (const FlatDevice* gpu : bridge.gpus) {
    if (gpu->link.known()) return {gpu->link, "the link of their group's GPU"};
  }
  if (const PciLink* link = fastestLink(bridge.nics); link != nullptr)
    return {*link, "the link of their group's fastest NIC"};
  return otherwise;
}

LinkSource machineLink(const FlatMachine& machine) {
  const PciLink* gpu = fastestLink(machine.gpus);
  const PciLink* nic = fastestLink(machine.nics);
  if (gpu != nullptr && (nic == nullptr || transfersOf(*gpu) >= transfersOf(*nic)))
    return {*gpu, "the link of the machine's fastest GPU"};
  if (nic != nullptr) return {*nic, "the link of the machine's fastest NIC"};
  return {kUnread, "no GPU and no NIC gives its link, and this is what NCCL assumes"};
}

class Writer {
 public:
  Writer(const sysfs::FileTree& tree, const FlatMachine& machine, const CpuIdentity& cpu,
         std::vector<std::string>& remarks)
      : tree_(tree), machine_(machine), cpu_(cpu), remarks_(remarks) {}

  std::string write(const Plan& plan) {
    fallback_ = machineLink(machine_);
    XmlNode* system = document_.add(nullptr, "system");
    system->set("version", machine_.amd ? "2" : "1");  // 2 is RCCL's version, which knows AMD's classes
    for (const auto& [number, node] : plan) {
      if (node.bridges.empty() && node.loose.empty()) continue;
      XmlNode* cpu = addCpu(system, number);
      for (const Bridge& bridge : node.bridges) addBridge(cpu, bridge);
      for (const FlatDevice* device : node.loose) addDevice(cpu, *device, linkOf(*device, fallback_));
    }
    tellReplaced();
    if (document_.order().size() > static_cast<std::size_t>(kXmlMaxNodes)) {
      remarks_.push_back("the file has more than " + std::to_string(kXmlMaxNodes) +
                         " elements: NCCL refuses it; --exclude leaves devices out");
    }
    return writeXml(document_);
  }

 private:
  void tellReplaced() {
    for (const auto& [written, devices] : replaced_) {
      remarks_.push_back(devices.size() == 1
                             ? devices.front() + " does not give its link: " + written
                             : std::to_string(devices.size()) +
                                   " devices do not give their link (a VF says \"Unknown\"): " + written);
    }
  }

  XmlNode* addCpu(XmlNode* system, int number) {
    const std::string numaid = std::to_string(number);
    XmlNode* cpu = document_.add(system, "cpu");
    const std::string mask = sysfs::nodeMask(tree_, numaid);
    if (mask.empty()) remarks_.push_back("NUMA node " + numaid + " has no cpumap: no affinity is written");
    cpu->set("numaid", numaid);
    if (!mask.empty()) cpu->set("affinity", mask);
    cpu->set("arch", cpu_.arch);
    if (cpu_.vendor.empty()) return cpu;
    cpu->set("vendor", cpu_.vendor);
    cpu->set("familyid", std::to_string(cpu_.family));
    cpu->set("modelid", std::to_string(cpu_.model));
    return cpu;
  }

  const PciLink& linkOf(const FlatDevice& device, const LinkSource& otherwise) {
    if (device.link.known()) return device.link;
    replace(device.pci.busid, otherwise);
    return otherwise.link;
  }

  void replace(const std::string& device, const LinkSource& source) {
    replaced_[source.link.speed + " and " + counted(source.link.lanes, "lane") +
              " are written: " + source.owner]
        .push_back(device);
  }

  XmlNode* addPci(XmlNode* parent, const std::string& busid, const std::string& pci_class,
                  const PciLink& link) {
    XmlNode* pci = document_.add(parent, "pci");
    pci->set("busid", busid);
    pci->set("class", pci_class);
    pci->set("link_speed", link.speed);
    pci->set("link_width", std::to_string(link.lanes));
    return pci;
  }

  void addDevice(XmlNode* parent, const FlatDevice& device, const PciLink& link) {
    addPci(parent, device.pci.busid, device.pci.device_class, link);
  }

  // Writes each GPU before its share of the NICs. If the NICs cannot be shared equally, writes all GPUs
  // first.
  void addBridge(XmlNode* cpu, const Bridge& bridge) {
    const LinkSource group = groupLink(bridge, fallback_);
    XmlNode* pci = addPci(cpu, bridgeAddress(++bridges_), kBridgeClass, group.link);
    // Ids of zero mean "none of the switches that NCCL has rules for", and missing ids mean the same to NCCL.
    // The format follows files of that time: kernels that write "16 GT/s" (up to 5.6) are older than NCCL's
    // rules for ids (2.20).
    if (pci->get("link_speed").ends_with("PCIe")) {
      for (const char* id : {"vendor", "device", "subsystem_vendor", "subsystem_device"})
        pci->set(id, "0x0000");
    }
    const std::size_t gpus = bridge.gpus.size();
    const bool even = gpus != 0 && bridge.nics.size() % gpus == 0;
    std::size_t next = 0;
    for (const FlatDevice* gpu : bridge.gpus) {
      addDevice(pci, *gpu, linkOf(*gpu, group));
      const LinkSource own =
          gpu->link.known() ? LinkSource{gpu->link, "the link of their group's GPU"} : group;
      for (std::size_t i = 0; even && i < bridge.nics.size() / gpus; ++i)
        addNic(pci, *bridge.nics[next++], own);
    }
    while (next < bridge.nics.size()) addNic(pci, *bridge.nics[next++], group);
  }

  void addNic(XmlNode* bridge, const FlatDevice& nic, const LinkSource& otherwise) {
    addDevice(bridge, nic, linkOf(nic, otherwise));
  }

  const sysfs::FileTree& tree_;
  const FlatMachine& machine_;
  const CpuIdentity& cpu_;
  std::vector<std::string>& remarks_;
  XmlDocument document_;
  LinkSource fallback_;
  unsigned bridges_ = 0;
  std::map<std::string, std::vector<std::string>> replaced_;  // by the written text: the devices
};

bool hasNic(const Plan& plan) {
  for (const auto& [number, node] : plan) {
    const auto is_nic = [](const FlatDevice* device) { return !device->is_gpu; };
    if (std::any_of(node.loose.begin(), node.loose.end(), is_nic)) return true;
    for (const Bridge& bridge : node.bridges) {
      if (!bridge.nics.empty()) return true;
    }
  }
  return false;
}

}  // namespace

Outcome<std::string> generateTopology(const sysfs::FileTree& tree, const GenerateOptions& options,
                                      std::vector<std::string>* remarks) {
  std::vector<std::string> ignored;
  std::vector<std::string>& told = remarks != nullptr ? *remarks : ignored;
  const Outcome<FlatMachine> machine = readFlatMachine(tree, options, told);
  if (!machine.ok()) return machine.failure();
  const Outcome<Plan> plan = pairDevices(*machine, options, told);
  if (!plan.ok()) return Error{plan.error()};
  if (!machine->nics.empty() && !hasNic(*plan) && !options.force) {
    return Error{"no NIC would be in the file: /sys does not give the NUMA node of " +
                 counted(machine->nics.size(), "NIC") + ", " + machine->nics.front().pci.busid +
                 " the first; --pair=table=FILE says where they are, --force leaves them out"};
  }
  const CpuAnswer found = cpuOf(tree);
  if (!options.cpu && found.guessed) {
    told.push_back("the tree does not give its CPU: " + cpuIdentityText(found.cpu) +
                   " of this machine is written; --cpu=arch,vendor,family,model sets it");
  }
  return Writer(tree, *machine, options.cpu.value_or(found.cpu), told).write(*plan);
}

}  // namespace railwise::topo
