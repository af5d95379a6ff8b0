// NCCL's proxy threads call sched_yield again and again while nothing moves, and a software GPU has many of
// them on few cores. Linux 6.18 stops running anything else then, its own threads too, for minutes
// ("rcu_preempt kthread starved", "workqueue lockup"): the time by which it judges who may run drifts away
// while threads only yield, and is set right when one of them sleeps (mended in Linux 7.0: "sched/fair: Fix
// zero_vruntime tracking fix"). So every now and then ours does.
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

namespace {

constexpr unsigned kYieldsBeforeSleep = 16;
constexpr timespec kSleep{.tv_sec = 0, .tv_nsec = 1000};

}  // namespace

// Takes the place of libc's for all that is linked to this library.
extern "C" [[gnu::visibility("default")]] int sched_yield() noexcept {
  thread_local unsigned calls = 0;
  if (++calls % kYieldsBeforeSleep != 0) return static_cast<int>(syscall(SYS_sched_yield));
  (void)nanosleep(&kSleep, nullptr);
  return 0;
}
