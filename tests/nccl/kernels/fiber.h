// The blocks of a kernel as fibers of one thread.
//
// NCCL's kernels wait for one another: a block for its peers, the sending half of a block for the receiving
// one. On the software GPU one thread plays a launch. Each block, and each half of a block, is a fiber with a
// stack of its own; a fiber that waits says what for, and the scheduler looks at the condition without
// switching to the fiber.
#pragma once

#include <ucontext.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace kernels {

// Thrown out of a wait when NCCL has set the communicator's abort flag. It ends the fiber.
struct Aborted {};

// Runs the fibers of one launch. Not thread-safe: one thread creates it, runs it and ends it.
class Scheduler {
 public:
  // `abort_flag` is NCCL's; a set flag ends every fiber at its next wait. May be null.
  explicit Scheduler(const volatile uint32_t* abort_flag);
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;
  ~Scheduler();

  // Adds a fiber. From within a fiber too.
  void spawn(std::function<void()> body);

  // Runs until every fiber has ended. Returns false if the launch was aborted.
  bool run();

  // In a fiber: returns when `ready()` is true. Throws Aborted. `ready` must not wait.
  template <typename Ready>
  void waitUntil(Ready ready) {
    if (ready()) return;
    sleepOn([](void* context) { return (*static_cast<Ready*>(context))(); }, &ready);
  }

  // In a fiber: runs the bodies side by side, each as a fiber, and returns when all have ended.
  void together(std::vector<std::function<void()>> bodies);

 private:
  struct Fiber;
  using Condition = bool (*)(void* context);

  void sleepOn(Condition condition, void* context);
  void resume(Fiber& fiber);
  bool aborting() const { return abort_flag_ != nullptr && *abort_flag_ != 0; }
  static void enter(unsigned high, unsigned low);

  const volatile uint32_t* abort_flag_;
  bool aborted_ = false;
  ucontext_t home_{};  // of run()
  Fiber* current_ = nullptr;
  std::vector<std::unique_ptr<Fiber>> fibers_;
};

}  // namespace kernels
