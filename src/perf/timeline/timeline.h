// The throughput over the time of a run, and the events during the run. `railwise perf --timeline` draws it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

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
  bool failed = false;  // the run ended before its work was done
};

// The longest time without new bytes between two samples, after the first bytes and before the last. In a run
// that failed, the time behind the last ones counts too. 0: there was none.
double longestPauseMs(const Timeline& timeline);

// Returns the whole SVG file.
std::string drawTimeline(const std::string& title, const Timeline& timeline);

}  // namespace railwise::cli
