// railwise perf: decides who this process is, the launcher or one rank, and becomes it.
#include "perf/command.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "cli/options/message.h"
#include "cli/plugin/device_choice.h"
#include "perf/collective/rank.h"
#include "perf/conduct.h"
#include "perf/job/own_fabric.h"
#include "perf/launch.h"
#include "perf/options.h"

namespace railwise::tools {
namespace {

constexpr int kDefaultRanks = 2;

int usageError(const std::string& error) {
  say("%s (railwise perf --help lists what there is)", error.c_str());
  return kExitUsage;
}

// Says what is wrong with --plugin and --api once, before there are ranks that would all say it.
int checkPlugin(const PluginOptions& options) {
  std::string error;
  const auto plugin = loadPlugin(options, &error);
  if (plugin.ok()) return kExitOk;
  say("%s", error.c_str());
  return plugin.status().code == Code::kInvalidUsage ? kExitUsage : kExitFailed;
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
  std::string error;
  const auto command = parsePerf(args, &error);
  if (!command) return usageError(error);
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
    const auto identity = rankFromEnvironment(std::getenv, options.address, &error);
    if (identity && !child && !options.timeline.empty())
      return usageError("perf: option --timeline: it needs the ranks to be started here, with --ranks N");
    if (identity) {
      if (!child) useOwnFabric(fabricOfJob(*identity));
      return runRank(options, *identity);
    }
    if (!error.empty()) return usageError("perf: " + error);
    if (!options.address.empty())
      return usageError("perf: option --address: no job of mpirun, srun or torchrun started this process");
  }
  return startRanks(options, args);
}

}  // namespace railwise::tools
