// What the ranks of a perf job tell their launcher while they run, in memory that all share, so that nothing
// is lost with a rank that dies: how much has arrived, how far they are, how they ended, and rank 0's report.
// Each rank writes its own record; the launcher reads. Any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "base/status.h"
#include "perf/collective/report.h"
#include "perf/job/wire.h"

namespace railwise::tools {

enum class RankPhase : uint32_t { kSettingUp, kTraffic, kMeasured };

// How a rank ended, as it says itself. kSilent: it did not say.
enum class RankEnding : uint32_t { kSilent, kCompleted, kPluginError, kTold, kTimeLimit, kOther };

struct RankRecord {
  std::atomic<uint64_t> received{0};  // bytes
  std::atomic<uint64_t> wrong{0};     // elements
  std::atomic<RankPhase> phase{RankPhase::kSettingUp};
  std::atomic<int> result{0};  // ncclResult_t of the plugin's call that failed first
  std::atomic<RankEnding> ending{RankEnding::kSilent};
  char text[600] = "";  // what it said last; behind `ending`

  void end(RankEnding how, const std::string& why);
};

class RunRecord {
 public:
  // In the launcher; the descriptor is for its children.
  static Result<std::unique_ptr<RunRecord>> create(int ranks);
  // In a rank: that of kRecordVariable.
  static Result<std::unique_ptr<RunRecord>> attach(int fd);
  ~RunRecord();
  RunRecord(const RunRecord&) = delete;
  RunRecord& operator=(const RunRecord&) = delete;

  int fd() const { return fd_; }
  RankRecord& rank(int index);
  // The launcher: enough was measured; rank 0 asks behind each pass over the sizes.
  void setOver();
  bool over() const;
  // The launcher: nothing new will go wrong; the ranks begin to close their connections only then.
  void setQuiet();
  bool quiet() const;
  // Rank 0: the report so far.
  void keep(const Report& report);
  // The latest report that was kept whole, all but its options; false: none was.
  bool latest(Report* report);

 private:
  struct Shared;
  RunRecord(int fd, Shared* shared) : fd_(fd), shared_(shared) {}
  static Result<std::unique_ptr<RunRecord>> map(int fd);
  const int fd_;
  Shared* const shared_;
};

// A report, all but its options, as bytes and back.
Bytes packReport(const Report& report);
bool unpackReport(const Bytes& bytes, Report* report);

}  // namespace railwise::tools
