// railwise perf: decides whether this process is the launcher or a rank, and runs it.
#include "perf/command.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "cli/options/message.h"
#include "cli/plugin/device_choice.h"
#include "perf/collective/rank.h"
#include "perf/conduct.h"
#include "perf/job/rank_environment.h"
#include "perf/launch.h"
#include "perf/options.h"

namespace railwise::cli {
namespace {

constexpr int kDefaultRanks = 2;

int usageError(const std::string& error) {
  say("%s (railwise perf --help lists what there is)", error.c_str());
  return kExitUsage;
}

// Reports an error in --plugin or --api once, before there are ranks that would all report it.
int checkPlugin(const PluginOptions& options) {
  const auto plugin = loadPlugin(options);
  if (plugin.ok()) return kExitOk;
  say("%s", plugin.error().c_str());
  return plugin.failure().code == Code::kInvalidUsage ? kExitUsage : kExitFailed;
}

int startRanks(PerfOptions options, Args args) {
  useOwnFabric("perf" + std::to_string(getpid()));
  if (const int status = checkPlugin(options.plugin); status != kExitOk) return status;
  if (options.ranks == 0) options.ranks = kDefaultRanks;
  const bool fallback = !options.faults && needsSoftwareDevice(options.plugin);
  std::vector<const char*> rank_args = {"perf"};
  rank_args.insert(rank_args.end(), args.begin(), args.end());
  return launchPerf(options, rank_args, fallback);
}

}  // namespace

int perfCommand(Args args) {
  const auto command = parsePerf(args);
  if (!command.ok()) return usageError(command.error());
  if (command->help) {
    std::fputs(perfHelp().c_str(), stdout);
    return kExitOk;
  }
  const PerfOptions& options = command->options;
  if (options.dry_run) {
    printSchedule(options);
    return kExitOk;
  }
  if (!options.conduct.empty()) return conductFaults(options);
  setPluginLog(options.plugin.verbose ? PluginLog::kInfo : PluginLog::kWarn);
  const bool child = std::getenv(kLauncherVariable) != nullptr;
  if (child || options.ranks == 0) {
    const auto found = rankFromEnvironment(std::getenv, options.address);
    if (!found.ok()) return usageError("perf: " + found.error());
    const auto& identity = *found;
    if (identity && !child && !options.timeline.empty())
      return usageError("perf: option --timeline: it needs the ranks to be started here, with --ranks N");
    if (identity) {
      if (!child) useOwnFabric(fabricOfJob(*identity));
      return runRank(options, *identity);
    }
    if (!options.address.empty())
      return usageError("perf: option --address: no job of mpirun, srun or torchrun started this process");
  }
  return startRanks(options, args);
}

}  // namespace railwise::cli
