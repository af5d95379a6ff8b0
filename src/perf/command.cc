// railwise perf: decides whether this process is the launcher or a rank, and runs it.
#include "perf/command.h"

#include <unistd.h>

#include <cstdlib>
#include <optional>

#include "cli/options/help_page.h"
#include "cli/options/message.h"
#include "cli/plugin/behind_drop_in.h"
#include "cli/plugin/device_choice.h"
#include "perf/collective/rank.h"
#include "perf/job/rank_environment.h"
#include "perf/launch.h"
#include "perf/machine.h"
#include "perf/options.h"
#include "perf/results/comparison.h"
#include "perf/results/document.h"

namespace railwise::cli {
namespace {

constexpr int kDefaultRanks = 2;

int usageError(const std::string& error) {
  say("%s (railwise perf --help lists what there is)", error.c_str());
  return kExitUsage;
}

// Reports an error in --plugin or --api once, before there are ranks that would all report it.
int checkPlugin(const PluginOptions& options, std::string* name) {
  const auto plugin = loadPlugin(options);
  if (plugin.ok()) *name = plugin->api->name();
  if (plugin.ok()) return kExitOk;
  say("%s", plugin.error().c_str());
  return plugin.failure().code == Code::kInvalidUsage ? kExitUsage : kExitFailed;
}

// Mistakes that would otherwise be found when the run has ended, or by every rank.
Outcome<void> checkFiles(const PerfOptions& options) {
  if (auto outputs = checkOutputs(options); !outputs.ok()) return outputs;
  if (options.against.empty()) return {};
  const auto saved = readSavedRun(options.against);
  if (!saved.ok()) return Error{"option --against: " + saved.error()};
  const std::string why = notComparable(*saved, options, options.ranks);
  return why.empty() ? Outcome<void>() : Error{"option --against: " + why};
}

int startRanks(PerfOptions options, Args args) {
  useOwnFabric("perf" + std::to_string(getpid()));
  std::string name;
  if (const int status = checkPlugin(options.plugin, &name); status != kExitOk) return status;
  if (options.ranks == 0) options.ranks = kDefaultRanks;
  if (const auto possible = checkRanks(options); !possible.ok())
    return usageError("perf: " + possible.error());
  if (const auto files = checkFiles(options); !files.ok()) return usageError("perf: " + files.error());
  const bool fallback = needsSoftwareDevice(options.plugin);
  if (!fallback && needsDropIn(options.plugin, name)) return runBehindDropIn("perf", options.plugin, args);
  std::vector<const char*> rank_args = {"perf"};
  rank_args.insert(rank_args.end(), args.begin(), args.end());
  return launchPerf(options, rank_args, fallback);
}

int startRank(const PerfOptions& options, const RankIdentity& identity, bool child, Args args) {
  // The launcher of railwise perf has decided it for all ranks.
  if (!child && !namesOwnPlugin(options.plugin.plugin)) {
    std::string name;
    if (const int status = checkPlugin(options.plugin, &name); status != kExitOk) return status;
    if (needsDropIn(options.plugin, name)) return runBehindDropIn("perf", options.plugin, args);
  }
  // The launcher has tried the files already.
  if (identity.rank == 0 && !child) {
    if (const auto outputs = checkOutputs(options); !outputs.ok())
      return usageError("perf: " + outputs.error());
  }
  std::optional<SavedRun> against;
  if (identity.rank == 0 && !options.against.empty()) {
    auto saved = readSavedRun(options.against);
    if (!saved.ok()) return usageError("perf: option --against: " + saved.error());
    against = std::move(*saved);
  }
  return runRank(options, identity, knowledgeOfMachine(), against ? &*against : nullptr);
}

}  // namespace

int perfCommand(Args args) {
  const auto command = parsePerf(args);
  if (!command.ok()) return usageError(command.error());
  if (command->help) {
    showHelp(perfHelp());
    return kExitOk;
  }
  const PerfOptions& options = command->options;
  setPluginLog(options.plugin.verbose ? PluginLog::kInfo : PluginLog::kWarn);
  const bool child = std::getenv(kLauncherVariable) != nullptr;
  const bool by_gpus = options.gpus * options.threads > 1;
  if (child || options.ranks == 0 || by_gpus) {
    const auto found = rankFromEnvironment(std::getenv, options.address);
    if (!found.ok()) return usageError("perf: " + found.error());
    const auto& identity = *found;
    if (identity && !child && by_gpus)
      return usageError("perf: options -g and -t: this process is one rank already (" + identity->source +
                        "): start more processes instead");
    if (identity && !child && !options.timeline.empty())
      return usageError("perf: option --timeline: it needs the ranks to be started here, with --ranks N");
    if (identity) {
      if (!child) useOwnFabric(fabricOfJob(*identity));
      return startRank(options, *identity, child, args);
    }
    if (!options.address.empty())
      return usageError("perf: option --address: no job of mpirun, srun or torchrun started this process");
  }
  return startRanks(options, args);
}

}  // namespace railwise::cli
