#include "fiber.h"

#include <gtest/gtest.h>

#include <string>

namespace kernels {
namespace {

TEST(Scheduler, RunsFibersByTurnsUntilAllHaveEnded) {
  Scheduler scheduler(nullptr);
  std::string order;
  int turn = 0;
  scheduler.spawn([&] {
    order += 'a';
    turn = 1;
    scheduler.waitUntil([&] { return turn == 2; });
    order += 'c';
  });
  scheduler.spawn([&] {
    scheduler.waitUntil([&] { return turn == 1; });
    order += 'b';
    turn = 2;
  });
  EXPECT_TRUE(scheduler.run());
  EXPECT_EQ(order, "abc");
}

TEST(Scheduler, DoesNotSwitchForAConditionThatHolds) {
  Scheduler scheduler(nullptr);
  std::string order;
  scheduler.spawn([&] {
    scheduler.waitUntil([] { return true; });
    order += 'a';
  });
  scheduler.spawn([&] { order += 'b'; });
  EXPECT_TRUE(scheduler.run());
  EXPECT_EQ(order, "ab");
}

TEST(Scheduler, TogetherReturnsWhenTheLastHasEnded) {
  Scheduler scheduler(nullptr);
  int passed = 0;
  int seen = 0;
  scheduler.spawn([&] {
    // Each needs the other: one after the other they would wait for ever.
    scheduler.together({[&] {
                          scheduler.waitUntil([&] { return passed == 1; });
                          passed = 2;
                        },
                        [&] {
                          passed = 1;
                          scheduler.waitUntil([&] { return passed == 2; });
                        }});
    seen = passed;
  });
  EXPECT_TRUE(scheduler.run());
  EXPECT_EQ(seen, 2);
}

TEST(Scheduler, AnAbortEndsEveryWaitAndRunsDestructors) {
  uint32_t abort_flag = 0;
  int alive = 0;
  struct Counted {
    int& count;
    explicit Counted(int& of) : count(of) { ++count; }
    ~Counted() { --count; }
  };
  Scheduler scheduler(&abort_flag);
  bool passed = false;
  scheduler.spawn([&] {
    scheduler.together({[&] {
                          const Counted counted(alive);
                          scheduler.waitUntil([] { return false; });
                          passed = true;
                        },
                        [&] {
                          const Counted counted(alive);
                          abort_flag = 1;
                          scheduler.waitUntil([] { return false; });
                          passed = true;
                        }});
    passed = true;
  });
  EXPECT_FALSE(scheduler.run());
  EXPECT_EQ(alive, 0);
  EXPECT_FALSE(passed);
}

}  // namespace
}  // namespace kernels
