// railwise perf: decides whether this process is the launcher or a rank, and runs it.
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <span>

#include "cli/device/machine.h"
#include "cli/observe/records.h"
#include "cli/options/commands.h"
#include "cli/options/help_page.h"
#include "cli/options/message.h"
#include "cli/plugin/plugin_loader.h"
#include "perf/collective/rank.h"
#include "perf/collective/traffic.h"
#include "perf/context.h"
#include "perf/job/launcher.h"
#include "perf/job/rank_environment.h"
#include "perf/options.h"
#include "perf/results/comparison.h"
#include "perf/results/record.h"
#include "perf/results/run_options.h"
#include "perf/timeline/timeline.h"
#include "record/file.h"
#include "record/reader.h"

namespace railwise::cli {
namespace {

// The launcher of `railwise perf`: it starts the ranks, and with --timeline it follows what they receive.
// Main thread.

constexpr std::chrono::milliseconds kTickPeriod{1};

// The fabric that the ranks will use. "": they use real devices.
std::string fabricOfRanks(const PerfOptions& options, bool software_fallback) {
  const char* const variable = std::getenv("RAILWISE_DEVICE");
  std::string device = options.plugin.device != "auto" ? options.plugin.device
                       : variable != nullptr           ? variable
                                                       : "";
  if (software_fallback) device = "software";
  if (!device.starts_with("software")) return "";
  const std::size_t colon = device.find(':');
  // Perf has set it with useOwnFabric().
  if (colon == std::string::npos) return std::getenv("RAILWISE_FABRIC");
  const std::string machine = device.substr(colon + 1);
  const auto parsed = openDeviceMachine("perf", {.machine = machine});
  return parsed ? parsed->config.fabric : "";
}

// The reader of the output has seen enough. Nothing has gone wrong, so no record need tell what.
int endQuietly(const Launched& launched) {
  const std::vector<uint32_t> pids(launched.pids.begin(), launched.pids.end());
  (void)record::removeRecordsOf(chosenRecordFolder(""), geteuid(), pids);
  return launched.exit_status;
}

// The records of `pids` that can be read. A rank whose run had no failure has removed its own.
std::vector<record::Snapshot> recordsOf(std::span<const int> pids) {
  std::vector<record::Snapshot> found;
  for (const record::RecordFile& file : record::listRecords(chosenRecordFolder(""), geteuid())) {
    if (std::find(pids.begin(), pids.end(), static_cast<int>(file.pid)) == pids.end()) continue;
    auto read = record::readRecord(file.path, geteuid());
    if (read.ok()) found.push_back(std::move(*read));
  }
  return found;
}

// Prints what the run has survived, and returns it. After a failure the ranks' messages say what happened: a
// peer that died is no port that failed.
std::string printSurvived(const PerfOptions& options, const Launched& launched) {
  if (launched.exit_status != kExitOk) return "";
  std::string text = survivedText(recordsOf(launched.pids));
  if (tableOnStdout(options)) std::fputs(text.c_str(), stdout);
  return text;
}

// A run with --timeline.
class TimelineRun {
 public:
  TimelineRun(const PerfOptions& options, Launch launch, std::string fabric)
      : options_(options), launch_(std::move(launch)), fabric_(std::move(fabric)), log_(fabric_) {}

