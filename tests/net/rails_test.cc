// Connections over several rails: what goes where, counted by the software device.
#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "loop_connection.h"
#include "net/loop_traffic.h"
#include "port_control.h"
#include "said.h"
#include "tests/ok.h"
#include "tests/wait.h"
#include "verbs/drivers/fake_mlx5.h"

namespace railwise::net {
namespace {

constexpr std::size_t kReceiveHalf = 8 << 20;

void fillRandom(LoopConnection& loop, std::size_t bytes) {
  std::mt19937_64 random(bytes);
  for (std::size_t i = 0; i < bytes; i += 8) {
    const uint64_t value = random();
    std::memcpy(loop.at(i), &value, sizeof value);
  }
}

// `bytes` from the first half of the buffer to the second, each checked.
void exchange(LoopConnection& loop, std::size_t bytes, int group = 1) {
  std::memset(loop.at(kReceiveHalf), 0, bytes);
  Request* receive = loop.receive(group, kReceiveHalf, bytes);
  ASSERT_NE(receive, nullptr);
  std::vector<Request*> sends;
  for (int i = 0; i < group; ++i) {
    sends.push_back(loop.send(0, bytes));
    ASSERT_NE(sends.back(), nullptr);
  }
  for (Request* send : sends) ASSERT_TRUE(LoopConnection::finish(send));
  int sizes[kMaxReceives] = {};
  bool done = false;
  for (test::Patience patience; !done; patience.again())
    ASSERT_OK(receive->connection->test(*receive, &done, sizes));
  for (int i = 0; i < group; ++i) ASSERT_EQ(sizes[i], static_cast<int>(bytes));
  ASSERT_EQ(std::memcmp(loop.at(0), loop.at(kReceiveHalf), bytes), 0);
}

softdev::Counters countersOf(LoopConnection& loop, uint64_t messages, std::size_t bytes) {
  return loop.countersOf([&] {
    for (uint64_t i = 0; i < messages; ++i) exchange(loop, bytes);
  });
}

std::vector<uint64_t> bytesByRail(const LoopConnection& loop) {
  std::vector<uint64_t> bytes;
  for (std::size_t rail = 0; rail < loop.device().rails().size(); ++rail)
    bytes.push_back(loop.counters(rail).bytes);
  return bytes;
}

TEST(Rails, ALargeMessageGoesOverAllBySpeed) {
  LoopConnection loop(2 * kReceiveHalf, "speed=400000;speed=100000", 2);
  fillRandom(loop, kReceiveHalf);
  const auto before = bytesByRail(loop);
  exchange(loop, kReceiveHalf);
  const auto after = bytesByRail(loop);
  EXPECT_NEAR(static_cast<double>(after[0] - before[0]) / kReceiveHalf, 0.8, 0.01);
  EXPECT_NEAR(static_cast<double>(after[1] - before[1]) / kReceiveHalf, 0.2, 0.01);
}

TEST(Rails, EvenSharesWhenAsked) {
  const test::Setting even("RAILWISE_SPLIT", "even");
  LoopConnection loop(2 * kReceiveHalf, "speed=400000;speed=100000", 2);
  fillRandom(loop, kReceiveHalf);
  const auto before = bytesByRail(loop);
  exchange(loop, kReceiveHalf);
  const auto after = bytesByRail(loop);
  EXPECT_NEAR(static_cast<double>(after[1] - before[1]) / kReceiveHalf, 0.5, 0.01);
}

TEST(Rails, ASmallMessageTakesOne) {
  LoopConnection loop(2 * kReceiveHalf, "count=4", 4);
  fillRandom(loop, kReceiveHalf);
  constexpr uint64_t kMessages = 64;
  const softdev::Counters made = countersOf(loop, kMessages, 1024);
  EXPECT_EQ(made.writes_with_imm, kMessages);
  EXPECT_EQ(made.writes, kMessages) << "clear to send, and nothing else";
}

TEST(Rails, EverySizeArrivesOverEveryNumberOfRails) {
  for (int rails = 1; rails <= kMaxRails; ++rails) {
    LoopConnection loop(2 * kReceiveHalf, "count=8,link=" + std::string(rails % 2 == 0 ? "ib" : "roce"),
                        rails);
    fillRandom(loop, kReceiveHalf);
    for (const std::size_t bytes : {0, 1, 127, 65535, 65536, 65537, 262144, 1000001}) {
      exchange(loop, bytes);
      if (testing::Test::HasFatalFailure()) FAIL() << rails << " rails, " << bytes << " bytes";
    }
    exchange(loop, 100'003, kMaxReceives);
  }
}

// One write for each rail, whose immediate has its size. Where switches reorder packets, the immediate
// follows.
TEST(Rails, ALargeMessageIsOneWriteForEachRail) {
  for (const bool reorders : {false, true}) {
    LoopConnection loop(2 * kReceiveHalf, reorders ? "count=4,link=ib" : "count=4,link=roce", 4);
    fillRandom(loop, kReceiveHalf);
    constexpr uint64_t kMessages = 40;
    const softdev::Counters made = countersOf(loop, kMessages, 262144);
    EXPECT_EQ(made.writes_with_imm, 4 * kMessages);
    EXPECT_EQ(made.writes, kMessages * (reorders ? 5 : 1)) << "one is the clear to send";
  }
}

TEST(Rails, LargeMessagesOfAllSizesArriveWhilePlansChange) {
  std::mt19937_64 random(4);
  for (const int rails : {2, 3, 5, 8}) {
    LoopConnection loop(2 * kReceiveHalf, "count=8,link=" + std::string(rails % 2 == 0 ? "ib" : "roce"),
                        rails);
    fillRandom(loop, kReceiveHalf);
    for (int i = 0; i < 200; ++i) {
      const std::size_t most = std::size_t{1} << (14 + random() % 10);
      exchange(loop, std::min<std::size_t>(most + random() % most, kReceiveHalf));
      if (testing::Test::HasFatalFailure()) FAIL() << rails << " rails, message " << i;
    }
  }
}

// A device takes fewer work requests at a time than the plugin wants.
TEST(Rails, ShortQueues) {
  for (const char* entries : {"64", "65", "90", "127"}) {
    for (const int rails : {1, 2}) {
      SCOPED_TRACE(std::string(entries) + " entries, rails: " + std::to_string(rails));
      LoopConnection loop(2 * kHalf, std::string("count=2,max_qp_wr=") + entries, rails);
      Traffic traffic(loop);
      EXPECT_TRUE(traffic.run(300, 512));
      EXPECT_TRUE(traffic.run(40, 100'000));
      EXPECT_EQ(loop.sender().epoch(), 1U);
    }
  }
}

TEST(Rails, SeveralQueuePairsPerRailTakeTurns) {
  const test::Setting queue_pairs("NCCL_IB_QPS_PER_CONNECTION", "3");
  LoopConnection loop(2 * kReceiveHalf, "count=2", 2);
  fillRandom(loop, kReceiveHalf);
  EXPECT_EQ(loop.sender().queuePairs(), 6U);
  for (int i = 0; i < 40; ++i) exchange(loop, 200'000 + static_cast<std::size_t>(i) * 1000);
}

// The software device has no bond: the test says that its port is one of two network ports.
TEST(Rails, ABondGetsAQueuePairForEachOfItsPorts) {
  test::FakeMlx5& mlx5 = test::fakeMlx5(RAILWISE_FAKE_MLX5_PATH);
  const test::Setting library("RAILWISE_MLX5_LIB", RAILWISE_FAKE_MLX5_PATH);
  LoopConnection loop(2 * kReceiveHalf, "link=roce");
  EXPECT_EQ(mlx5.lag_asked, 1) << "the driver says whether a port is a bond";
  fillRandom(loop, kReceiveHalf);
  for (const int error : {0, EOPNOTSUPP}) {
    mlx5 = {};
    mlx5.lag_error = error;
    const_cast<verbs::Port&>(loop.device().rails()[0].port).lag_ports = 2;
    loop.useAnother();
    EXPECT_EQ(loop.sender().queuePairs(), 2U);
    std::map<int, int> queue_pairs;  // by network port, at both ends
    for (const auto& [queue_pair, port] : mlx5.lag_port_of) ++queue_pairs[port];
    EXPECT_EQ(queue_pairs, error == 0 ? (std::map<int, int>{{1, 2}, {2, 2}}) : (std::map<int, int>{}));
    for (int i = 0; i < 10; ++i) exchange(loop, 200'000);
  }
}

TEST(Rails, AMessageIsSplitOverQueuePairsWhenAsked) {
  const test::Setting queue_pairs("NCCL_IB_QPS_PER_CONNECTION", "4");
  const test::Setting split("NCCL_IB_SPLIT_DATA_ON_QPS", "1");
  LoopConnection loop(2 * kReceiveHalf);
  fillRandom(loop, kReceiveHalf);
  const softdev::Counters made = countersOf(loop, 1, kReceiveHalf);
  EXPECT_EQ(made.writes_with_imm, 4U);
}

TEST(Rails, AdaptiveRoutingSendsTheImmediateApart) {
  for (const std::string threshold : {"", "65536"}) {
    std::optional<test::Setting> set;
    if (!threshold.empty()) set.emplace("NCCL_IB_AR_THRESHOLD", threshold);
    LoopConnection loop(2 * kReceiveHalf, "link=ib");
    fillRandom(loop, kReceiveHalf);
    const softdev::Counters made = countersOf(loop, 1, 65536);
    EXPECT_EQ(made.writes, threshold.empty() ? 2U : 1U);
    EXPECT_EQ(made.writes_with_imm, 1U);
  }
}

TEST(Rails, WhereFailoverIsOffTheErrorSaysSo) {
  const test::Setting no_failover("RAILWISE_FAILOVER", "0");
  const test::Said said;
  LoopConnection loop(2 * kReceiveHalf, "count=2;fault opcode=write_imm nth=5 status=general_err");
  EXPECT_FALSE(Traffic(loop).run(32, 512));
  EXPECT_HAS(said.warnings(), "(failover is off: RAILWISE_FAILOVER=0 here)") << said.all();
}

// NCCL_NET_OPTIONAL_RECV_COMPLETION: no immediate, no receive used up, but for every eighth.
TEST(Rails, SilentReceivesCostNothing) {
  const test::Setting no_failover("RAILWISE_FAILOVER", "0");
  LoopConnection loop(2 * kReceiveHalf);
  fillRandom(loop, 1 << 16);
  constexpr uint64_t kMessages = 800;
  const softdev::Counters made = loop.countersOf([&] {
    for (uint64_t i = 0; i < kMessages; ++i) {
      Request* receive = nullptr;
      const ReceiveBuffer buffer = {loop.address(kReceiveHalf + i * 64), 64, 0, loop.memory()};
      ASSERT_OK(loop.receiver().irecv({&buffer, 1}, true, &receive));
      ASSERT_NE(receive, nullptr);
      Request* send = loop.send(i * 64, 64);
      ASSERT_NE(send, nullptr);
      ASSERT_TRUE(LoopConnection::finish(send));
      ASSERT_TRUE(LoopConnection::finish(receive));
      ASSERT_EQ(std::memcmp(loop.at(i * 64), loop.at(kReceiveHalf + i * 64), 64), 0);
    }
  });
  EXPECT_EQ(made.writes_with_imm, kMessages / 8);
}

// A receiver that asks for no completions must not overrun a sender that has not looked yet.
TEST(Rails, SilentReceivesWaitForTheSender) {
  const test::Setting no_failover("RAILWISE_FAILOVER", "0");
  LoopConnection loop(2 * kReceiveHalf);
  int posted = 0;
  for (int i = 0; i < 100; ++i) {
    Request* receive = nullptr;
    const ReceiveBuffer buffer = {loop.address(kReceiveHalf), 64, 0, loop.memory()};
    ASSERT_OK(loop.receiver().irecv({&buffer, 1}, true, &receive));
    if (receive == nullptr) break;
    ++posted;
    if (posted % 8 != 0) ASSERT_TRUE(LoopConnection::finish(receive));
  }
  EXPECT_LE(posted, kSlots);
  EXPECT_GE(posted, kSlots / 2);
}

TEST(Rails, BothEndsMayHaveDifferentNumbers) {
  for (const auto& [from, to] : {std::pair{1, 2}, {2, 1}, {3, 2}, {2, 8}, {8, 3}}) {
    LoopConnection loop(2 * kReceiveHalf, "count=8", 8);
    fillRandom(loop, 1 << 20);
    Net& net = loop.net();
    const auto device = [&](int rails) {
      std::vector<int> members(static_cast<std::size_t>(rails));
      std::iota(members.begin(), members.end(), 0);
      return net.device(*net.makeVirtualDevice(members));
    };
    const Device& sender = *device(from);
    const Device& receiver = *device(to);
    char handle[kHandleBytes];
    Listener* listener = *loop.context().listen(receiver, handle);
    SendConnection* send = nullptr;
    ReceiveConnection* receive = nullptr;
    for (test::Patience patience; send == nullptr || receive == nullptr; patience.again()) {
      if (send == nullptr) send = *loop.context().connect(sender, handle, -1);
      if (receive == nullptr) receive = *Context::accept(*listener);
    }
    MemoryHandle* source = *sender.memory().acquire(loop.address(0), 1 << 20, MemoryKind::kHost);
    MemoryHandle* target = *receiver.memory().acquire(loop.address(kReceiveHalf), 1 << 20, MemoryKind::kHost);
    for (const std::size_t bytes : {std::size_t{1} << 20, std::size_t{5}, std::size_t{700'001}}) {
      std::memset(loop.at(kReceiveHalf), 0, bytes);
      Request *sent = nullptr, *received = nullptr;
      const ReceiveBuffer buffer = {loop.address(kReceiveHalf), bytes, 0, target};
      ASSERT_OK(receive->irecv({&buffer, 1}, false, &received));
      ASSERT_OK(send->isend(loop.address(0), bytes, 0, source, nullptr, &sent));
      ASSERT_TRUE(LoopConnection::finish(sent));
      ASSERT_TRUE(LoopConnection::finish(received));
      ASSERT_EQ(std::memcmp(loop.at(0), loop.at(kReceiveHalf), bytes), 0) << from << " to " << to;
    }
    sender.memory().release(source);
    receiver.memory().release(target);
  }
}

TEST(Rails, AFlushReadsThroughTheRailsThatCarriedTheData) {
  LoopConnection loop(2 * kReceiveHalf, "count=4", 4);
  fillRandom(loop, kReceiveHalf);
  const auto readsOfFlush = [&] {
    const auto flush = [&] {
      Request* request = nullptr;
      ASSERT_OK(loop.receiver().iflush(loop.address(kReceiveHalf), *loop.memory(), &request));
      ASSERT_TRUE(LoopConnection::finish(request));
    };
    return loop.countersOf(flush).reads;
  };
  exchange(loop, 64);  // one rail
  EXPECT_EQ(readsOfFlush(), 1U);
  exchange(loop, kReceiveHalf);  // all four
  EXPECT_EQ(readsOfFlush(), 4U);
}

TEST(Rails, NoFlushWhenItIsSwitchedOff) {
  const test::Setting off("NCCL_GDR_FLUSH_DISABLE", "1");
  LoopConnection loop(2 * kReceiveHalf);
  Request* flush = nullptr;
  ASSERT_OK(loop.receiver().iflush(loop.address(kReceiveHalf), *loop.memory(), &flush));
  EXPECT_EQ(flush, nullptr);
}

TEST(Rails, APortThatIsDownIsLeftOut) {
  LoopConnection loop(2 * kReceiveHalf, "count=3", 3);
  fillRandom(loop, kReceiveHalf);
  test::changePort("soft1:1", "down");
  test::waitUntil([&] { return !loop.device().rails()[1].hca->state().active(1); });
  EXPECT_EQ(loop.device().rails()[0].hca->state().active(1), true);
  const softdev::Counters before = loop.counters(1);
  SendConnection* const other = loop.connect();
  EXPECT_EQ(other->queuePairs(), 3U);
  EXPECT_EQ(loop.counters(1).bytes, before.bytes);
  EXPECT_EQ(other->lanesInUse(), 2U);
}

TEST(Rails, TheCommunicatorsHintsSizeQueuePairs) {
  LoopConnection loop(2 * kReceiveHalf, "link=roce,count=1");
  EXPECT_EQ(loop.sender().queuePairs(), 1U);
  loop.context().setHints(1, 1);
  SendConnection* few = loop.connect();
  EXPECT_EQ(few->queuePairs(), 4U) << "one flow finds one of the fabric's paths; four find more";
  loop.context().setHints(64, 2);
  EXPECT_EQ(loop.connect()->queuePairs(), 1U);
}

TEST(Rails, ConnectionsThroughTheConnectionManager) {
  const test::Setting cm("RAILWISE_CONNECT", "cm");
  for (const char* link : {"roce", "iwarp"}) {
    for (const int rails : {1, 3}) {
      LoopConnection loop(2 * kReceiveHalf, std::string("count=4,link=") + link, rails);
      fillRandom(loop, kReceiveHalf);
      for (const std::size_t bytes : {0, 1, 65536, 1000001}) exchange(loop, bytes);
      for (int i = 0; i < 100; ++i) exchange(loop, 5000, 1 + i % kMaxReceives);
      if (testing::Test::HasFatalFailure()) FAIL() << link << ", " << rails << " rails";
    }
  }
}

TEST(Rails, IwarpUsesTheConnectionManagerByItself) {
  LoopConnection loop(2 * kReceiveHalf, "link=iwarp");
  fillRandom(loop, kReceiveHalf);
  const softdev::Counters made = countersOf(loop, 1, 1'000'000);
  EXPECT_EQ(made.writes_with_imm, 0U);
  EXPECT_EQ(made.sends, 2U) << "clear to send, and the notice behind the data";
}

}  // namespace
}  // namespace railwise::net
