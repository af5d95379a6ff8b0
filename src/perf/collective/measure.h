// Measures one row of the table, out of place and in place: warm-up, timed iterations, then runs with new
// data in which every element is compared. Main thread; the collectives run on the progress worker.
#pragma once

#include <memory>
#include <vector>

#include "perf/algorithm/contents.h"
#include "perf/collective/task.h"
#include "perf/collective/traffic.h"
#include "perf/job/bootstrap.h"
#include "perf/job/worker.h"
#include "perf/results/record.h"
#include "perf/results/report.h"
#include "perf/results/run_options.h"

namespace railwise::cli {

// Which links a collective needs, and how large their slots are.
LinkPlan linkPlan(const PerfOptions& options, int rank, int ranks);

// Pages of zeroed memory, which the destructor returns to the system.
class Buffer {
 public:
  static Result<Buffer> create(std::size_t bytes);
  Buffer(Buffer&& other) noexcept : data_(std::exchange(other.data_, nullptr)), bytes_(other.bytes_) {}
  Buffer& operator=(Buffer&&) = delete;
  ~Buffer();
  std::byte* data() const { return data_; }
  std::span<std::byte> all() const { return {data_, bytes_}; }
  std::span<std::byte> first(std::size_t bytes) const { return {data_, bytes}; }
  std::span<std::byte> after(std::size_t bytes) const { return {data_ + bytes, bytes_ - bytes}; }

 private:
  Buffer(std::byte* data, std::size_t bytes) : data_(data), bytes_(bytes) {}
  std::byte* data_;
  std::size_t bytes_;
};

class Measure {
 public:
  // Allocates the buffers for the largest row. `cores_are_few`: this host has more ranks than cores.
  static Outcome<std::unique_ptr<Measure>> create(const PerfOptions& options, Bootstrap& bootstrap,
                                                  Traffic& traffic, Worker& progress, Activity& activity,
                                                  RankRecord& record, bool cores_are_few);

  // Measures the row for about `bytes` bytes. Every rank returns the same row, except that only rank 0 has
  // the times of the iterations. Rank 0 reports the first wrong element, and shows its progress behind the
  // text `begin`.
  Result<Row> row(uint64_t bytes, const Variant& variant, const std::string& begin);

  // Compares the signals once more, a while after the last run: one that is added twice may be late. Every
  // rank returns how many are wrong. Rank 0 reports the first one.
  Result<uint64_t> lateSignals();

  std::span<std::byte> sendBuffer() const { return send_.all(); }
  std::span<std::byte> receiveBuffer() const { return receive_.all(); }
  // How often this rank has slept while it waited.
  uint64_t naps() const { return wait_.naps(); }

 private:
  struct Shape {
    Variant variant;
    uint64_t count = 0;     // elements of a block, as the table shows them
    std::size_t bytes = 0;  // size of the larger buffer
    bool in_place = false;
  };
  // A run of the collective: the stages follow each other.
  using Stages = std::vector<Tasks>;
  struct Times {
    double warmup = 0;            // seconds of a warm-up iteration
    double seconds = 0;           // of a timed one
    std::vector<double> samples;  // of single iterations, or of several that follow each other
  };

  // What is wrong in a rank.
  struct Faults {
    Wrong data;     // elements of the output
    Wrong signals;  // offsets into the memory of signals
  };

  Measure(const PerfOptions& options, Bootstrap& bootstrap, Traffic& traffic, Worker& progress,
          Activity& activity, RankRecord& record, bool cores_are_few, Buffer send, Buffer receive);

  Result<Measurement> measure(const Shape& shape);
  Stages makeStages(const Shape& shape);
  void addTransfer(const Shape& shape, const Transfer& transfer, Tasks& tasks);
  Status warmUp(const Stages& stages, Times& times);
  Status timeAll(const Stages& stages, Times& times);
  Status timeWithBarriers(const Stages& stages, Times& times);
  Status run(const Stages& stages, int times, std::vector<double>* samples = nullptr);
  Status runOnce(const Stages& stages);
  Status runChecked(const Shape& shape, const Stages& stages, Wrong& wrong);
  Status checkSignals(Wrong& wrong);
  void showIteration(int iteration, int of);

  Contents contentsOf(const Shape& shape, uint64_t salt) const;
  std::span<std::byte> inputOf(const Contents& contents, bool in_place) const;
  std::span<std::byte> outputOf(const Contents& contents, bool in_place) const;
  std::span<std::byte> guardOf(const Contents& contents, bool in_place) const;
  void fill(const Contents& contents, bool in_place);
  void verify(const Shape& shape, const Contents& contents, Wrong& wrong);
  Result<Measurement> agree(const std::string& where, std::size_t element, const Times& times,
                            const Faults& faults);
  void report(const std::string& where, int rank, const Faults& faults, std::size_t element) const;
  Status collectSamples(const std::vector<double>& mine, Measurement& measured);
  double combined(std::span<const double> of_ranks) const;
  std::string shapeText(const Shape& shape) const;

  const PerfOptions& options_;
  const CollectiveTraits& traits_;
  Bootstrap& bootstrap_;
  Traffic& traffic_;
  Worker& progress_;
  Activity& activity_;
  RankRecord& record_;
  IdleWait wait_;              // used by the progress worker
  uint64_t wrong_before_ = 0;  // wrong elements of this rank in earlier measurements
  const Buffer send_;
  const Buffer receive_;
  const int rank_;
  const int ranks_;
  std::size_t window_ = 1;
  const int per_iteration_;  // how many operations, or ways of a ping-pong, an iteration has
  uint64_t next_salt_ = 1;
  std::string progress_text_;
  Clock::time_point next_progress_;
};

}  // namespace railwise::cli
