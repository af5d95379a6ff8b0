// Applies a schedule of faults to the fabric of a run, from the launcher's process, and observes which paths
// are left. One thread.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "perf/timeline/timeline.h"
#include "tests/campaign/outcome.h"
#include "tests/campaign/pauses.h"
#include "tests/campaign/reach.h"
#include "tests/campaign/schedule.h"

namespace railwise::cli {

class FaultConductor {
 public:
  FaultConductor(std::string fabric, const Schedule& schedule, std::vector<std::pair<int, int>> talking);

  // Attaches as soon as a process is on the fabric. True: attached.
  bool attach() { return log_.attach(); }
  // Null: not attached.
  softdev::Fabric* fabric() const { return log_.fabric(); }
  // Performs the steps that are due, and observes the fabric.
  void conduct(Clock::duration since_traffic);
  // Observes a last time, because a rank ends. Later events do not count.
  void close();
  // Removes the rules that may strike again. Lasting effects stay.
  void disarm();
  // Reads new entries of the fault log. Also call it at the end, while attached.
  void readLog();

  // The devices, as "h1/soft0", that do not work, that a rule cuts off from a peer, or that a fault has
  // struck since `since`.
  std::vector<std::string> broken(Clock::time_point since) const;
  const PairsLeft& pairs() const { return pairs_; }
  uint64_t fired() const { return log_.seen(); }
  const std::vector<FaultMark>& marks() const { return log_.marks(); }
  int stepsDone() const { return steps_done_; }
  // Does a process stand still by this schedule?
  bool anyoneStopped() const { return pauses_.any(); }
  // True if other processes than this one are on the fabric.
  bool othersLeft() const;

 private:
  struct StepState {
    bool done = false;
    uint32_t rule = 0;  // id of the step's rule
  };

  void perform(std::size_t step);
  void changePlace(const FaultStep& step);
  void stop(std::size_t step);
  void look();

  FaultLog log_;
  const Schedule& schedule_;
  const std::vector<std::pair<int, int>> talking_;
  std::vector<StepState> states_;
  int steps_done_ = 0;
  Pauses pauses_;
  DeviceStates devices_;
  PairsLeft pairs_;
  bool looked_ = false;
  bool closed_ = false;
  // The last time at which some pair of ranks had no working pair of devices.
  std::optional<Clock::time_point> zero_at_;
  std::optional<Clock::time_point> looked_at_;
  std::map<std::string, Clock::time_point> struck_at_;  // devices, by the last fault that struck them
};

}  // namespace railwise::cli
