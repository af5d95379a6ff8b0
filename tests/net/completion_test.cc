// Sends that ask for no completion of their own: how they end all the same.
#include <gtest/gtest.h>

#include <vector>

#include "loop_connection.h"
#include "said.h"

namespace railwise::net {
namespace {

bool known(Request* request) {
  bool done = false;
  return request->connection->test(*request, &done, nullptr).ok() && done;
}

// The receiver does nothing after it has the data: an empty write asks.
TEST(Completion, NeedsNoFurtherCallOfTheReceiver) {
  LoopConnection loop(4096);
  Request* const receive = loop.receive(1, 0, 64);
  Request* const send = loop.send(1024, 64);
  ASSERT_TRUE(send != nullptr && LoopConnection::finish(receive));
  const softdev::Counters before = loop.counters();
  EXPECT_TRUE(LoopConnection::finish(send));
  const softdev::Counters after = loop.counters();
  EXPECT_EQ(after.writes - before.writes, 1U);
  EXPECT_EQ(after.bytes, before.bytes);
}

TEST(Completion, TheNextClearToSendIsEnough) {
  LoopConnection loop(4096);
  Request* const receive = loop.receive(1, 0, 64);
  Request* const send = loop.send(1024, 64);
  ASSERT_TRUE(send != nullptr && LoopConnection::finish(receive));
  EXPECT_FALSE(known(send));
  ASSERT_NE(loop.receive(1, 0, 64), nullptr);
  const softdev::Counters before = loop.counters();
  EXPECT_TRUE(known(send));
  EXPECT_EQ(loop.counters().post_send_calls, before.post_send_calls);
}

// The receiver has the data and goes; its queue pairs answer nothing any more.
TEST(Completion, AReceiverThatClosesSaysWhatArrived) {
  for (const int messages : {1, 3}) {
    LoopConnection loop(4096);
    const test::Said said;
    std::vector<Request*> sends;
    for (int i = 0; i < messages; ++i) {
      Request* const receive = loop.receive(1, 0, 64);
      sends.push_back(loop.send(1024, 64));
      ASSERT_TRUE(sends.back() != nullptr && LoopConnection::finish(receive));
    }
    Context::close(&loop.receiver());
    for (Request* send : sends) EXPECT_TRUE(LoopConnection::finish(send));
    EXPECT_EQ(said.warnings(), "");
  }
}

// What has not arrived ends with an error then.
TEST(Completion, AReceiverThatClosesEarlyEndsTheSend) {
  LoopConnection loop(4096, "count=1;fault opcode=write_imm stuck");
  const test::Said said;
  ASSERT_NE(loop.receive(1, 0, 64), nullptr);
  Request* const send = loop.send(1024, 64);
  ASSERT_NE(send, nullptr);
  Context::close(&loop.receiver());
  EXPECT_FALSE(LoopConnection::finish(send));
  EXPECT_NE(said.warnings(), "");
}

// Every queue pair keeps room in its send queue, whoever asks for completions.
TEST(Completion, KeepsRoomInEveryQueuePair) {
  for (const char* queue_pairs : {"1", "3"}) {
    setenv("NCCL_IB_QPS_PER_CONNECTION", queue_pairs, 1);
    LoopConnection loop(1 << 17);
    unsetenv("NCCL_IB_QPS_PER_CONNECTION");
    std::vector<Request*> sends;
    for (int turn = 0; turn < 400; ++turn) {
      const int group = turn % 5 == 4 ? 8 : 1;
      const std::size_t bytes = turn % 7 == 6 ? 40000 : turn % 3 == 2 ? 8 : 100;
      std::vector<Request*> receives;
      for (int i = 0; i < 8; ++i) receives.push_back(loop.receive(group, 65536, bytes));
      for (Request* send : sends) ASSERT_TRUE(LoopConnection::finish(send)) << turn;
      sends.clear();
      for (int i = 0; i < 8 * group; ++i) {
        sends.push_back(loop.send(0, bytes));
        ASSERT_NE(sends.back(), nullptr) << "message " << i << " of turn " << turn;
      }
      for (Request* receive : receives) ASSERT_TRUE(LoopConnection::finish(receive)) << turn;
    }
  }
}

// Receives of a row wait for the last of it, which never comes; this thread waits for them.
TEST(Row, WhoWaitsForItsOwnReceivesGetsThem) {
  LoopConnection loop(8192);
  for (const int row : {8, 8, 3, 1, 8, 5}) {
    std::vector<Request*> requests;
    for (int i = 0; i < row; ++i) requests.push_back(loop.receive(1, 4096, 64));
    for (int i = 0; i < row; ++i) requests.push_back(loop.send(0, 64));
    for (Request* request : requests) ASSERT_TRUE(request != nullptr && LoopConnection::finish(request));
  }
}

TEST(Row, TheNextTestPostsWhatWaits) {
  LoopConnection loop(8192);
  std::vector<Request*> receives;
  const auto post = [&](int count) {
    for (int i = 0; i < count; ++i) receives.push_back(loop.receive(1, 4096, 64));
  };
  post(4);
  EXPECT_FALSE(known(receives.front()));  // the row had four
  const softdev::Counters before = loop.counters();
  post(3);
  EXPECT_EQ(loop.counters().writes, before.writes) << "four are expected";
  EXPECT_FALSE(known(receives.front()));
  EXPECT_EQ(loop.counters().writes, before.writes + 1);
  post(3);
  EXPECT_EQ(loop.counters().writes, before.writes + 2) << "three were expected";
}

// The ring of clear-to-sends has 256 entries: rows and groups of all sizes cross its end.
TEST(Row, CrossesTheEndOfTheRing) {
  LoopConnection loop(1 << 16);
  for (int turn = 0; turn < 200; ++turn) {
    const int row = turn % 7 + 1;
    const int group = turn % 8 + 1;
    const std::size_t bytes = turn % 3 == 0 ? 8 : 100;
    std::vector<Request*> requests;
    for (int i = 0; i < row; ++i) requests.push_back(loop.receive(group, 32768, bytes));
    for (int i = 0; i < row * group; ++i) requests.push_back(loop.send(0, bytes));
    for (Request* request : requests)
      ASSERT_TRUE(request != nullptr && LoopConnection::finish(request)) << turn;
  }
}

// deregMr: a read behind everything on each queue pair, although nobody polls; none when nothing was sent
// since.
TEST(Settle, ReadsBehindWhatWasSent) {
  setenv("NCCL_IB_QPS_PER_CONNECTION", "16", 1);
  LoopConnection loop(8192);
  unsetenv("NCCL_IB_QPS_PER_CONNECTION");
  for (int round = 0; round < 3; ++round) {
    Request* const receive = loop.receive(1, 4096, 64);
    Request* const send = loop.send(0, 64);
    ASSERT_TRUE(send != nullptr && LoopConnection::finish(receive) && LoopConnection::finish(send));
    const softdev::Counters before = loop.counters();
    loop.sender().settle();
    EXPECT_EQ(loop.counters().reads - before.reads, 16U) << round;
    loop.sender().settle();
    EXPECT_EQ(loop.counters().reads - before.reads, 16U) << round;
  }
}

// A peer that does not answer is not waited for twice.
TEST(Settle, GivesUp) {
  LoopConnection loop(8192, "count=1;fault opcode=read stuck");
  Request* const receive = loop.receive(1, 4096, 64);
  Request* const send = loop.send(0, 64);
  ASSERT_TRUE(send != nullptr && LoopConnection::finish(receive) && LoopConnection::finish(send));
  for (int round = 0; round < 2; ++round) {
    loop.sender().settle();
    EXPECT_EQ(loop.counters().reads, 1U) << round;
    ASSERT_NE(loop.receive(1, 4096, 64), nullptr);
    ASSERT_NE(loop.send(0, 64), nullptr);
  }
}

TEST(Packed, SmallGroupsArriveWhole) {
  LoopConnection loop(4096);
  for (const std::size_t bytes : {1, 2, 7, 8, 9, 16}) {
    for (int group = 2; group <= kMaxReceives; ++group) {
      std::memset(loop.at(0), 0, 4096);
      for (std::size_t i = 0; i < bytes; ++i) *loop.at(1024 + i) = static_cast<char>(i + 1);
      Request* const receive = loop.receive(group, 0, 64);
      ASSERT_NE(receive, nullptr);
      std::vector<Request*> sends;
      for (int i = 0; i < group; ++i) sends.push_back(loop.send(1024, bytes));
      for (Request* send : sends) ASSERT_TRUE(send != nullptr && LoopConnection::finish(send));
      int sizes[kMaxReceives] = {};
      for (bool done = false; !done;) ASSERT_TRUE(receive->connection->test(*receive, &done, sizes).ok());
      for (int i = 0; i < group; ++i) EXPECT_EQ(sizes[i], static_cast<int>(bytes));
      EXPECT_EQ(std::memcmp(loop.at(0), loop.at(1024), bytes), 0);
      EXPECT_EQ(*loop.at(bytes), 0);
    }
  }
}

}  // namespace
}  // namespace railwise::net
