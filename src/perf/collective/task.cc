#include "perf/collective/task.h"

#include <algorithm>
#include <cstring>

namespace railwise::cli {
namespace {

constexpr std::size_t kChunkElements = 16;  // the size of a chunk of a cut block is a multiple of this

std::size_t dividedUp(std::size_t value, std::size_t by) { return (value + by - 1) / by; }

void copyBytes(std::byte* to, const std::byte* from, std::size_t bytes) {
  if (bytes > 0 && to != from) std::memcpy(to, from, bytes);
}

}  // namespace

std::vector<Part> splitParts(std::size_t count, int parts, std::size_t granule) {
  std::vector<Part> result(static_cast<std::size_t>(parts));
  const auto n = static_cast<std::size_t>(parts);
  std::size_t share = (count + n - 1) / n;
  share = (share + granule - 1) / granule * granule;
  std::size_t first = 0;
  for (Part& part : result) {
    part = {first, std::min(share, count - first)};
    first += part.count;
  }
  return result;
}

TransferTask::TransferTask(TaskPlan plan, SendLink* to, RecvLink* from, const TransferTask* after)
    : plan_(std::move(plan)), to_(to), from_(from), after_(after), element_(elementBytes(plan_.type)) {
  const std::size_t count = plan_.part.count;
  // Without a connection, all is one chunk.
  std::size_t slot = std::max<std::size_t>(count, 1);
  if (to_ != nullptr) slot = to_->slotBytes() / element_;
  if (from_ != nullptr) slot = from_->slotBytes() / element_;
  chunk_elements_ = slot;
  if (cut() > 1) {
    const std::size_t even = dividedUp(dividedUp(count, cut()), kChunkElements) * kChunkElements;
    chunk_elements_ = std::max<std::size_t>(1, std::min(even, slot));
  }
  rounds_ = dividedUp(count, chunk_elements_ * cut());
  if (count == 0 && plan_.empty_message) rounds_ = 1;
  for (const ChunkStep& step : plan_.transfer.steps) receives_ += step.receive ? 1 : 0;
}

void TransferTask::start() {
  chunk_round_ = step_ = 0;
  if (from_ != nullptr) from_->expect(rounds_ * receives_);
}

bool TransferTask::done() const { return chunk_round_ == rounds_ && (to_ == nullptr || to_->idle()); }

Result<bool> TransferTask::advance() {
  bool moved = false;
  while (chunk_round_ < rounds_ && canStep()) {
    RAILWISE_TRY(takeStep());
    moved = true;
  }
  if (to_ != nullptr) {
    auto sent = to_->poll();
    if (!sent.ok()) return sent;
    moved = moved || *sent;
  }
  if (from_ != nullptr) {
    auto got = from_->poll();
    if (!got.ok()) return got;
    moved = moved || *got;
  }
  return moved;
}

bool TransferTask::canStep() const {
  return (!step().receive || from_->arrived()) && (!step().send || to_->slotFree()) &&
         (after_ == nullptr || after_->chunk_round_ > chunk_round_);
}

// The chunk of this step, as elements of the block. If the block is cut, the data of the last round are
// divided evenly among the pieces.
Part TransferTask::chunk() const {
  const std::size_t round_first = chunk_round_ * chunk_elements_ * cut();
  const std::size_t rest = plan_.part.count - round_first;
  if (cut() == 1) return {plan_.part.first + round_first, std::min(chunk_elements_, rest)};
  std::size_t size = std::min(chunk_elements_, dividedUp(rest, cut()));
  size = std::min(chunk_elements_, dividedUp(size, kChunkElements) * kChunkElements);
  const std::size_t first = std::min(rest, static_cast<std::size_t>(step().block) * size);
  return {plan_.part.first + round_first + first, std::min(size, rest - first)};
}

// Where the chunk is in a buffer that begins with `first_block`.
std::size_t TransferTask::offset(int first_block, const Part& chunk) const {
  const auto block = cut() > 1 ? 0 : static_cast<std::size_t>(step().block - first_block);
  return (block * plan_.block + chunk.first) * element_;
}

Status TransferTask::takeStep() {
  const ChunkStep& its = step();
  const Part part = chunk();
  const std::size_t bytes = part.count * element_;
  if (its.receive && from_->message().size() != bytes) return from_->wrongSize(bytes);
  const std::byte* const received = its.receive ? from_->message().data() : nullptr;
  std::byte* const slot = its.send ? to_->nextSlot() : nullptr;
  std::byte* const output = its.keep ? plan_.output.data + offset(plan_.output.first_block, part) : nullptr;
  std::byte* const target = its.keep ? output : slot;
  const std::byte* input = nullptr;
  if (its.input && plan_.transfer.from_output) {
    input = plan_.output.data + offset(plan_.output.first_block, part);
  } else if (its.input) {
    input = plan_.input.data + offset(plan_.input.first_block, part);
  }
  if (bytes > 0 && its.receive && its.input) {
    reduce(plan_.type, plan_.op, received, input, target, part.count);
  } else {
    copyBytes(target, its.receive ? received : input, bytes);
  }
  // A reduction that a rank keeps has the contributions of all ranks.
  if (bytes > 0 && its.input && its.keep && plan_.op == ReduceOp::kAvg)
    divide(plan_.type, output, part.count, plan_.ranks);
  if (its.keep && its.send) copyBytes(slot, output, bytes);
  if (its.receive) from_->consume();
  if (its.send) to_->stage(bytes);
  if (++step_ == plan_.transfer.steps.size()) {
    step_ = 0;
    ++chunk_round_;
  }
  return Status::success();
}

Status runTasks(const Tasks& tasks, std::size_t window, Activity& activity, IdleWait& wait,
                const std::function<Status()>& progress) {
  for (const auto& task : tasks) task->start();
  std::size_t first = 0;
  while (true) {
    while (first < tasks.size() && tasks[first]->done()) ++first;
    if (first == tasks.size()) return Status::success();
    RAILWISE_TRY(progress());
    bool moved = false;
    const std::size_t end = std::min(tasks.size(), first + window);
    for (std::size_t i = first; i < end; ++i) {
      if (tasks[i]->done()) continue;
      auto advanced = tasks[i]->advance();
      if (!advanced.ok()) return advanced.status();
      moved = moved || *advanced;
    }
    if (moved) {
      wait.moved();
      activity.tick();
    } else {
      wait.idle();
    }
  }
}

}  // namespace railwise::cli
