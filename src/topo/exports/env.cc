// Shell exports for NCCL or RCCL with the plugin.
#include <algorithm>
#include <limits>

#include "topo/explain/describe.h"
#include "topo/exports/exports.h"
#include "topo/exports/host_view.h"

namespace railwise::topo {
namespace {

std::vector<std::string> namesOf(const HostView& host, const std::vector<int>& nics) {
  std::vector<std::string> names;
  for (const int nic : nics) names.push_back(host.nics[static_cast<std::size_t>(nic)].name);
  return names;
}

// NICs that no GPU uses and that are slower than each NIC that a GPU uses: those of the host itself, of
// storage or of management. Other unused NICs stay visible, because NCCL may count them when it deals out
// equally near NICs.
std::vector<int> slowUnusedNics(const HostView& host) {
  int64_t slowest_used = std::numeric_limits<int64_t>::max();
  for (const HostNic& nic : host.nics)
    if (nic.used) slowest_used = std::min(slowest_used, nic.mbps);
  std::vector<int> found;
  for (std::size_t nic = 0; nic < host.nics.size(); ++nic)
    if (!host.nics[nic].used && host.nics[nic].mbps < slowest_used) found.push_back(static_cast<int>(nic));
  return found;
}

// The value of NCCL_IB_HCA without the NICs `without`. "": nothing would be left, or an interface is among
// the rest.
std::string hcaList(const HostView& host, const std::vector<int>& without) {
  std::vector<NicPort> ports;
  for (std::size_t nic = 0; nic < host.nics.size(); ++nic) {
    if (std::count(without.begin(), without.end(), static_cast<int>(nic)) != 0) continue;
    for (const NicPort& port : host.nics[nic].ports) {
      if (port.port == 0) return "";
      ports.push_back(port);
    }
  }
  return ports.empty() ? "" : "=" + ucxDevices(ports);
}

}  // namespace

Exported exportEnv(const Machine& machine, const ExportOptions& options) {
  auto host = hostView(machine);
  if (!host.ok()) return host.failure();
  ExportedText exported{.notes = host->notes};
  exported.text = "# " + originText(machine, *host, "env") +
                  "\n"
                  "# Every rank sources it: . ./FILE\n"
                  "export NCCL_NET_PLUGIN=railwise\n";
  if (!options.topo_file.empty()) {
    exported.text += "export NCCL_TOPO_FILE=" + shellWord(options.topo_file) + "\n";
  } else if (options.facts.tree_hidden.value_or(false)) {
    exported.text += "# A VM hides the PCIe tree; the plugin restores it.\nexport RAILWISE_TOPOLOGY=auto\n";
    exported.notes.emplace_back(
        "the PCIe tree is hidden: RAILWISE_TOPOLOGY=auto is set; --topo-file=PATH sets NCCL_TOPO_FILE "
        "instead");
  }
  const std::vector<int> unused = slowUnusedNics(*host);
  const std::string hcas = unused.empty() ? "" : hcaList(*host, unused);
  if (!hcas.empty()) {
    const std::string names = listText(namesOf(*host, unused));
    exported.text += "# Without " + names + ": slower, and of no GPU.\nexport NCCL_IB_HCA='" + hcas + "'\n";
    exported.notes.push_back("NCCL_IB_HCA leaves out " + names + ", which no GPU uses and which " +
                             (unused.size() == 1 ? "is" : "are") + " slower than the NICs of the GPUs");
  }
  exported.notes.push_back(std::string(libraryName(*machine.graph)) +
                           " chooses the NICs of each GPU itself, so no setting differs between ranks; "
                           "the plugin must be in LD_LIBRARY_PATH");
  return exported;
}

}  // namespace railwise::topo
