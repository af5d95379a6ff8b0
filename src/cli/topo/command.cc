// railwise topo: the subcommands that read, make, check, compare and draw topologies.
#include <array>

#include "cli/options/command_line.h"
#include "cli/options/commands.h"
#include "cli/options/message.h"
#include "cli/options/options.h"
#include "cli/topo/machine_options.h"
#include "sysfs/tar_archive.h"
#include "topo/outputs/outputs.h"
#include "topo/sources/gpu_answers.h"
#include "topo/sources/record.h"

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

namespace {

constexpr const char* kTopoRecordHelp =
    "usage: railwise topo record OUT.tar.gz [options]\n\n"
    "Packs what `railwise topo` and `railwise explain` need of this machine, so that they can answer for it "
    "elsewhere (--root OUT.tar.gz): the PCI tree, RDMA devices, NUMA nodes, the CPU's identity, what the "
    "libraries of NVIDIA and AMD say of the GPUs, versions for `railwise fingerprint`. No serial numbers, "
    "addresses or host name; only GUIDs and the UUID of an NVLink domain, and --anonymise replaces those.\n"
    "Exit status: 0 all right, 1 nothing recorded, 2 a mistake on the command line.\n\n";

// The name of the folder in the archive.
std::string folderName(const std::string& path) {
  const std::string name = sysfs::archiveName(path);
  return name.empty() ? "machine" : name;
}

}  // namespace

int topoRecordCommand(Args args) {
  topo::RecordOptions options;
  MachineOptions machine;
  std::vector<Option> table = {
      flagOption(0, "anonymise", &options.anonymise, "number the GUIDs instead of recording them")};
  addWhichMachine(table, machine);
  int status = kExitOk;
  const auto arguments = parseOrLeave("topo record", table, args, kTopoRecordHelp, 1, &status);
  if (!arguments) return status;
  if (arguments->positional.empty())
    return leave(kExitUsage, "topo record: which file to write? (railwise topo record --help)");
  const std::string& path = arguments->positional[0];
  const auto tree = openMachineTree("topo record", machine, &status);
  if (!tree) return status;
  auto answers = topo::askForGpus(*tree, !machine.elsewhere(), Config::load());
  if (!answers.ok()) return leave(kExitFailed, "topo record: %s", answers.error().c_str());
  if (*answers != nullptr) sayNotes("topo record", (*answers)->remarks);
  options.gpu_answers = std::move(*answers);
  const auto recorded = topo::recordTree(*tree, options);
  if (!recorded.ok()) return leave(kExitFailed, "topo record: %s", recorded.error().c_str());
  const auto archive = sysfs::writeArchive(*recorded, folderName(path));
  if (!archive.ok()) return leave(kExitFailed, "topo record: %s", archive.error().c_str());
  const int written = writeOutput("topo record", path, *archive);
  if (written == kExitOk)
    say("topo record: %zu entries, %zu bytes in %s", recorded->items().size(), archive->size(), path.c_str());
  return written;
}

namespace {

constexpr std::array<Subcommand, 9> kTopoSubcommands = {{
    {"show", topoShowCommand, "the machine as matrix, json, xml, svg or html"},
    {"transports", topoTransportsCommand, "how each pair of GPUs is connected: P2P, SHM, NET, and why"},
    {"lint", topoLintCommand, "check a topology file for NCCL's traps"},
    {"diff", topoDiffCommand, "what differs between two machines, or between two versions of NCCL"},
    {"generate", topoGenerateCommand, "make the topology file that a VM's flat /sys hides"},
    {"record", topoRecordCommand, "pack what of this machine's /sys is needed elsewhere"},
    {"export", topoExportCommand, "the machine for Slurm, UCX, NIXL, shells or hwloc"},
    {"expect", topoExpectCommand, "the time and bandwidth of a collective, by NCCL's own model"},
    {"graphs", topoGraphsCommand, "the rings and trees that NCCL's search finds, and why"},
}};

}  // namespace

int topoCommand(Args args) {
  return runSubcommand("topo", kTopoSubcommands,
                       "railwise topo SUBCOMMAND --help lists its options. See also: railwise explain", args);
}

}  // namespace railwise::cli
