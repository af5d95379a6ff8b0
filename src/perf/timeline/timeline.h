// The throughput over the time of a run, and the events during the run. `railwise perf --timeline` draws it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/clock.h"
#include "softdev/faults/faults.h"

namespace railwise::cli {

struct Timeline {
  struct Sample {
    double ms;       // since the launcher started
    uint64_t bytes;  // bytes that all ranks have received so far
  };
  struct Mark {
    double ms;
    std::string words;
  };
  std::vector<Sample> samples;  // sorted by time
  std::vector<Mark> marks;
  std::vector<std::string> notes;  // lines below the marks
  bool failed = false;             // the run ended before its work was done
};

// The longest time without new bytes between two samples, after the first bytes and before the last. In a run
// that failed, the time behind the last ones counts too. 0: there was none.
double longestPauseMs(const Timeline& timeline);

// The throughput of all ranks between the marks: "1.31 GB/s, 0.65 from 2500 ms on (h0/soft1 port=down)".
// Several marks within 100 ms count as one. The text names the first four marks. "": no mark falls into the
// time in which bytes arrive.
std::string levelsText(const Timeline& timeline);

// Returns the whole SVG file.
std::string drawTimeline(const std::string& title, const Timeline& timeline);

// Reads the fault log of a software device's fabric while a run uses it, as events for the timeline. One
// thread.

// An event for the timeline: an entry of the fault log, or what the caller adds.
struct FaultMark {
  uint64_t realtime_ns;
  std::string words;
};

class FaultLog {
 public:
  explicit FaultLog(std::string fabric) : name_(std::move(fabric)) {}
  ~FaultLog();
  FaultLog(const FaultLog&) = delete;
  FaultLog& operator=(const FaultLog&) = delete;

  // Attaches as soon as a process is on the fabric. True: attached.
  bool attach();
  // Null: not attached.
  softdev::Fabric* fabric() const { return fabric_; }
  // The new entries. Call it only while attached, and once more at the end.
  std::vector<softdev::FaultLogEntry> read();
  // Adds an event of this moment that the fault log does not know.
  void add(std::string words);

  // The number of entries so far.
  uint64_t seen() const { return seen_; }
  const std::vector<FaultMark>& marks() const { return marks_; }

 private:
  const std::string name_;
  softdev::Fabric* fabric_ = nullptr;
  uint64_t seen_ = 0;
  std::vector<FaultMark> marks_;
};

// Records what the ranks of a run receive, for the timeline. Main thread of the launcher.
class TimelineRecorder {
 public:
  // `received`: bytes of all ranks so far. Call it often: a sample is taken every 10 ms.
  void sample(uint64_t received);
  // Takes the last sample and draws the run to `file`, under a title that begins with `run`. `failed`: the
  // run ended before its work was done. `foot`: lines of the table's foot that the picture has too, each
  // with "# " in front. False: the reason was reported to the user.
  bool write(const std::string& file, const std::string& run, uint64_t received,
             const std::vector<FaultMark>& marks, bool failed, const std::string& foot = "");
  // After write(): longestPauseMs(), levelsText().
  double pauseMs() const { return longestPauseMs(timeline_); }
  const std::string& levels() const { return levels_; }

 private:
  void take(uint64_t received);

  const Clock::time_point begun_at_ = Clock::now();
  const std::chrono::system_clock::time_point begun_wall_ = std::chrono::system_clock::now();
  Clock::time_point next_;
  Timeline timeline_;
  std::string levels_;
};

}  // namespace railwise::cli
