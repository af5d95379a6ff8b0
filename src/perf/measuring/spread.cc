#include "perf/measuring/spread.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace railwise::cli {

Spread spreadOf(std::vector<double> samples) {
  Spread its;
  if (samples.empty()) return its;
  std::sort(samples.begin(), samples.end());
  const std::size_t count = samples.size();
  const auto percentile = [&](std::size_t percent) {
    return samples[std::min(count - 1, (count * percent + 99) / 100 - 1)];
  };
  its.samples = static_cast<int>(count);
  its.least = samples.front();
  its.quarter = percentile(25);
  its.median = percentile(50);
  its.three_quarters = percentile(75);
  its.p99 = percentile(99);
  its.largest = samples.back();
  its.mean = std::accumulate(samples.begin(), samples.end(), 0.0) / static_cast<double>(count);
  double squares = 0;
  for (const double sample : samples) squares += (sample - its.mean) * (sample - its.mean);
  its.deviation = std::sqrt(squares / static_cast<double>(count));
  return its;
}

}  // namespace railwise::cli
