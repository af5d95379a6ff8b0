// Measures one row of the table: timed iterations out of place and in place, then a run with new data in
// which every element is compared. Main thread; the collectives run on the progress worker.
#pragma once

#include <memory>
#include <vector>

#include "perf/collective/links.h"
#include "perf/collective/record.h"
#include "perf/collective/report.h"
#include "perf/collective/run_options.h"
#include "perf/collective/task.h"
#include "perf/job/activity.h"
#include "perf/job/bootstrap.h"
#include "perf/job/worker.h"

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
                                                  Links& links, Worker& progress, Activity& activity,
                                                  RankRecord& record, bool cores_are_few);

  // Measures the row for about `bytes` bytes. Every rank returns the same row. Rank 0 reports the first wrong
  // element.
  Result<Row> row(uint64_t bytes);

  // How often this rank has slept while it waited.
  uint64_t naps() const { return wait_.naps(); }

 private:
  struct Shape {
    uint64_t count = 0;     // elements as the table shows them: of the buffer, or in alltoall of one block
    std::size_t bytes = 0;  // size of the buffer
    bool in_place = false;
    uint64_t salt = 0;  // salt of the current contents
  };
  using Tasks = std::vector<std::unique_ptr<Task>>;

  Measure(const PerfOptions& options, Bootstrap& bootstrap, Links& links, Worker& progress,
          Activity& activity, RankRecord& record, bool cores_are_few, Buffer send, Buffer receive);

  Result<Measurement> measure(const Shape& shape);
  Tasks makeTasks(const Shape& shape);
  void addRing(const Shape& shape, Tasks& tasks);
  void addExchange(const Shape& shape, int to, int from, std::size_t send_at, std::size_t receive_at,
                   Tasks& tasks);
  void addAllToAll(const Shape& shape, Tasks& tasks);
  Status run(const Tasks& tasks, int times);
  Status runChecked(Shape& shape, const Tasks& tasks, Wrong& wrong);

  const std::byte* input(const Shape& shape) const { return (shape.in_place ? receive_ : send_).data(); }
  void fill(const Shape& shape);
  void fillExpected(const Shape& shape, uint64_t first, std::span<std::byte> out) const;
  void verify(const Shape& shape, Wrong& wrong);
  Result<Measurement> agree(const Shape& shape, double seconds, const Wrong& wrong);
  std::string shapeText(const Shape& shape) const;

  const PerfOptions& options_;
  Bootstrap& bootstrap_;
  Links& links_;
  Worker& progress_;
  Activity& activity_;
  RankRecord& record_;
  IdleWait wait_;              // used by the progress worker
  uint64_t wrong_before_ = 0;  // wrong elements of this rank in earlier measurements
  const Buffer send_;
  const Buffer receive_;
  const int rank_;
  const int ranks_;
  const std::size_t element_;
  std::size_t window_ = 1;
  uint64_t next_salt_ = 1;
};

}  // namespace railwise::cli
