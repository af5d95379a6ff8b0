// railwise-campaign perf COLLECTIVE --faults SEED: a run of `railwise perf` while things go wrong. This
// program starts itself for each rank, as `railwise perf` does.
#include <unistd.h>

#include <cstdlib>
#include <string_view>
#include <vector>

#include "cli/options/command_line.h"
#include "cli/options/help_page.h"
#include "cli/options/message.h"
#include "cli/options/options.h"
#include "cli/plugin/plugin_loader.h"
#include "perf/collective/rank.h"
#include "perf/collective/traffic.h"
#include "perf/context.h"
#include "perf/job/rank_environment.h"
#include "perf/results/record.h"
#include "tests/campaign/options.h"
#include "tests/campaign/run.h"

namespace railwise::cli {
namespace {

int usageError(const std::string& error) {
  say("%s (railwise-campaign perf --help lists what there is)", error.c_str());
  return kExitUsage;
}

int startRank(const FaultOptions& options) {
  const auto identity = rankFromEnvironment(std::getenv, options.address);
  if (!identity.ok()) return usageError(identity.error());
  return runRank(options, **identity, knowledgeOfMachine(), nullptr);
}

int startRanks(const FaultOptions& options, Args args) {
  useOwnFabric("perf" + std::to_string(getpid()));
  // Mistakes that every rank would report, or that would be found when the run has ended.
  if (const auto table = openTable(options); !table.ok()) return usageError(table.error());
  if (const auto files = checkOutputs(options); !files.ok()) return usageError(files.error());
  std::vector<const char*> rank_args = {"perf"};
  rank_args.insert(rank_args.end(), args.begin(), args.end());
  return runWithFaults(options, rank_args);
}

int run(Args args) {
  const bool named = !args.empty() && std::string_view(args[0]) == "perf";
  if (!named) return usageError("railwise-campaign perf COLLECTIVE --faults SEED");
  args = args.subspan(1);
  const auto command = parseFaults(args);
  if (!command.ok()) return usageError(command.error());
  if (command->help) return showHelp(faultsHelp()), kExitOk;
  const FaultOptions& options = command->options;
  if (options.dry_run) return printSchedule(options), kExitOk;
  if (!options.conduct.empty()) return conductFaults(options);
  setPluginLog(options.plugin.verbose ? PluginLog::kInfo : PluginLog::kWarn);
  return std::getenv(kLauncherVariable) != nullptr ? startRank(options) : startRanks(options, args);
}

}  // namespace
}  // namespace railwise::cli

int main(int argc, char** argv) {
  const auto count = static_cast<std::size_t>(argc > 0 ? argc - 1 : 0);
  return railwise::cli::finishOutput(railwise::cli::run({argv + 1, count}));
}
