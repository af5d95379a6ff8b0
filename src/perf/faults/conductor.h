// Makes a schedule of faults happen on the fabric of a run, from the launcher's process, and looks at what
// the fabric has left. One thread.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "perf/faults/outcome.h"
#include "perf/faults/reach.h"
#include "perf/faults/schedule.h"
#include "softdev/fabric/fabric.h"

namespace railwise::tools {

// A hit of the fabric's fault log, or the end of a rule.
struct FaultMark {
  uint64_t realtime_ns;
  std::string words;
};

class FaultConductor {
 public:
  // `schedule` without steps: only looks.
  FaultConductor(std::string fabric, const Schedule& schedule, std::vector<std::pair<int, int>> talking);
  ~FaultConductor();
  FaultConductor(const FaultConductor&) = delete;
  FaultConductor& operator=(const FaultConductor&) = delete;

  // Attaches as soon as some process is on the fabric. True: attached.
  bool attach();
  // Does what is due, and looks.
  void conduct(Clock::duration since_traffic);
  // A last look; nothing that happens from now on counts: a rank ends.
  void close();
  // Takes away the rules that might yet strike once more; what lasts stays as it is.
  void disarm();
  // Reads what is new in the log; at the end too, while attached.
  void readLog();

  const PairsLeft& pairs() const { return pairs_; }
  uint64_t fired() const { return log_seen_; }
  const std::vector<FaultMark>& marks() const { return marks_; }
  int stepsDone() const { return steps_done_; }
  // Processes that are on the fabric besides this one.
  bool othersLeft() const;

 private:
  struct StepState {
    bool done = false;
    uint32_t rule = 0;  // its id
  };

  void perform(std::size_t step);
  void changePlace(const FaultStep& step);
  void look();

  const std::string name_;
  const Schedule& schedule_;
  const std::vector<std::pair<int, int>> talking_;
  softdev::Fabric* fabric_ = nullptr;
  std::vector<StepState> states_;
  int steps_done_ = 0;
  DeviceStates devices_;
  PairsLeft pairs_;
  bool looked_ = false;
  bool closed_ = false;
  std::optional<Clock::time_point> zero_at_;  // the last look that found nothing
  std::optional<Clock::time_point> looked_at_;
  uint64_t log_seen_ = 0;
  std::vector<FaultMark> marks_;
};

}  // namespace railwise::tools
