// The collectives as state machines over links. start() prepares one run. advance() does what is possible at
// once and never waits. Progress thread only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/status.h"
#include "perf/collective/data.h"
#include "perf/collective/link.h"
#include "perf/job/activity.h"
#include "perf/job/idle_wait.h"

namespace railwise::cli {

class Task {
 public:
  virtual ~Task() = default;
  virtual void start() = 0;
  // True: something moved. Errors are already noted.
  virtual Result<bool> advance() = 0;
  virtual bool done() const = 0;
};

// The elements [first, first + count): what one channel of a collective moves.
struct Part {
  std::size_t first = 0;
  std::size_t count = 0;
};
// Splits the elements into equal parts whose sizes are multiples of `granule`, so that little data uses few
// channels.
std::vector<Part> splitParts(std::size_t count, int parts, std::size_t granule);

// The plan of a ring all-reduce of one channel. In each loop, `size` chunks travel around the ring twice:
// first they are reduced, then they are copied.
struct RingPlan {
  int rank = 0;
  int size = 1;
  Part part;
  DataType type = DataType::kFloat;
  ReduceOp op = ReduceOp::kSum;
  const std::byte* input = nullptr;  // the whole buffer; may be equal to `output`
  std::byte* output = nullptr;
};
std::unique_ptr<Task> makeRing(const RingPlan& plan, SendLink& next, RecvLink& previous);

// Sends a block to one rank and receives a block from one rank, which may be another rank. Each block has
// `bytes` bytes and travels in chunks of one slot.
struct ExchangePlan {
  const std::byte* send = nullptr;
  std::byte* receive = nullptr;
  std::size_t bytes = 0;
  bool empty_message = false;  // if `bytes` is 0, send one empty message, as NCCL does
  bool in_place = false;       // `receive` equals `send`: a chunk may be overwritten only after it was staged
};
std::unique_ptr<Task> makeExchange(const ExchangePlan& plan, SendLink& to, RecvLink& from);

// Copies a block that stays on this rank.
std::unique_ptr<Task> makeCopy(const std::byte* from, std::byte* to, std::size_t bytes);

// Runs all tasks in order, at most `window` of them at a time.
Status runTasks(const std::vector<std::unique_ptr<Task>>& tasks, std::size_t window, Activity& activity,
                IdleWait& wait);

}  // namespace railwise::cli