  int run() {
    auto record = RunRecord::create(options_.ranks);
    if (!record.ok())
      return leave(kExitFailed, "cannot share memory with the ranks: %s",
                   std::strerror(record.status().sys_errno));
    record_ = std::move(*record);
    launch_.record_fd = record_->fd();
    launch_.tick_period = kTickPeriod;
    launch_.tick = [this] {
      recorder_.sample(record_->received(options_.ranks));
      readLog();
    };
    const Launched launched = launchRanks(launch_);
    readLog();
    if (launched.signal == SIGPIPE) return endQuietly(launched);
    const std::string survived = printSurvived(options_, launched);
    Report report;
    (void)record_->latest(&report);
    const bool drawn = recorder_.write(options_.timeline,
                                       std::string("railwise perf ") + collectiveName(options_.collective),
                                       record_->received(options_.ranks), log_.marks(),
                                       launched.exit_status != kExitOk, surroundingsText(report) + survived);
    if (drawn && !survived.empty() && tableOnStdout(options_))
      std::printf("# Longest time without data: %.0f ms\n", recorder_.pauseMs());
    if (drawn && !recorder_.levels().empty() && tableOnStdout(options_))
      std::printf("# throughput of all ranks%s: %s\n",
                  options_.min_bytes == options_.max_bytes ? "" : ", of whatever size was under way",
                  recorder_.levels().c_str());
    return drawn ? launched.exit_status : std::max(launched.exit_status, kExitFailed);
  }

 private:
  // A plugin without software devices has no fabric to attach to.
  void readLog() {
    if (!fabric_.empty() && log_.attach()) (void)log_.read();
  }

  const PerfOptions& options_;
  Launch launch_;
  const std::string fabric_;
  FaultLog log_;
  TimelineRecorder recorder_;
  std::unique_ptr<RunRecord> record_;
};

// `args` are the arguments of the ranks. Returns the exit status of the command.
int launchPerf(const PerfOptions& options, std::span<const char* const> args, bool software_fallback) {
  Launch launch;
  launch.ranks = options.ranks;
  launch.args = args;
  launch.software_fallback = software_fallback;
  if (!options.timeline.empty())
    return TimelineRun(options, std::move(launch), fabricOfRanks(options, software_fallback)).run();
  const Launched launched = launchRanks(launch);
  if (launched.signal == SIGPIPE) return endQuietly(launched);
  (void)printSurvived(options, launched);
  return launched.exit_status;
}

constexpr int kDefaultRanks = 2;

int usageError(const std::string& error) {
  say("%s (railwise perf --help lists what there is)", error.c_str());
  return kExitUsage;
}

// Reports an error in --plugin or --api once, before there are ranks that would all report it.
int checkPlugin(const PerfOptions& options, std::string* name) {
  const auto table = openTable(options);
  if (table.ok()) *name = (*table)->api().name();
  if (table.ok()) return kExitOk;
  say("%s", table.error().c_str());
  return table.failure().code == Code::kInvalidUsage ? kExitUsage : kExitFailed;
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
  if (const int status = checkPlugin(options, &name); status != kExitOk) return status;
  if (options.ranks == 0) options.ranks = kDefaultRanks;
  if (const auto possible = checkRanks(options, options.ranks); !possible.ok())
    return usageError("perf: " + possible.error());
  if (const auto files = checkFiles(options); !files.ok()) return usageError("perf: " + files.error());
  const auto fallback = needsSoftwareDevice(deviceOptions(options));
  if (!fallback.ok()) return leave(kExitFailed, "%s", fallback.error().c_str());
  if (!*fallback) {
    const auto drop_in = needsDropIn(deviceOptions(options), name);
    if (!drop_in.ok()) return leave(kExitFailed, "%s", drop_in.error().c_str());
    if (*drop_in) return runBehindDropIn("perf", options.plugin, args);
  }
  std::vector<const char*> rank_args = {"perf"};
  rank_args.insert(rank_args.end(), args.begin(), args.end());
  return launchPerf(options, rank_args, *fallback);
}

int startRank(const PerfOptions& options, const RankIdentity& identity, bool child, Args args) {
  // The launcher of railwise perf has decided it for all ranks.
  if (!child && !namesOwnPlugin(options.plugin.plugin)) {
    std::string name;
    if (const int status = checkPlugin(options, &name); status != kExitOk) return status;
    const auto drop_in = needsDropIn(deviceOptions(options), name);
    if (!drop_in.ok()) return leave(kExitFailed, "%s", drop_in.error().c_str());
    if (*drop_in) return runBehindDropIn("perf", options.plugin, args);
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
