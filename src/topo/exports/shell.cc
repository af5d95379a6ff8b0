// Shell scripts that set variables: NCCL or RCCL with the plugin, and UCX; NIXL's parameters as JSON.
#include <algorithm>
#include <limits>

#include "base/text/json.h"
#include "base/text/printable.h"
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

// UCX stripes large messages over two devices, unless it is told another number.
constexpr std::size_t kUcxRails = 2;

// The variables in which launchers tell the local rank: torchrun, Slurm, Open MPI, MPICH.
constexpr const char* kLocalRank =
    "${LOCAL_RANK:-${SLURM_LOCALID:-${OMPI_COMM_WORLD_LOCAL_RANK:-${MPI_LOCALRANKID:-}}}}";

// UCX has no PXN: where NCCL reaches a NIC through another GPU, UCX needs the nearest NIC of the GPU itself.
Outcome<HostView> viewWithoutPxn(const Machine& machine) {
  Settings settings = *machine.settings;
  settings.pxn_disable = 1;
  const auto direct = makeMachine(XmlDocument(*machine.xml), settings, machine.name);
  if (!direct.ok()) return direct.failure();
  auto host = hostView(*direct);
  if (!host.ok()) return host.failure();
  if (std::string wrong = nothingToChoose(*direct, *host); !wrong.empty()) return Error{std::move(wrong)};
  return host;
}

std::string nicsComment(const HostView& host, const HostGpu& gpu) {
  std::string text = "GPU " + std::to_string(gpu.dev) + " at " + withoutControls(gpu.busid);
  for (const GivenNic& given : gpu.nics)
    text += std::string(&given == &gpu.nics.front() ? ": " : ", ") +
            host.nics[static_cast<std::size_t>(given.nic)].name + " " + pathTypeName(given.type);
  return text;
}

std::string exportsOf(const std::vector<NicPort>& ports) {
  std::string text = "export UCX_NET_DEVICES=" + ucxDevices(ports);
  if (ports.size() > kUcxRails) text += " UCX_MAX_RNDV_RAILS=" + std::to_string(ports.size());
  return text;
}

// "0", or "0|1" for a GPU that two ranks share.
std::string ranksPattern(const HostGpu& gpu) {
  return joined(gpu.local_ranks, "|", [](int rank) { return std::to_string(rank); });
}

void noteRanks(const HostView& host, std::vector<std::string>& notes) {
  const bool shared = std::any_of(host.gpus.begin(), host.gpus.end(),
                                  [](const HostGpu& gpu) { return gpu.local_ranks.size() > 1; });
  if (!shared) notes.emplace_back("local rank N is taken to use GPU N, in the order of PCI addresses");
  const auto told = [](const HostGpu& gpu) { return !gpu.nics.empty(); };
  if (!std::all_of(host.gpus.begin(), host.gpus.end(), told))
    notes.emplace_back("a GPU without a NIC is given the NICs of all GPUs");
}

const std::vector<NicPort>& orAll(const std::vector<NicPort>& ports, const std::vector<NicPort>& all) {
  return ports.empty() ? all : ports;
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

Exported exportUcx(const Machine& machine, const ExportOptions&) {
  const auto host = viewWithoutPxn(machine);
  if (!host.ok()) return host.failure();
  ExportedText exported{.notes = host->notes};
  noteRanks(*host, exported.notes);
  exported.notes.emplace_back(
      "UCX uses no other device than those named: add an interface (eth0) to UCX_NET_DEVICES if UCX_TLS has "
      "tcp");
  const std::vector<NicPort> all = portsOfAllGpus(*host);
  exported.text = "# " + originText(machine, *host, "ucx") + "\n# Every rank sources it: . ./FILE\n";
  if (!host->amd) exported.text += "export CUDA_DEVICE_ORDER=PCI_BUS_ID\n";
  exported.text += std::string("case \"") + kLocalRank + "\" in\n";
  std::size_t ranks = 0;
  for (const HostGpu& gpu : host->gpus) {
    ranks += gpu.local_ranks.size();
    exported.text += "  " + ranksPattern(gpu) + ") " + exportsOf(orAll(portsOfGpu(*host, gpu), all)) +
                     " ;;  # " + nicsComment(*host, gpu) + "\n";
  }
  exported.text += "  '') export UCX_NET_DEVICES=" + ucxDevices(all) +
                   " ;;  # no launcher: one process has all GPUs\n"
                   "  *)\n"
                   "    echo \"railwise: local rank " +
                   kLocalRank + " has no GPU here: there " + (ranks == 1 ? "is " : "are ") +
                   std::to_string(ranks) +
                   "\" >&2\n"
                   "    return 1 2>/dev/null || exit 1\n"
                   "    ;;\n"
                   "esac\n";
  return exported;
}

Exported exportNixl(const Machine& machine, const ExportOptions&) {
  const auto host = viewWithoutPxn(machine);
  if (!host.ok()) return host.failure();
  ExportedText exported{.notes = host->notes};
  noteRanks(*host, exported.notes);
  const std::vector<NicPort> all = portsOfAllGpus(*host);
  JsonWriter json;
  json.beginObject().key("schema").value("railwise-nixl").key("schema_version").value(1);
  json.key("machine").value(machine.name).key("backend").value("UCX").key("gpus").beginArray();
  bool left_out = false;
  for (const HostGpu& gpu : host->gpus) {
    const std::vector<NicPort> own = portsOfGpu(*host, gpu);
    const std::vector<NicPort>& ports = orAll(own, all);
    json.beginObject().key("local_ranks").row(gpu.local_ranks);
    json.key("gpu").value(gpu.dev).key("busid").value(gpu.busid).key("env").beginInlineObject();
    json.key("UCX_NET_DEVICES").value(ucxDevices(ports));
    if (ports.size() > kUcxRails) json.key("UCX_MAX_RNDV_RAILS").value(std::to_string(ports.size()));
    // NIXL appends ":1" to each device of device_list, and takes ", " for the separator.
    const bool first_ports =
        std::all_of(ports.begin(), ports.end(), [](const NicPort& port) { return port.port == 1; });
    json.endInlineObject().key("params").beginInlineObject();
    if (first_ports) json.key("device_list").value(joined(ports, ", ", &NicPort::device));
    left_out = left_out || !first_ports;
    json.endInlineObject().endObject();
  }
  json.endArray().endObject();
  if (left_out)
    exported.notes.emplace_back(
        "device_list is left out where a NIC uses another port than 1, which NIXL cannot name there; "
        "UCX_NET_DEVICES can");
  exported.text = json.text();
  return exported;
}

}  // namespace railwise::topo
