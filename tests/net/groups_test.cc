// Groups: receives of several messages. Every byte and every size is compared, on every path that a group can
// take, in the order of NCCL's calls and in others, and while devices fail.
#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "loop_connection.h"
#include "port_control.h"
#include "tests/ok.h"
#include "tests/wait.h"

namespace railwise::net {
namespace {

constexpr std::size_t kLargest = 140'000;  // bytes of a message
constexpr std::size_t kStride = kLargest + 64;
constexpr std::size_t kPlaces = 4;  // groups that have buffers of their own
constexpr std::size_t kReceived = kPlaces * kMaxReceives * kStride;

// Groups over a connection of this process to itself. Message i of a group has tag i, and buffers of its own.
class GroupTraffic {
 public:
  explicit GroupTraffic(const std::string& devices, int rails = 1) : loop(2 * kReceived, devices, rails) {}

  struct UnderWay {
    std::size_t place;  // of its buffers
    std::vector<std::size_t> sizes;
    Request* receive = nullptr;
    std::vector<Request*> sends = {};
    bool received = false;
    std::size_t sent = 0;
  };

  char* from(std::size_t place, std::size_t i) { return loop.at((place * kMaxReceives + i) * kStride); }
  char* to(std::size_t place, std::size_t i) { return from(place, i) + kReceived; }

  // Posts the receive of a group for messages of these sizes, with room for more. False: the call failed.
  bool receive(UnderWay& group) {
    std::vector<ReceiveBuffer> buffers;
    for (std::size_t i = 0; i < group.sizes.size(); ++i) {
      for (std::size_t at = 0; at < group.sizes[i]; ++at)
        from(group.place, i)[at] = static_cast<char>(random_());
      std::memset(to(group.place, i), 0, kStride);
      void* const event = i == receive_event_of ? &event_ : nullptr;
      buffers.push_back({reinterpret_cast<uint64_t>(to(group.place, i)), kLargest, static_cast<int>(i),
                         loop.memory(), event});
    }
    for (test::Patience patience; group.receive == nullptr; patience.again()) {
      if (!loop.receiver().irecv(buffers, false, &group.receive).ok()) return false;
      if (group.receive == nullptr && !nudge(group)) return false;
    }
    return true;
  }
  // Sends message `i`. False: the call failed.
  bool send(UnderWay& group, std::size_t i) {
    Request* made = nullptr;
    for (test::Patience patience; made == nullptr; patience.again()) {
      void* const event = i == send_event_of ? &event_ : nullptr;
      if (!loop.sender()
               .isend(reinterpret_cast<uint64_t>(from(group.place, i)), group.sizes[i], static_cast<int>(i),
                      loop.memory(), event, &made)
               .ok())
        return false;
      if (made == nullptr && !nudge(group)) return false;
    }
    group.sends.push_back(made);
    return true;
  }
  // Tests each of its requests once.
  bool nudge(UnderWay& group) {
    if (group.receive != nullptr && !group.received) {
      int sizes[kMaxReceives] = {};
      if (!group.receive->connection->test(*group.receive, &group.received, sizes).ok()) return false;
      for (std::size_t i = 0; group.received && i < group.sizes.size(); ++i)
        EXPECT_EQ(sizes[i], static_cast<int>(group.sizes[i])) << "message " << i;
    }
    for (Request*& send : group.sends) {
      bool done = false;
      if (send != nullptr && !send->connection->test(*send, &done, nullptr).ok()) return false;
      if (!done) continue;
      send = nullptr;
      ++group.sent;
    }
    return true;
  }
  bool finish(UnderWay& group) {
    for (test::Patience patience; !group.received || group.sent < group.sizes.size(); patience.again()) {
      if (!nudge(group)) return false;
    }
    for (std::size_t i = 0; i < group.sizes.size(); ++i) {
      const std::size_t bytes = group.sizes[i];
      EXPECT_EQ(std::memcmp(from(group.place, i), to(group.place, i), bytes), 0) << "message " << i;
      EXPECT_EQ(to(group.place, i)[bytes], 0) << "behind message " << i;
    }
    return true;
  }
  // A group from begin to end. `order`: of its sends; empty: as the buffers.
  bool run(const std::vector<std::size_t>& sizes, std::vector<std::size_t> order = {}) {
    UnderWay group = {places_++ % kPlaces, sizes};
    if (order.empty()) {
      order.resize(sizes.size());
      std::iota(order.begin(), order.end(), std::size_t{0});
    }
    if (!receive(group)) return false;
    for (const std::size_t i : order) {
      if (!send(group, i)) return false;
    }
    return finish(group);
  }
  bool runAlike(int count, std::size_t messages, std::size_t bytes) {
    for (int i = 0; i < count; ++i) {
      if (!run(std::vector<std::size_t>(messages, bytes))) return false;
    }
    return true;
  }

