// When sends are complete, by which completions, and when clear-to-sends are written.
#include <gtest/gtest.h>

#include <vector>

#include "loop_connection.h"
#include "said.h"
#include "tests/ok.h"
#include "tests/wait.h"

namespace railwise::net {
namespace {

bool known(Request* request) {
  bool done = false;
  return request->connection->test(*request, &done, nullptr).ok() && done;
}

// The device is done at once: the first test() says so, whatever the receiver does, and costs no work
// request.
TEST(Completion, IsKnownAtTheFirstTest) {
  LoopConnection loop(1 << 16);
  for (const std::size_t bytes : {0, 8, 4096, 40000}) {
    Request* const receive = loop.receive(1, 0, 65536);
    Request* const send = loop.send(0, bytes);
    ASSERT_TRUE(receive != nullptr && send != nullptr);
    EXPECT_EQ(loop.countersOf([&] { EXPECT_TRUE(known(send)); }).post_send_calls, 0U) << bytes;
    EXPECT_TRUE(LoopConnection::finish(receive));
  }
}

// As NCCL calls: eight receives ahead, and after each send a test.
TEST(Completion, EachSendOfAStreamIsKnownAtItsFirstTest) {
  LoopConnection loop(4096);
  std::vector<Request*> receives;
  for (int i = 0; i < 8; ++i) receives.push_back(loop.receive(1, 0, 64));
  for (std::size_t turn = 0; turn < 100; ++turn) {
    Request* const send = loop.send(1024, 64);
    ASSERT_NE(send, nullptr) << turn;
    EXPECT_TRUE(known(send)) << turn;
    EXPECT_TRUE(LoopConnection::finish(receives[turn % 8])) << turn;
    receives[turn % 8] = loop.receive(1, 0, 64);
  }
}

std::vector<Request*> row(LoopConnection& loop, int length) {
  std::vector<Request*> sends;
  for (int i = 0; i < length; ++i) EXPECT_NE(loop.receive(1, 0, 64), nullptr);
  for (int i = 0; i < length; ++i) sends.push_back(loop.send(1024, 64));
  return sends;
}

// Completions of the sender that `length` sends without a test between take, all of them known at their first
// test.
uint64_t completionsOfRow(LoopConnection& loop, int length, int* asked) {
  const softdev::Counters before = loop.counters();
  for (Request* send : row(loop, length)) {
    if (send == nullptr || !known(send)) *asked += 1;
    if (send != nullptr && send->kind != Request::Kind::kFree) EXPECT_TRUE(LoopConnection::finish(send));
  }
  return loop.counters().writes - before.writes - static_cast<uint64_t>(length);
}

TEST(Completion, ARowThatIsAsLongAsTheTwoBeforeTellsOnce) {
  LoopConnection loop(4096);
  for (int turn = 0; turn < 3; ++turn) {
    for (Request* send : row(loop, 8)) EXPECT_TRUE(known(send)) << turn;
  }
  const softdev::Counters made = loop.countersOf([&] {
    for (Request* send : row(loop, 8)) EXPECT_TRUE(known(send));
  });
  // The receiver was not polled, so all that was reaped is the sender's.
  EXPECT_EQ(made.writes, 8U) << "clear-to-sends only";
}

// test() asks where the last of a row did not come.
TEST(Completion, OfAShorterRowIsAskedFor) {
  LoopConnection loop(4096);
  for (const int length : {8, 8, 8, 3}) {
    int asked = 0;
    const uint64_t empty_writes = completionsOfRow(loop, length, &asked);
    EXPECT_EQ(empty_writes, length == 3 ? 1U : 0U) << length;
    EXPECT_LE(asked, length == 3 ? 1 : 0) << length;
  }
  int asked = 0;
  EXPECT_EQ(completionsOfRow(loop, 1, &asked), 0U) << "none is expected to follow";
  EXPECT_EQ(asked, 0);
}

// What the test of one request has found belongs to another, too.
TEST(Completion, OneTestOfEachIsEnough) {
  for (const char* queue_pairs : {"1", "3"}) {
    const test::Setting setting("NCCL_IB_QPS_PER_CONNECTION", queue_pairs);
    LoopConnection loop(1 << 17);
    for (int turn = 0; turn < 20; ++turn) {
      std::vector<Request*> requests;
      for (const int group : {1, 2, 8, 1}) requests.push_back(loop.receive(group, 0, 64));
      const std::size_t sizes[] = {64, 64, 8, 64, 8, 64, 8, 64, 8, 64, 8, 0};
      for (const std::size_t bytes : sizes) requests.push_back(loop.send(65536, bytes));
      for (std::size_t i = 0; i < requests.size(); ++i) {
        ASSERT_NE(requests[i], nullptr) << i;
        EXPECT_TRUE(known(requests[i])) << i << " of turn " << turn << ", queue pairs: " << queue_pairs;
      }
    }
  }
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
    const test::Setting setting("NCCL_IB_QPS_PER_CONNECTION", queue_pairs);
    LoopConnection loop(1 << 17);
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

// Whoever waits for a receive in a thread that has both ends: nothing is held back.
TEST(ClearToSend, IsWrittenByEachReceive) {
  LoopConnection loop(8192);
  for (const int count : {8, 8, 3, 1}) {
    std::vector<Request*> requests;
    for (int i = 0; i < count; ++i) {
      const softdev::Counters before = loop.counters();
      requests.push_back(loop.receive(1, 4096, 64));
      EXPECT_EQ(loop.counters().writes, before.writes + 1);
    }
    for (int i = 0; i < count; ++i) requests.push_back(loop.send(0, 64));
    for (Request* request : requests) ASSERT_TRUE(request != nullptr && LoopConnection::finish(request));
  }
}

// The ring of clear-to-sends has 256 entries: rows and groups of all sizes cross its end.
TEST(ClearToSend, CrossesTheEndOfTheRing) {
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
      bool done = false;
      for (test::Patience patience; !done; patience.again())
        ASSERT_OK(receive->connection->test(*receive, &done, sizes));
      for (int i = 0; i < group; ++i) EXPECT_EQ(sizes[i], static_cast<int>(bytes));
      EXPECT_EQ(std::memcmp(loop.at(0), loop.at(1024), bytes), 0);
      EXPECT_EQ(*loop.at(bytes), 0);
    }
  }
}

}  // namespace
}  // namespace railwise::net
