// Counters at the wrap. Each counter that wraps within the life of a job (weeks, at 10 million messages a
// second) is taken over its wrap by a test. Time to the wrap at a million messages a second:
//
//   counter                                     bits  wraps after  test, or why nothing happens
//   src/net
//   LaneQueuePair::consumed, receives_posted    32    72 min       both below, and lane_test.cc
//   PutWriter::reports_, PutTarget::credited_   32    72 min       CountersOfPuts
//   Record::number: of a receive, low half      32    72 min       CountersOfMessages, group
//   immediate: of a receive, low bits           20    1 s          CountersOfMessages, group
//   stamp: number of a receive                  48    8.9 years
//   first packet number (PSN)                   24    the NIC's    PacketNumbers: it begins anywhere
//   MessageTurn::next, Link::idle_polls,        32    72 min       only their low bits count
//   looks_, tests_, Loopback::polls_
//   Report::epoch, RegionFrame::epoch           32                 no queue pair outlives its epoch
//   Resumer: calls of a connection              32    2 years      a call takes 20 ms
//   Context::last_attempt_                      32                 connects of a process
//   windows of a group                          32                 at most kMostNumbers
//   Rail::changes(): events of ports            32                 only compared with the latest look
//   in BatchLength, Group, Receive              8-32               a batch, a group, a receive begins anew
//   ConnectionNumbers, LaneQueuePair::posted,   64    584,000 years
//   epochs, signals, frames, MemoryCache,
//   SignalSlots, LaneLoad, RoundTrips
//   src/verbs                                                      counts nothing
//   src/record
//   EventRecord::number                         64                 the ring itself: reader_test.cc
//   latency, size: one message in 256           32    13 days      Prometheus: as a program that restarts
//   group_sizes (the spy's)                     32    72 min       Prometheus, too
//   sequence                                    32                 compared while one record is read
//   ConnectionRecord::life, state_changes       32                 connections of a slot, events of a port
//   softdev
//   FetchWindow::next_                          32    72 min       FetchWindow.CountsOnWhereItsNumbersWrap
//   AgentRecord::posted, done                   32    hours        Agent.ServesWhereItsCountsWrap
//   ContextRecord::events_head, events_tail     32    events       Events.ComeInTheirOrderWhere...Wrap
//   packet numbers                              24    17 s         LivePsn.NumbersHave24Bits
//   generation in a queue pair's number         8     256 made     as a NIC; PacketNumbers: the PSN differs
//   MrRecord::key_byte                          8     256 made     as a NIC
//   events of queues and channels               32                 compared only, as libibverbs does
//   heads and tails of queues, QpRecord::epoch  64    584,000 years
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string>

#include "net/loop_traffic.h"
#include "net/reveal.h"
#include "net/rma/rma_ranks.h"
#include "port_control.h"
#include "tests/ok.h"

