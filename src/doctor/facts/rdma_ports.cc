#include "doctor/facts/rdma_ports.h"

#include <algorithm>
#include <charconv>

#include "base/text/name_selection.h"
#include "base/text/text_layout.h"
#include "sysfs/pci_devices.h"
#include "sysfs/rdma_devices.h"

namespace railwise::doctor {
namespace {

constexpr char kDevices[] = "/sys/class/infiniband/";
// A table of GIDs has up to 256 entries; /sys is slow to read, and addresses come first.
constexpr int kMostGids = 64;
constexpr std::string_view kEmptyGid = "0000:0000:0000:0000:0000:0000:0000:0000";
// The firmware of a software machine's NICs (cli/device/tree_parts.cc).
constexpr std::string_view kSimulatedFirmware = "railwise-";

int leadingNumber(const std::string& text, int otherwise) {
  int value = otherwise;
  const bool hex = text.starts_with("0x");
  std::from_chars(text.data() + (hex ? 2 : 0), text.data() + text.size(), value, hex ? 16 : 10);
  return value;
}

PortState stateOf(const std::string& text) {
  const int number = leadingNumber(text, -1);
  return number >= 0 && number <= 4 ? static_cast<PortState>(number) : PortState::kUnknown;
}

// The kernel writes zeros for an empty entry. A file that is missing or cannot be read makes the table
// unknown.
void readGids(const System& system, RdmaPort& port) {
  const std::string folder = port.folder + "/gids";
  const auto entries = static_cast<int>(system.tree().list(folder).size());
  port.gids_known = entries > 0;
  for (int index = 0; index < std::min(entries, kMostGids); ++index) {
    const std::string number = std::to_string(index);
    const std::string value = system.line(folder + "/" + number);
    if (value.size() != kEmptyGid.size()) port.gids_known = false;
    if (value.size() != kEmptyGid.size() || value == kEmptyGid) continue;
    port.gids.push_back({index, value, system.line(port.folder + "/gid_attrs/types/" + number),
                         system.line(port.folder + "/gid_attrs/ndevs/" + number)});
  }
}

// The interface that the GID table names, else the only one of the PCI function.
std::string interfaceOfPort(const System& system, const RdmaPort& port) {
  for (const GidEntry& gid : port.gids)
    if (!gid.interface.empty()) return gid.interface;
  const std::vector<std::string> names = system.tree().list(port.pci_path + "/net");
  if (!port.pci_path.empty() && names.size() == 1) return names[0];
  return port.software ? sysfs::interfaceOf(system.tree(), port.device) : "";
}

// The facts of verbs: "mlx5_0 1 active_mtu=4096 max_mtu=4096".
void readVerbs(const System& system, RdmaPort& port) {
  for (const std::string& line : linesOf(system.text(kVerbsFile))) {
    const std::vector<std::string> words = wordsOf(line);
    if (words.size() < 3 || words[0] != port.device) continue;
    if (words[2].starts_with("open=")) port.open_error = words[2].substr(5);
    if (words[1] != std::to_string(port.number)) continue;
    for (const std::string& word : words) {
      if (word.starts_with("active_mtu=")) port.active_mtu = leadingNumber(word.substr(11), 0);
      if (word.starts_with("max_mtu=")) port.max_mtu = leadingNumber(word.substr(8), 0);
    }
  }
}

RdmaPort readPort(const System& system, const std::string& device, int number) {
  const std::string folder = kDevices + device;
  RdmaPort port{.device = device, .number = number, .folder = folder + "/ports/" + std::to_string(number)};
  port.state = stateOf(system.line(port.folder + "/state"));
  port.physical = system.line(port.folder + "/phys_state");
  port.layer = system.line(port.folder + "/link_layer");
  port.iwarp = sysfs::isIwarp(system.tree(), device);
  const sysfs::RdmaPlace place = sysfs::rdmaPlace(system.tree(), device);
  port.software = place.software;
  port.pci_path = place.path;
  const std::string rate = system.line(port.folder + "/rate");  // "400 Gb/sec (4X NDR)"
  port.rate_mbps = sysfs::rateMbps(rate);
  if (const auto bracket = rate.find('('); bracket != std::string::npos)
    port.lanes = leadingNumber(rate.substr(bracket + 1), 0);
  port.lid = leadingNumber(system.line(port.folder + "/lid"), -1);
  port.sm_lid = leadingNumber(system.line(port.folder + "/sm_lid"), -1);
  port.type = system.line(folder + "/hca_type");
  port.board = system.line(folder + "/board_id");
  port.firmware = system.line(folder + "/fw_ver");
  port.simulated = port.firmware.starts_with(kSimulatedFirmware);
  readGids(system, port);
  port.interface = interfaceOfPort(system, port);
  if (!port.interface.empty())
    port.interface_mtu =
        static_cast<int>(system.number("/sys/class/net/" + port.interface + "/mtu").value_or(0));
  readVerbs(system, port);
  return port;
}

// The device that this container was not given: see RdmaPort::not_given.
void markNotGiven(const System& system, std::vector<RdmaPort>& ports) {
  if (system.container().empty()) return;
  const auto access = [&](const RdmaPort& port) {
    const std::string node = verbsNodeOf(system, port.device);
    return node.empty() ? "" : system.access("/dev/infiniband/" + node);
  };
  const bool any = std::ranges::any_of(ports, [&](const RdmaPort& port) { return access(port) == "ok"; });
  for (RdmaPort& port : ports) {
    const std::string result = any ? access(port) : "";
    port.not_given = !port.named && (result == "ENOENT" || result == "EPERM");
  }
}

}  // namespace

std::string verbsNodeOf(const System& system, const std::string& device) {
  constexpr const char* kFolder = "/sys/class/infiniband_verbs";
  for (const std::string& node : system.tree().list(kFolder))
    if (system.line(std::string(kFolder) + "/" + node + "/ibdev") == device) return node;
  return {};
}

std::vector<RdmaPort> rdmaPorts(const System& system) {
  const Variable* hca = system.variable("NCCL_IB_HCA");
  const auto selection = hca != nullptr ? parsePortSelection(hca->value) : std::nullopt;
  std::vector<RdmaPort> ports;
  for (const std::string& device : system.tree().list("/sys/class/infiniband")) {
    for (const int number : sysfs::rdmaPorts(system.tree(), device)) {
      RdmaPort port = readPort(system, device, number);
      port.left_out = selection.has_value() && !choosePort(*selection, device, number).selected;
      port.named = selection.has_value() && !selection->exclude && !port.left_out;
      ports.push_back(std::move(port));
    }
  }
  markNotGiven(system, ports);
  return ports;
}

std::vector<std::string> physicalInterfaces(const System& system, const std::string& interface) {
  constexpr std::string_view kLower = "lower_";
  std::vector<std::string> lower;
  for (const std::string& name : system.tree().list("/sys/class/net/" + interface))
    if (name.starts_with(kLower)) lower.push_back(name.substr(kLower.size()));
  return lower.empty() ? std::vector<std::string>{interface} : lower;
}

std::string gbpsText(int mbps) { return formatText("%g Gb/s", mbps / 1000.0); }

}  // namespace railwise::doctor
