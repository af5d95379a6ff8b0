#include <gtest/gtest.h>
#include <sys/resource.h>

#include "perf/job/worker.h"
#include "tests/wait.h"

namespace railwise::cli {
namespace {

// How often this thread has slept; to offer the core is none.
long sleeps() {
  rusage usage{};
  getrusage(RUSAGE_THREAD, &usage);
  return usage.ru_nvcsw;
}

TEST(IdleWait, SleepsOnceItHasBeenInVainForLongWhereCoresAreFew) {
  IdleWait wait(true);
  const long before = sleeps();
  for (test::Patience patience; sleeps() < before + 10; patience.again()) wait.idle();
  EXPECT_GE(wait.naps(), 1U);
  wait.moved();
  const long after = sleeps();
  for (int i = 0; i < 40; ++i) wait.idle();
  EXPECT_EQ(sleeps(), after);
}

TEST(IdleWait, DoesNotSleepWhereThereAreCores) {
  IdleWait wait(false);
  const auto until = Clock::now() + std::chrono::milliseconds(30);
  while (Clock::now() < until) wait.idle();
  EXPECT_EQ(wait.naps(), 0U);
}

}  // namespace
}  // namespace railwise::cli