namespace railwise::net {
namespace {

RAILWISE_REVEAL(PeersOfGroup, RmaGroup::peers_);
RAILWISE_REVEAL(TargetsOfGroup, RmaGroup::targets_);
RAILWISE_REVEAL(MutexOfGroup, RmaGroup::mutex_);
RAILWISE_REVEAL(ReportsOfWriter, PutWriter::reports_);
RAILWISE_REVEAL(CreditsOfWriter, PutWriter::credits_);
RAILWISE_REVEAL(CreditedOfTarget, PutTarget::credited_);
RAILWISE_REVEAL(MatchedOfReceiver, ReceiveConnection::matched_);
RAILWISE_REVEAL(RingOfSender, SendConnection::ring_);

constexpr uint64_t kWrap = uint64_t{1} << 32;

// Counts of receives go on a little below the wrap. The buffers of receives keep their places.
constexpr uint32_t kRound = 128;
uint32_t belowWrap(uint32_t count) { return (UINT32_MAX - count) / kRound * kRound; }
void skip(LaneQueuePair& queue_pair, uint32_t more) {
  queue_pair.consumed += more;
  queue_pair.rest->receives_posted += more;
}

// ---- puts

// Of the connection from rank `from` to rank `to`, both of which are at rest.
void skipReports(RmaRanks& ranks, int from, int to) {
  RmaGroup& source = ranks.group(from);
  RmaGroup& end = ranks.group(to);
  const std::scoped_lock lock(source.*memberOf(MutexOfGroup()), end.*memberOf(MutexOfGroup()));
  PutWriter& writer = *(source.*memberOf(PeersOfGroup()))[static_cast<std::size_t>(to)]->writer;
  const auto& targets = end.*memberOf(TargetsOfGroup());
  const auto found = std::ranges::find_if(
      targets, [&](const auto& each) { return each->rank() == static_cast<uint32_t>(from); });
  ASSERT_NE(found, targets.end());
  PutTarget& target = **found;
  for (std::size_t i = 0; i < target.link().endpoint.queue_pairs.size(); ++i) {
    LaneQueuePair& queue_pair = target.queuePair(i);
    uint64_t& credit = (writer.*memberOf(CreditsOfWriter()))[i];
    // The latest credit is on its way no more.
    test::waitUntil([&] {
      return __atomic_load_n(&credit, __ATOMIC_ACQUIRE) == (target.*memberOf(CreditedOfTarget()))[i];
    });
    const uint32_t more = belowWrap(queue_pair.consumed);
    skip(queue_pair, more);
    (writer.*memberOf(ReportsOfWriter()))[i] += more;
    credit += more;
    (target.*memberOf(CreditedOfTarget()))[i] += more;
  }
}

struct PutKind {
  const char* name;
  RmaShape shape;
  const char* devices;
};
void PrintTo(const PutKind& kind, std::ostream* to) { *to << kind.name; }

class CountersOfPuts : public testing::TestWithParam<PutKind> {};

TEST_P(CountersOfPuts, SignalsGoOnWhereTheirReportsWrap) {
  RmaRanks ranks(GetParam().shape, GetParam().devices);
  ASSERT_TRUE(ranks.run(20)) << ranks.problem();
  for (const auto& [from, to] : {std::pair(0, 1), std::pair(1, 0)})
    ASSERT_NO_FATAL_FAILURE(skipReports(ranks, from, to));
  ASSERT_TRUE(ranks.run(160)) << ranks.problem();
  const auto& targets = ranks.group(1).*memberOf(TargetsOfGroup());
  EXPECT_LT(targets[0]->queuePair(0).consumed, 1U << 20) << "it has not wrapped";
  // So it is where an epoch ends.
  for (const auto& [from, to] : {std::pair(0, 1), std::pair(1, 0)})
    ASSERT_NO_FATAL_FAILURE(skipReports(ranks, from, to));
  ASSERT_TRUE(ranks.run(60)) << ranks.problem();
  test::changePort("soft0:1", "down");
  EXPECT_TRUE(ranks.run(160)) << ranks.problem();
}
INSTANTIATE_TEST_SUITE_P(Kinds, CountersOfPuts,
                         testing::Values(PutKind{"small", {.standbys = 1}, ""},
                                         PutKind{"large", {.rails = 2, .bytes = 128 << 10}, ""},
                                         PutKind{"gpu", {.standbys = 1, .gpu = true}, ""},
                                         PutKind{"iwarp", {.standbys = 1}, "link=iwarp"}),
                         [](const auto& kind) { return kind.param.name; });

// ---- messages

void skipMessages(LoopConnection& loop) {
  SendConnection& sender = loop.sender();
  ReceiveConnection& receiver = loop.receiver();
  // The number of a receive keeps its slot.
  const uint64_t number = sender.numbers().next;
  ASSERT_EQ(number, receiver.numbers().next);
  const uint64_t more = (kWrap - 40 - number % kWrap) / kSlots * kSlots;
  for (record::ConnectionNumbers* const its : {&sender.numbers(), &receiver.numbers()}) {
    its->next += more;
    its->posted += more;
    its->complete += more;
    its->arrived += more;
  }
  receiver.*memberOf(MatchedOfReceiver()) += more;
  (sender.*memberOf(RingOfSender())).lookFrom(number + more);
  for (Connection* const end : {static_cast<Connection*>(&sender), static_cast<Connection*>(&receiver)}) {
    for (std::size_t i = 0; i < end->queuePairs(); ++i) {
      LaneQueuePair& queue_pair = queuePairOf(*end, i);
      skip(queue_pair, belowWrap(queue_pair.consumed));
    }
  }
}

// A receive of several buffers, each of which another message of `bytes` or a few less comes for.
void sendGroup(LoopConnection& loop, std::size_t bytes) {
  constexpr std::size_t kMessages = 3;
  for (std::size_t i = 0; i < kMessages; ++i)
    std::fill_n(loop.at(i * bytes), bytes, static_cast<char>(loop.sender().numbers().next + i));
  Request* const receive = loop.receive(kMessages, kHalf, bytes);
  ASSERT_NE(receive, nullptr);
  std::array<Request*, kMessages> sends = {};
  std::array<int, kMaxReceives> sizes = {};
  bool received = false;
  for (std::size_t i = 0; i < kMessages; ++i) {
    for (test::Patience patience; sends[i] == nullptr; patience.again()) {
      ASSERT_OK(
          loop.sender().isend(loop.address(i * bytes), bytes - i, 0, loop.memory(), nullptr, &sends[i]));
      if (sends[i] == nullptr) ASSERT_OK(loop.receiver().test(*receive, &received, sizes.data()));
    }
  }
  for (test::Patience patience;
       !received || !std::ranges::all_of(sends, [](auto* its) { return its == nullptr; }); patience.again()) {
    if (!received) ASSERT_OK(loop.receiver().test(*receive, &received, sizes.data()));
    for (Request*& send : sends) {
      bool sent = false;
      if (send != nullptr) ASSERT_OK(loop.sender().test(*send, &sent, nullptr));
      if (sent) send = nullptr;
    }
  }
  for (std::size_t i = 0; i < kMessages; ++i) EXPECT_EQ(sizes[i], static_cast<int>(bytes - i));
}

struct MessageKind {
  const char* name;
  const char* devices;
  int rails;
  std::size_t bytes;
  bool group;
};
void PrintTo(const MessageKind& kind, std::ostream* to) { *to << kind.name; }

class CountersOfMessages : public testing::TestWithParam<MessageKind> {
 protected:
  void send(LoopConnection& loop, int count) {
    if (!GetParam().group) {
      ASSERT_TRUE(Traffic(loop).run(count, GetParam().bytes));
      return;
    }
    for (int i = 0; i < count; ++i) ASSERT_NO_FATAL_FAILURE(sendGroup(loop, GetParam().bytes));
  }
};

TEST_P(CountersOfMessages, MessagesGoOnWhereTheirNumbersWrap) {
  LoopConnection loop(2 * kHalf, std::string("count=3") + GetParam().devices, GetParam().rails);
  ASSERT_NO_FATAL_FAILURE(send(loop, 20));
  ASSERT_NO_FATAL_FAILURE(skipMessages(loop));
  ASSERT_LT(loop.receiver().numbers().next, kWrap);
  ASSERT_NO_FATAL_FAILURE(send(loop, 160));
  EXPECT_GT(loop.receiver().numbers().next, kWrap);
  EXPECT_LT(queuePairOf(loop.receiver(), 0).consumed, 1U << 20) << "it has not wrapped";
  // So it is where an epoch ends.
  ASSERT_NO_FATAL_FAILURE(skipMessages(loop));
  ASSERT_NO_FATAL_FAILURE(send(loop, 24));
  test::changePort("soft0:1", "down");
  ASSERT_NO_FATAL_FAILURE(send(loop, 100));
  EXPECT_GT(loop.receiver().numbers().next, 2 * kWrap);
  EXPECT_EQ(loop.receiver().epoch(), 2U);
}
INSTANTIATE_TEST_SUITE_P(Kinds, CountersOfMessages,
                         testing::Values(MessageKind{"small", "", 1, 512, false},
                                         MessageKind{"striped", "", 2, 100'000, false},
                                         MessageKind{"packed", "", 1, 16, true},
                                         MessageKind{"group", "", 2, 100'000, true},
                                         MessageKind{"iwarp", ",link=iwarp", 1, 512, false},
                                         MessageKind{"iwarp_group", ",link=iwarp", 2, 100'000, true}),
                         [](const auto& kind) { return kind.param.name; });

}  // namespace
}  // namespace railwise::net
