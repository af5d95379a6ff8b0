// Jobs of a worker: in their order, in its thread, and what becomes of one that does not end.
#include "net/device/worker.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "net/in_child.h"
#include "tests/wait.h"

namespace railwise::net {
namespace {

using std::chrono::milliseconds;

TEST(Worker, RunsJobsInTheirOrderInAThreadOfItsOwn) {
  std::vector<int> ran;
  std::thread::id thread;
  {
    Worker worker("test-worker");
    for (int i = 0; i < 100; ++i) {
      ASSERT_TRUE(worker.run([&, i] {
        ran.push_back(i);
        thread = std::this_thread::get_id();
      }));
    }
    EXPECT_TRUE(worker.finish(milliseconds(10'000)));
    EXPECT_FALSE(worker.run([] {}));
  }
  ASSERT_EQ(ran.size(), 100U);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(ran[static_cast<std::size_t>(i)], i);
  EXPECT_NE(thread, std::this_thread::get_id());
}

// A sanitizer has threads of its own.
bool runs(const std::string& thread_name) {
  return std::ranges::any_of(std::filesystem::directory_iterator("/proc/self/task"), [&](const auto& task) {
    std::string name;
    return std::getline(std::ifstream(task.path() / "comm"), name) && name == thread_name;
  });
}

TEST(Worker, EndsAThreadWithoutJobsAndBeginsAnother) {
  Worker worker("test-worker", milliseconds(1));
  for (int i = 0; i < 20; ++i) {
    std::promise<void> named;
    std::promise<void> ran;
    ASSERT_TRUE(worker.run([&, is_named = named.get_future().share()] {
      is_named.wait();
      ran.set_value();
    }));
    test::waitUntil([] { return runs("test-worker"); });
    named.set_value();
    ran.get_future().wait();
    test::waitUntil([] { return !runs("test-worker"); });
  }
  EXPECT_TRUE(worker.finish(milliseconds(0)));
  EXPECT_FALSE(worker.run([] {}));
}

TEST(Worker, HasNothingToFinishWithoutJobs) {
  Worker worker("test-worker");
  EXPECT_TRUE(worker.finish(milliseconds(0)));
}

TEST(Worker, LeavesAJobThatDoesNotEndBehind) {
  std::promise<void> goes_on;
  const auto ended = std::make_shared<std::atomic<bool>>(false);
  {
    Worker worker("test-worker");
    ASSERT_TRUE(worker.run([wait = goes_on.get_future().share(), ended] {
      wait.wait();
      *ended = true;
    }));
    EXPECT_FALSE(worker.finish(milliseconds(10)));
    EXPECT_FALSE(worker.finish(milliseconds(10)));
  }
  EXPECT_FALSE(*ended);
  goes_on.set_value();
  test::waitUntil([&] { return ended->load(); });
}

// Patience is for one job, not for all of them.
TEST(Worker, WaitsAsLongAsJobsEnd) {
  Worker worker("test-worker");
  for (int i = 0; i < 24; ++i) ASSERT_TRUE(worker.run([] { std::this_thread::sleep_for(milliseconds(50)); }));
  EXPECT_TRUE(worker.finish(milliseconds(1000)));
}

TEST(Worker, TakesNoJobsInAForkedChildAndWaitsForNothing) {
  std::promise<void> goes_on;
  Worker worker("test-worker");
  ASSERT_TRUE(worker.run([wait = goes_on.get_future().share()] { wait.wait(); }));
  EXPECT_EQ("", inChild([&]() -> std::string {
              if (worker.run([] {})) return "it takes a job";
              return worker.finish(milliseconds(60'000)) ? "" : "it waits";
            }));
  goes_on.set_value();
  EXPECT_TRUE(worker.finish(milliseconds(10'000)));
}

}  // namespace
}  // namespace railwise::net
