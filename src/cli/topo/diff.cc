// railwise topo diff: compares two machines, or one machine as two versions of NCCL see it.
#include <algorithm>

#include "base/files.h"
#include "cli/device/machine.h"
#include "cli/options/command_line.h"
#include "cli/options/commands.h"
#include "cli/options/message.h"
#include "cli/topo/machine_options.h"
#include "topo/outputs/outputs.h"

namespace railwise::cli {
namespace {

constexpr const char* kTopoDiffHelp =
    "usage: railwise topo diff A [B] [options]\n"
    "       railwise topo diff A [--nccl=2.30] --against-nccl=2.31 [options]\n"
    "       railwise topo diff A --against-hca=^=mlx5_3 [options]\n\n"
    "What differs in devices, links, paths and choices; with --against-nccl what an upgrade of NCCL changes "
    "on A, with --against-hca what A would be without a NIC. --nccl and --hca are of both machines. A and B "
    "are topology files, - for standard input, or /sys trees (a folder or a .tar.gz of "
    "railwise topo record); --machine and --root name A or B too, and --machine may be given twice. Without "
    "B: this machine.\n"
    "Exit status: 0 nothing differs, 1 something does, 2 a machine cannot be read, or a mistake on the "
    "command line.\n\n";

constexpr const char* kTopoDiff = "topo diff";

// Which machine an operand is.
struct Operand {
  std::string file;
  std::string root;
  std::string software;
  std::string host;
};

// The machines in the order of the command line; --host belongs to the --machine before it. Nothing: there is
// none before it.
std::optional<std::vector<Operand>> operandsOf(const Arguments& arguments) {
  std::vector<Operand> operands;
  for (const auto& [option, value] : arguments.given) {
    if (option.empty())
      operands.push_back(isRecording(value) ? Operand{.root = value} : Operand{.file = value});
    if (option == "root") operands.push_back({.root = value});
    if (option == "machine") operands.push_back({.software = value});
    if (option != "host") continue;
    const auto machine = std::find_if(operands.rbegin(), operands.rend(),
                                      [](const Operand& operand) { return !operand.software.empty(); });
    if (machine == operands.rend()) return std::nullopt;
    machine->host = value;
  }
  return operands;
}

std::optional<topo::Machine> open(const Operand& operand, MachineOptions options) {
  options.root = operand.root;
  options.software = operand.software;
  options.host = operand.host;
  int status = kExitOk;  // not used: 1 would say that something differs
  return openMachine(kTopoDiff, operand.file, options, &status);
}

// Each note once.
void sayNotesOfBoth(const topo::Machine& left, const topo::Machine& right) {
  std::vector<std::string> notes = left.remarks;
  for (const std::string& note : right.remarks)
    if (std::ranges::find(notes, note) == notes.end()) notes.push_back(note);
  sayNotes(kTopoDiff, notes);
}

}  // namespace

int topoDiffCommand(Args args) {
  MachineOptions options;
  Output output;
  std::optional<topo::NcclChoice> against_nccl;
  std::string against_hca;
  std::vector<Option> table = {
      ncclOption("against-nccl", &against_nccl, "compare A with itself under another NCCL, such as 2.31"),
      textOption(0, "against-hca", "LIST", &against_hca,
                 "compare A with itself with these NICs, as NCCL_IB_HCA: ^=mlx5_3 is all but mlx5_3")};
  addOutputOptions(table, output);
  addMachineOptions(table, options);
  int status = kExitOk;
  const auto arguments = parseOrLeave(kTopoDiff, table, args, kTopoDiffHelp, 2, &status);
  if (!arguments) return status;
  auto operands = operandsOf(*arguments);
  if (!operands) return leave(kExitUsage, "topo diff: --host is a host of the --machine before it");
  const bool against = against_nccl || !against_hca.empty();
  const std::size_t wanted = against ? 1 : 2;
  if (operands->empty() || operands->size() > wanted)
    return leave(
        kExitUsage,
        "topo diff: give two machines, or one and --against-nccl or --against-hca (railwise topo diff "
        "--help)");
  operands->resize(wanted);
  if (wanted == 2 && operands->front().file == kStandardInput && operands->back().file == kStandardInput)
    return leave(kExitUsage, "topo diff: - is standard input, and cannot be both machines");
  options.say_remarks = false;
  // A pipe can be read once, and where A is compared with itself the file is both machines.
  Outcome<std::string> pipe = Error{"not read"};
  if (const std::string& file = operands->front().file; against && !file.empty())
    pipe = wholeFile(file == kStandardInput ? "/dev/stdin" : file);
  if (pipe.ok()) options.file_text = &*pipe;
  const auto left = open(operands->front(), options);
  MachineOptions other = options;
  if (against_nccl) other.nccl = against_nccl;
  if (!against_hca.empty()) other.hca = against_hca;
  const auto right = left ? open(operands->back(), other) : std::nullopt;
  if (!right) return kExitUsage;
  if (!options.quiet) sayNotesOfBoth(*left, *right);
  const auto differences = topo::diff(*left, *right);
  const std::string text =
      output.json() ? topo::diffJson(*left, *right, differences) : topo::diffText(*left, *right, differences);
  if (writeOutput(kTopoDiff, output, text) != kExitOk) return kExitUsage;
  return differences.empty() ? kExitOk : kExitFailed;
}

}  // namespace railwise::cli
