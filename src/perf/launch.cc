#include "perf/launch.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>

#include "base/clock.h"
#include "cli/device/machine.h"
#include "cli/observe/records.h"
#include "cli/options/message.h"
#include "perf/faults/conductor.h"
#include "perf/faults/outcome.h"
#include "perf/faults/record_check.h"
#include "perf/faults/schedule.h"
#include "perf/faults/stall_watch.h"
#include "perf/faults/timeline.h"
#include "perf/job/launcher.h"
#include "perf/results/document.h"
#include "perf/results/record.h"
#include "perf/survived.h"
#include "record/reader.h"
#include "record/stale.h"

namespace railwise::cli {
namespace {

constexpr std::chrono::milliseconds kTickPeriod{1};
constexpr std::chrono::milliseconds kSamplePeriod{10};
constexpr const char* kFolderVariable = "RAILWISE_METRICS_DIR";

// The fabric that the ranks will use without --faults. "": they use real devices.
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

class PerfRun {
 public:
  PerfRun(const PerfOptions& options, bool software_fallback)
      : options_(options),
        schedule_(options.faults ? drawSchedule(options) : Schedule{}),
        fabric_(options.faults ? fabricName(*options.faults, getpid())
                               : fabricOfRanks(options, software_fallback)),
        conductor_(fabric_, schedule_,
                   options.faults ? talkingRanks(options) : std::vector<std::pair<int, int>>{}) {
    launch_.ranks = options.ranks;
    launch_.software_fallback = software_fallback;
    if (!options.faults) return;
    record_folder_.emplace(std::getenv(kFolderVariable));
    record_check_.emplace(record_folder_->path(), options.ranks);
    stall_watch_.emplace(record_folder_->path(),
                         [this](Clock::time_point since) { return conductor_.broken(since); });
  }

  int run(std::span<const char* const> args) {
    auto record = RunRecord::create(options_.ranks);
    if (!record.ok()) {
      say("cannot share memory with the ranks: %s", std::strerror(record.status().sys_errno));
      return kExitFailed;
    }
    record_ = std::move(*record);
    launch_.args = args;
    launch_.record_fd = record_->fd();
    launch_.tick_period = kTickPeriod;
    launch_.tick = [this] { tick(); };
    if (options_.faults) {
      launch_.adopt_orphans = true;
      launch_.environment = [this](int rank) { return environmentOf(rank); };
    }
    launched_ = launchRanks(launch_);
    finishWatch();
    if (launched_.signal == SIGPIPE) return endQuietly(launched_);
    const bool drawn = drawTimelineFile();
    if (!options_.faults) printSurvived(options_, launched_);
    if (!options_.faults) return drawn ? launched_.exit_status : std::max(launched_.exit_status, kExitFailed);
    const int status = reportFaults();
    return drawn ? status : std::max(status, kExitFailed);
  }

 private:
  std::vector<std::pair<std::string, std::string>> environmentOf(int rank) const {
    std::vector<std::pair<std::string, std::string>> variables;
    for (const auto& variable : faultEnvironment(schedule_)) {
      if (std::getenv(variable.first.c_str()) == nullptr) variables.push_back(variable);
    }
    variables.emplace_back("RAILWISE_DEVICE", machineText(schedule_, fabric_));
    variables.emplace_back("RAILWISE_HOST", hostName(rank));
    variables.emplace_back(kFolderVariable, record_folder_->path());
    return variables;
  }

  bool all(RankPhase phase) const {
    for (int rank = 0; rank < options_.ranks; ++rank) {
      if (record_->rank(rank).phase < phase) return false;
    }
    return true;
  }
  // True if some rank ends or begins to end.
  bool anyEnds() const {
    for (int rank = 0; rank < options_.ranks; ++rank) {
      const RankRecord& its = record_->rank(rank);
      if (its.phase == RankPhase::kMeasured || its.ending != RankEnding::kSilent || its.result != 0)
        return true;
    }
    return false;
  }
  uint64_t received() const {
    uint64_t sum = 0;
    for (int rank = 0; rank < options_.ranks; ++rank) sum += record_->rank(rank).received;
    return sum;
  }

  void tick() {
    if (!options_.timeline.empty()) sample();
    // False for a plugin without software devices.
    const bool attached = !fabric_.empty() && conductor_.attach();
    if (!options_.faults) {
      if (attached) conductor_.readLog();
      return;
    }
    if (!traffic_at_ && all(RankPhase::kTraffic)) traffic_at_ = Clock::now();
    record_check_->compare(*record_, attached ? conductor_.fabric() : nullptr);
    if (!traffic_at_) return;
    if (anyEnds()) return endWatch();
    const auto since = Clock::now() - *traffic_at_;
    if (attached) conductor_.conduct(since);
    if (conductor_.anyoneStopped()) stall_watch_->restart();
    stall_watch_->look(since, received(), pids());
    if (since > std::chrono::milliseconds(schedule_.traffic_ms)) record_->setOver();
  }

  std::vector<int> pids() const {
    std::vector<int> pids;
    for (int rank = 0; rank < options_.ranks; ++rank) pids.push_back(record_->rank(rank).pid);
    return pids;
  }

  void endWatch() {
    stall_watch_->stop();
    conductor_.close();
    if (record_->quiet()) return;
    conductor_.disarm();
    record_->setQuiet();
  }

