// The times of single iterations, few enough to be sent to rank 0. Thread-compatible.
#pragma once

#include <utility>
#include <vector>

namespace railwise::cli {

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
