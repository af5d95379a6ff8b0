#include "perf/launch.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "cli/device/machine.h"
#include "cli/observe/records.h"
#include "cli/options/message.h"
#include "perf/job/launcher.h"
#include "perf/results/record.h"
#include "perf/survived.h"
#include "perf/timeline/recorder.h"
#include "record/stale.h"

namespace railwise::cli {
namespace {

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
  const auto parsed =
      openDeviceMachine("perf", {.machine = machine, .host = "", .fabric = "", .settings = ""});
  return parsed ? parsed->config.fabric : "";
}

// The reader of the output has seen enough. Nothing has gone wrong, so no record need tell what.
int endQuietly(const Launched& launched) {
  const std::vector<uint32_t> pids(launched.pids.begin(), launched.pids.end());
  (void)record::removeRecordsOf(chosenRecordFolder(""), geteuid(), pids);
  return launched.exit_status;
}

void printSurvived(const PerfOptions& options, const Launched& launched) {
  // After a failure the ranks' messages say what happened: a peer that died is no port that failed.
  if (launched.exit_status != kExitOk || !tableOnStdout(options)) return;
  const std::vector<int> pids(launched.pids.begin(), launched.pids.end());
  std::fputs(survivedText(recordsOf(pids)).c_str(), stdout);
}

// A run with --timeline.
class TimelineRun {
 public:
  TimelineRun(const PerfOptions& options, Launch launch, std::string fabric)
      : options_(options), launch_(std::move(launch)), fabric_(std::move(fabric)), log_(fabric_) {}

  int run() {
    auto record = RunRecord::create(options_.ranks);
    if (!record.ok()) {
      say("cannot share memory with the ranks: %s", std::strerror(record.status().sys_errno));
      return kExitFailed;
    }
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
    const bool drawn = recorder_.write(
        options_.timeline, std::string("railwise perf ") + collectiveName(options_.collective),
        record_->received(options_.ranks), log_.marks(), launched.exit_status != kExitOk);
    printSurvived(options_, launched);
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

}  // namespace

int launchPerf(const PerfOptions& options, std::span<const char* const> args, bool software_fallback) {
  Launch launch;
  launch.ranks = options.ranks;
  launch.args = args;
  launch.software_fallback = software_fallback;
  if (!options.timeline.empty())
    return TimelineRun(options, std::move(launch), fabricOfRanks(options, software_fallback)).run();
  const Launched launched = launchRanks(launch);
  if (launched.signal == SIGPIPE) return endQuietly(launched);
  printSurvived(options, launched);
  return launched.exit_status;
}

}  // namespace railwise::cli
