// Throughput over the time of a run, with what happened meanwhile: what `railwise perf --timeline` draws.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace railwise::tools {

struct Timeline {
  struct Sample {
    double ms;       // since the launcher began
    uint64_t bytes;  // that all ranks have received until then
  };
  struct Mark {
    double ms;
    std::string words;
  };
  std::vector<Sample> samples;  // in the order of time
  std::vector<Mark> marks;
};

// The longest time between two samples in which nothing came, after the first bytes and before the last; 0:
// none.
double longestPauseMs(const Timeline& timeline);

// The whole file (SVG).
std::string drawTimeline(const std::string& title, const Timeline& timeline);

}  // namespace railwise::tools
