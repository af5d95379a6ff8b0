// railwise topo export: writes a machine for schedulers, libraries and other tools.
#include <array>
#include <cstdlib>
#include <filesystem>

#include "base/process.h"
#include "cli/options/command_line.h"
#include "cli/options/commands.h"
#include "cli/options/message.h"
#include "cli/topo/machine_options.h"
#include "topo/exports/exports.h"
#include "topo/exports/host_view.h"

namespace railwise::cli {
namespace {

constexpr const char* kExport = "topo export";

using Writer = topo::Exported (*)(const topo::Machine&, const topo::ExportOptions&);
constexpr std::array<Choice<Writer>, 5> kForms = {{{"slurm", topo::exportSlurm},
                                                   {"ucx", topo::exportUcx},
                                                   {"nixl", topo::exportNixl},
                                                   {"env", topo::exportEnv},
                                                   {"hwloc-xml", topo::exportHwlocXml}}};

constexpr const char* kExportHelp =
    "usage: railwise topo export [FILE] --for FORM [-o OUT] [--root DIR|TAR] [options]\n\n"
    "Writes the machine for another program; docs/exports.md describes each form:\n"
    "  slurm      gres.conf, with lines for slurm.conf and topology.conf\n"
    "  ucx        shell: UCX_NET_DEVICES by the local rank\n"
    "  nixl       JSON: variables and parameters of NIXL's UCX backend for each GPU\n"
    "  env        shell: NCCL with the plugin\n"
    "  hwloc-xml  hwloc's XML, for lstopo -i and programs that read HWLOC_XMLFILE\n"
    "What a form leaves out or assumes is said on stderr. FILE is an NCCL (or RCCL) topology file; without "
    "one, this machine.\n"
    "Exit status: 0 all right, 1 the machine cannot be read or written in that form, 2 a mistake on the "
    "command line.\n\n";

// The name of the host for the export. "": not known.
std::string nodeName(const MachineOptions& options, const std::string& file) {
  if (!options.elsewhere() && file.empty()) return hostName();
  std::string named = !file.empty() ? file : !options.root.empty() ? options.root : options.host;
  if (named.empty()) named = options.software;
  named = std::filesystem::path(named).filename().string();
  return topo::dnsLabel(named.substr(0, named.find('.')));
}

}  // namespace

int topoExportCommand(Args args) {
  MachineOptions machine;
  topo::ExportOptions options;
  Writer writer = nullptr;
  std::string output;
  std::vector<Option> table = {
      choiceOption<Writer>('F', "for", kForms, &writer, "the form: slurm, ucx, nixl, env or hwloc-xml"),
      outputOption(&output),
      textOption(0, "node", "NAME", &options.node,
                 "slurm: the host's name in the cluster (default: this host's, or that of the file)"),
      textOption(0, "topo-file", "PATH", &options.topo_file,
                 "env: sets NCCL_TOPO_FILE to PATH, where the topology file lies on the host (default for "
                 "this machine: as it is set here)")};
  addMachineOptions(table, machine);
  int status = kExitOk;
  const auto arguments = parseOrLeave(kExport, table, args, kExportHelp, 1, &status);
  if (!arguments) return status;
  if (writer == nullptr)
    return leave(kExitUsage, "%s: for which program? --for slurm, ucx, nixl, env or hwloc-xml", kExport);
  takeRecording(machine);
  const std::string file = arguments->first();
  const auto opened = openMachine(kExport, file, machine, &status);
  if (!opened) return status;
  // The machine itself is read as NCCL reads it, with the file that this variable names.
  const char* const topo_file =
      machine.elsewhere() || !file.empty() ? nullptr : std::getenv("NCCL_TOPO_FILE");
  if (options.topo_file.empty() && topo_file != nullptr) options.topo_file = topo_file;
  if (options.node.empty()) options.node = nodeName(machine, file);
  if (machine.elsewhere() || file.empty()) {
    const auto tree = openMachineTree(kExport, machine, &status);
    if (!tree) return status;
    options.facts = topo::readDeviceFacts(*tree);
  }
  const topo::Exported exported = writer(*opened, options);
  if (!exported.ok())
    return leave(exported.failure().code == Code::kInvalidArgument ? kExitUsage : kExitFailed, "%s: %s",
                 kExport, exported.error().c_str());
  if (!machine.quiet) sayNotes(kExport, exported->notes);
  return writeOutput(kExport, output, exported->text);
}

}  // namespace railwise::cli
