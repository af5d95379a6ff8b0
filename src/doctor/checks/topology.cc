// The machine as NCCL sees it: the PCIe tree, the topology file, the distance of NICs, and what a machine of
// its kind should have.
#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "base/pci.h"
#include "doctor/checks/check.h"
#include "doctor/facts/libraries.h"
#include "doctor/fingerprint/manifest.h"
#include "topo/lint/init/init_failure.h"
#include "topo/machine/known_machines.h"
#include "topo/search/search.h"
#include "topo/sources/gpu_answers.h"

namespace railwise::doctor {
namespace {

// True if no GPU and no NIC has more than `most` bridges above it.
bool noneDeeper(const Examination& exam, std::size_t most) {
  const std::vector<sysfs::PciDevice> gpus = sysfs::gpuDevices(exam.system.tree());
  const auto deep = [&](const std::string& path) { return sysfs::busIdsAbove(path).size() > most; };
  return std::ranges::none_of(gpus, [&](const sysfs::PciDevice& gpu) { return deep(gpu.path); }) &&
         std::ranges::none_of(exam.ports, [&](const RdmaPort& port) { return deep(port.pci_path); });
}

// A VM shows its devices on root buses, or each below a root port of its own. On bare metal there is a root
// port, and small machines have no switch. A recording without the environment may have a topology file; a
// software machine has none.
bool treeHidden(const Examination& exam) {
  if (exam.ports.empty() || !(exam.system.environmentKnown() || exam.simulated())) return false;
  return noneDeeper(exam, 0) || (exam.system.virtualMachine() && !exam.simulated() && noneDeeper(exam, 1));
}

// Ports that NCCL's RDMA networks use; EFA has a plugin of its own, which brings the topology.
std::size_t rdmaPortsInUse(const Examination& exam) {
  const std::vector<const RdmaPort*> used = exam.usedPorts();
  return static_cast<std::size_t>(std::ranges::count_if(
      used, [](const RdmaPort* port) { return port->active() && (port->roce() || port->infiniband()); }));
}

// Will NCCL load Railwise?
bool usesRailwise(const System& system) {
  const Variable* const plugin = system.variable("NCCL_NET_PLUGIN");
  if (plugin != nullptr)
    return plugin->value.find("railwise") != std::string::npos || isRailwise(system, plugin->value);
  const std::string plain = findLibrary(system, "libnccl-net.so");
  return !plain.empty() && isRailwise(system, plain);
}

void checkHiddenTree(Examination& exam) {
  if (!exam.topology_file.empty() || !treeHidden(exam)) return;
  const Variable* const restores = exam.system.variable("RAILWISE_TOPOLOGY");
  if (restores != nullptr && usesRailwise(exam.system)) return;
  const std::size_t gpus = sysfs::gpuDevices(exam.system.tree()).size();
  const std::size_t ports = rdmaPortsInUse(exam);
  if (gpus < 2 || ports == 0) return;
  // With a single NIC there is nothing to choose; GPUDirect may still be lost.
  const bool large = gpus >= 4 && ports >= 2;
  exam.add(
      large ? Severity::kError : Severity::kAdvice,
      "the virtual machine hides its PCIe switches, and no topology file is given",
      {{"", "/sys/bus/pci/devices", std::to_string(gpus) + " GPUs, none below a PCIe switch"},
       restores != nullptr
           ? Seen{"", restores->where, "RAILWISE_TOPOLOGY=" + restores->value + ", which only Railwise reads"}
           : Seen{"", "NCCL_TOPO_FILE",
                  exam.system.environmentKnown() ? "not set" : "none is given for a software machine"}},
      "To NCCL every NIC is equally far and too far for GPUDirect RDMA: users measured 180 instead "
      "of 320 GB/s.",
      "export NCCL_NET_PLUGIN=railwise RAILWISE_TOPOLOGY=auto    (Railwise restores the tree for NCCL)\n"
      "railwise topo generate > topo.xml && export NCCL_TOPO_FILE=$PWD/topo.xml    (with any plugin)");
}

void addLintFindings(Examination& exam, const topo::LintReport& report) {
  for (const topo::Finding& found : report.findings) {
    if (found.severity != topo::Finding::kError) continue;
    const std::string line = found.position.line > 0 ? ":" + std::to_string(found.position.line) : "";
    exam.add(Severity::kError,
             report.read ? "NCCL reads the topology file otherwise than it is meant"
                         : "NCCL refuses the topology file",
             {{"", exam.topology_file + line, found.text}},
             "NCCL fails its init, or chooses other NICs and channels, without naming the line.",
             found.fix + "\nrailwise topo lint " + exam.topology_file);
  }
}

// Addresses that the file has and the machine has not, and GPUs that the file leaves out.
void addFitFindings(Examination& exam, const topo::XmlDocument& document) {
  std::set<std::string> listed;
  for (const topo::XmlNode* node : document.order()) {
    if (node->name != "pci") continue;
    const std::string busid = node->get("busid");
    listed.insert(busid);
    const bool device = node->get("class").starts_with("0x03") || node->get("class").starts_with("0x02");
    if (!device || busid.starts_with("ffff") || exam.system.exists("/sys/bus/pci/devices/" + busid)) continue;
    exam.add(Severity::kWarning, "the topology file has devices that this machine has not",
             {{busid, topo::where(document, node->position), "not in /sys/bus/pci/devices"}},
             "The file is of another machine or of another size: its tree is wrong here.",
             "railwise topo generate > topo.xml    (on a VM)\nunset NCCL_TOPO_FILE    (on bare metal)");
  }
  for (const sysfs::PciDevice& gpu : sysfs::gpuDevices(exam.system.tree())) {
    if (listed.contains(gpu.busid) || listed.empty()) continue;
    exam.add(Severity::kWarning, "the topology file leaves out GPUs of this machine",
             {{"GPU " + gpu.busid, exam.topology_file, "no such busid"}},
             "NCCL places them by /sys, which on a VM is far from every NIC.",
             "railwise topo diff " + exam.topology_file + " <(railwise topo show -f xml)");
  }
}

void checkTopologyFile(Examination& exam) {
  if (exam.topology_file.empty()) return;
  if (exam.topology_text) {
    topo::LintReport report = topo::lintText(*exam.topology_text, exam.topology_file, exam.settings.nccl);
    // Of a machine that can be made checkInit() says it.
    if (exam.machine == nullptr) topo::addInitFailure(report, exam.settings);
    return addLintFindings(exam, report);
  }
  if (exam.skipUnknownPlace("NCCL_TOPO_FILE", exam.topology_file))
    return exam.nothingHere("no topology file that can be read");
  const bool exists = exam.system.exists(exam.system.pathOf(exam.topology_file));
  exam.add(Severity::kError, "the topology file cannot be read",
           {{"", exam.topology_file, exists ? "no regular file, or no right to read it" : "no such file"}},
           exists
               ? "NCCL goes on without a file that it may not open; of a folder or a device its init fails."
               : "NCCL goes on without it: on a VM every NIC is then equally far.",
           "ls -l " + exam.topology_file + "\nexport NCCL_TOPO_FILE=<the right file>, or unset it");
}

void checkInit(Examination& exam) {
  if (exam.machine == nullptr) return;
  const std::string failure =
      exam.graph_problem.empty() ? topo::initFailure(*exam.machine) : exam.graph_problem;
  if (failure.empty()) return;
  auto [text, fix] = topo::splitAdvice(failure);
  exam.add(
      Severity::kError, "NCCL " + ncclVersionName(exam.settings.nccl) + " fails its init on this machine",
      {{"", "railwise topo graphs", std::move(text)}},
      "Each job that uses all GPUs of this machine ends at once with an internal error.", std::move(fix));
}

void checkTopologyFit(Examination& exam) {
  if (!exam.topology_text) return exam.nothingHere("no topology file that can be read");
  if (exam.system.tree().list("/sys/bus/pci/devices").empty()) return;
  const auto document = topo::parseXml(*exam.topology_text, exam.topology_file);
  if (!document.ok()) return;
  // Of a file with NVIDIA's GPUs lint says it.
  if (document->version == topo::kRcclVersion && !topo::hasNvidiaGpu(*document) &&
      sysfs::anyOfNvidia(sysfs::gpuDevices(exam.system.tree())))
    exam.add(Severity::kError, "NCCL refuses the topology file",
             {{"", exam.topology_file, "version 2, which RCCL alone reads; the GPUs here are NVIDIA's"}},
             "NCCL fails its init.", "unset NCCL_TOPO_FILE, or name a file of this machine");
  addFitFindings(exam, *document);
}

// Where every GPU is far from every NIC, or several share one, that is how the board is made (or the tree is
// hidden: hidden-tree). A GPU that is far while others are near is worth a word.
void checkFarNics(Examination& exam) {
  std::vector<Finding> far;
  for (const topo::GpuExplanation& gpu : exam.paths.gpus) {
    for (const topo::Problem& problem : gpu.problems) {
      if (problem.kind != "far-nic") continue;
      const std::string rank = std::to_string(gpu.rank);
      far.push_back(
          {.check = "nic-far",
           .severity = Severity::kAdvice,
           .what = "the nearest NIC is beyond the GPU's PCIe switches, and other GPUs have nearer ones",
           .seen = {{"GPU " + rank, "railwise explain --gpu " + rank, problem.text}},
           .why = "Beyond PXB data passes the CPU's host bridge: less bandwidth, and NCCL switches GPUDirect "
                  "RDMA off.",
           .fix = problem.fix});
      break;
    }
  }
  if (far.size() == exam.paths.gpus.size()) return;
  for (Finding& finding : far) exam.findings.add(std::move(finding));
}

void checkNumaBalancing(Examination& exam) {
  constexpr const char* kFile = "/proc/sys/kernel/numa_balancing";
  if (exam.system.number(kFile).value_or(0) == 0 || sysfs::numaNodes(exam.system.tree()).size() < 2) return;
  if (sysfs::gpuDevices(exam.system.tree()).empty()) return;
  exam.add(Severity::kAdvice, "the kernel moves memory between NUMA nodes by itself",
           {{"", kFile, exam.system.line(kFile)}},
           "Its page faults stop NCCL's proxy threads for milliseconds; NVIDIA and AMD advise to switch "
           "it off.",
           "echo 'kernel.numa_balancing=0' | sudo tee /etc/sysctl.d/90-nccl.conf && sudo sysctl --system");
}

void checkNicNodes(Examination& exam) {
  if (sysfs::numaNodes(exam.system.tree()).size() < 2) return exam.nothingHere("one NUMA node");
  std::vector<Seen> seen;
  std::set<std::string> done;
  for (const RdmaPort* port : exam.usedPorts()) {
    const std::string file = port->pci_path + "/numa_node";
    if (port->pci_path.empty() || port->simulated || exam.system.number(file) != -1) continue;
    if (done.insert(port->device).second) seen.push_back({port->device, file, "-1"});
  }
  exam.add(Severity::kAdvice, "the firmware does not tell the NIC's NUMA node", std::move(seen),
           "NCCL's threads may run far from the NIC, and a NIC without a GPU near it is far from all.",
           "update the BIOS, and let it describe NUMA (ACPI); a hypervisor: give the guest's devices nodes");
}

topo::MachineSigns signsOf(const Examination& exam) {
  const System& system = exam.system;
  topo::MachineSigns signs{.sys_vendor = system.line("/sys/class/dmi/id/sys_vendor"),
                           .product_name = system.line("/sys/class/dmi/id/product_name"),
                           .chassis_asset_tag = system.line("/sys/class/dmi/id/chassis_asset_tag")};
  for (const sysfs::PciDevice& gpu : sysfs::gpuDevices(system.tree())) {
    if (signs.gpus++ == 0) signs.gpu_device = gpu.device;
    else if (signs.gpu_device != gpu.device) signs.gpu_device.clear();
  }
  // Ports of the kind that most are: a machine has others for storage and its front network.
  for (const RdmaPort& port : exam.ports) {
    const auto alike = std::ranges::count_if(
        exam.ports, [&](const RdmaPort& other) { return !other.software && sameKind(other, port); });
    signs.rdma_ports = std::max(signs.rdma_ports, static_cast<int>(alike));
    signs.efa = signs.efa || system.line(port.pci_path + "/vendor") == pci::kAmazon;
  }
  return signs;
}

// How many GPUs the whole machine has, and why that is known. A size of a cloud's machine or a guest may have
// fewer, unless its product's name is that of a size.
std::pair<int, std::string> wantedGpus(const Examination& exam, const topo::MachineSigns& signs,
                                       const topo::KnownMachine* known) {
  const bool named = known != nullptr && *known->product != '\0' && *known->gpu_device == '\0';
  if (!exam.system.container().empty()) return {};
  // A function whose class or ids cannot be read may be a GPU.
  if (std::ranges::any_of(sysfs::pciDevices(exam.system.tree()), [](const sysfs::PciDevice& device) {
        return device.device_class.empty() || device.vendor.empty() || device.device.empty();
      }))
    return {};
  if (exam.system.virtualMachine() && signs.sys_vendor != "Amazon EC2") return {};
  if (named) return {known->gpus, std::string(known->name) + " has " + std::to_string(known->gpus) + " GPUs"};
  const topo::KnownGpu* const kind = topo::knownGpu(pci::kNvidia, signs.gpu_device);
  constexpr int kBoard = 8, kSmallBoard = 4;
  if (kind == nullptr || kind->nvswitch_links == 0 || signs.gpus <= kSmallBoard ||
      exam.system.virtualMachine())
    return {};
  return {kBoard, std::string("boards of the ") + kind->name + " have 8 GPUs"};
}

void checkKnownMachine(Examination& exam) {
  const topo::MachineSigns signs = signsOf(exam);
  const topo::KnownMachine* known = topo::knownMachine(signs);
  if (const auto [gpus, why] = wantedGpus(exam, signs, known); signs.gpus > 0 && signs.gpus < gpus)
    exam.add(
        Severity::kWarning, why + ", and fewer are here",
        {{"", "/sys/bus/pci/devices", counted(static_cast<std::size_t>(signs.gpus), "GPU")}},
        "A job that wants all GPUs of the node does not start.",
        "lspci -D | grep -i -e nvidia -e 'Processing accel'; sudo dmesg | grep -i -e xid -e pcie | tail");
  if (known == nullptr || signs.sys_vendor.empty())
    return exam.nothingHere("no machine whose devices are known");
  exam.looked.push_back(std::string("this is ") + known->name + ": " + known->advice);
  // A container or a smaller size of the machine may have fewer of both.
  if (known->rdma_ports == 0 || signs.rdma_ports >= known->rdma_ports || signs.gpus < known->gpus) return;
  exam.add(Severity::kWarning,
           std::string(known->name) + " has " + std::to_string(known->rdma_ports) +
               " RDMA ports, and fewer are here",
           {{"", "/sys/class/infiniband", std::to_string(signs.rdma_ports) + " ports"}},
           "Each one that lacks is a rail without bandwidth.",
           exam.system.container().empty()
               ? "lspci -D | grep -i -e mellanox -e nvidia -e amazon; sudo dmesg | grep -i mlx5 | tail"
               : "give the container all of them (device plugin, hostNetwork), then compare with the host");
}

void checkManifest(Examination& exam) {
  if (exam.options.manifest_file.empty()) return exam.nothingHere("no --manifest FILE");
  const sysfs::FileTree& tree = exam.system.tree();
  const auto gpus = topo::recordedGpus(tree);
  gpu::GpuTopology here = gpus.ok() && *gpus != nullptr ? **gpus : gpu::GpuTopology();
  const std::vector<std::string> lost = lostGpus(exam.system);
  std::erase_if(here.gpus,
                [&](const gpu::Device& gpu) { return std::ranges::find(lost, gpu.busid) != lost.end(); });
  const auto differences =
      fingerprint::compareWithManifest(exam.options.manifest_text, exam.options.manifest_file, tree, here);
  if (!differences.ok()) return exam.cannotLook(differences.error());
  exam.looked.push_back("manifest " + exam.options.manifest_file);
  for (const fingerprint::ManifestDifference& each : *differences) {
    const std::string values = "expected " + each.expected + ", found " + each.found;
    if (!each.read) {
      exam.cannotLook("manifest: " + each.key + ": " + values, false);
      continue;
    }
    exam.add(
        each.device ? Severity::kError : Severity::kWarning, "not as the manifest says: " + values,
        {{each.key, exam.options.manifest_file + ":" + std::to_string(each.line), values}},
        "Nodes of one kind must be alike: a job goes at the pace of the odd one.",
        "mend the node; or, if it is right: railwise doctor --save-manifest " + exam.options.manifest_file);
  }
}

constexpr std::array<Check, 9> kTopologyChecks = {
    {{"hidden-tree", "topology", "a VM that hides its PCIe tree, without a topology file", checkHiddenTree,
      Needs::kGpuAndPort},
     {"topology-file", "topology", "the topology file: what NCCL refuses or misreads", checkTopologyFile,
      Needs::kTopologyFile},
     {"topology-fit", "topology", "the topology file against this machine", checkTopologyFit,
      Needs::kTopologyFile},
     {"nccl-init", "topology", "whether NCCL's search for rings, trees and NVLS fails", checkInit,
      Needs::kModel},
     {"nic-far", "topology", "GPUs whose NIC is farther than PXB", checkFarNics, Needs::kModel},
     {"numa-balancing", "topology", "automatic NUMA balancing", checkNumaBalancing, Needs::kGpu},
     {"nic-numa", "topology", "NICs without a NUMA node", checkNicNodes, Needs::kPort},
     {"known-machine", "topology", "clouds' machines and DGX: what they should have", checkKnownMachine},
     {"manifest", "topology", "the site's manifest of its nodes (--manifest FILE)", checkManifest}}};

}  // namespace

std::span<const Check> topologyChecks() { return kTopologyChecks; }

}  // namespace railwise::doctor
