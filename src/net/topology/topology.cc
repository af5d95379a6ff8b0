#include "net/topology/topology.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string_view>

#include "base/log.h"
#include "net/topology/in_use.h"
#include "sysfs/pci_devices.h"
#include "topo/lint/lint.h"
#include "topo/machine/machine.h"
#include "topo/paths/policy.h"
#include "topo/sources/generate/generate.h"
#include "topo/sources/sysfs.h"

namespace railwise::net {
namespace {

constexpr const char* kTopologyVariable = "NCCL_TOPO_FILE";

// Makes a file in memory that NCCL can open, so that nothing is left behind. The file stays open as long as
// the process, and across exec, because children inherit NCCL_TOPO_FILE. "": the file could not be made,
// which is logged.
std::string makeMemoryFile(const std::string& text) {
  const int fd = memfd_create("railwise-topology", 0);
  if (fd < 0 || write(fd, text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
    RAILWISE_WARN("RAILWISE_TOPOLOGY=auto: cannot hold the topology in memory: %s", std::strerror(errno));
    if (fd >= 0) close(fd);
    return "";
  }
  return "/proc/self/fd/" + std::to_string(fd);
}

std::string giveToNccl(const std::string& path) {
  if (setenv(kTopologyVariable, path.c_str(), 1) == 0) return path;
  RAILWISE_WARN("RAILWISE_TOPOLOGY: cannot set %s: %s", kTopologyVariable, std::strerror(errno));
  return "";
}

// Is it a memory file of Railwise, from an earlier init or from a parent process? A child whose descriptors
// were closed or reused has the name but not the file.
bool isOurs(const std::string& path) {
  char target[64] = {};
  const ssize_t length = readlink(path.c_str(), target, sizeof target - 1);
  return length > 0 && std::string_view(target).starts_with("/memfd:railwise-topology");
}

// Is it a name that only memory files of Railwise have had, with nothing behind it now?
bool isStale(const std::string& path) {
  struct stat info = {};
  return path.starts_with("/proc/self/fd/") && stat(path.c_str(), &info) != 0;
}

std::string generate(const Config& config) {
  const auto tree = sysfs::makeLiveTree(config.sysfs_root);
  if (tree->exists(topo::kVirtualTopology)) {
    RAILWISE_INFO(log::kInit | log::kNet, "RAILWISE_TOPOLOGY=auto: not needed, NCCL reads %s",
                  topo::kVirtualTopology);
    return "";
  }
  topo::GenerateOptions options;
  options.only_when_certain = true;
  const auto text = topo::generateTopology(*tree, options, nullptr);
  if (!text.ok()) {
    RAILWISE_INFO(log::kInit | log::kNet, "RAILWISE_TOPOLOGY=auto: no topology generated: %s",
                  text.error().c_str());
    return "";
  }
  std::string path = makeMemoryFile(*text);
  if (path.empty() || giveToNccl(path).empty()) return "";
  RAILWISE_INFO(log::kInit | log::kNet,
                "RAILWISE_TOPOLOGY=auto: the PCIe tree is hidden here; restored for NCCL as %s=%s (`railwise "
                "topo generate` prints it)",
                kTopologyVariable, path.c_str());
  return path;
}

bool hasAmdGpu(const sysfs::FileTree& tree) {
  const std::vector<sysfs::PciDevice> devices = sysfs::pciDevices(tree);
  return std::any_of(devices.begin(), devices.end(), [](const sysfs::PciDevice& device) {
    return device.vendor == "0x1002" &&
           (device.device_class.starts_with("0x12") || device.device_class.starts_with("0x03"));
  });
}

// NCCL refuses RCCL's files (version 2) and RCCL refuses NCCL's: either would fail its init.
bool checkVersion(const Config& config) {
  const auto document = topo::readXmlFile(config.topology);
  if (!document.ok()) return false;  // said by checkFile
  const bool amd = hasAmdGpu(*sysfs::makeLiveTree(config.sysfs_root));
  if (document->version == (amd ? 2 : 1)) return true;
  RAILWISE_WARN(
      "RAILWISE_TOPOLOGY: %s is of version %d, %s's; %s on this machine reads version %d only. The file is "
      "not used",
      config.topology.c_str(), document->version, amd ? "NCCL" : "RCCL", amd ? "RCCL" : "NCCL", amd ? 2 : 1);
  return false;
}

// True if NCCL reads the file without an error. What NCCL reads otherwise than the author meant is logged.
bool checkFile(const std::string& file) {
  const topo::LintReport report = topo::lintFile(file);
  const topo::Finding* error = nullptr;
  for (const topo::Finding& finding : report.findings) {
    if (finding.severity == topo::Finding::kError && error == nullptr) error = &finding;
    if (finding.severity == topo::Finding::kWarning)
      RAILWISE_WARN("RAILWISE_TOPOLOGY=%s:%d: %s; %s", file.c_str(), finding.position.line,
                    finding.text.c_str(), finding.fix.c_str());
  }
  if (error == nullptr) return true;
  // The reader's own message begins with file and line.
  std::string place = error->text.starts_with(file) ? "" : file + ": ";
  if (!place.empty() && error->position.line > 0)
    place.insert(place.size() - 2, ":" + std::to_string(error->position.line));
  RAILWISE_WARN("RAILWISE_TOPOLOGY: %s%s%s%s. The file is not used (`railwise topo lint` lists everything)",
                place.c_str(), error->text.c_str(), error->fix.empty() ? "" : "; ", error->fix.c_str());
  return false;
}

std::optional<topo::XmlDocument> readFile(const std::string& path) {
  struct stat info = {};
  // A pipe would give its bytes to us or to NCCL, not to both.
  if (path.empty() || (stat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode))) return std::nullopt;
  auto document = topo::readXmlFile(path);
  if (document.ok()) return std::move(*document);
  RAILWISE_INFO(log::kInit | log::kNet, "%s is not used for the rails: %s", kTopologyVariable,
                document.error().c_str());
  return std::nullopt;
}

// Makes the model, with the devices that this plugin offers and no others.
Outcome<topo::Machine> readMachine(const Config& config, const std::string& topology_file,
                                   const std::vector<std::unique_ptr<Device>>& devices) {
  topo::Settings settings = topo::settingsFromEnvironment(environmentVariable, rulesInUse());
  // The model has each port by itself, also those that NCCL will fuse: the index of a network device in the
  // model is its index in `devices`.
  settings.net_merge_level = topo::PathType::kLoc;
  settings.net_force_merge.clear();
  topo::SysfsOptions options;
  options.nets.emplace();
  // No path from a GPU to a NIC leads over NVLink (a relay by PXN is NCCL's), so what a vendor's library has
  // told is not read, and the NVLinks of GPUs that are known are not filled in.
  options.detection.known_gpus = false;
  options.endpoint_ids = false;
  options.gpu_answers = std::make_shared<const gpu::GpuTopology>();
  for (const auto& device : devices) {
    const DeviceProperties& its = device->properties();
    const std::string path = its.pci_path != nullptr ? its.pci_path : "";
    options.nets->push_back({.name = its.name,
                             .busid = path.substr(path.rfind('/') + 1),
                             .speed_mbps = its.speed_mbps,
                             .port = its.port});
  }
  const auto tree = sysfs::makeLiveTree(config.sysfs_root);
  return topo::loadMachine({.tree = tree.get(),
                            .settings = settings,
                            .options = std::move(options),
                            .document = readFile(topology_file),
                            .remarks = false});
}

void numberRails(const topo::Machine& machine, const std::vector<std::unique_ptr<Device>>& devices) {
  const topo::Graph& graph = *machine.graph;
  int next_rail = 0;
  for (int gpu = 0; gpu < graph.count(topo::NodeType::kGpu); ++gpu) {
    const auto nets = topo::localNets(*machine.paths, gpu);
    if (!nets.ok()) continue;
    for (const int net : *nets) {
      // A topology file may hold network devices that this plugin does not offer.
      const auto index = static_cast<std::size_t>(graph.of(topo::NodeType::kNet, net).dev);
      if (index >= devices.size()) continue;
      Device& device = *devices[index];
      if (device.properties().rail < 0) device.setRail(next_rail++);
    }
  }
}

}  // namespace

std::string provideTopology(const Config& config) {
  std::string known = config.topo_file;
  if (config.topology == "auto" && isStale(known)) {
    RAILWISE_INFO(log::kInit | log::kNet, "%s=%s, from a parent process, is not open here", kTopologyVariable,
                  known.c_str());
    known.clear();
  }
  if (config.topology.empty() || isOurs(known) || known == config.topology) return known;
  if (!known.empty()) {
    RAILWISE_INFO(log::kInit | log::kNet, "RAILWISE_TOPOLOGY=%s: not needed, %s=%s is set",
                  config.topology.c_str(), kTopologyVariable, known.c_str());
    return known;
  }
  if (config.topology == "auto") return generate(config);
  if (!checkFile(config.topology) || !checkVersion(config)) return "";
  const std::string path = giveToNccl(config.topology);
  if (!path.empty())
    RAILWISE_INFO(log::kInit | log::kNet, "RAILWISE_TOPOLOGY: given to NCCL as %s=%s", kTopologyVariable,
                  path.c_str());
  return path;
}

PathBandwidth findRails(const Config& config, const std::string& topology_file,
                        const std::vector<std::unique_ptr<Device>>& devices) {
  const bool in_pci_tree = std::any_of(devices.begin(), devices.end(), [](const auto& device) {
    return device->properties().pci_path != nullptr;
  });
  if (!in_pci_tree) return {};
  const auto machine = readMachine(config, topology_file, devices);
  if (!machine.ok()) {
    RAILWISE_INFO(log::kInit | log::kNet, "no rails: %s", machine.error().c_str());
    return {};
  }
  const bool given = std::any_of(devices.begin(), devices.end(),
                                 [](const auto& device) { return device->properties().rail >= 0; });
  if (!given) numberRails(*machine, devices);
  PathBandwidth paths = PathBandwidth::compute(*machine, devices.size());
  if (!config.gpu.empty() && paths.findGpu(config.gpu) < 0)
    RAILWISE_WARN("RAILWISE_GPU=%s is none of the %d GPUs of this machine: the nearest counts",
                  config.gpu.c_str(), paths.gpus());
  return paths;
}

}  // namespace railwise::net
