// How the times of iterations are spread: least, quartiles, largest. Pure; thread-safe.
#pragma once

#include <vector>

namespace railwise::cli {

// Seconds. Percentiles are those of nccl-tests: the nearest rank.
struct Spread {
  int samples = 0;
  double least = 0;
  double quarter = 0;  // a quarter of the samples is smaller
  double median = 0;
  double three_quarters = 0;
  double p99 = 0;
  double largest = 0;
  double mean = 0;
  double deviation = 0;  // the standard deviation

  // The deviation in percent of the mean.
  double variation() const { return mean > 0 ? 100 * deviation / mean : 0; }
};
// All values are 0 if there are no samples.
Spread spreadOf(std::vector<double> samples);

}  // namespace railwise::cli
