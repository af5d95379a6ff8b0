// Ring all-reduce of one channel (makeRing in perf/collective/task.h).
//
// A loop moves `size` chunks in 2 * size - 1 steps. In step s, a rank works on chunk (rank - 1 - s) mod size.
// Its predecessor worked on this chunk in step s - 1. What a rank does in each step:
//   step 0                sends its own input of the chunk;
//   steps 1 .. size-2     receives, adds its input, sends on;
//   step size-1           receives, adds its input: the result; keeps it and sends it on;
//   steps size .. 2size-3 receives a result, keeps it, sends it on;
//   step 2size-2          receives the last result and keeps it.
// Chunks may be empty at the end of the data. They travel as messages without bytes, as in NCCL.
#include <algorithm>
#include <cstring>

#include "perf/collective/task.h"

namespace railwise::cli {
namespace {

constexpr std::size_t kChunkElements = 16;  // the size of a chunk is a multiple of this

class RingTask final : public Task {
 public:
  RingTask(const RingPlan& plan, SendLink& next, RecvLink& previous)
      : plan_(plan), next_(next), previous_(previous), element_(elementBytes(plan.type)) {
    const std::size_t slot = next.slotBytes() / element_;
    std::size_t chunk = (plan.part.count + n() - 1) / n();
    chunk = (chunk + kChunkElements - 1) / kChunkElements * kChunkElements;
    chunk_ = std::max<std::size_t>(1, std::min(chunk, slot));
    loops_ = (plan.part.count + chunk_ * n() - 1) / (chunk_ * n());
  }

  void start() override {
    loop_ = step_ = 0;
    previous_.expect(loops_ * (2 * n() - 2));
  }

  Result<bool> advance() override {
    bool moved = false;
    while (loop_ < loops_ && canStep()) {
      RAILWISE_TRY(takeStep());
      moved = true;
    }
    auto sent = next_.poll();
    if (!sent.ok()) return sent;
    auto got = previous_.poll();
    if (!got.ok()) return got;
    return moved || *sent || *got;
  }

  bool done() const override { return loop_ == loops_ && next_.idle(); }

 private:
  std::size_t n() const { return static_cast<std::size_t>(plan_.size); }
  bool receives() const { return step_ > 0; }
  bool sends() const { return step_ < 2 * n() - 2; }
  bool canStep() const { return (!receives() || previous_.arrived()) && (!sends() || next_.slotFree()); }

  // The chunk of this step, as elements of the whole buffer. The data of the last loop is divided evenly
  // among the chunks.
  Part chunk() const {
    const std::size_t loop_first = loop_ * chunk_ * n();
    const std::size_t rest = plan_.part.count - loop_first;
    std::size_t size = std::min(chunk_, (rest + n() - 1) / n());
    size = std::min(chunk_, (size + kChunkElements - 1) / kChunkElements * kChunkElements);
    const std::size_t index = (static_cast<std::size_t>(plan_.rank) + 2 * n() - 1 - step_) % n();
    const std::size_t first = std::min(rest, index * size);
    return {plan_.part.first + loop_first + first, std::min(size, rest - first)};
  }

  Status takeStep() {
    const Part part = chunk();
    const std::size_t bytes = part.count * element_;
    const std::byte* const input = plan_.input + part.first * element_;
    std::byte* const output = plan_.output + part.first * element_;
    std::byte* const slot = next_.nextSlot();
    if (receives() && previous_.message().size() != bytes) return previous_.wrongSize(bytes);
    const std::byte* const received = receives() ? previous_.message().data() : nullptr;
    if (bytes == 0) {
    } else if (step_ == 0) {
      std::memcpy(slot, input, bytes);
    } else if (step_ < n() - 1) {
      reduce(plan_.type, plan_.op, received, input, slot, part.count);
    } else {
      if (step_ == n() - 1) {
        reduce(plan_.type, plan_.op, received, input, output, part.count);
      } else {
        std::memcpy(output, received, bytes);
      }
      if (sends()) std::memcpy(slot, output, bytes);
    }
    if (receives()) previous_.consume();
    if (sends()) next_.stage(bytes);
    if (++step_ == 2 * n() - 1) {
      step_ = 0;
      ++loop_;
    }
    return Status::success();
  }

  const RingPlan plan_;
  SendLink& next_;
  RecvLink& previous_;
  const std::size_t element_;
  std::size_t chunk_ = 1;
  std::size_t loops_ = 0;
  std::size_t loop_ = 0;
  std::size_t step_ = 0;
};

}  // namespace

std::unique_ptr<Task> makeRing(const RingPlan& plan, SendLink& next, RecvLink& previous) {
  return std::make_unique<RingTask>(plan, next, previous);
}

}  // namespace railwise::cli
