// Somebody between the ranks of a group, on the TCP bytes of one-sided communication. Data arrive right, or
// the group fails at both ends, with a reason. What goes over TCP, and where each part is tested:
//
//   the handle (NCCL's bootstrap carries it)       RanksWithAChangedHandle
//   ConnectRequest, ConnectReply, ConnectReady     MiddleOfRanks; many callers, one of them cut: ManyCallers
//   RegionFrame: a window, its address, its keys   MiddleOfWindows, TrickWithWindows
//   bytes of another rank's call                   BetweenRanks
//   frames of recoveries, and the close message    man_in_the_middle_test.cc: the link is that of messages
//   the call that resumes a side channel           ResumerTest
//   RDMA CM's private data                         FailoverByManager
//
// Which rank has which window goes through NCCL in no other way: nothing is exchanged by its bootstrap.
#include <cstddef>
#include <cstring>
#include <optional>
#include <stdexcept>

#include "net/enemies/middle.h"
#include "net/rma/report.h"
#include "net/rma/rma_ranks.h"
#include "said.h"
#include "tests/ok.h"

namespace railwise::net {
namespace {

// Ranks whose calls to rank 1 go through somebody. The first call is that of rank 0.
struct RanksBetween {
  explicit RanksBetween(Middle::Mischief mischief, const RmaShape& shape = {}) : middle(std::move(mischief)) {
    RmaRanks::on_the_way = [this](int rank, char* handle) {
      if (rank == 1) middle.stepBetween(handle);
    };
    ranks.emplace(shape);
    RmaRanks::on_the_way = nullptr;
  }
  // Until all ranks have failed, which they are told of.
  void awaitFailure() {
    ranks->expect(1);
    for (test::Patience patience; !ranks->allFailed(); patience.again()) (void)ranks->turn();
    ranks->verify();
    EXPECT_EQ(ranks->problem(), "");
  }
  Middle middle;
  std::optional<RmaRanks> ranks;
};

#define EXPECT_RUNS(between, messages) \
  EXPECT_TRUE((between).ranks->run(messages)) << (between).ranks->problem() << said.all()

TEST(BetweenRanks, WhoOnlyListensLearnsNoSecret) {
  const test::Said said;
  RanksBetween between(harmless);
  EXPECT_RUNS(between, 50);
  EXPECT_EQ(between.middle.calls(), 1);
  const std::string secret(reinterpret_cast<const char*>(between.middle.handle().secret.bytes),
                           sizeof(Secret));
  EXPECT_EQ(between.middle.said(From::kConnector, 1).size(), kSaidByConnector);
  EXPECT_GT(between.middle.said(From::kListener, 1).size(), kSaidByListener) << "no window was told of";
  for (const From from : {From::kConnector, From::kListener}) {
    EXPECT_LACKS(between.middle.said(from, 1), secret.substr(0, 8));
    EXPECT_LACKS(between.middle.said(from, 1), secret.substr(8));
  }
}

// ---- the handshake

class MiddleOfRanks : public testing::TestWithParam<Spot> {};

TEST_P(MiddleOfRanks, AChangedByteEndsACall) {
  const test::Said said;
  RanksBetween between(changeByte(GetParam().from, GetParam().at));
  EXPECT_RUNS(between, 20);
  EXPECT_EQ(between.middle.calls(), 2) << said.all();
  EXPECT_HAS(said.all(), GetParam().from == From::kConnector ? "a stranger called" : "calling again");
}
TEST_P(MiddleOfRanks, ACutEndsACall) {
  const test::Said said;
  RanksBetween between(cutBefore(GetParam().from, GetParam().at));
  EXPECT_RUNS(between, 20);
  EXPECT_EQ(between.middle.calls(), 2) << said.all();
  EXPECT_HAS(said.all(), "calling again");
}

// The fields that messages have, too, are in MiddleOfHandshake.
std::vector<Spot> spotsOfRanks() {
  std::vector<Spot> all;
  for (const std::size_t at :
       {offsetof(EndInfo, user_word), offsetof(EndInfo, window_address), offsetof(EndInfo, resume_port),
        offsetof(EndInfo, rail) + offsetof(RailInfo, window_key), offsetof(EndInfo, queue_pair)}) {
    all.push_back({From::kConnector, offsetof(ConnectRequest, end) + at});
    all.push_back({From::kListener, offsetof(ConnectReply, end) + at});
  }
  all.push_back({From::kConnector, 0});
  all.push_back({From::kConnector, offsetof(ConnectRequest, hello)});
  all.push_back({From::kConnector, sizeof(ConnectRequest) - 1});
  all.push_back({From::kListener, 0});
  all.push_back({From::kListener, offsetof(ConnectReply, accepted)});
  all.push_back({From::kListener, sizeof(ConnectReply) - 1});
  return all;
}
INSTANTIATE_TEST_SUITE_P(Fields, MiddleOfRanks, testing::ValuesIn(spotsOfRanks()));

TEST(BetweenRanks, WhoChangesOrCutsTheLastMessageEndsNothing) {
  for (const std::size_t at : kSpotsOfReady) {
    for (const auto& mischief : {changeByte(From::kConnector, sizeof(ConnectRequest) + at),
                                 cutBefore(From::kConnector, sizeof(ConnectRequest) + at)}) {
      const test::Said said;
      RanksBetween between(mischief);
      EXPECT_RUNS(between, 20);
      EXPECT_EQ(between.middle.calls(), 1) << said.all();
      EXPECT_HAS(said.warnings(), "waiting for it to call again");
    }
  }
}

TEST(BetweenRanks, WhoChangesEveryAnswerFailsTheGroupAtBothEnds) {
  const test::Said said;
  RanksBetween between(changeByte(From::kListener, 100, 1000));
  between.awaitFailure();
  EXPECT_EQ(between.middle.calls(), 10);
  EXPECT_HAS(said.warnings(), "does not prove that it knows the secret");
  EXPECT_HAS(said.warnings(), "rank 1 cannot be put to, and the group of 2 ranks fails");
  EXPECT_HAS(said.warnings(), "rank 0 has lost its connection with rank 1, see its log");
}

// ---- who holds bytes back

// From a byte on, nothing of the first call goes on.
Middle::Mischief holdFrom(From from, uint64_t at) {
  return [=](const Place& place, std::string& bytes) {
    if (place.from == from && place.call == 1 && at < place.at + bytes.size())
      bytes.resize(at > place.at ? at - place.at : 0);
    return true;
  };
}

class WhoHolds : public testing::TestWithParam<Spot> {};

TEST_P(WhoHolds, TheHandshakeFailsTheGroupAtBothEnds) {
  const test::Setting timeout("RAILWISE_CONNECT_TIMEOUT", "1");
  const test::Said said;
  RanksBetween between(holdFrom(GetParam().from, GetParam().at));
  between.awaitFailure();
  EXPECT_HAS(said.warnings(), "no answer in RAILWISE_CONNECT_TIMEOUT=1 s");
  EXPECT_HAS(said.warnings(), "rank 0 has lost its connection with rank 1, see its log");
}
INSTANTIATE_TEST_SUITE_P(Spots, WhoHolds,
                         testing::Values(Spot{From::kConnector, 0},
                                         Spot{From::kConnector, sizeof(ConnectRequest) - 1},
                                         Spot{From::kListener, 0},
                                         Spot{From::kListener, sizeof(ConnectReply) - 1}));

// The last message, or what the target says of its windows: the writer suspects its side channel.
TEST(BetweenRanks, WhoHoldsWhatFollowsHoldsNoPut) {
  for (const Spot spot :
       {Spot{From::kConnector, sizeof(ConnectRequest)}, Spot{From::kListener, kSaidByListener},
        Spot{From::kListener, kSaidByListener + sizeof(UserFrame) + sizeof(FrameSeal) + 1}}) {
    const test::Said said;
    RanksBetween between(holdFrom(spot.from, spot.at));
    EXPECT_RUNS(between, 20);
    EXPECT_EQ(between.middle.calls(), 1);
  }
}

// ---- what a target says of its windows

constexpr uint64_t kRegionBytes = sizeof(UserFrame) + sizeof(FrameSeal);

class MiddleOfWindows : public testing::TestWithParam<std::size_t> {};

TEST_P(MiddleOfWindows, AChangedByteBreaksTheSideChannelWithALine) {
  const test::Said said;
  RanksBetween between(changeByte(From::kListener, kSaidByListener + GetParam()));
  EXPECT_RUNS(between, 20);
  EXPECT_HAS(said.warnings(), "somebody sent");
  EXPECT_HAS(said.all(), "the side channel goes on over a new TCP connection");
}
TEST_P(MiddleOfWindows, ACutIsMended) {
  const test::Said said;
  RanksBetween between(cutBefore(From::kListener, kSaidByListener + GetParam()));
  EXPECT_RUNS(between, 20);
  EXPECT_LACKS(said.warnings(), "somebody sent");
  EXPECT_HAS(said.all(), "the side channel goes on over a new TCP connection");
}
constexpr std::size_t kOfRegion = sizeof(MessageHeader);
INSTANTIATE_TEST_SUITE_P(
    Fields, MiddleOfWindows,
    testing::Values(offsetof(MessageHeader, magic), offsetof(MessageHeader, type),
                    offsetof(MessageHeader, bytes), kOfRegion + offsetof(RegionFrame, window),
                    kOfRegion + offsetof(RegionFrame, epoch), kOfRegion + offsetof(RegionFrame, bytes),
                    kOfRegion + offsetof(RegionFrame, address), kOfRegion + offsetof(RegionFrame, keys),
                    sizeof(UserFrame) + offsetof(FrameSeal, number),
                    sizeof(UserFrame) + offsetof(FrameSeal, heard),
                    sizeof(UserFrame) + offsetof(FrameSeal, mac),
                    kRegionBytes + kOfRegion + offsetof(RegionFrame, keys)));

// A longer type: the rest of such a frame never comes.
TEST(BetweenRanks, WhoMakesAFrameLongerHoldsNoPut) {
  const test::Said said;
  RanksBetween between([](const Place& place, std::string& bytes) {
    const uint64_t at = kSaidByListener + offsetof(MessageHeader, type);
    if (place.from == From::kListener && place.call == 1 && place.at <= at && at < place.at + bytes.size())
      bytes[at - place.at] = static_cast<char>(MessageType::kPropose);
    return true;
  });
  EXPECT_RUNS(between, 20);
  EXPECT_HAS(said.all(), "the side channel goes on over a new TCP connection");
}

class TrickWithWindows : public testing::TestWithParam<Trick> {};

TEST_P(TrickWithWindows, BreaksTheSideChannelWithALine) {
  const test::Said said;
  RanksBetween between(playTrick(From::kListener, GetParam()));
  EXPECT_RUNS(between, 20);
  EXPECT_HAS(said.warnings(), "over the side channel: making a new TCP connection");
}
INSTANTIATE_TEST_SUITE_P(Frames, TrickWithWindows, testing::ValuesIn(allTricks()));

// ---- two callers of one listener

// One call gets bytes of the other one, which came first.
Middle::Mischief replay(From from, uint64_t at, std::size_t count) {
  return
      [=, first = 0, replayed = false, kept = std::string()](const Place& place, std::string& bytes) mutable {
        if (place.from != from || place.at > at || place.at + bytes.size() < at + count || replayed)
          return true;
        if (first == 0) {
          first = place.call;
          kept = bytes.substr(at - place.at, count);
        } else if (place.call != first) {
          bytes.replace(at - place.at, count, kept);
          replayed = true;
        }
        return true;
      };
}

TEST(BetweenRanks, ARequestIsTakenOnce) {
  const test::Said said;
  RanksBetween between(replay(From::kConnector, 0, sizeof(ConnectRequest)), {.ranks = 3});
  EXPECT_RUNS(between, 20);
  EXPECT_EQ(between.middle.calls(), 3) << said.all();
  EXPECT_HAS(said.warnings(), "a stranger called");
}
TEST(BetweenRanks, AReplyIsGoodForItsRequest) {
  const test::Said said;
  RanksBetween between(replay(From::kListener, 0, sizeof(ConnectReply)), {.ranks = 3});
  EXPECT_RUNS(between, 20);
  EXPECT_EQ(between.middle.calls(), 3) << said.all();
  EXPECT_HAS(said.warnings(), "does not prove that it knows the secret");
}
TEST(BetweenRanks, AWindowIsToldToOneWriter) {
  const test::Said said;
  RanksBetween between(replay(From::kListener, kSaidByListener, kRegionBytes), {.ranks = 3});
  EXPECT_RUNS(between, 20);
  EXPECT_HAS(said.warnings(), "somebody sent");
}

// ---- the handle

enum class Ends : uint8_t { kRight, kNoGroup, kFails };
struct Field {
  const char* name;
  std::size_t at;
  Ends ends;
};
void PrintTo(const Field& field, std::ostream* to) { *to << field.name; }

class RanksWithAChangedHandle : public testing::TestWithParam<Field> {};

// NCCL's bootstrap is trusted (docs/security.md). All the same nothing hangs, and nothing arrives wrong.
TEST_P(RanksWithAChangedHandle, RunOrFailWithALine) {
  const test::Setting timeout("RAILWISE_CONNECT_TIMEOUT", "1");
  const test::Said said;
  RmaRanks::on_the_way = [](int rank, char* handle) {
    if (rank == 1) handle[GetParam().at] = static_cast<char>(handle[GetParam().at] ^ 2);
  };
  std::optional<RmaRanks> ranks;
  try {
    ranks.emplace(RmaShape{});
  } catch (const std::runtime_error&) {
  }
  RmaRanks::on_the_way = nullptr;
  ASSERT_EQ(ranks.has_value(), GetParam().ends != Ends::kNoGroup) << said.all();
  if (!ranks) {
    EXPECT_HAS(said.warnings(), "connect: rank 1 does not use Railwise for one-sided communication");
    return;
  }
  EXPECT_EQ(ranks->run(20), GetParam().ends == Ends::kRight) << ranks->problem() << said.all();
  if (GetParam().ends == Ends::kRight) return;
  for (test::Patience patience; !ranks->allFailed(); patience.again()) (void)ranks->turn();
  ranks->verify();
  EXPECT_EQ(ranks->problem(), "");
  EXPECT_HAS(said.warnings(), "rank 1 cannot be put to, and the group of 2 ranks fails");
}
INSTANTIATE_TEST_SUITE_P(
    Fields, RanksWithAChangedHandle,
    testing::Values(Field{"magic", offsetof(ListenHandle, magic), Ends::kNoGroup},
                    Field{"oldest_version", offsetof(ListenHandle, oldest_version) + 1, Ends::kNoGroup},
                    Field{"port", offsetof(ListenHandle, port), Ends::kFails},
                    Field{"candidates", offsetof(ListenHandle, candidates), Ends::kNoGroup},
                    Field{"rails", offsetof(ListenHandle, rails), Ends::kFails},
                    Field{"out_of_order", offsetof(ListenHandle, out_of_order), Ends::kRight},
                    Field{"kind", offsetof(ListenHandle, kind), Ends::kNoGroup},
                    Field{"secret", offsetof(ListenHandle, secret), Ends::kFails},
                    Field{"address", offsetof(ListenHandle, addresses) + 10, Ends::kFails},
                    Field{"connecting", offsetof(ListenHandle, connecting), Ends::kRight},
                    Field{"host", offsetof(ListenHandle, host), Ends::kRight},
                    Field{"newest_version", offsetof(ListenHandle, newest_version), Ends::kRight}),
    [](const auto& field) { return field.param.name; });

}  // namespace
}  // namespace railwise::net
