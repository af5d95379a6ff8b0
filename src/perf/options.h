// Reads the command line of `railwise perf`.
#pragma once

#include <span>

#include "cli/options/help_page.h"
#include "perf/results/run_options.h"

namespace railwise::cli {

struct PerfCommand {
  PerfOptions options;
  bool help = false;
};

// An error is a usage error.
Outcome<PerfCommand> parsePerf(std::span<const char* const> args);
HelpPage perfHelp();

// The steps of parsePerf(), for a program that has options of its own beside these (tests/campaign). The
// options of `fields`, which must live longer than the table.
std::vector<Option> perfOptionTable(PerfOptions& fields);
// Reads the command line by `table`. With --help, `help` becomes true and nothing else counts.
Outcome<void> readPerf(std::span<const Option> table, std::span<const char* const> args, PerfOptions& options,
                       bool& help);
// Settles the number of ranks, and checks what options forbid together. `drawn`: options.ranks is none that
// the user gave.
Outcome<void> settlePerf(PerfOptions& options, bool drawn);

}  // namespace railwise::cli