  LoopConnection loop;
  // These messages come with a handle for the profiler's events.
  std::size_t send_event_of = kMaxReceives;
  std::size_t receive_event_of = kMaxReceives;

 private:
  std::minstd_rand random_{7};
  std::size_t places_ = 0;
  int event_ = 0;
};

struct GroupWays {
  const char* name;
  const char* devices;
  int rails = 1;
  const char* queue_pairs = "1";
};

class Groups : public testing::TestWithParam<GroupWays> {
 protected:
  static constexpr std::size_t kSizes[] = {1, 8, 64, 5000, 40'000, kLargest};
  const test::Setting queue_pairs_{"NCCL_IB_QPS_PER_CONNECTION", GetParam().queue_pairs};
  GroupTraffic traffic_{GetParam().devices, GetParam().rails};
};

TEST_P(Groups, ArriveInEverySizeAndNumber) {
  for (const std::size_t bytes : kSizes) {
    for (std::size_t messages = 2; messages <= kMaxReceives; ++messages)
      ASSERT_TRUE(traffic_.runAlike(3, messages, bytes)) << messages << " of " << bytes;
  }
  EXPECT_EQ(traffic_.loop.sender().epoch(), 1U);
}

// The ring has 32 slots. The sender sees the clear-to-sends of groups in order without a search, and must
// know of them when it searches for the next.
TEST_P(Groups, OutOfOrderAfterAWholeTurnOfTheRingInOrder) {
  for (const std::size_t bytes : kSizes) {
    ASSERT_TRUE(traffic_.runAlike(kSlots + 1, 2, bytes)) << bytes;
    ASSERT_TRUE(traffic_.run({bytes, bytes}, {1, 0})) << bytes;
    ASSERT_TRUE(traffic_.runAlike(1, 2, bytes)) << bytes;
    ASSERT_TRUE(traffic_.run({bytes, bytes, bytes}, {0, 2, 1})) << bytes;
    ASSERT_TRUE(traffic_.runAlike(3 * kSlots, 1, bytes)) << bytes;
    ASSERT_TRUE(traffic_.run({bytes, bytes, bytes}, {2, 1, 0})) << bytes;
  }
}

TEST_P(Groups, OfDifferentSizesArrive) {
  for (const std::size_t bytes : kSizes) {
    for (const std::size_t other : {std::size_t{0}, bytes - 1, bytes / 2, std::size_t{3}}) {
      SCOPED_TRACE(std::to_string(bytes) + " and " + std::to_string(other));
      ASSERT_TRUE(traffic_.runAlike(2, 3, bytes));
      ASSERT_TRUE(traffic_.run({other, bytes, bytes}));
      ASSERT_TRUE(traffic_.run({bytes, other, bytes}));
      ASSERT_TRUE(traffic_.run({bytes, bytes, other}));
      ASSERT_TRUE(traffic_.run({bytes, other, bytes}, {2, 1, 0}));
    }
  }
}

TEST_P(Groups, AProfilersEventOfAnyMessageHarmsNoOther) {
  for (std::size_t i = 0; i <= 3; ++i) {
    for (std::size_t j = 0; j <= 3; ++j) {
      traffic_.send_event_of = i;
      traffic_.receive_event_of = j;
      ASSERT_TRUE(traffic_.runAlike(2, 3, 8));
      ASSERT_TRUE(traffic_.runAlike(2, 3, 5000));
      ASSERT_TRUE(traffic_.runAlike(2, 3, kLargest));
    }
  }
}

// A message that is larger than its buffer ends the connection, whichever of a group it is.
TEST_P(Groups, AMessageThatDoesNotFitIsRefused) {
  for (std::size_t too_long = 0; too_long < 2; ++too_long) {
    GroupTraffic traffic(GetParam().devices, GetParam().rails);
    ASSERT_TRUE(traffic.runAlike(kSlots + 1, 2, 64));
    std::vector<ReceiveBuffer> buffers;
    for (std::size_t i = 0; i < 2; ++i)
      buffers.push_back({reinterpret_cast<uint64_t>(traffic.to(0, i)), i == too_long ? 63U : 64U,
                         static_cast<int>(i), traffic.loop.memory(), nullptr});
    Request* receive = nullptr;
    ASSERT_OK(traffic.loop.receiver().irecv(buffers, false, &receive));
    ASSERT_NE(receive, nullptr);
    Status status;
    for (std::size_t i = 0; i <= too_long; ++i) {
      Request* send = nullptr;
      for (test::Patience patience; send == nullptr && status.ok(); patience.again())
        status = traffic.loop.sender().isend(reinterpret_cast<uint64_t>(traffic.from(0, i)), 64,
                                             static_cast<int>(i), traffic.loop.memory(), nullptr, &send);
      EXPECT_EQ(status.ok(), i < too_long);
    }
    EXPECT_EQ(status.code, Code::kInvalidArgument);
  }
}

// Many groups between two tests: the send queue has less room than they need.
TEST_P(Groups, MoreThanTheSendQueueHolds) {
  for (const std::size_t bytes : {std::size_t{8}, std::size_t{5000}, std::size_t{40'000}}) {
    for (int turn = 0; turn < 5; ++turn) {
      std::vector<GroupTraffic::UnderWay> groups;
      for (std::size_t i = 0; i < kSlots - 1; ++i)  // they share buffers, so only their sizes count
        groups.push_back({i % kPlaces, std::vector<std::size_t>(kMaxReceives, bytes)});
      for (GroupTraffic::UnderWay& group : groups) ASSERT_TRUE(traffic_.receive(group));
      for (GroupTraffic::UnderWay& group : groups) {
        for (std::size_t i = 0; i < kMaxReceives; ++i) ASSERT_TRUE(traffic_.send(group, i));
      }
      for (GroupTraffic::UnderWay& group : groups) ASSERT_TRUE(traffic_.finish(group));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Over, Groups,
                         testing::Values(GroupWays{"InfiniBand", "count=1,link=ib"},
                                         GroupWays{"RoCE", "count=1,link=roce"},
                                         GroupWays{"Iwarp", "count=1,link=iwarp"},
                                         GroupWays{"TwoRails", "count=2,link=roce", 2},
                                         GroupWays{"ThreeRailsOfInfiniBand", "count=3,link=ib", 3},
                                         GroupWays{"LikeBnxtRe", "count=1,link=roce,like=bnxt_re"},
                                         GroupWays{"LikeHns", "count=2,link=roce,like=hns", 2},
                                         GroupWays{"LikeIrdma", "count=1,link=iwarp,like=irdma"},
                                         GroupWays{"LikeIonic", "count=1,link=roce,like=ionic"},
                                         GroupWays{"FourQueuePairs", "count=1,link=roce", 1, "4"},
                                         GroupWays{"ShortQueues", "count=1,link=ib,max_qp_wr=64"}),
                         [](const auto& test) { return test.param.name; });

// A port or a device fails between two sends of a group, or with one of its writes. Nothing is lost or comes
// twice.
class GroupFailover : public testing::TestWithParam<std::tuple<std::size_t, int>> {
 protected:
  std::size_t size() const { return std::get<0>(GetParam()); }
  int rails() const { return std::get<1>(GetParam()); }
  std::string devices() const { return "count=" + std::to_string(rails() + 1) + ",link=ib"; }
};

TEST_P(GroupFailover, AWriteOfAGroupFails) {
  for (const char* opcode : {"write", "write_imm"}) {
    for (const char* status : {"general_err", "rem_access_err", "retry_exc_err"}) {
      SCOPED_TRACE(std::string(opcode) + " " + status);
      GroupTraffic traffic(devices() + ";fault opcode=" + opcode + " every=31 count=4 status=" + status,
                           rails());
      ASSERT_TRUE(traffic.runAlike(80, 3, size()));
      ASSERT_TRUE(traffic.run({size(), size(), size()}, {2, 0, 1}));
      ASSERT_TRUE(traffic.runAlike(20, 8, size()));
      EXPECT_GE(traffic.loop.sender().epoch(), 2U);
    }
  }
}

TEST_P(GroupFailover, APortGoesDownBetweenTwoSendsAndComesBack) {
  GroupTraffic traffic(devices(), rails());
  ASSERT_TRUE(traffic.runAlike(kSlots + 1, 3, size()));
  for (const char* state : {"down", "up", "down", "up"}) {
    GroupTraffic::UnderWay group = {0, std::vector<std::size_t>(3, size())};
    ASSERT_TRUE(traffic.receive(group));
    ASSERT_TRUE(traffic.send(group, 0));
    test::changePort("soft0:1", state);
    test::waitUntil([&] {
      return traffic.loop.device().rails().front().hca->state().active(1) == (state == std::string("up"));
    });
    ASSERT_TRUE(traffic.send(group, 1));
    ASSERT_TRUE(traffic.send(group, 2));
    ASSERT_TRUE(traffic.finish(group)) << state;
    ASSERT_TRUE(traffic.runAlike(10, 3, size())) << state;
  }
  EXPECT_GE(traffic.loop.sender().epoch(), 2U);
}

TEST_P(GroupFailover, ADeviceDiesWithGroupsUnderWay) {
  GroupTraffic traffic(devices() + ";fault device=soft0 opcode=write nth=20 device_fatal", rails());
  ASSERT_TRUE(traffic.runAlike(60, 8, size()));
  EXPECT_GE(traffic.loop.sender().epoch(), 2U);
}

INSTANTIATE_TEST_SUITE_P(OfEachSize, GroupFailover,
                         testing::Combine(testing::Values(std::size_t{8}, std::size_t{2000},
                                                          std::size_t{40'000}),
                                          testing::Values(1, 2)),
                         [](const auto& test) {
                           return std::to_string(std::get<0>(test.param)) + "Over" +
                                  std::to_string(std::get<1>(test.param));
                         });

// ---- what a group of large messages costs

softdev::Counters costOf(GroupTraffic& traffic, std::size_t messages, std::size_t bytes) {
  EXPECT_TRUE(traffic.runAlike(3, messages, bytes));
  return traffic.loop.countersOf([&] { EXPECT_TRUE(traffic.runAlike(1, messages, bytes)); });
}

TEST(GroupCosts, OnePostAtEachEndAndOneWriteForEachMessage) {
  for (const std::size_t bytes : {std::size_t{4000}, std::size_t{40'000}, kLargest}) {
    GroupTraffic traffic("count=1,link=roce");
    const softdev::Counters cost = costOf(traffic, 4, bytes);
    EXPECT_EQ(cost.writes, 3U + 1) << bytes;  // the clear-to-send
    EXPECT_EQ(cost.writes_with_imm, 1U) << bytes;
    EXPECT_EQ(cost.post_send_calls, 2U) << bytes;
  }
}

TEST(GroupCosts, AboveTheThresholdOfAdaptiveRoutingOneWriteMore) {
  GroupTraffic traffic("count=1,link=ib");
  const softdev::Counters small = costOf(traffic, 4, 2048);
  EXPECT_EQ(small.writes, 3U + 1);
  const softdev::Counters large = costOf(traffic, 4, 2049);
  EXPECT_EQ(large.writes, 4U + 1);
  EXPECT_EQ(large.writes_with_imm, 1U);
  EXPECT_EQ(large.post_send_calls, 2U);
}

}  // namespace
}  // namespace railwise::net
