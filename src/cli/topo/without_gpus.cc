#include "cli/topo/without_gpus.h"

#include <algorithm>
#include <cstdlib>

#include "base/text/text_layout.h"
#include "base/text/words.h"
#include "cli/options/command_line.h"
#include "cli/options/message.h"
#include "sysfs/pci_devices.h"
#include "topo/explain/describe.h"
#include "topo/sources/net_devices.h"

namespace railwise::cli {
namespace {

// "0000:10:00.0 > 0000:11:00.0", from the root port to the switch above the device; "-": it is on a root bus.
std::string portsAbove(const sysfs::FileTree& tree, const std::string& busid) {
  const auto path = busid.empty() ? std::nullopt : sysfs::pciPath(tree, busid);
  if (!path) return "-";
  std::vector<std::string> above = sysfs::busIdsAbove(*path);
  std::reverse(above.begin(), above.end());
  return above.empty() ? "-" : joined(above, " > ");
}

std::string numaText(const std::vector<sysfs::PciDevice>& devices, const std::string& busid) {
  const auto at = std::find_if(devices.begin(), devices.end(),
                               [&](const sysfs::PciDevice& device) { return device.busid == busid; });
  return at == devices.end() || at->numa < 0 ? "-" : std::to_string(at->numa);
}

}  // namespace

int showWithoutGpus(const char* command, const MachineOptions& options) {
  const auto tree = openMachineTree(command, options);
  if (!tree) return kExitFailed;
  const topo::Settings settings =
      topo::settingsFromEnvironment([](const char* name) { return std::getenv(name); }, topo::NcclVersion{});
  std::vector<std::string> remarks;
  const auto nics = topo::netDevices(*tree, settings, {options.detection.nic_speed, true}, &remarks);
  const auto devices = sysfs::pciDevices(*tree);
  const auto nodes = static_cast<int>(sysfs::numaNodes(*tree).size());
  std::string text = wrappedText((tree->name() == "/" ? std::string("this machine") : tree->name()) +
                                     ": no GPU (no display device by NVIDIA or AMD), so NCCL cannot run; " +
                                     counted(static_cast<int>(nics.size()), "RDMA port") + ", " +
                                     counted(nodes, "NUMA node"),
                                 "", "  ");
  if (tree->live())
    text += wrappedText("if it has GPUs: does this container see them? ls /sys/bus/pci/devices",
                        "  note: ", "    ");
  text +=
      wrappedText("another machine: a topology FILE, --root DIR|TAR or --machine NAME", "  note: ", "    ");
  if (!options.quiet)
    for (const std::string& remark : remarks) text += wrappedText(remark, "  note: ", "    ");
  std::vector<TextRow> rows = {{"NIC", "port", "Gb/s", "link", "NUMA", "PCI address", "below"}};
  for (const topo::NetDevice& nic : nics) {
    rows.push_back({nic.name, std::to_string(nic.port),
                    topo::gbText(static_cast<float>(nic.speed_mbps) / 1000),
                    nic.link.empty() ? "-" : nic.link, numaText(devices, nic.busid),
                    nic.busid.empty() ? "-" : nic.busid, portsAbove(*tree, nic.busid)});
  }
  if (!nics.empty()) text += "\n" + tableText(rows);
  return writeOutput(command, "", text);
}

}  // namespace railwise::cli
