// railwise topo diff: compares two machines, or one machine as two versions of NCCL see it.
#include <sys/stat.h>

#include <cstdio>

#include "cli/options/command_line.h"
#include "cli/options/commands.h"
#include "cli/options/message.h"
#include "cli/topo/machine_options.h"
#include "topo/outputs/outputs.h"

namespace railwise::cli {
namespace {

constexpr const char* kTopoDiffHelp =
    "usage: railwise topo diff A B [options]\n"
    "       railwise topo diff A [--nccl=2.30] --against-nccl=2.31 [options]\n\n"
    "What differs in devices, links, paths and choices; with --against-nccl what an upgrade of NCCL changes "
    "on A. A and B are topology files, /sys trees (a folder or a .tar.gz of railwise topo record), or - for "
    "this machine.\n"
    "Exit status: 0 nothing differs, 1 something does (or a machine cannot be read), 2 a mistake on the "
    "command line.\n\n";

bool isTree(const std::string& path) {
  struct stat info = {};
  if (stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode)) return true;
  return path.ends_with(".tar.gz") || path.ends_with(".tgz") || path.ends_with(".tar");
}

std::optional<topo::Machine> open(const std::string& operand, MachineOptions options) {
  if (operand == "-") return openMachine("topo diff", "", options);
  if (!isTree(operand)) return openMachine("topo diff", operand, options);
  options.root = operand;
  return openMachine("topo diff", "", options);
}

}  // namespace

int topoDiffCommand(Args args) {
  MachineOptions options;
  bool as_json = false;
  std::optional<topo::NcclChoice> against;
  std::vector<Option> table = {
      flagOption(0, "json", &as_json, "print JSON"),
      ncclOption("against-nccl", &against, "compare A with itself under another NCCL, such as 2.31")};
  addMachineOptions(table, options);
  int status = kExitOk;
  const auto arguments = parseOrLeave("topo diff", table, args, kTopoDiffHelp, 2, &status);
  if (!arguments) return status;
  const auto& operands = arguments->positional;
  if (operands.size() != (against ? 1U : 2U))
    return leave(kExitUsage,
                 "topo diff: give two machines, or one and --against-nccl (railwise topo diff --help)");
  const auto left = open(operands[0], options);
  MachineOptions other = options;
  if (against) other.nccl = against;
  const auto right = left ? open(against ? operands[0] : operands[1], other) : std::nullopt;
  if (!right) return kExitUsage;
  const auto differences = topo::diff(*left, *right);
  std::fputs(
      (as_json ? topo::diffJson(*left, *right, differences) : topo::diffText(*left, *right, differences))
          .c_str(),
      stdout);
  return differences.empty() ? kExitOk : kExitFailed;
}

}  // namespace railwise::cli
