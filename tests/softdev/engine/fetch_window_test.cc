// A queue pair has at most max_rd_atomic READs and atomics outstanding, and its peer answers at most
// max_dest_rd_atomic of them. Times are those of the time model, so no test measures a clock.
#include <gtest/gtest.h>

#include <algorithm>

#include "softdev/endpoint.h"
#include "softdev/fabric/monotonic.h"
#include "softdev/queues/objects.h"

namespace railwise::softdev::test {
namespace {

constexpr Send kAdd{
    .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD, .offset = 64, .length = 8, .remote_offset = 128, .imm = 1};
constexpr Send kRead{.opcode = IBV_WR_RDMA_READ, .offset = 64, .length = 8, .remote_offset = 128};
constexpr Send kWrite{.offset = 0, .length = 8, .remote_offset = 256};

Options fetching(uint8_t max_rd_atomic, uint8_t max_dest_rd_atomic = 16) {
  Options options;
  options.mr_access |= IBV_ACCESS_REMOTE_ATOMIC;
  options.qp_access |= IBV_ACCESS_REMOTE_ATOMIC;
  options.max_rd_atomic = max_rd_atomic;
  options.max_dest_rd_atomic = max_dest_rd_atomic;
  return options;
}

size_t waiting(const Endpoint& end) { return as<Qp>(end.qp).parked.size(); }
uint64_t readyNs(const Endpoint& end) { return as<Qp>(end.qp).last_ready_ns; }

// For a test that waits for answers, and whose posts must all come before the first.
constexpr char kSlow[] = "pacing=on,latency_ns=200000000";
// A second each way: no test is so slow that an answer comes meanwhile.
constexpr char kFar[] = "pacing=on,latency_ns=1000000000";

constexpr uint64_t kLatencyNs = 5'000'000;
constexpr char kNear[] = "pacing=on,latency_ns=5000000";

// How long after the first the last of `count` atomics is answered. All are posted before the first is
// answered: where the computer was too slow for that, once more.
uint64_t roundTripsNs(int count) {
  const OpenDevice device(kNear);
  for (;;) {
    Pair pair(device, device, fetching(1), fetching(1));
    EXPECT_EQ(pair.a.send(kAdd), 0);
    const uint64_t first = readyNs(pair.a);
    for (int i = 1; i < count; ++i) EXPECT_EQ(pair.a.send(kAdd), 0);
    const bool in_time = monotonicNs() < first;
    for (int i = 0; i < count; ++i) EXPECT_EQ(pair.a.wait().status, IBV_WC_SUCCESS);
    EXPECT_EQ(*pair.b.word(128), static_cast<uint64_t>(count));
    if (in_time) return readyNs(pair.a) - first;
  }
}

// 8 bytes and 30 of headers at 400 Gb/s are less than a nanosecond.
TEST(FetchWindow, TwoAtomicsOneAtATimeTakeTwoRoundTrips) { EXPECT_EQ(roundTripsNs(2), 2 * kLatencyNs); }

// The requester goes on when the answer comes, not when somebody polls.
TEST(FetchWindow, EachOfManyAtomicsTakesARoundTrip) { EXPECT_EQ(roundTripsNs(8), 7 * 2 * kLatencyNs); }

TEST(FetchWindow, AsManyAsAllowedFlyTogether) {
  const OpenDevice device(kFar);
  Pair pair(device, fetching(3));
  for (const Send& send : {kAdd, kRead, kAdd, kRead}) ASSERT_EQ(pair.a.send(send), 0);
  EXPECT_EQ(waiting(pair.a), 1U);
  EXPECT_EQ(*pair.b.word(128), 2U);
}

TEST(FetchWindow, WhatIsPostedBehindAWaitingAtomicWaitsToo) {
  const OpenDevice device(kFar);
  Pair pair(device, fetching(1));
  *pair.a.word(0) = 7;
  for (const Send& send : {kRead, kAdd, kWrite}) ASSERT_EQ(pair.a.send(send), 0);
  EXPECT_EQ(waiting(pair.a), 2U);
  EXPECT_EQ(*pair.b.word(128), 0U);
  EXPECT_EQ(*pair.b.word(256), 0U);
}

TEST(FetchWindow, WritesDoNotCount) {
  const OpenDevice device(kFar);
  Pair pair(device, fetching(1));
  for (const Send& send : {kWrite, kAdd, kWrite, kWrite}) ASSERT_EQ(pair.a.send(send), 0);
  EXPECT_EQ(waiting(pair.a), 0U);
}

TEST(FetchWindow, AnAtomicThatWaitsInAQueuePairThatFailsIsNotExecuted) {
  const OpenDevice device(kFar);
  Pair pair(device, fetching(1));
  for (int i = 0; i < 3; ++i) ASSERT_EQ(pair.a.send(kAdd), 0);
  ASSERT_EQ(pair.a.toState(IBV_QPS_ERR), 0);
  EXPECT_EQ(waiting(pair.a), 0U);
  EXPECT_EQ(*pair.b.word(128), 1U);
}

TEST(FetchWindow, AResponderRefusesMoreThanItsResources) {
  const OpenDevice device(kSlow);
  Pair pair(device, fetching(3, 2));
  for (int i = 0; i < 3; ++i) ASSERT_EQ(pair.a.send(kAdd), 0);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(pair.a.wait().status, IBV_WC_SUCCESS);
  EXPECT_EQ(pair.a.wait().status, IBV_WC_REM_INV_REQ_ERR);
  EXPECT_EQ(*pair.b.word(128), 2U);
  EXPECT_EQ(pair.b.state(), IBV_QPS_ERR);
}

TEST(FetchWindow, CountsOnWhereItsNumbersWrap) {
  FetchWindow window(UINT32_MAX - 5);
  for (uint64_t i = 1; i <= 40; ++i) {
    window.add(i);
    EXPECT_EQ(window.outstanding(i - 1), 1U) << i;
    EXPECT_EQ(window.outstanding(i < 5 ? 0 : i - 5), std::min<uint64_t>(i, 5)) << i;
    if (i > 3) EXPECT_EQ(window.opensAt(3), i - 2);
  }
}

// Without a wire every answer comes at once.
TEST(FetchWindow, WithoutAWireNothingWaits) {
  const OpenDevice device;
  Pair pair(device, fetching(1, 1));
  for (int i = 0; i < 16; ++i) ASSERT_EQ(pair.a.send(kAdd), 0);
  EXPECT_EQ(waiting(pair.a), 0U);
  EXPECT_EQ(*pair.b.word(128), 16U);
}

TEST(FetchWindow, ResetForgetsWhatWasOutstanding) {
  const OpenDevice device(kFar);
  Pair pair(device, fetching(1));
  ASSERT_EQ(pair.a.send(kAdd), 0);
  ASSERT_EQ(pair.a.toState(IBV_QPS_RESET), 0);
  pair.a.connect(pair.b.address());
  ASSERT_EQ(pair.a.send(kAdd), 0);
  EXPECT_EQ(waiting(pair.a), 0U);
}

}  // namespace
}  // namespace railwise::softdev::test
