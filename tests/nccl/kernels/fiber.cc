#include "fiber.h"

#include <sched.h>
#include <sys/mman.h>
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <utility>

namespace kernels {

namespace {

// A kernel's deepest call chain keeps some 10 KiB of data on the stack; the pages behind it are touched only
// when used.
constexpr size_t kStackBytes = size_t{256} << 10;

// Rounds over all fibers without a condition met before the thread gives its core away, and before it sleeps.
// Many ranks share few cores: a kernel that spins keeps the proxy threads from running, which are what it
// waits for. A core given away by sched_yield alone is not enough: two threads that only yield starve a
// third. Each sleep is longer than the one before, so that a wait is at most prolonged by a fraction of
// itself.
constexpr unsigned kRoundsBeforeYield = 16;
constexpr unsigned kRoundsBeforeSleep = 128;
constexpr long kSleepStepNs = 10'000;
constexpr long kMaxSleepNs = 400'000;

void pause(unsigned idle_rounds) {
  if (idle_rounds < kRoundsBeforeYield) return;
  if (idle_rounds < kRoundsBeforeSleep) {
    sched_yield();
    return;
  }
  const long steps = static_cast<long>(idle_rounds - kRoundsBeforeSleep) + 1;
  const timespec time{.tv_sec = 0, .tv_nsec = std::min(steps * kSleepStepNs, kMaxSleepNs)};
  nanosleep(&time, nullptr);
}

// Stacks of ended fibers, kept for the thread's next launches: mapping memory costs more than a small
// operation.
class StackPool {
 public:
  ~StackPool() {
    for (void* stack : free_) munmap(stack, kStackBytes);
  }

  void* take() {
    if (!free_.empty()) {
      void* stack = free_.back();
      free_.pop_back();
      return stack;
    }
    void* stack = mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK | MAP_NORESERVE, -1, 0);
    if (stack == MAP_FAILED) {
      std::perror("software GPU: no memory for the stack of a kernel's block");
      std::abort();
    }
    return stack;
  }

  void giveBack(void* stack) { free_.push_back(stack); }

 private:
  std::vector<void*> free_;
};

thread_local StackPool stack_pool;

}  // namespace

struct Scheduler::Fiber {
  std::function<void()> body;
  ucontext_t context{};
  void* stack = nullptr;
  Condition condition = nullptr;  // null: ready to run
  void* condition_context = nullptr;
  bool ended = false;
};

Scheduler::Scheduler(const volatile uint32_t* abort_flag) : abort_flag_(abort_flag) {}

Scheduler::~Scheduler() {
  for (const auto& fiber : fibers_) stack_pool.giveBack(fiber->stack);
}

void Scheduler::spawn(std::function<void()> body) {
  auto fiber = std::make_unique<Fiber>();
  fiber->body = std::move(body);
  fiber->stack = stack_pool.take();
  getcontext(&fiber->context);
  fiber->context.uc_stack.ss_sp = fiber->stack;
  fiber->context.uc_stack.ss_size = kStackBytes;
  fiber->context.uc_link = nullptr;
  // makecontext passes integers only: the scheduler's address travels as two of them.
  const auto self = reinterpret_cast<uintptr_t>(this);
  makecontext(&fiber->context, reinterpret_cast<void (*)()>(&Scheduler::enter), 2,
              static_cast<unsigned>(self >> 32), static_cast<unsigned>(self));
  fibers_.push_back(std::move(fiber));
}

void Scheduler::enter(unsigned high, unsigned low) {
  auto* self = reinterpret_cast<Scheduler*>((static_cast<uintptr_t>(high) << 32) | low);
  Fiber& fiber = *self->current_;
  try {
    fiber.body();
  } catch (const Aborted&) {
    self->aborted_ = true;
  }
  fiber.ended = true;
  swapcontext(&fiber.context, &self->home_);
}

void Scheduler::resume(Fiber& fiber) {
  current_ = &fiber;
  swapcontext(&home_, &fiber.context);
  current_ = nullptr;
}

void Scheduler::sleepOn(Condition condition, void* context) {
  Fiber& fiber = *current_;
  fiber.condition = condition;
  fiber.condition_context = context;
  swapcontext(&fiber.context, &home_);
  fiber.condition = nullptr;
  if (aborting()) throw Aborted{};
}

bool Scheduler::run() {
  unsigned idle_rounds = 0;
  while (!fibers_.empty()) {
    bool moved = false;
    const bool stop = aborting();
    // By index: a fiber that runs may spawn others.
    for (size_t index = 0; index < fibers_.size(); ++index) {
      Fiber& fiber = *fibers_[index];
      if (!stop && fiber.condition != nullptr && !fiber.condition(fiber.condition_context)) continue;
      resume(fiber);
      moved = true;
    }
    for (size_t index = fibers_.size(); index-- > 0;) {
      if (!fibers_[index]->ended) continue;
      stack_pool.giveBack(fibers_[index]->stack);
      fibers_.erase(fibers_.begin() + static_cast<std::ptrdiff_t>(index));
    }
    idle_rounds = moved ? 0 : idle_rounds + 1;
    pause(idle_rounds);
  }
  return !aborted_;
}

void Scheduler::together(std::vector<std::function<void()>> bodies) {
  size_t remaining = bodies.size();
  for (const auto& body : bodies) {
    spawn([&body, &remaining] {
      struct CountDown {
        size_t& count;
        ~CountDown() { --count; }
      } count_down{remaining};
      body();
    });
  }
  // After an abort too this fiber ends last: the others use what lies on its stack.
  bool aborted = false;
  while (remaining != 0) {
    try {
      waitUntil([&] { return remaining == 0; });
    } catch (const Aborted&) {
      aborted = true;
    }
  }
  if (aborted) throw Aborted{};
}

}  // namespace kernels
