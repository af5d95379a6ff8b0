#include "net/topology/strict.h"

#include <sys/stat.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>

#include "base/log.h"
#include "base/pci.h"
#include "net/topology/in_use.h"
#include "sysfs/pci_devices.h"
#include "topo/machine/machine.h"
#include "topo/sources/generate/flat_machine.h"
#include "verbs/gpu_direct.h"

namespace railwise::net {
namespace {

using Violations = std::vector<Violation>;

std::string gigabits(int mbps) {
  char text[32];
  std::snprintf(text, sizeof text, "%g Gb/s", mbps / 1000.0);
  return text;
}

struct Refusal {
  std::mutex mutex;
  std::string text;
};
Refusal& refusal() {
  static auto& it = *new Refusal;  // never destroyed: NCCL's threads may still run at exit
  return it;
}

// Logs the lines, of which there is at least one.
Status refuse(const std::vector<std::string>& lines) {
  for (const std::string& line : lines) RAILWISE_WARN("%s", line.c_str());
  const std::lock_guard lock(refusal().mutex);
  refusal().text = lines.front();
  return {Code::kRefused, 0};
}

// ---- gdr

void findWithoutGpuDirect(const MachineFacts& machine, Violations& found) {
  if (!machine.gpu_driver_loaded || sysfs::gpuDevices(machine.tree).empty()) return;
  for (const PortFacts& port : machine.ports) {
    if (port.gpu_direct) continue;
    found.push_back({"gdr", port.name +
                                " cannot register GPU memory, so every byte goes through host memory: " +
                                port.why_no_gpu_direct});
  }
}

// ---- speed

void findSlowPorts(const MachineFacts& machine, Violations& found) {
  std::map<std::string, const PortFacts*> fastest;
  for (const PortFacts& port : machine.ports) {
    const PortFacts*& best = fastest[port.type];
    if (best == nullptr || port.mbps > best->mbps) best = &port;
  }
  for (const PortFacts& port : machine.ports) {
    const PortFacts& best = *fastest[port.type];
    if (port.mbps >= best.mbps) continue;
    found.push_back({"speed", port.name + " has a link of " + gigabits(port.mbps) + ", and " + best.name +
                                  ", a NIC of its type, one of " + gigabits(best.mbps) +
                                  ": check its cable and its switch port (`ibstat`, `ethtool`), or leave it "
                                  "out with NCCL_IB_HCA"});
  }
}

void findSlowPciLinks(const MachineFacts& machine, Violations& found) {
  std::vector<std::string> seen;  // the ports of a card share its link
  for (const PortFacts& port : machine.ports) {
    if (port.pci_path.empty() || std::count(seen.begin(), seen.end(), port.pci_path) > 0) continue;
    seen.push_back(port.pci_path);
    const sysfs::PciLink now = sysfs::currentLink(machine.tree, port.pci_path);
    const sysfs::PciLink possible = sysfs::bestLinkInSlot(machine.tree, port.pci_path);
    if (!now.known() || !possible.known()) continue;
    if (now.gigatransfers >= possible.gigatransfers && now.lanes >= possible.lanes) continue;
    found.push_back(
        {"speed", port.name + " (" + std::string(sysfs::baseName(port.pci_path)) + ") has a PCIe link of " +
                      now.text() + ", and " + possible.text() +
                      " is possible: reseat the card or the riser, and check the slot's setting in "
                      "the BIOS (`lspci -vv`)"});
  }
}

// ---- topology

// Does the file describe at least one of the machine's GPUs?
bool fits(const topo::XmlDocument& file, const std::vector<sysfs::PciDevice>& gpus) {
  return std::any_of(file.order().begin(), file.order().end(), [&](const topo::XmlNode* node) {
    const std::string* busid = node->find("busid");
    return busid != nullptr && std::any_of(gpus.begin(), gpus.end(), [&](const sysfs::PciDevice& gpu) {
             return busIdToNumber(*busid) == busIdToNumber(gpu.busid);
           });
  });
}

// "": nothing is wrong with the topology file.
std::string problemOfFile(const std::string& path, const std::vector<sysfs::PciDevice>& gpus) {
  struct stat info = {};
  const std::string setting = "NCCL_TOPO_FILE=" + path;
  if (stat(path.c_str(), &info) != 0) return setting + " does not exist, and NCCL goes on without it";
  if (!S_ISREG(info.st_mode)) return "";  // a pipe can be read once, and NCCL has to
  const auto document = topo::readXmlFile(path);
  if (!document.ok()) return setting + " cannot be read: " + document.error();
  if (document->version == topo::kRcclVersion && (sysfs::anyOfNvidia(gpus) || topo::hasNvidiaGpu(*document)))
    return setting + " is of version 2, RCCL's, which NCCL refuses";
  if (gpus.empty() || fits(*document, gpus)) return "";
  return setting + " describes another machine: none of the " + std::to_string(gpus.size()) +
         " GPUs here is in it (" + gpus.front().busid + ", for example)";
}

std::string problemWithoutFile(const MachineFacts& machine, const std::vector<sysfs::PciDevice>& gpus) {
  if (!machine.topology_asked.empty() && machine.topology_asked != "auto")
    return "RAILWISE_TOPOLOGY=" + machine.topology_asked + " was refused (the line above says why)";
  std::vector<std::string> paths;
  for (const PortFacts& port : machine.ports) {
    if (!port.pci_path.empty()) paths.push_back(port.pci_path);
  }
  if (gpus.empty() || paths.empty() || !topo::treeIsHidden(machine.tree, gpus, paths)) return "";
  const std::string hidden =
      "the PCIe tree is hidden here, so NCCL considers all NICs equally far from all GPUs, and uses no "
      "GPUDirect";
  if (machine.topology_asked == "auto")
    return hidden + "; RAILWISE_TOPOLOGY=auto could not restore it (`railwise topo generate` says why)";
  return hidden + ": set RAILWISE_TOPOLOGY=auto, or NCCL_TOPO_FILE to the cloud's file";
}

void findHiddenTopology(const MachineFacts& machine, Violations& found) {
  const std::vector<sysfs::PciDevice> gpus = sysfs::gpuDevices(machine.tree);
  std::string problem;
  if (!machine.topology_file.empty()) {
    problem = problemOfFile(machine.topology_file, gpus);
  } else if (!machine.tree.exists(topo::kVirtualTopology)) {
    problem = problemWithoutFile(machine, gpus);
  }
  if (!problem.empty()) found.push_back({"topology", problem});
}

PortFacts factsOf(const Device& device, const Config& config) {
  const Rail& rail = device.rails().front();
  const ibv_device_attr& nic = rail.hca->attributes();
  PortFacts port;
  port.name = device.name();
  port.type = std::to_string(nic.vendor_id) + "/" + std::to_string(nic.vendor_part_id) +
              (rail.port.ethernet ? "/ethernet" : "/infiniband");
  port.pci_path = device.properties().pci_path != nullptr ? device.properties().pci_path : "";
  port.mbps = rail.port.speed_mbps;
  port.gpu_direct = device.properties().pointer_support != kHostPointers;
  if (port.gpu_direct) return port;
  port.why_no_gpu_direct = rail.port.iwarp
                               ? "iWARP has no flush, so NCCL is told of host memory only"
                               : "GPUDirect: " + verbs::gpuDirect(rail.hca->pd(), config.sysfs_root).text();
  return port;
}

}  // namespace

std::vector<Violation> violations(const StrictMode& strict, const MachineFacts& machine) {
  Violations found;
  if (strict.gdr) findWithoutGpuDirect(machine, found);
  if (strict.speed) findSlowPorts(machine, found);
  if (strict.speed) findSlowPciLinks(machine, found);
  if (strict.topology) findHiddenTopology(machine, found);
  return found;
}

std::string lastRefusal() {
  const std::lock_guard lock(refusal().mutex);
  return refusal().text;
}

Result<StrictMode> strictMode(const Config& config) {
  const char* const text = environmentVariable("RAILWISE_STRICT");
  const bool rejected = config.strict.empty() && text != nullptr && *text != '\0';
  const std::optional<StrictMode> mode = parseStrictMode(config.strict);
  if (mode && !rejected) return *mode;
  return refuse(
      {"RAILWISE_STRICT=" + (text != nullptr ? std::string(text) : config.strict) +
       " is not understood, so init fails rather than go on unchecked. Set 1, a list of device, gdr, "
       "speed, topology and version, or 0"});
}

Status refuseWithoutDevice(const Config& config) {
  const bool disabled = config.ib_disable != 0 && config.device != "verbs";
  return refuse(
      {"RAILWISE_STRICT=" + config.strict + ": " +
       (disabled ? "NCCL_IB_DISABLE=1 forbids RDMA devices" : "no RDMA device can be used") +
       ", and NCCL would go on over sockets: init fails. " +
       (disabled ? "Unset NCCL_IB_DISABLE" : "Mend what the line above says (NCCL_DEBUG=WARN shows it)") +
       ", or unset RAILWISE_STRICT"});
}

Status checkStrictly(const StrictMode& strict, const Config& config, const std::string& topology_file,
                     const std::vector<std::unique_ptr<Device>>& devices) {
  if (!strict.any()) return Status::success();
  const auto tree = sysfs::makeLiveTree(config.sysfs_root);
  MachineFacts machine = {.tree = *tree,
                          .ports = {},
                          .gpu_driver_loaded = gpuLibraryLoaded(),
                          .topology_asked = config.topology,
                          .topology_file = topology_file};
  for (const auto& device : devices) machine.ports.push_back(factsOf(*device, config));
  std::vector<std::string> lines;
  for (const Violation& violation : violations(strict, machine))
    lines.push_back("RAILWISE_STRICT=" + config.strict + ": " + violation.text +
                    ". Init fails; a RAILWISE_STRICT without " + violation.word + " lets the job run so");
  return lines.empty() ? Status::success() : refuse(lines);
}

}  // namespace railwise::net