  void sample() {
    const auto now = Clock::now();
    if (!timeline_.samples.empty() && now < next_sample_) return;
    next_sample_ = now + kSamplePeriod;
    timeline_.samples.push_back({milliseconds(now), received()});
  }
  double milliseconds(Clock::time_point at) const {
    return std::chrono::duration<double, std::milli>(at - begun_at_).count();
  }

  void finishWatch() {
    conductor_.close();
    if (fabric_.empty() || !conductor_.attach()) return;
    conductor_.readLog();
    fabric_in_use_ = conductor_.othersLeft();
  }

  bool drawTimelineFile() {
    if (options_.timeline.empty()) return true;
    next_sample_ = begun_at_;
    sample();
    const std::chrono::duration<double, std::milli> begun = begun_wall_.time_since_epoch();
    for (const FaultMark& mark : conductor_.marks()) {
      const double ms = static_cast<double>(mark.realtime_ns) / 1e6 - begun.count();
      if (ms >= 0) timeline_.marks.push_back({ms, mark.words});
    }
    std::sort(timeline_.marks.begin(), timeline_.marks.end(),
              [](const Timeline::Mark& a, const Timeline::Mark& b) { return a.ms < b.ms; });
    std::string title = std::string("railwise perf ") + collectiveName(options_.collective);
    if (options_.faults) title += textOf(" --faults %llu", static_cast<unsigned long long>(*options_.faults));
    timeline_.failed = launched_.exit_status != kExitOk;
    title +=
        textOf(": bytes received per %d ms; longest pause %.0f ms%s", static_cast<int>(kSamplePeriod.count()),
               longestPauseMs(timeline_), timeline_.failed ? "; the run failed" : "");
    return writeDocument(options_.timeline, drawTimeline(title, timeline_));
  }

  RankEnd endOf(int rank) const {
    const RankRecord& its = record_->rank(rank);
    const ProcessEnd& process = launched_.ends[static_cast<std::size_t>(rank)];
    RankEnd end;
    end.ending = its.ending.load(std::memory_order_acquire);
    end.result = its.result;
    end.exit_status = process.exit_status;
    end.killed = process.killed;
    if (end.ending != RankEnding::kSilent) end.text = its.text;
    return end;
  }

  int reportFaults() {
    FaultsReport faults;
    faults.seed = *options_.faults;
    faults.schedule = scheduleSentences(schedule_, options_);
    faults.steps = static_cast<int>(schedule_.steps.size());
    faults.steps_done = conductor_.stepsDone();
    faults.fired = conductor_.fired();
    faults.end.pairs = conductor_.pairs();
    faults.end.left_behind = launched_.orphans || fabric_in_use_;
    for (int rank = 0; rank < options_.ranks; ++rank) {
      faults.end.ranks.push_back(endOf(rank));
      faults.end.wrong += record_->rank(rank).wrong;
    }
    faults.records = record_check_->report();
    faults.end.record_disagrees = !faults.records.disagreements.empty();
    faults.stalls = stall_watch_->stalls();
    faults.end.wrong_verdict = std::any_of(faults.stalls.begin(), faults.stalls.end(),
                                           [](const Stall& stall) { return !stall.right; });
    faults.outcome = judgeRun(faults.end);
    const bool good = faults.outcome == RunOutcome::kCompleted || faults.outcome == RunOutcome::kUnreachable;
    const int status = launched_.signal != 0 ? launched_.exit_status : good ? kExitOk : kExitFailed;
    if (tableOnStdout(options_)) std::fputs(faultsFooter(faults).c_str(), stdout);
    return !options_.json || writeFaults(faults) ? status : std::max(status, kExitFailed);
  }

  bool writeFaults(const FaultsReport& faults) {
    Report report;
    report.ranks = options_.ranks;
    (void)record_->latest(&report);
    report.options = options_;
    return writeDocument(options_.json_file,
                         jsonText(report, [&](JsonWriter& json) { addFaults(json, faults); }));
  }

  const PerfOptions& options_;
  const Schedule schedule_;
  const std::string fabric_;
  FaultConductor conductor_;
  Launch launch_;
  Launched launched_;
  std::unique_ptr<RunRecord> record_;
  std::optional<Clock::time_point> traffic_at_;
  const Clock::time_point begun_at_ = Clock::now();
  const std::chrono::system_clock::time_point begun_wall_ = std::chrono::system_clock::now();
  Clock::time_point next_sample_;
  Timeline timeline_;
  std::optional<RecordFolder> record_folder_;  // with --faults
  std::optional<RecordCheck> record_check_;
  std::optional<StallWatch> stall_watch_;
  bool fabric_in_use_ = false;
};

}  // namespace

int launchPerf(const PerfOptions& options, std::span<const char* const> args, bool software_fallback) {
  if (options.faults || !options.timeline.empty()) return PerfRun(options, software_fallback).run(args);
  Launch launch;
  launch.ranks = options.ranks;
  launch.args = args;
  launch.software_fallback = software_fallback;
  const Launched launched = launchRanks(launch);
  if (launched.signal == SIGPIPE) return endQuietly(launched);
  printSurvived(options, launched);
  return launched.exit_status;
}

void printSchedule(const PerfOptions& options) {
  for (const std::string& sentence : scheduleSentences(drawSchedule(options), options))
    std::printf("%s\n", sentence.c_str());
}

}  // namespace railwise::cli
