// The subcommands that are about a topology: those of `railwise topo`, and `railwise explain`.
#pragma once

#include "cli/options/options.h"

namespace railwise::tools {

// Each takes the arguments behind its name and answers the exit status of the command.
int topoCommand(Args args);
int topoShowCommand(Args args);
int topoPathsCommand(Args args);
int topoLintCommand(Args args);
int topoDiffCommand(Args args);
int topoGenerateCommand(Args args);
int topoRecordCommand(Args args);
int explainCommand(Args args);

}  // namespace railwise::tools
