// railwise topo show: writes a machine in all forms.
#include "cli/options/command_line.h"
#include "cli/options/commands.h"
#include "cli/options/message.h"
#include "cli/paste/paste.h"
#include "cli/topo/machine_options.h"
#include "topo/outputs/outputs.h"

namespace railwise::cli {
namespace {

std::string text(const topo::Machine& machine, const Output& output) {
  if (output.json()) return topo::topologyJson(machine);
  if (output.is("xml")) return topo::writeXml(*machine.xml);
  if (output.is("svg")) return topo::svgText(machine);
  return output.is("html") ? topo::htmlText(machine)
                           : topo::matrixText(machine, terminalColumns(output.file));
}

constexpr const char* kShowHelp =
    "usage: railwise topo show [FILE] [--root DIR|TAR] [options]\n\n"
    "Shows the machine as NCCL sees it: FILE is an NCCL (or RCCL) topology file, - standard input; --root "
    "the /sys of a machine; both together the machine with NCCL_TOPO_FILE=FILE; neither this machine. NCCL's "
    "variables (NCCL_P2P_LEVEL, NCCL_NET_MERGE_LEVEL, ...) change the answers as they change NCCL's.\n"
    "Exit status: 0 all right, 1 the machine cannot be read, 2 a mistake on the command line.\n\n";

}  // namespace

int topoShowCommand(Args args) {
  MachineOptions machine;
  Output output;
  std::vector<Option> table;
  addOutputOptions(table, output, {"matrix", "json", "xml", "svg", "html"});
  addMachineOptions(table, machine);
  int status = kExitOk;
  const auto arguments = parseOrLeave("topo show", table, args, kShowHelp, 1, &status);
  if (!arguments) return status;
  bool without_gpus = false;
  const std::string file = arguments->first();
  if (file.empty() && output.is("matrix") && output.file.empty()) machine.without_gpus = &without_gpus;
  if (const auto paste = reportPaste("topo show", file)) return *paste;
  auto opened = openMachine("topo show", file, machine, &status);
  if (without_gpus) return showWithoutGpus("topo show", machine);
  if (!opened) return status;
  // The page draws the graphs.
  if (output.is("html") && !takeGraphFile("topo show", "", machine.quiet, *opened)) return kExitFailed;
  return writeOutput("topo show", output, text(*opened, output));
}

}  // namespace railwise::cli
