// railwise topo record: packs a machine's /sys without private data.
#include "topo/sources/record.h"

#include "cli/options/command_line.h"
#include "cli/options/commands.h"
#include "cli/options/message.h"
#include "cli/topo/machine_options.h"
#include "sysfs/tar_archive.h"
#include "topo/sources/gpu_answers.h"

namespace railwise::cli {
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

}  // namespace railwise::cli
