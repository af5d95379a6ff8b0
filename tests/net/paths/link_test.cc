// The floor of paths alone: a link that loses paths, devices, its peer, and drivers that refuse, below a user
// that writes numbered cells (fake_user.h) and counts each one exactly once.
#include "net/paths/link.h"

#include <gtest/gtest.h>

#include <string>

#include "net/device/fence.h"
#include "net/in_child.h"
#include "net/paths/link_pair.h"
#include "net/patience.h"
#include "net/tcp.h"
#include "port_control.h"
#include "said.h"
#include "tests/ok.h"
#include "tests/wait.h"

namespace railwise::net {
namespace {

struct Transport {
  const char* name;
  const char* link;
  const char* connect;  // RAILWISE_CONNECT
  bool reported;        // each cell is reported
};

class LinkTest : public ::testing::TestWithParam<Transport> {
 protected:
  static std::string mode() { return std::string("link=") + GetParam().link; }
  static CellShape shape() { return {.reported = GetParam().reported}; }
  // The operation that brings a cell.
  static std::string cellOperation() {
    const bool immediate = GetParam().reported && std::string(GetParam().link) != "iwarp";
    return immediate ? "opcode=write_imm" : "opcode=write";
  }

 private:
  const test::Setting connect_{"RAILWISE_CONNECT", GetParam().connect};
};

#define EXPECT_RUNS(pair, cells) EXPECT_TRUE((pair).run(cells)) << (pair).problem()
#define ASSERT_RUNS(pair, cells) ASSERT_TRUE((pair).run(cells)) << (pair).problem()

// Both ends until `goal`, with cells on their way. False: the link has failed.
template <typename Goal>
bool runUntil(LinkPair& pair, Goal&& goal) {
  for (test::Patience patience; !goal(); patience.again()) {
    if (!pair.run(16)) return false;
  }
  return true;
}

// Both ends until both have failed.
void failBoth(LinkPair& pair) {
  for (test::Patience patience; pair.source().link().failure.ok() || pair.target().link().failure.ok();
       patience.again())
    (void)pair.turn();
  EXPECT_EQ(pair.problem(), "");
}

const PairPlaces kOneRail = {};
const PairPlaces kWithStandby = {.source_standbys = 1, .target_standbys = 1};
const PairPlaces kTwoRails = {.source_rails = 2, .target_rails = 2};
const PairPlaces kApart = {.source_standbys = 1, .target_standbys = 1, .apart = true};

TEST_P(LinkTest, CountsEachCellOnce) {
  for (const std::size_t bytes : {std::size_t{24}, std::size_t{64}, std::size_t{8192}}) {
    CellShape cells = shape();
    cells.bytes = bytes;
    cells.proves = bytes == 64;
    LinkPair pair(kOneRail, cells, mode());
    ASSERT_RUNS(pair, 1000);
    EXPECT_EQ(pair.target().counted(), 1000U);
    EXPECT_EQ(pair.source().repeated(), 0U);
    EXPECT_EQ(pair.source().link().epoch(), 1U);
  }
}

TEST_P(LinkTest, UsesSeveralRailsAndQueuePairs) {
  LinkPair pair({.source_rails = 3, .target_rails = 2, .apart = true}, shape(), mode(), 2);
  ASSERT_RUNS(pair, 1000);
  EXPECT_GT(pair.source().link().endpoint.queue_pairs.size(), 3U);
}

TEST_P(LinkTest, GoesOnOverTheOtherRailAndTakesTheFirstOneBack) {
  LinkPair pair(kTwoRails, shape(), mode());
  ASSERT_RUNS(pair, 200);
  test::changePort("soft1:1", "down");
  ASSERT_TRUE(runUntil(pair, [&] { return pair.railsInUse() == "soft0" && pair.source().link().running(); }))
      << pair.problem();
  ASSERT_RUNS(pair, 200);
  EXPECT_TRUE(pair.source().link().degraded());
  test::changePort("soft1:1", "up");
  const Link& link = pair.source().link();
  ASSERT_TRUE(runUntil(pair, [&] { return link.running() && !link.degraded(); })) << pair.problem();
  EXPECT_EQ(pair.railsInUse(), "soft0+soft1");
  ASSERT_RUNS(pair, 200);
  EXPECT_GE(pair.source().link().epoch(), 3U);
}

// Whoever loses a path and whoever hears of it count it; going back is no loss.
void expectSameLosses(LinkPair& pair) {
  EXPECT_EQ(pair.target().link().shown().counters.failovers, pair.source().link().shown().counters.failovers);
}

TEST_P(LinkTest, GoesToAStandbyAndBack) {
  LinkPair pair(kApart, shape(), mode());
  ASSERT_RUNS(pair, 200);
  test::changePort("soft0:1", "down");
  ASSERT_TRUE(runUntil(pair, [&] { return pair.railsInUse() == "soft1"; })) << pair.problem();
  ASSERT_RUNS(pair, 200);
  expectSameLosses(pair);
  test::changePort("soft0:1", "up");
  EXPECT_TRUE(runUntil(pair, [&] { return pair.railsInUse() == "soft0"; })) << pair.problem();
  EXPECT_RUNS(pair, 200);
  expectSameLosses(pair);
}

// Both ends tell frames all the time, until `goal`.
template <typename Goal>
void talkUntil(LinkPair& pair, Goal&& goal) {
  for (test::Patience patience; !goal(); patience.again()) {
    if (pair.source().told() < pair.target().heard() + 100) pair.source().tell();
    if (pair.target().told() < pair.source().heard() + 100) pair.target().tell();
    ASSERT_TRUE(pair.turn()) << pair.problem();
  }
}
bool allHeard(LinkPair& pair) {
  return pair.source().heard() == pair.target().told() && pair.target().heard() == pair.source().told();
}
void hearAll(LinkPair& pair) {
  for (test::Patience patience; !allHeard(pair); patience.again()) ASSERT_TRUE(pair.turn()) << pair.problem();
}

TEST_P(LinkTest, UserFramesComeOnceInOrderAcrossARecovery) {
  LinkPair pair(kTwoRails, shape(), mode());
  ASSERT_OK(pair.open());
  talkUntil(pair, [&] { return pair.target().heard() > 300 && pair.source().heard() > 300; });
  test::changePort("soft1:1", "down");
  pair.expect(1000);
  talkUntil(pair, [&] { return pair.done() && pair.railsInUse() == "soft0"; });
  hearAll(pair);
  EXPECT_GE(pair.source().link().epoch(), 2U);
}

TEST_P(LinkTest, UserFramesComeOnceInOrderAcrossACutSideChannel) {
  PairPlaces places = kOneRail;
  places.resumes = true;
  LinkPair pair(places, shape(), mode());
  ASSERT_OK(pair.open());
  for (int cut = 1; cut <= 3; ++cut) {
    const uint64_t heard = pair.target().heard();
    talkUntil(pair, [&] { return pair.target().heard() > heard + 100; });
    pair.source().tell();  // on its way
    test::cutTcp();
    talkUntil(pair, [&] { return pair.target().heard() > heard + 300; });
  }
  hearAll(pair);
  EXPECT_RUNS(pair, 100);
  EXPECT_EQ(pair.source().link().epoch(), 1U) << "no path was lost";
}

// An end that says nothing would else be taken for one that hears nothing.
TEST_P(LinkTest, UserFramesNeedNoFrameInReturn) {
  LinkPair pair(kOneRail, shape(), mode());
  ASSERT_OK(pair.open());
  constexpr uint64_t kFrames = 20000;  // more than a channel keeps
  for (test::Patience patience; pair.target().heard() < kFrames; patience.again()) {
    while (pair.source().told() < std::min(kFrames, pair.target().heard() + 1000)) pair.source().tell();
    ASSERT_TRUE(pair.turn()) << pair.problem();
  }
  EXPECT_RUNS(pair, 100);
}

TEST_P(LinkTest, AUserFrameThatNobodyExpectsFailsTheLink) {
  CellShape cells = shape();
  cells.deaf = true;
  const test::Said said;
  LinkPair pair(kOneRail, cells, mode());
  ASSERT_OK(pair.open());
  pair.source().tell();
  failBoth(pair);
  EXPECT_EQ(pair.target().link().failure.code, Code::kRemote);
}

TEST_P(LinkTest, WaitsForItsOnlyPort) {
  LinkPair pair(kOneRail, shape(), mode());
  ASSERT_RUNS(pair, 100);
  test::changePort("soft0:1", "down");
  pair.expect(100);
  for (test::Patience patience; pair.source().link().running(); patience.again()) ASSERT_TRUE(pair.turn());
  const uint64_t counted = pair.counted();
  for (int i = 0; i < 2000; ++i) ASSERT_TRUE(pair.turn()) << pair.problem();
  EXPECT_EQ(pair.counted(), counted);
  test::changePort("soft0:1", "up");
  EXPECT_RUNS(pair, 100);
}

TEST_P(LinkTest, BeginsWithoutAPath) {
  LinkPair pair(kOneRail, shape(), mode());
  test::changePort("soft0:1", "down");
  test::waitUntil([&] { return !pair.net().device(0)->rails().front().hca->state().active(1); });
  ASSERT_OK(pair.open());
  EXPECT_FALSE(pair.source().link().running());
  test::changePort("soft0:1", "up");
  EXPECT_RUNS(pair, 100);
  EXPECT_GE(pair.source().link().epoch(), 2U);
}

TEST_P(LinkTest, RepeatsWhatAFailedCompletionLeftOpen) {
  for (const char* status : {"loc_prot_err", "rem_access_err", "retry_exc_err", "general_err"}) {
    LinkPair pair(kOneRail, shape(), mode());
    ASSERT_OK(pair.open());
    test::addFault(cellOperation() + " nth=40 status=" + status);
    ASSERT_RUNS(pair, 200);
    EXPECT_GE(pair.source().link().epoch(), 2U) << status;
    EXPECT_GE(pair.source().repeated(), 1U) << status;
  }
}

TEST_P(LinkTest, LosesEpochAfterEpoch) {
  const PairPlaces places = {
      .source_rails = 2, .source_standbys = 1, .target_rails = 2, .target_standbys = 1};
  LinkPair pair(places, shape(), mode());
  ASSERT_OK(pair.open());
  test::addFault(cellOperation() + " every=53 status=general_err");
  test::addFault("verb=create_qp every=9 nth=9 errno=ENOMEM");
  ASSERT_RUNS(pair, 1000);
  EXPECT_GE(pair.source().link().epoch(), 8U);
}

// The port on which the recovery wants to go on goes down while the recovery is under way.
TEST_P(LinkTest, LosesTheNextPathDuringARecovery) {
  const PairPlaces three = {.source_standbys = 2, .target_standbys = 2};
  LinkPair pair(three, shape(), mode());
  ASSERT_RUNS(pair, 100);
  test::changePort("soft0:1", "down");
  pair.expect(100);
  for (test::Patience patience; pair.source().link().running(); patience.again()) ASSERT_TRUE(pair.turn());
  test::changePort("soft1:1", "down");
  EXPECT_RUNS(pair, 100);
  EXPECT_EQ(pair.railsInUse(), "soft2");
}

TEST_P(LinkTest, LosesItsPathsAtBothEndsAtOnce) {
  LinkPair pair(kApart, shape(), mode());
  ASSERT_RUNS(pair, 100);
  pair.expect(100);
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(pair.turn());
  test::changePort("soft0:1", "down");
  test::changePort("soft2:1", "down");
  ASSERT_RUNS(pair, 100);
  EXPECT_EQ(pair.railsInUse(), "soft1");
  EXPECT_STREQ(pair.target().link().endpoint.rails.front().hca->name(), "soft3");
}

// Nobody says that nothing gets through any more. What is stuck, the transport does not report either.
TEST_P(LinkTest, LeavesABlackHole) {
  for (const char* loss : {"drop", "stuck"}) {
    LinkPair pair(kApart, shape(), mode());
    ASSERT_RUNS(pair, 500);
    test::addFault(std::string("device=soft0 ") + loss);
    ASSERT_RUNS(pair, 100);
    EXPECT_EQ(pair.railsInUse(), "soft1") << loss;
  }
}

TEST_P(LinkTest, GoesOnWhenItsDeviceFails) {
  for (const char* device : {"soft0:1", "soft2:1"}) {
    LinkPair pair(kApart, shape(), mode());
    ASSERT_RUNS(pair, 100);
    pair.expect(100);
    for (int i = 0; i < 10; ++i) ASSERT_TRUE(pair.turn());
    test::changePort(device, "fatal");
    ASSERT_RUNS(pair, 100) << device;
    EXPECT_GE(pair.source().link().epoch(), 2U) << device;
  }
}

// The link leaves a path, and nobody knows why. A path that cells have gone over comes before one that nobody
// has used.
TEST(Link, PrefersThePathThatHasWorked) {
  LinkPair pair({.source_standbys = 2, .apart = true}, {}, "link=roce");
  for (const char* port : {"soft0:1", "soft1:1"}) test::changePort(port, "down");
  const auto active = [&](int device) {
    return pair.net().device(device)->rails().front().hca->state().active(1);
  };
  test::waitUntil([&] { return !active(0) && !active(1); });
  ASSERT_RUNS(pair, 100);
  EXPECT_EQ(pair.railsInUse(), "soft2");
  test::changePort("soft1:1", "up");
  test::waitUntil([&] { return active(1); });
  ASSERT_OK(pair.source().link().lose(nullptr, {Code::kRemote, 0}, "the test leaves it"));
  ASSERT_RUNS(pair, 100);
  EXPECT_EQ(pair.railsInUse(), "soft2");
}

// ---- the fence

// Drivers refuse to stop the old queue pairs, whose writes come late. The link goes on only when nothing can
// come any more.
TEST_P(LinkTest, WritesOfAnOldEpochDoNotComeAfterRefusedStops) {
  for (const char* refused : {"soft0", "soft2", "soft*"}) {
    EXPECT_EQ("", inChild([&]() -> std::string {
                LinkPair pair(kApart, shape(), mode());
                if (!pair.run(100)) return "no link: " + pair.problem();
                const std::string at = std::string("device=") + refused + " nth=1 every=1 ";
                test::addFault(at + "verb=modify_qp errno=EAGAIN count=4");
                test::addFault(at + "verb=destroy_qp delay=300ms count=4");
                test::addFault("device=soft0 opcode=any nth=1 every=1 count=2 delay=150ms");
                test::addFault("device=soft2 opcode=any nth=2 every=1 count=2 delay=150ms");
                const Deadline arrived = Deadline::after(std::chrono::milliseconds(350));
                pair.expect(64);
                for (int i = 0; i < 4; ++i) (void)pair.turn();
                test::changePort("soft0:1", "down");
                for (test::Patience patience; pair.source().link().running(); patience.again())
                  (void)pair.turn();
                test::changePort("soft0:1", "up");
                if (!pair.run(64)) return "it does not go on: " + pair.problem();
                while (!arrived.passed()) {
                  if (!pair.run(4)) return "later: " + pair.problem();
                }
                return "";
              }));
  }
}

// The queue pairs of a closed link are not destroyed, and their writes come late: the windows of the next
// link are others.
TEST_P(LinkTest, WritesOfAClosedLinkDoNotReachTheNextOne) {
  EXPECT_EQ("", inChild([&]() -> std::string {
              LinkPair pair(kOneRail, shape(), mode());
              if (!pair.run(100)) return "no link: " + pair.problem();
              const Deadline arrived = Deadline::after(std::chrono::milliseconds(400));
              pair.closeWithLateWrites(std::chrono::milliseconds(200));
              if (!pair.open().ok()) return "no second link";
              while (!arrived.passed()) {
                if (!pair.run(1)) return "the second link: " + pair.problem();
              }
              return pair.problem();
            }));
}

// A driver that refuses for good ends the link, with the reason.
TEST_P(LinkTest, ARefusalForGoodEndsTheLink) {
  EXPECT_EQ("", inChild([&]() -> std::string {
              const test::Setting failover_timeout("RAILWISE_FAILOVER_TIMEOUT", "1");
              LinkPair pair(kWithStandby, shape(), mode());
              if (!pair.run(100)) return "no link: " + pair.problem();
              const test::Said said;
              test::addFault("device=soft0 verb=modify_qp+destroy_qp+query_qp errno=EAGAIN nth=1 every=1");
              test::changePort("soft0:1", "down");
              pair.expect(100);
              failBoth(pair);
              return said.all().find("The last one cannot be left: soft0: ") != std::string::npos
                         ? ""
                         : "without the reason: " + said.all();
            }));
}

// The queue pair is destroyed at last, and with it what it has brought and nobody has polled.
TEST(Link, WhatArrivedBeforeARefusedStopCounts) {
  const test::Setting failover_timeout("RAILWISE_FAILOVER_TIMEOUT", "2");
  LinkPair pair({.apart = true}, {}, "link=roce");
  ASSERT_RUNS(pair, 64);
  pair.expect(CellRing::kPlaces);
  const Endpoint& endpoint = pair.source().link().endpoint;
  const uint64_t before = endpoint.queue_pairs[0].posted();
  const auto delivered = [&] {
    return endpoint.queue_pairs[0].posted() >= before + CellRing::kPlaces && endpoint.owedNothing();
  };
  for (test::Patience patience; !delivered(); patience.again()) ASSERT_OK(pair.source().progress());
  Link& target = pair.target().link();
  test::addFault("qp=" + std::to_string(target.endpoint.queue_pairs[0].qp->qp_num) +
                 " verb=modify_qp errno=EBUSY nth=1 every=1");
  ASSERT_OK(target.lose(nullptr, {Code::kRemote, 0}, "the test leaves it"));
  for (test::Patience patience; target.epoch() == 1; patience.again()) ASSERT_OK(target.step(Waiting::kPeer));
  ASSERT_RUNS(pair, 64);
  EXPECT_EQ(pair.source().repeated(), 0U);
}

// The kernel's manager of iWARP would let the new connections wait for the old ones.
TEST(Link, AnIwarpReceiverAsksForAnEpochOnceItsOldConnectionsAreGone) {
  LinkPair pair({.apart = true}, {}, "link=iwarp");
  ASSERT_RUNS(pair, 100);
  Link& target = pair.target().link();
  test::addFault("device=soft1 verb=destroy_qp delay=300ms nth=1");
  ASSERT_OK(target.lose(nullptr, {Code::kRemote, 0}, "the test leaves it"));
  for (test::Patience patience; target.epoch() == 1; patience.again()) ASSERT_OK(target.step(Waiting::kPeer));
  EXPECT_FALSE(managerBusy(Patience(target.config.failover_timeout_s)));
  EXPECT_RUNS(pair, 100);
}

// ---- refusals while the link is set up

const PairPlaces kOneEach = {.apart = true};

// The only rail of an end refuses what the link is made of, longer than a moment.
TEST_P(LinkTest, IsSetUpThoughADeviceRefusesForAWhile) {
  // Seldom more than 0.25 s between two attempts.
  const test::Setting failover_timeout("RAILWISE_FAILOVER_TIMEOUT", "4");
  for (const char* device : {"soft0", "soft1"}) {
    for (const char* refused :
         {"verb=modify_qp errno=EAGAIN count=12", "verb=create_qp errno=ETIMEDOUT count=6",
          "verb=create_cq errno=ENOMEM count=6", "verb=post_recv errno=ENOMEM count=6",
          "verb=reg_mr errno=EINVAL count=8"}) {
      SCOPED_TRACE(std::string(device) + " " + refused);
      LinkPair pair(kOneEach, shape(), mode());
      test::addFault(std::string("device=") + device + " nth=1 every=1 " + refused);
      ASSERT_RUNS(pair, 100);
      pair.close();
      ASSERT_OK(pair.open());  // in the window of a device that has refused it
      ASSERT_RUNS(pair, 100);
      EXPECT_EQ(pair.source().link().epoch(), 1U);
    }
  }
}

// One queue pair is up, so that the peer may write into the window, and the next one is refused. The link
// goes on in another window.
TEST(Link, LeavesAWindowThatThePeerMayStillWrite) {
  LinkPair pair(kOneEach, {}, "link=roce", 2);
  test::addFault("device=soft0 verb=modify_qp errno=EAGAIN nth=5 every=1 count=8");
  ASSERT_OK(pair.open());
  EXPECT_FALSE(pair.source().link().running());
  EXPECT_RUNS(pair, 100);
}

// A refusal for good ends the link in time, and the line says what was refused, and why.
TEST_P(LinkTest, IsNotSetUpIfADeviceRefusesForGood) {
  const test::Setting failover_timeout("RAILWISE_FAILOVER_TIMEOUT", "1");
  for (const char* device : {"soft0", "soft1"}) {
    LinkPair pair(kOneEach, shape(), mode());
    test::addFault(std::string("device=") + device + " nth=1 every=1 verb=modify_qp errno=EBUSY");
    ASSERT_OK(pair.open());
    const test::Said said;
    pair.expect(100);
    failBoth(pair);
    const std::string why = std::string(device) + " refuses a queue pair (ibv_create_qp, ibv_modify_qp): " +
                            "Device or resource busy";
    for (const Link* link : {&pair.source().link(), &pair.target().link()})
      EXPECT_EQ(link->failure.code, Code::kRemote);
    EXPECT_HAS(said.all(), "no path to the peer is left");
    EXPECT_HAS(said.all(), why);
  }
}

TEST_P(LinkTest, IsRefusedAtOnceWhereAskingAgainHelpsNothing) {
  for (const char* refused : {"verb=create_qp errno=EPERM", "verb=reg_mr errno=EPERM"}) {
    for (const char* device : {"soft0", "soft1"}) {
      LinkPair pair(kOneEach, shape(), mode());
      test::addFault(std::string("device=") + device + " " + refused);
      EXPECT_EQ(pair.open().sys_errno, EPERM);
    }
  }
  const test::Setting no_failover("RAILWISE_FAILOVER", "0");
  for (const char* device : {"soft0", "soft1"}) {
    LinkPair pair(kOneEach, shape(), mode());
    test::addFault(std::string("device=") + device + " verb=create_qp nth=1 errno=EAGAIN");
    EXPECT_EQ(pair.open().sys_errno, EAGAIN);
  }
}

// ---- the end

TEST_P(LinkTest, EndsWhenNoPathIsLeft) {
  const test::Setting failover_timeout("RAILWISE_FAILOVER_TIMEOUT", "1");
  LinkPair pair(kWithStandby, shape(), mode());
  ASSERT_RUNS(pair, 100);
  const test::Said said;
  const Clock::time_point begun = Clock::now();
  test::changePort("soft0:1", "down");
  test::changePort("soft1:1", "down");
  pair.expect(100);
  failBoth(pair);
  EXPECT_GE(Clock::now() - begun, std::chrono::seconds(1));
  EXPECT_EQ(pair.source().link().failure.code, Code::kRemote);
  EXPECT_EQ(pair.target().link().failure.code, Code::kRemote);
  EXPECT_HAS(said.all(), "no path to the peer is left");
}

// The sender has something to send, and the receiver, which waits for nothing, does not know that. So the
// time counts at the receiver alone, once the sender says that it looks for a path.
TEST(Link, AReceiverGivesUpWhoseSenderFindsNoPath) {
  const test::Setting failover_timeout("RAILWISE_FAILOVER_TIMEOUT", "1");
  LinkPair pair(kOneRail, {}, "link=roce");
  ASSERT_RUNS(pair, 100);
  const test::Said said;
  test::changePort("soft0:1", "down");
  for (test::Patience patience; pair.source().link().running(); patience.again()) ASSERT_TRUE(pair.turn());
  pair.source().expect(200);
  failBoth(pair);
  EXPECT_HAS(said.all(), pair.target().link().title() + ": no path to the peer is left");
}

// The path never says that it has failed, and the message is so large that silence is no sign for long.
TEST(Link, AnEpochInWhichNothingComesBackIsTimeWithoutAPath) {
  const test::Setting failover_timeout("RAILWISE_FAILOVER_TIMEOUT", "1");
  LinkPair pair(kOneEach, {.largest = 100'000'000}, "link=roce");
  ASSERT_RUNS(pair, 100);
  test::addFault("device=soft0 drop");
  ASSERT_OK(pair.source().link().lose(nullptr, {Code::kRemote, 0}, "the test leaves it"));
  pair.expect(100);
  failBoth(pair);
  EXPECT_EQ(pair.source().link().epoch(), 2U);
}

TEST_P(LinkTest, WithoutFailoverTheFirstFailureEndsIt) {
  const test::Setting no_failover("RAILWISE_FAILOVER", "0");
  LinkPair pair(kWithStandby, shape(), mode());
  ASSERT_OK(pair.open());
  test::addFault(cellOperation() + " nth=40 status=general_err");
  EXPECT_FALSE(pair.run(200));
  failBoth(pair);
}

TEST_P(LinkTest, APeerThatGoesAwayEndsIt) {
  for (const bool source_goes : {false, true}) {
    LinkPair pair(kOneRail, shape(), mode());
    ASSERT_RUNS(pair, 100);
    pair.expect(100);
    ASSERT_TRUE(pair.turn());
    Link& left = source_goes ? pair.target().link() : pair.source().link();
    if (source_goes) pair.closeSource();
    else pair.closeTarget();
    for (test::Patience patience; left.failure.ok(); patience.again()) (void)pair.turn();
    EXPECT_EQ(left.failure.code, Code::kRemote);
    EXPECT_EQ(pair.problem(), "");
  }
}

// With all that it may have under way: cells, a recovery, a recovery without a path.
TEST_P(LinkTest, ClosesWithWorkOutstanding) {
  for (const int ports_down : {0, 1, 2}) {
    LinkPair pair(kWithStandby, shape(), mode());
    ASSERT_RUNS(pair, 100);
    pair.expect(1000);
    for (int i = 0; i < 10; ++i) ASSERT_TRUE(pair.turn());
    for (int port = 0; port < ports_down; ++port)
      test::changePort("soft" + std::to_string(port) + ":1", "down");
    for (test::Patience patience; ports_down > 0 && pair.source().link().running(); patience.again())
      ASSERT_TRUE(pair.turn());
    pair.close();
    EXPECT_EQ(pair.problem(), "");
  }
}

TEST_P(LinkTest, ClosesAndOpensAgain) {
  LinkPair pair(kWithStandby, shape(), mode());
  for (int link = 0; link < 3; ++link) {
    ASSERT_RUNS(pair, 100);
    test::changePort("soft0:1", "down");
    ASSERT_RUNS(pair, 100);
    test::changePort("soft0:1", "up");
    pair.close();
  }
  EXPECT_EQ(pair.counted(), 600U);
}

INSTANTIATE_TEST_SUITE_P(, LinkTest,
                         ::testing::Values(Transport{"ib", "ib", "auto", true},
                                           Transport{"roce", "roce", "auto", true},
                                           Transport{"roce_silent", "roce", "auto", false},
                                           Transport{"iwarp", "iwarp", "auto", true},
                                           Transport{"iwarp_silent", "iwarp", "auto", false},
                                           Transport{"ib_cm", "ib", "cm", true},
                                           Transport{"roce_cm", "roce", "cm", true}),
                         [](const auto& its) { return std::string(its.param.name); });

// ---- what the fake user itself sees

TEST(CellRing, SeesAWordThatIsNotDue) {
  const CellShape shape = {.bytes = 64};
  std::vector<uint64_t> memory(CellRing::bytesFor(shape) / sizeof(uint64_t));
  CellRing ring;
  ring.use(reinterpret_cast<std::byte*>(memory.data()), shape);
  EXPECT_EQ(ring.problem(7, 2), "");
  ring.put(7, 2);
  EXPECT_EQ(ring.problem(7, 2), "");
  EXPECT_TRUE(ring.holds(7, 2));
  EXPECT_NE(ring.problem(7, 3), "");                      // of another epoch
  EXPECT_NE(ring.problem(7 + CellRing::kPlaces, 2), "");  // once more, after it was counted
  reinterpret_cast<uint64_t*>(ring.at(7))[5] ^= 1;
  EXPECT_NE(ring.problem(7, 2), "");
  EXPECT_FALSE(ring.holds(7, 2));
  ring.wipe(7);
  EXPECT_TRUE(ring.empty(7));
}

}  // namespace
}  // namespace railwise::net
