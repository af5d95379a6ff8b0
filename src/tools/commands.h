// The subcommands: each takes the arguments behind its name and answers the exit status of the command.
#pragma once

#include <span>

namespace railwise::tools {

using Args = std::span<const char* const>;

int runCommand(Args args);  // the whole command line, without the executable

int perfCommand(Args args);
int benchCommand(Args args);
int devicesCommand(Args args);
int configCommand(Args args);
int explainCommand(Args args);

int deviceCommand(Args args);
int deviceRunCommand(Args args);
int deviceListCommand(Args args);
int deviceShowCommand(Args args);
int deviceSysfsCommand(Args args);
int deviceFaultCommand(Args args);
int devicePortCommand(Args args);
int deviceStatsCommand(Args args);

int topoCommand(Args args);
int topoShowCommand(Args args);
int topoPathsCommand(Args args);
int topoLintCommand(Args args);
int topoDiffCommand(Args args);
int topoGenerateCommand(Args args);
int topoRecordCommand(Args args);

}  // namespace railwise::tools
