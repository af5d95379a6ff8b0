// The subcommands about topologies: those of `railwise topo`, and `railwise explain`.
#pragma once

#include "cli/options/options.h"

namespace railwise::cli {

// Each function takes the arguments after the subcommand's name and returns the exit status.
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
int explainCommand(Args args);

}  // namespace railwise::cli
