// The gate that keeps threads out of the plugin, and the workers that call it.

#include <gtest/gtest.h>

#include <atomic>
#include <memory>

#include "perf/job/worker.h"
#include "tests/wait.h"

namespace railwise::cli {
namespace {

TEST(CallGate, AClosedGateLetsNoOneIn) {
  CallGate gate;
  EXPECT_TRUE(CallGate::Pass(gate).ok());
  EXPECT_TRUE(gate.close(std::chrono::seconds(0)));
  EXPECT_TRUE(gate.closed());
  EXPECT_FALSE(CallGate::Pass(gate).ok());
}

TEST(CallGate, ClosingWaitsForWhoIsInside) {
  CallGate gate;
  auto pass = std::make_unique<CallGate::Pass>(gate);
  EXPECT_FALSE(gate.close(std::chrono::milliseconds(1)));
  pass.reset();
  EXPECT_TRUE(gate.close(std::chrono::minutes(1)));
}

TEST(CallGate, AWorkerRunsNothingBehindAClosedGate) {
  CallGate gate;
  Worker worker("test", gate);
  int runs = 0;
  const auto job = [&] {
    ++runs;
    return Status::success();
  };
  EXPECT_TRUE(worker.run(job).ok());
  EXPECT_TRUE(gate.close(std::chrono::minutes(1)));
  EXPECT_FALSE(worker.run(job).ok());
  EXPECT_EQ(runs, 1);
}

TEST(Worker, BetweenJobsItCallsWhatItIsToldTo) {
  CallGate gate;
  std::atomic<int> calls = 0;
  Worker worker("test", gate, [&] {
    ++calls;
    return Status::success();
  });
  const auto job = [] { return Status::success(); };
  EXPECT_TRUE(worker.run(job).ok());
  const int before = calls;
  test::waitUntil([&] { return calls > before; });
  EXPECT_TRUE(worker.run(job).ok());
}

TEST(Worker, WhatFailsBetweenJobsFailsThem) {
  CallGate gate;
  std::atomic<bool> called = false;
  Worker worker("test", gate, [&] {
    called = true;
    return Status{Code::kRemote};
  });
  test::waitUntil([&] { return called.load(); });
  EXPECT_EQ(worker.run([] { return Status::success(); }).code, Code::kRemote);
}

}  // namespace
}  // namespace railwise::cli
