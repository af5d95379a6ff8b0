// railwise topo transports: how NCCL connects each pair of GPUs, and why.
#include "topo/transports/transports.h"

#include <algorithm>

#include "cli/options/command_line.h"
#include "cli/options/commands.h"
#include "cli/options/message.h"
#include "cli/topo/machine_options.h"
#include "topo/outputs/outputs.h"

namespace railwise::cli {
namespace {

constexpr const char* kTransportsHelp =
    "usage: railwise topo transports [FILE] [--root DIR|TAR] [options]\n\n"
    "How NCCL connects each pair of GPUs, and why: P2P (by a pointer, CUDA IPC, cuMem or over an NVLink "
    "domain; directly or via a third GPU; the sender writes or the receiver reads), SHM, or NET with the "
    "NICs of both ends. NCCL's variables (NCCL_P2P_LEVEL, NCCL_SHM_DISABLE, NCCL_CUMEM_ENABLE, ...) count. "
    "With --from and --to: every step of the choice, and the line of NCCL's log that shows it.\n"
    "Exit status: 0 all right, 1 the machine cannot be read, 2 a mistake on the command line (also a GPU "
    "that is not there).\n\n";

bool hasRank(const topo::Transports& transports, const char* option, int rank) {
  const std::vector<int>& ranks = transports.ranks();
  if (rank < 0 || std::binary_search(ranks.begin(), ranks.end(), rank)) return true;
  say("topo transports: %s=%d: this machine has no GPU with rank %d; its ranks are %d to %d", option, rank,
      rank, ranks.front(), ranks.back());
  return false;
}

}  // namespace

int topoTransportsCommand(Args args) {
  MachineOptions machine;
  topo::TransportsShown shown;
  bool one_process = false;
  Output output;
  std::vector<Option> table = {
      intOption(0, "from", &shown.from, 0, 1 << 20, "only the pairs that this rank sends in"),
      intOption(0, "to", &shown.to, 0, 1 << 20, "only the pairs that this rank receives in"),
      intOption('n', "nodes", &shown.nodes, 1, 2, "2: also to another host like this (default 1)"),
      intOption('c', "channel", &shown.channel, 0, 63, "the NICs of this channel (default 0)"),
      flagOption(0, "one-process", &one_process,
                 "the GPUs of a host belong to one process (default: a process for each)")};
  addOutputOptions(table, output);
  addMachineOptions(table, machine);
  int status = kExitOk;
  const auto arguments = parseOrLeave("topo transports", table, args, kTransportsHelp, 1, &status);
  if (!arguments) return status;
  machine.say_remarks = output.json();  // the text itself contains the notes
  const auto opened = openMachine("topo transports", arguments->first(), machine, &status);
  if (!opened) return status;
  topo::Job job = topo::jobOn(*opened);
  job.one_process = one_process;
  const topo::Transports transports(*opened, job);
  if (!hasRank(transports, "--from", shown.from) || !hasRank(transports, "--to", shown.to)) return kExitUsage;
  if (shown.from >= 0 && shown.from == shown.to && shown.nodes == 1)
    return leave(
        kExitUsage,
        "topo transports: a GPU needs no transport to itself; --nodes=2 shows the pair of two hosts");
  return writeOutput(
      "topo transports", output,
      output.json() ? topo::transportsJson(transports, shown) : topo::transportsText(transports, shown));
}

}  // namespace railwise::cli
