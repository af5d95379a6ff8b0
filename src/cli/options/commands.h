// The commands of railwise. main.cc takes the first word of a command line to one of them; `device`,
// `doctor`, `gpus` and `topo` take the second word to theirs.
#pragma once

#include <span>

#include "cli/options/help_page.h"
#include "cli/options/options.h"

namespace railwise::cli {

// Each takes the arguments after its own name and returns the exit status.
int benchCommand(Args args);
int configCommand(Args args);
int conformCommand(Args args);
int demoCommand(Args args);
int deviceCommand(Args args);
int deviceRunCommand(Args args);
int deviceListCommand(Args args);
int deviceShowCommand(Args args);
int deviceSysfsCommand(Args args);
int deviceFaultCommand(Args args);
int devicePortCommand(Args args);
int deviceStatsCommand(Args args);
int devicesCommand(Args args);
int doctorCommand(Args args);
int doctorHealthCommand(Args args);
int doctorLogCommand(Args args);
int doctorPairCommand(Args args);
int doctorWatchCommand(Args args);
int explainCommand(Args args);
int fingerprintCommand(Args args);
int gpusCommand(Args args);
int gpusPickCommand(Args args);
int gpusFitnessCommand(Args args);
int metricsCommand(Args args);
int perfCommand(Args args);
int postmortemCommand(Args args);
int stuckCommand(Args args);
int topCommand(Args args);
int topoCommand(Args args);
int topoShowCommand(Args args);
int topoExpectCommand(Args args);
int topoExportCommand(Args args);
int topoTransportsCommand(Args args);
int topoGraphsCommand(Args args);
int topoLintCommand(Args args);
int topoDiffCommand(Args args);
int topoGenerateCommand(Args args);
int topoRecordCommand(Args args);
int versionCommand(Args args);

// Prints the help, or the man page, of the command itself or of a subcommand. `top`: prints the help of the
// command itself; `commands`: all that it has, these two included; `topics`: pages that several commands
// refer to.
int helpCommand(Args args, std::span<const Subcommand> commands, std::span<const Subcommand> topics,
                int (*top)());
int machinesHelp(Args args);
// Prints the completion script of a shell.
int completionCommand(Args args, std::span<const Subcommand> commands);

}  // namespace railwise::cli
