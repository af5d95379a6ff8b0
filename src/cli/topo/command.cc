// railwise topo: the subcommands that read, make, check, compare and draw topologies.
#include <array>

#include "cli/options/command_line.h"
#include "cli/options/commands.h"
#include "cli/options/message.h"
#include "cli/options/options.h"

namespace railwise::cli {
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
