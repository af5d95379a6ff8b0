// What perf and bench both need to measure: how busy the machine was with other work meanwhile, how the
// times of iterations are spread, and pages for registration.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace railwise::cli {

// Shares of the machine's CPU time, from 0 to 1.
struct OthersUse {
  double processes = 0;   // processes that are not measured, and the kernel's work for them
  double hypervisor = 0;  // time in which the hypervisor ran something else than this virtual machine

  bool worthSaying() const;
  // For example "other processes had 37 % of its CPU time, the hypervisor 12 %".
  std::string text() const;
};

class MachineUse {
 public:
  // Measures from now on. `file` has the form of /proc/stat.
  explicit MachineUse(std::string file = "/proc/stat");

  // `own_seconds`: CPU time of everything that is measured, since the beginning. Null: too little time has
  // passed, or the file cannot be read.
  std::optional<OthersUse> since(double own_seconds) const;

 private:
  // Clock ticks since the machine started, summed over its CPUs.
  struct Ticks {
    double all = 0;
    double busy = 0;
    double stolen = 0;
  };
  std::optional<Ticks> read() const;

  std::string file_;
  std::optional<Ticks> begin_;
};

// CPU time of this process so far, and of the child processes that it has waited for.
double ownCpuSeconds();

// The load average of the last minute. 0: it is not known.
double loadAverage();

// The number of CPUs that this process may use.
int usableCpus();

// How the times of iterations are spread: least, quartiles, largest. Pure; thread-safe.

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

// Whole pages of memory that belong to Railwise, for registration with a device. Plain values.

inline constexpr std::size_t roundUp(std::size_t value, std::size_t unit) {
  return (value + unit - 1) / unit * unit;
}

inline constexpr std::size_t kCacheLine = 64;
inline constexpr std::size_t kPage = 4096;

struct FreePages {
  void operator()(std::byte* memory) const { std::free(memory); }
};
using PageMemory = std::unique_ptr<std::byte, FreePages>;

// Allocates at least `bytes` bytes, zeroed. Null: there is not enough memory.
inline PageMemory allocatePages(std::size_t bytes) {
  const std::size_t whole = roundUp(bytes, kPage);
  PageMemory memory(static_cast<std::byte*>(std::aligned_alloc(kPage, whole)));
  if (memory != nullptr) std::memset(memory.get(), 0, whole);
  return memory;
}

}  // namespace railwise::cli
