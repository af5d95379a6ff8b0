// Records what the ranks of a run receive, for the timeline. Main thread of the launcher.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/clock.h"
#include "perf/timeline/fault_log.h"
#include "perf/timeline/timeline.h"

namespace railwise::cli {

class TimelineRecorder {
 public:
  // `received`: bytes of all ranks so far. Call it often: a sample is taken every 10 ms.
  void sample(uint64_t received);
  // Takes the last sample and draws the run to `file`, under a title that begins with `run`. `failed`: the
  // run ended before its work was done. False: the reason was reported to the user.
  bool write(const std::string& file, const std::string& run, uint64_t received,
             const std::vector<FaultMark>& marks, bool failed);

 private:
  void take(uint64_t received);

  const Clock::time_point begun_at_ = Clock::now();
  const std::chrono::system_clock::time_point begun_wall_ = std::chrono::system_clock::now();
  Clock::time_point next_;
  Timeline timeline_;
};

}  // namespace railwise::cli
