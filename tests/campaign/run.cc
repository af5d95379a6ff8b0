#include "tests/campaign/run.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>

#include "base/clock.h"
#include "cli/options/message.h"
#include "perf/job/launcher.h"
#include "perf/results/record.h"
#include "perf/timeline/timeline.h"
#include "tests/campaign/conductor.h"
#include "tests/campaign/outcome.h"
#include "tests/campaign/record_check.h"
#include "tests/campaign/schedule.h"
#include "tests/campaign/stall_watch.h"

namespace railwise::cli {
namespace {

constexpr std::chrono::milliseconds kTickPeriod{1};
constexpr const char* kFolderVariable = "RAILWISE_METRICS_DIR";

class FaultRun {
 public:
  explicit FaultRun(const FaultOptions& options)
      : options_(options),
        schedule_(drawSchedule(options)),
        fabric_(fabricName(*options.faults, getpid())),
        conductor_(fabric_, schedule_, talkingRanks(options)),
        record_folder_(std::getenv(kFolderVariable)),
        record_check_(record_folder_.path(), options.ranks),
        stall_watch_(record_folder_.path(),
                     [this](Clock::time_point since) { return conductor_.broken(since); }) {}

  int run(std::span<const char* const> args) {
    auto record = RunRecord::create(options_.ranks);
    if (!record.ok()) {
      say("cannot share memory with the ranks: %s", std::strerror(record.status().sys_errno));
      return kExitFailed;
    }
    record_ = std::move(*record);
    Launch launch;
    launch.ranks = options_.ranks;
    launch.args = args;
    launch.record_fd = record_->fd();
    launch.tick_period = kTickPeriod;
    launch.tick = [this] { tick(); };
    launch.adopt_orphans = true;
    launch.environment = [this](int rank) { return environmentOf(rank); };
    launched_ = launchRanks(launch);
    finishWatch();
    if (launched_.signal == SIGPIPE) return launched_.exit_status;
    const bool drawn = drawTimelineFile();
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
    variables.emplace_back(kFolderVariable, record_folder_.path());
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
  uint64_t received() const { return record_->received(options_.ranks); }

  void tick() {
    if (!options_.timeline.empty()) recorder_.sample(received());
    // False for a plugin without software devices.
    const bool attached = conductor_.attach();
    if (!traffic_at_ && all(RankPhase::kTraffic)) traffic_at_ = Clock::now();
    record_check_.compare(*record_, attached ? conductor_.fabric() : nullptr);
    if (!traffic_at_) return;
    if (anyEnds()) return endWatch();
    const auto since = Clock::now() - *traffic_at_;
    if (attached) conductor_.conduct(since);
    if (conductor_.anyoneStopped()) stall_watch_.restart();
    stall_watch_.look(since, received(), pids());
    if (since > std::chrono::milliseconds(schedule_.traffic_ms)) record_->setOver();
  }

  std::vector<int> pids() const {
    std::vector<int> pids;
    for (int rank = 0; rank < options_.ranks; ++rank) pids.push_back(record_->rank(rank).pid);
    return pids;
  }

  void endWatch() {
    stall_watch_.stop();
    conductor_.close();
    if (record_->quiet()) return;
    conductor_.disarm();
    record_->setQuiet();
  }

  void finishWatch() {
    conductor_.close();
    if (!conductor_.attach()) return;
    conductor_.readLog();
    fabric_in_use_ = conductor_.othersLeft();
  }

  bool drawTimelineFile() {
    if (options_.timeline.empty()) return true;
    const std::string run = std::string("perf ") + collectiveName(options_.collective) +
                            textOf(" --faults %llu", static_cast<unsigned long long>(*options_.faults));
    return recorder_.write(options_.timeline, run, received(), conductor_.marks(),
                           launched_.exit_status != kExitOk);
  }

  RankEnd endOf(int rank) const {
    const RankRecord& its = record_->rank(rank);
    const EndOfRank& process = launched_.ends[static_cast<std::size_t>(rank)];
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
    faults.records = record_check_.report();
    faults.end.record_disagrees = !faults.records.disagreements.empty();
    faults.stalls = stall_watch_.stalls();
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

  const FaultOptions& options_;
  const Schedule schedule_;
  const std::string fabric_;
  FaultConductor conductor_;
  RecordFolder record_folder_;
  RecordCheck record_check_;
  StallWatch stall_watch_;
  Launched launched_;
  std::unique_ptr<RunRecord> record_;
  std::optional<Clock::time_point> traffic_at_;
  TimelineRecorder recorder_;
  bool fabric_in_use_ = false;
};

}  // namespace

int runWithFaults(const FaultOptions& options, std::span<const char* const> args) {
  return FaultRun(options).run(args);
}

void printSchedule(const FaultOptions& options) {
  for (const std::string& sentence : scheduleSentences(drawSchedule(options), options))
    std::printf("%s\n", sentence.c_str());
}

}  // namespace railwise::cli
