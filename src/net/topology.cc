#include "net/topology.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <optional>

#include "base/log.h"
#include "topo/lint.h"
#include "topo/machine.h"
#include "topo/policy.h"
#include "topo/sources/generate.h"
#include "topo/sources/sysfs.h"

namespace railwise::net {
namespace {

// Where NVIDIA's topology daemon leaves the file that NCCL reads by itself.
constexpr const char* kVirtualTopology = "/var/run/nvidia-topologyd/virtualTopology.xml";
constexpr const char* kTopologyVariable = "NCCL_TOPO_FILE";

// The bytes as a file that NCCL can open: in memory, so that nothing is left behind. It stays open as long as
// the process, and across exec, since NCCL_TOPO_FILE is inherited too. "": it could not be made, logged.
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

std::string generate(const Config& config) {
  const auto tree = topo::makeLiveTree(config.sysfs_root);
  if (tree->exists(kVirtualTopology)) {
    RAILWISE_INFO(log::kInit | log::kNet, "RAILWISE_TOPOLOGY=auto: not needed, NCCL reads %s",
                  kVirtualTopology);
    return "";
  }
  const auto text = topo::generateTopology(*tree, {}, nullptr);
  if (!text.ok()) {
    RAILWISE_INFO(log::kInit | log::kNet, "RAILWISE_TOPOLOGY=auto: no topology generated: %s",
                  text.error().c_str());
    return "";
  }
  std::string path = makeMemoryFile(*text);
  if (path.empty() || giveToNccl(path).empty()) return "";
  RAILWISE_INFO(
      log::kInit | log::kNet,
      "RAILWISE_TOPOLOGY=auto: the PCIe tree is hidden here; restored for NCCL as %s=%s (`railwise topo "
      "generate` prints it)",
      kTopologyVariable, path.c_str());
  return path;
}

// True when NCCL would read it without an error; what it would read otherwise than meant is said.
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
  const std::string place =
      error->text.starts_with(file) ? "" : file + ":" + std::to_string(error->position.line) + ": ";
  RAILWISE_WARN("RAILWISE_TOPOLOGY: %s%s; %s. The file is not used (`railwise topo lint` lists everything)",
                place.c_str(), error->text.c_str(), error->fix.c_str());
  return false;
}

std::optional<topo::XmlDocument> readFile(const std::string& path) {
  if (path.empty()) return std::nullopt;
  auto document = topo::readXmlFile(path);
  if (document.ok()) return std::move(*document);
  RAILWISE_INFO(log::kInit | log::kNet, "%s is not used for the rails: %s", kTopologyVariable,
                document.error().c_str());
  return std::nullopt;
}

topo::Outcome<topo::Machine> readMachine(const Config& config, const std::string& topology_file) {
  topo::Settings settings = topo::settingsFromEnvironment(environmentVariable);
  settings.net_merge_level = topo::PathType::kLoc;  // each port by itself
  settings.ib_merge_vfs = 0;                        // this plugin reports each function at its own address
  const auto tree = topo::makeLiveTree(config.sysfs_root);
  auto document = topo::readSysfs(*tree, readFile(topology_file), settings, {}, nullptr);
  if (!document.ok()) return topo::Error{document.error()};
  return topo::makeMachine(std::move(*document), settings, tree->name());
}

}  // namespace

std::string provideTopology(const Config& config) {
  if (config.topology.empty()) return config.topo_file;
  if (!config.topo_file.empty()) {
    // Our own, of an earlier init, or somebody's, who is right.
    if (config.topo_file.starts_with("/proc/self/fd/")) return config.topo_file;
    RAILWISE_INFO(log::kInit | log::kNet, "RAILWISE_TOPOLOGY=%s: not needed, %s=%s is set",
                  config.topology.c_str(), kTopologyVariable, config.topo_file.c_str());
    return config.topo_file;
  }
  if (config.topology == "auto") return generate(config);
  if (!checkFile(config.topology)) return "";
  const std::string path = giveToNccl(config.topology);
  if (!path.empty())
    RAILWISE_INFO(log::kInit | log::kNet, "RAILWISE_TOPOLOGY: given to NCCL as %s=%s", kTopologyVariable,
                  path.c_str());
  return path;
}

void findRails(const Config& config, const std::string& topology_file, std::vector<Device>& devices) {
  const bool in_pci_tree = std::any_of(devices.begin(), devices.end(), [](const Device& device) {
    return device.properties.pci_path != nullptr;
  });
  if (!in_pci_tree) return;
  const auto machine = readMachine(config, topology_file);
  if (!machine.ok()) {
    RAILWISE_INFO(log::kInit | log::kNet, "no rails: %s", machine.error().c_str());
    return;
  }
  const topo::Graph& graph = *machine->graph;
  int next_rail = 0;
  for (int gpu = 0; gpu < graph.count(topo::NodeType::kGpu); ++gpu) {
    const auto nets = topo::localNets(*machine->paths, gpu);
    if (!nets.ok()) continue;
    for (const int net : *nets) {
      const std::string& name = graph.of(topo::NodeType::kNet, net).name;
      for (Device& device : devices)
        if (device.properties.name == name && device.properties.rail < 0)
          device.properties.rail = next_rail++;
    }
  }
}

}  // namespace railwise::net
