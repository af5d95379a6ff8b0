// The collectives as state machines over links: start() arms one run, advance() does what can be done now and
// never waits. Progress thread only.
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

namespace railwise::tools {

class Task {
 public:
  virtual ~Task() = default;
  virtual void start() = 0;
  // True when something moved. Errors have been noted.
  virtual Result<bool> advance() = 0;
  virtual bool done() const = 0;
};

// Part [first, first + count) of the elements: what one channel of a collective moves.
struct Part {
  std::size_t first = 0;
  std::size_t count = 0;
};
// Equal parts in multiples of `granule` elements, so that little data stays on few channels.
std::vector<Part> splitParts(std::size_t count, int parts, std::size_t granule);

// Ring all-reduce of one channel: per loop, `size` chunks travel around the ring twice, first reduced, then
// copied.
struct RingPlan {
  int rank = 0;
  int size = 1;
  Part part;
  DataType type = DataType::kFloat;
  ReduceOp op = ReduceOp::kSum;
  const std::byte* input = nullptr;  // of the whole buffer; may be `output`
  std::byte* output = nullptr;
};
std::unique_ptr<Task> makeRing(const RingPlan& plan, SendLink& next, RecvLink& previous);

// A block to one rank and a block from one rank (maybe another one), of `bytes` each, in chunks of a slot.
struct ExchangePlan {
  const std::byte* send = nullptr;
  std::byte* receive = nullptr;
  std::size_t bytes = 0;
  bool empty_message = false;  // with bytes == 0: send one message without bytes, as NCCL does
  bool in_place = false;       // `receive` is `send`: a chunk may be overwritten only when it has been staged
};
std::unique_ptr<Task> makeExchange(const ExchangePlan& plan, SendLink& to, RecvLink& from);

// A block that stays on this rank.
std::unique_ptr<Task> makeCopy(const std::byte* from, std::byte* to, std::size_t bytes);

// Runs all tasks, at most `window` at a time, in order.
Status runTasks(const std::vector<std::unique_ptr<Task>>& tasks, std::size_t window, Activity& activity,
                IdleWait& wait);

}  // namespace railwise::tools
