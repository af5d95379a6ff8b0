// How the times of iterations are spread: least, quartiles, largest. Pure; thread-safe.
#pragma once

#include <utility>
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

// The times of single iterations, few enough to be sent to rank 0. Thread-compatible.

// More iterations than this make samples of several iterations each.
inline constexpr int kMostSamples = 1000;

// So many iterations make one sample.
constexpr int strideOf(int iterations) { return (iterations + kMostSamples - 1) / kMostSamples; }

// A sample is the mean of the iterations that follow each other from one sample to the next. Iterations that
// do not fill a sample at the end are left out.
class Samples {
 public:
  explicit Samples(int iterations) : stride_(strideOf(iterations)) {}

  // The time of the next iteration, or of the next `count`.
  void add(double seconds, int count = 1) {
    sum_ += seconds;
    in_sum_ += count;
    if (in_sum_ < stride_) return;
    means_.push_back(sum_ / in_sum_);
    sum_ = 0;
    in_sum_ = 0;
  }
  std::vector<double> take() { return std::move(means_); }

 private:
  const int stride_;
  double sum_ = 0;
  int in_sum_ = 0;
  std::vector<double> means_;
};

}  // namespace railwise::cli
