// Several threads at once, with data checked. ThreadSanitizer is the other half of these tests.
#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <memory>
#include <thread>
#include <vector>

#include "softdev/endpoint.h"
#include "tests/wait.h"

namespace railwise::softdev::test {
namespace {

// Both ends write with immediate data to each other as fast as they can.
void exchange(Endpoint& end, uint64_t messages) {
  uint64_t sent = 0;
  uint64_t completed = 0;
  uint64_t received = 0;
  while (completed < messages || received < messages) {
    if (sent < messages && sent - completed < end.options.max_send_wr) {
      *end.word(8 * (sent % 32)) = sent;
      ASSERT_EQ(end.send({.opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
                          .offset = 8 * (sent % 32),
                          .length = 8,
                          .remote_offset = 1024 + 8 * (sent % 32)}),
                0);
      ++sent;
    }
    const ibv_wc wc = end.wait();
    ASSERT_EQ(wc.status, IBV_WC_SUCCESS);
    if (wc.opcode == IBV_WC_RDMA_WRITE) {
      ++completed;
      continue;
    }
    ++received;
    ASSERT_EQ(end.receive(received), 0);
  }
}

TEST(Threads, BothEndsAtOnce) {
  const OpenDevice device;
  Pair pair(device, {.cqe = 128});
  for (Endpoint* end : {&pair.a, &pair.b}) {
    for (uint64_t i = 0; i < end->options.max_recv_wr; ++i) ASSERT_EQ(end->receive(i), 0);
  }
  constexpr uint64_t kMessages = 3000;
  std::thread other([&] { exchange(pair.b, kMessages); });
  exchange(pair.a, kMessages);
  other.join();
}

TEST(Threads, OneQueuePairAndOneCompletionQueueForAll) {
  const OpenDevice device;
  Pair pair(device);
  constexpr int kThreads = 3;
  constexpr uint64_t kEach = 1000;
  std::atomic<uint64_t> completed{0};
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      uint64_t posted = 0;
      ibv_wc wc{};
      for (railwise::test::Patience patience; posted < kEach || completed.load() < kThreads * kEach;
           patience.again()) {
        if (posted < kEach) {
          *pair.a.word(8 * t) = posted + 1;
          const int error = pair.a.send({.offset = 8 * t, .length = 8, .remote_offset = 8 * t});
          EXPECT_TRUE(error == 0 || error == ENOMEM);
          posted += error == 0 ? 1 : 0;
        }
        if (pair.a.poll(&wc) == 1) completed.fetch_add(1);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(completed.load(), kThreads * kEach);
  for (unsigned t = 0; t < kThreads; ++t) EXPECT_EQ(*pair.b.word(8 * t), kEach);
  EXPECT_EQ(counters(device).writes, kThreads * kEach);
}

// When deregMr returns, nobody writes to the region any more: AddressSanitizer would see it.
TEST(Threads, DeregistrationWaitsForTransfers) {
  const OpenDevice device;
  for (int round = 0; round < 30; ++round) {
    Pair pair(device);
    constexpr size_t kBytes = 1 << 16;
    auto memory = std::make_unique<std::byte[]>(kBytes);
    ibv_mr* mr = regMr(pair.b.pd, memory.get(), kBytes, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    ASSERT_NE(mr, nullptr);
    pair.a.peer.memory = reinterpret_cast<uint64_t>(memory.get());
    pair.a.peer.rkey = mr->rkey;
    std::atomic<int> done{0};
    std::thread sender([&] {
      ibv_wc_status status = IBV_WC_SUCCESS;
      for (railwise::test::Patience patience; status == IBV_WC_SUCCESS; patience.again()) {
        ASSERT_EQ(pair.a.send({.length = kBytes}), 0);
        status = pair.a.wait().status;
        done.fetch_add(1);
      }
      EXPECT_EQ(status, IBV_WC_REM_ACCESS_ERR);
    });
    railwise::test::waitUntil([&] { return done.load() != 0; });
    ASSERT_EQ(deregMr(mr), 0);
    memory.reset();
    sender.join();
  }
}

// One thread moves the receiver to ERR while the other sends: every send completes, none twice.
TEST(Threads, ErrorWhileSending) {
  const OpenDevice device;
  for (int round = 0; round < 30; ++round) {
    Pair pair(device);
    for (uint64_t i = 0; i < 16; ++i) ASSERT_EQ(pair.b.receive(i), 0);
    std::thread breaker([&] { EXPECT_EQ(pair.b.toState(IBV_QPS_ERR), 0); });
    for (uint64_t i = 0; i < 16; ++i) ASSERT_EQ(pair.a.send({.opcode = IBV_WR_RDMA_WRITE_WITH_IMM}), 0);
    breaker.join();
    bool flushing = false;
    for (uint64_t i = 0; i < 16; ++i) {
      const ibv_wc wc = pair.b.wait();
      EXPECT_EQ(wc.wr_id, i);
      EXPECT_TRUE(wc.status == (flushing ? IBV_WC_WR_FLUSH_ERR : wc.status));
      flushing = wc.status == IBV_WC_WR_FLUSH_ERR;
    }
    ibv_wc wc{};
    EXPECT_EQ(pair.b.poll(&wc), 0);
  }
}

// Queue pairs come and go in two threads of one device.
TEST(Threads, CreateAndDestroy) {
  const OpenDevice device;
  const auto work = [&] {
    for (int i = 0; i < 50; ++i) {
      Pair pair(device, {.buffer_bytes = 64});
      ASSERT_EQ(pair.a.send({.length = 8}), 0);
      ASSERT_EQ(pair.a.wait().status, IBV_WC_SUCCESS);
    }
  };
  std::thread other(work);
  work();
  other.join();
}

}  // namespace
}  // namespace railwise::softdev::test
