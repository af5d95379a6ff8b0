// Runs one transfer of a collective (perf/algorithm/plan.h) over the connections of one channel, and the
// tasks of a stage beside each other. Progress thread only.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "base/status.h"
#include "perf/algorithm/data.h"
#include "perf/algorithm/plan.h"
#include "perf/collective/link.h"
#include "perf/collective/traffic.h"
#include "perf/job/worker.h"

namespace railwise::cli {

// Splits the elements into equal parts whose sizes are multiples of `granule`, so that little data uses few
// channels.
std::vector<Part> splitParts(std::size_t count, int parts, std::size_t granule);

class TransferTask final : public Task {
 public:
  // `to` and `from` are null if the transfer does not need them. `after`: a chunk may be written only after
  // this task has read it; null: at any time.
  TransferTask(TaskPlan plan, SendLink* to, RecvLink* from, const TransferTask* after = nullptr);

  void start() override;
  Result<bool> advance() override;
  bool done() const override;

 private:
  const ChunkStep& step() const { return plan_.transfer.steps[step_]; }
  bool canStep() const;
  Part chunk() const;
  Status takeStep();
  std::size_t cut() const { return static_cast<std::size_t>(plan_.transfer.cut); }
  std::size_t offset(int first_block, const Part& chunk) const;

  const TaskPlan plan_;
  SendLink* const to_;
  RecvLink* const from_;
  const TransferTask* const after_;
  const std::size_t element_;
  std::size_t chunk_elements_ = 1;
  std::size_t rounds_ = 0;  // how often all steps are taken: once for each chunk of a block
  std::size_t receives_ = 0;
  std::size_t chunk_round_ = 0;
  std::size_t step_ = 0;
};

// Runs the tasks of a stage in order, at most `window` of them at a time. Calls `progress` in each pass.
Status runTasks(const Tasks& tasks, std::size_t window, Activity& activity, IdleWait& wait,
                const std::function<Status()>& progress);

}  // namespace railwise::cli
