// What a message costs, counted exactly by the software device: the numbers that carry over to hardware.
#include <gtest/gtest.h>

#include <vector>

#include "loop_connection.h"
#include "tests/ok.h"
#include "tests/wait.h"

namespace railwise::net {
namespace {

constexpr uint64_t kClearToSends = 96;  // one clear-to-send of so many asks for a completion
constexpr uint64_t kCounted = 480;      // a multiple of every batch, so that nothing is left over

class CountsTest : public testing::Test {
 protected:
  // One group of `n` messages of `bytes` each, to completion.
  void exchange(int n, size_t bytes) {
    Request* receive = loop_.receive(n, bytes, bytes);
    ASSERT_NE(receive, nullptr);
    std::vector<Request*> sends;
    for (int i = 0; i < n; ++i) {
      sends.push_back(loop_.send(0, bytes));
      ASSERT_NE(sends.back(), nullptr);
    }
    for (Request* send : sends) ASSERT_TRUE(LoopConnection::finish(send));
    ASSERT_TRUE(LoopConnection::finish(receive));
  }

  // Of kCounted such groups.
  softdev::Counters countersOf(int n, size_t bytes) {
    return loop_.countersOf([&] {
      for (uint64_t i = 0; i < kCounted; ++i) exchange(n, bytes);
    });
  }

  LoopConnection loop_{1 << 20};
  std::vector<Request*> sent_;
};

// NCCL makes no such windows. Eight sends without a test between them have one completion.
TEST_F(CountsTest, AWindowOfEightIsSixteenPostsAndLittleMoreThanNineCompletions) {
  const auto window = [&] {
    std::vector<Request*> requests;
    for (int i = 0; i < 8; ++i) requests.push_back(loop_.receive(1, 8192, 64));
    for (Request* sent : sent_) ASSERT_TRUE(LoopConnection::finish(sent));
    sent_.clear();
    for (int i = 0; i < 8; ++i) sent_.push_back(loop_.send(0, 64));
    for (Request* received : requests) ASSERT_TRUE(LoopConnection::finish(received));
  };
  for (int i = 0; i < 4; ++i) window();
  const softdev::Counters made = loop_.countersOf([&] {
    for (uint64_t i = 0; i < kCounted / 8; ++i) window();
  });
  EXPECT_EQ(made.writes_with_imm, kCounted);
  EXPECT_EQ(made.writes, kCounted);
  EXPECT_EQ(made.post_send_calls, 2 * kCounted);
  EXPECT_EQ(made.receives, kCounted);
  EXPECT_EQ(made.post_recv_calls, kCounted / 32);
  EXPECT_NEAR(static_cast<double>(made.completions),
              static_cast<double>(kCounted + kCounted / 8 + kCounted / kClearToSends), 1);
}

// As NCCL calls. Two work requests and two completions: no more can be asked of a message than these.
TEST_F(CountsTest, AMessageOfAStreamIsTwoPostsAndTwoCompletions) {
  std::vector<Request*> receives;
  for (int i = 0; i < 8; ++i) receives.push_back(loop_.receive(1, 8192, 64));
  const softdev::Counters made = loop_.countersOf([&] {
    for (uint64_t i = 0; i < kCounted; ++i) {
      Request* const send = loop_.send(0, 64);
      ASSERT_TRUE(send != nullptr && LoopConnection::finish(send));
      ASSERT_TRUE(LoopConnection::finish(receives[i % 8]));
      receives[i % 8] = loop_.receive(1, 8192, 64);
    }
  });
  EXPECT_EQ(made.writes_with_imm, kCounted);
  EXPECT_EQ(made.writes, kCounted);
  EXPECT_EQ(made.post_send_calls, 2 * kCounted);
  EXPECT_EQ(made.completions, 2 * kCounted + kCounted / kClearToSends);
}

TEST_F(CountsTest, ALargeMessageAsksForItsCompletion) {
  const softdev::Counters made = countersOf(1, 65536);
  EXPECT_EQ(made.writes_with_imm, kCounted);
  EXPECT_EQ(made.post_send_calls, 2 * kCounted);
  EXPECT_EQ(made.completions, 2 * kCounted + kCounted / kClearToSends);
}

// A write for each message, and the clear-to-sends in one.
TEST_F(CountsTest, AGroupOfEight) {
  const softdev::Counters made = countersOf(8, 64);
  EXPECT_EQ(made.writes, (7 + 1) * kCounted);
  EXPECT_EQ(made.writes_with_imm, kCounted);
  EXPECT_EQ(made.post_send_calls, 2 * kCounted);
  EXPECT_EQ(made.receives, kCounted);
}

TEST_F(CountsTest, AGroupThatFitsACacheLineIsOneWrite) {
  const softdev::Counters made = countersOf(8, 8);
  EXPECT_EQ(made.writes, kCounted);
  EXPECT_EQ(made.writes_with_imm, kCounted);
  EXPECT_EQ(made.bytes, kCounted * (8 * 8 + 8 * sizeof(ClearToSend) - kUnwrittenBytes));
}

// A write or send on iWARP is complete when TCP has it: the read behind them shows that they have arrived.
TEST(IwarpCounts, AMessageIsAWriteASendAndARead) {
  LoopConnection loop(1 << 16, "link=iwarp");
  const softdev::Counters made = loop.countersOf([&] {
    for (uint64_t i = 0; i < kCounted; ++i) {
      Request* const receive = loop.receive(1, 4096, 4096);
      ASSERT_NE(receive, nullptr);
      ASSERT_TRUE(LoopConnection::finish(loop.sendWhenReady(0, 4096)));
      ASSERT_TRUE(LoopConnection::finish(receive));
    }
  });
  EXPECT_EQ(made.writes, kCounted);
  EXPECT_EQ(made.reads, kCounted);
  // The read; both ends' receives; now and then a clear-to-send.
  EXPECT_EQ(made.completions, 3 * kCounted + kCounted / kClearToSends);
}

TEST_F(CountsTest, ClearToSendTravelsInline) {
  EXPECT_EQ(loop_.countersOf([&] { exchange(1, 65536); }).inline_sends, 1U);
}

TEST_F(CountsTest, AFlushIsOneReadOfTheDevice) {
  const softdev::Counters made = loop_.countersOf([&] {
    Request* flush = nullptr;
    ASSERT_OK(loop_.receiver().iflush(loop_.address(0), *loop_.memory(), &flush));
    ASSERT_TRUE(LoopConnection::finish(flush));
  });
  EXPECT_EQ(made.reads, 1U);
  EXPECT_EQ(made.bytes, 1U);
}

TEST_F(CountsTest, WithinOneProcessNoSystemCallMovesData) {
  EXPECT_EQ(loop_.countersOf([&] { exchange(1, 1 << 18); }).system_calls, 0U);
}

}  // namespace
}  // namespace railwise::net
