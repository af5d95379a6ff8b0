// What the ranks of a perf job report to their launcher while they run. It is in shared memory, so that
// nothing is lost when a rank dies: how much data has arrived, which phase each rank is in, how it ended, and
// rank 0's report. Each rank writes its own record; the launcher reads them. Any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "base/clock.h"
#include "base/outcome.h"
#include "base/status.h"
#include "perf/job/wire.h"
#include "perf/results/report.h"
#include "perf/results/run_options.h"

namespace railwise::cli {

enum class RankPhase : uint32_t { kSettingUp, kTraffic, kMeasured };

// How a rank ended, as reported by the rank itself. kSilent: it reported nothing.
enum class RankEnding : uint32_t { kSilent, kCompleted, kPluginError, kTold, kTimeLimit, kOther };

struct RankRecord {
  std::atomic<uint64_t> received{0};  // bytes
  std::atomic<uint64_t> wrong{0};     // elements
  std::atomic<RankPhase> phase{RankPhase::kSettingUp};
  std::atomic<int> result{0};  // ncclResult_t of the plugin's call that failed first
  std::atomic<RankEnding> ending{RankEnding::kSilent};
  std::atomic<int> pid{0};
  // Odd: no thread of the rank calls the plugin, so that nothing changes what the plugin and its devices have
  // counted. The rank goes on when the launcher has compared the counts, or after some seconds.
  std::atomic<uint32_t> still{0};
  std::atomic<uint32_t> compared{0};  // the launcher: the last value of `still` for which it has compared
  char text[600] = "";                // the last message of the rank; written before `ending`

  void end(RankEnding how, const std::string& why);
  // The rank stands still until the launcher has compared, at most for `limit`.
  void standStill(Clock::duration limit);
};

class RunRecord {
 public:
  // For the launcher. Its child processes use the descriptor.
  static Result<std::unique_ptr<RunRecord>> create(int ranks);
  // For a rank. `fd` is the descriptor in kRecordVariable.
  static Result<std::unique_ptr<RunRecord>> attach(int fd);
  ~RunRecord();
  RunRecord(const RunRecord&) = delete;
  RunRecord& operator=(const RunRecord&) = delete;

  int fd() const { return fd_; }
  RankRecord& rank(int index);
  // What the first `ranks` ranks have received together, in bytes.
  uint64_t received(int ranks);
  // The launcher sets this when enough was measured. Rank 0 asks for it after each pass over the sizes.
  void setOver();
  bool over() const;
  // The launcher sets this when nothing new will go wrong. Only then do the ranks begin to close their
  // connections.
  void setQuiet();
  bool quiet() const;
  // Rank 0 stores the report so far.
  void keep(const Report& report);
  // Reads the latest report that was stored completely, without its options. False: there is none.
  bool latest(Report* report);

 private:
  struct Shared;
  RunRecord(int fd, Shared* shared) : fd_(fd), shared_(shared) {}
  const int fd_;
  Shared* const shared_;
};

// Convert a report, without its options, to bytes and back.
Bytes packReport(const Report& report);
bool unpackReport(const Bytes& bytes, Report* report);

// Files that a run writes when it has ended. Main thread.

// Tries all files that the options name, so that a long run does not end without its results. The error names
// the option and the file.
Outcome<void> checkOutputs(const PerfOptions& options);

// Writes to stdout if `file` is empty. Otherwise a file appears complete or not at all. False: the reason was
// reported to the user.
bool writeDocument(const std::string& file, const std::string& text);

}  // namespace railwise::cli
