// A connection goes on when a port, a device, a queue pair or a way fails, and nothing is lost or comes
// twice.
#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "loop_connection.h"
#include "net/loop_traffic.h"
#include "port_control.h"
#include "said.h"
#include "tests/ok.h"
#include "tests/wait.h"

namespace railwise::net {
namespace {

TEST(Failover, GoesToAStandbyWhenItsPortDies) {
  LoopConnection loop(2 * kHalf, "count=2");
  Traffic traffic(loop);
  ASSERT_TRUE(traffic.run(64, 512));
  test::changePort("soft0:1", "down");
  ASSERT_TRUE(traffic.run(64, 512));
  EXPECT_EQ(loop.sender().epoch(), 2U);
  EXPECT_STREQ(loop.sender().rails().front().name, "soft1");
  ASSERT_TRUE(traffic.run(16, 60'000));
}

// A message has arrived by one queue, and the queue that is polled before it cannot be polled any more. The
// same poll must find the message: the sender's NCCL knows already that it is complete. Messages take turns:
// of the two one goes by the other queue.
TEST(Failover, AQueueThatCannotBePolledHidesNoOther) {
  for (int before = 0; before < 2; ++before) {
    LoopConnection loop(4096, "count=2", 2);
    const auto send = [&] {
      Request* const receive = loop.receive(1, 0, 64);
      Request* const request = loop.sendWhenReady(1024, 64);
      EXPECT_TRUE(LoopConnection::finish(request));
      return receive;
    };
    for (int i = 0; i < before; ++i) EXPECT_TRUE(LoopConnection::finish(send()));
    Request* const receive = send();
    test::addFault("device=soft0 verb=poll_cq nth=1 every=1 errno=EIO");
    bool done = false;
    EXPECT_OK(receive->connection->test(*receive, &done, nullptr));
    EXPECT_TRUE(done);
  }
}

// All queues are polled together, after a large message. One has a failed completion, which loses the link,
// and the one behind it cannot be polled.
TEST(Failover, AFailedCompletionAndAQueueThatCannotBePolledInOnePoll) {
  LoopConnection loop(2 * kHalf, "count=3", 2);
  ASSERT_TRUE(Traffic(loop).run(8, 100'000));
  ASSERT_TRUE(loop.sender().link().polls_all);
  Request* const receive = loop.receive(1, kHalf, 100'000);
  ASSERT_NE(receive, nullptr);
  test::addFault("device=soft0 opcode=write_imm nth=1 status=general_err");
  test::addFault("device=soft1 opcode=write_imm nth=1 delay=2s");  // so that the queue is empty
  Request* const request = loop.sendWhenReady(0, 100'000);
  // The failed completion is there by then. If it is late, the test tries the other order of both faults.
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  test::addFault("device=soft1 verb=poll_cq nth=1 every=1 errno=EIO");
  for (int i = 0; i < 1000; ++i) {
    bool done = false;
    EXPECT_OK(loop.sender().test(*request, &done, nullptr));
    ASSERT_TRUE(loop.sender().link().next_cq == nullptr || loop.sender().running());
  }
}

TEST(Failover, GoesOnAfterOneFailedCompletion) {
  for (const char* status :
       {"loc_prot_err", "rem_access_err", "retry_exc_err", "wr_flush_err", "general_err"}) {
    LoopConnection loop(2 * kHalf, std::string("count=1;fault opcode=write_imm nth=20 status=") + status);
    ASSERT_TRUE(Traffic(loop).run(128, 512)) << status;
    EXPECT_GE(loop.sender().epoch(), 2U) << status;
    EXPECT_STREQ(loop.sender().rails().front().name, "soft0");
  }
}

TEST(Failover, AFusedDeviceGoesOnWithTheRest) {
  LoopConnection loop(2 * kHalf, "count=3", 2);
  Traffic traffic(loop);
  ASSERT_TRUE(traffic.run(32, 100'000));
  test::changePort("soft1:1", "down");
  ASSERT_TRUE(traffic.run(32, 100'000));
  EXPECT_EQ(loop.sender().rails().size(), 1U);
  test::changePort("soft0:1", "down");
  ASSERT_TRUE(traffic.run(32, 100'000));
  EXPECT_STREQ(loop.sender().rails().front().name, "soft2");
}

// The sender has nothing more to send, so no queue pairs are made that a flush could wait for.
TEST(Failover, AFlushNeedsNoSender) {
  for (const std::string devices : {"count=2", "count=1"}) {
    LoopConnection loop(2 * kHalf, devices + ";fault opcode=read nth=1 status=general_err");
    ASSERT_TRUE(Traffic(loop).run(8, 512));
    Request* flush = nullptr;
    ASSERT_OK(loop.receiver().iflush(loop.address(kHalf), *loop.memory(), &flush));
    test::changePort("soft0:1", "down");
    const auto waits = [&](std::chrono::milliseconds time) {
      bool done = false;
      for (const Deadline deadline = Deadline::after(time); !done && !deadline.passed();)
        EXPECT_OK(loop.receiver().test(*flush, &done, nullptr));
      return !done;
    };
    const bool other_rail = devices == "count=2";
    ASSERT_EQ(waits(std::chrono::milliseconds(other_rail ? 10'000 : 50)), !other_rail) << devices;
    test::changePort("soft0:1", "up");
    if (!other_rail) ASSERT_FALSE(waits(std::chrono::seconds(10)));
    ASSERT_TRUE(Traffic(loop).run(8, 512)) << devices;
  }
}

// NCCL asks for a flush after it has seen the receive. Meanwhile the connection may have gone to another NIC.
TEST(Failover, AFlushGoesThroughTheNicThatWrote) {
  LoopConnection loop(2 * kHalf, "count=2;fault device=soft0 opcode=write_imm nth=9 status=general_err");
  Traffic traffic(loop);
  const auto flush = [&] {
    const uint64_t before = loop.counters(0).reads;
    Request* request = nullptr;
    EXPECT_OK(loop.receiver().iflush(loop.address(kHalf), *loop.memory(), &request));
    EXPECT_TRUE(LoopConnection::finish(request));
    return loop.counters(0).reads - before;
  };
  ASSERT_TRUE(traffic.run(8, 512));
  EXPECT_EQ(flush(), 1U);
  Request* const receive = loop.receive(1, kHalf + 4096, 64);
  ASSERT_NE(receive, nullptr);
  Request* const send = loop.sendWhenReady(4096, 64);
  EXPECT_TRUE(LoopConnection::finishBoth(send, receive));
  ASSERT_STREQ(loop.sender().rails().front().name, "soft1");
  EXPECT_EQ(flush(), 1U);  // of a receive of the first epoch
  ASSERT_TRUE(traffic.run(8, 512));
  EXPECT_EQ(flush(), 0U);  // soft1 has written it
}

TEST(Failover, SaysWhatItTriedWhenNothingIsLeft) {
  const test::Setting failover_timeout("RAILWISE_FAILOVER_TIMEOUT", "1");
  LoopConnection loop(2 * kHalf, "count=2");
  Traffic traffic(loop);
  ASSERT_TRUE(traffic.run(8, 512));
  const test::Said said;
  test::changePort("soft0:1", "down");
  test::changePort("soft1:1", "down");
  EXPECT_FALSE(traffic.run(8, 512));
  EXPECT_HAS(said.all(), "no path to the peer is left");
  EXPECT_HAS(said.all(), "soft1 port 1 down");
  // No port was up to try anything with.
  EXPECT_LACKS(said.all(), "Tried:;");
}

// Both ends say that they search, so both say how the search has ended.
TEST(Failover, EachSearchEndsInALineThatGoesOn) {
  LoopConnection loop(2 * kHalf, "count=2");
  Traffic traffic(loop);
  ASSERT_TRUE(traffic.run(8, 512));
  const test::Said said;
  test::changePort("soft0:1", "down");
  ASSERT_TRUE(traffic.run(8, 512));
  const std::string warnings = said.warnings();
  if (test::countOf(warnings, "; looking for another path") == 0)
    GTEST_SKIP() << "another test has had the warnings";
  EXPECT_EQ(test::countOf(warnings, "; looking for another path"), 2) << warnings;
  EXPECT_EQ(test::countOf(warnings, "goes on over"), 2) << warnings;
  EXPECT_EQ(test::countOf(warnings, "goes on over soft1 port 1 <- soft1 port 1 (epoch 2)"), 1) << warnings;
}

// A port may take a thousand connections with it.
TEST(Failover, OneConnectionSpeaksForMany) {
  LoopConnection first(2 * kHalf, "count=2");
  Traffic traffic(first);
  ASSERT_TRUE(traffic.run(8, 512));
  LoopConnection second(2 * kHalf, "count=2");
  Traffic more(second);
  ASSERT_TRUE(more.run(8, 512));
  const test::Said said;
  test::changePort("soft0:1", "down");
  ASSERT_TRUE(traffic.run(8, 512));
  ASSERT_TRUE(more.run(8, 512));
  const std::string warnings = said.warnings();
  if (test::countOf(warnings, "; looking for another path") == 0)
    GTEST_SKIP() << "another test has had the warnings";
  EXPECT_EQ(test::countOf(warnings, "; looking for another path"), 2) << warnings;
  EXPECT_EQ(test::countOf(warnings, "goes on over"), 2) << warnings;
  EXPECT_EQ(test::countOf(warnings, "more connections of this process lose a path"), 1) << warnings;
  EXPECT_EQ(test::countOf(said.all(), "; looking for another path"), 4) << said.all();
  EXPECT_EQ(test::countOf(said.all(), "goes on over"), 4) << said.all();
}

TEST(Failover, ASearchThatACloseEndsSaysSo) {
  const test::Said said;
  {
    LoopConnection loop(2 * kHalf, "count=1");
    ASSERT_TRUE(Traffic(loop).run(8, 512));
    test::changePort("soft0:1", "down");
    Request* const open = loop.receive(1, kHalf, 512);
    ASSERT_NE(open, nullptr);
    test::waitUntil([&] {
      bool done = false;
      EXPECT_OK(loop.receiver().test(*open, &done, nullptr));
      return test::countOf(said.all(), "; looking for another path") > 0;
    });
  }
  for (const std::string& lines : {said.warnings(), said.all()})
    EXPECT_EQ(test::countOf(lines, "; looking for another path"), test::countOf(lines, "not needed any more"))
        << lines;
}

// Epoch after epoch begins, waits for an acknowledgement, and fails: the time between two epochs counts once.
TEST(Failover, DoesNotGiveUpBeforeItsTime) {
  const test::Setting failover_timeout("RAILWISE_FAILOVER_TIMEOUT", "1");
  const test::Setting timeout("NCCL_IB_TIMEOUT", "12");  // 17 ms, once or twice
  const test::Setting retries("NCCL_IB_RETRY_CNT", "1");
  LoopConnection loop(2 * kHalf, "count=1");
  Traffic traffic(loop);
  ASSERT_TRUE(traffic.run(8, 512));
  const test::Said said;
  test::addFault("opcode=any drop");
  const Clock::time_point begun = Clock::now();
  EXPECT_FALSE(traffic.run(8, 512));
  EXPECT_GE(Clock::now() - begun, std::chrono::seconds(1)) << said.all();
  EXPECT_HAS(said.all(), "no path to the peer is left");
}

// A send with a tag that nobody wants opens the group of a receive that another then goes straight to.
TEST(Failover, SendsAgainWhatWentStraightAfterAWrongTag) {
  LoopConnection loop(2 * kHalf, "count=2;fault opcode=write_imm nth=2 status=general_err");
  Traffic traffic(loop);
  ASSERT_TRUE(traffic.run(1, 64));
  Request* const receive = loop.receive(1, kHalf, 64);
  Request* send = nullptr;
  ASSERT_OK(loop.sender().isend(loop.address(0), 64, 99, loop.memory(), nullptr, &send));
  ASSERT_EQ(send, nullptr);
  for (test::Patience patience; send == nullptr; patience.again()) {
    ASSERT_OK(loop.sender().isend(loop.address(0), 64, 0, loop.memory(), nullptr, &send));
    bool done = false;
    ASSERT_OK(receive->connection->test(*receive, &done, nullptr));
    ASSERT_FALSE(done);
  }
  ASSERT_TRUE(LoopConnection::finishBoth(send, receive));
  EXPECT_EQ(std::memcmp(loop.at(0), loop.at(kHalf), 64), 0);
  EXPECT_EQ(loop.sender().epoch(), 2U);
}

// The message is cut for a standby. What was linked by then is not posted, and the work request at the end of
// the chain is not even filled in: the record must not take back bytes of an earlier one
// (record_agreement.cc).
TEST(Failover, GoesOnWhenTheMemoryOfAMessageCannotBeRegisteredForAStandby) {
  constexpr std::size_t kBytes = 60'000;
  // The third registration there: after the window, and the memory of the receives.
  LoopConnection loop(2 * kHalf, "count=4;fault device=soft2 verb=reg_mr nth=3 errno=ENOMEM", 2);
  std::vector<char> own(kBytes);
  const auto address = reinterpret_cast<uint64_t>(own.data());
  const auto memory = loop.device().memory().acquire(address, own.size(), MemoryKind::kHost);
  ASSERT_OK(memory);
  const auto exchange = [&] {
    Request* receive = nullptr;
    Request* send = nullptr;
    bool received = false;
    bool sent = false;
    for (test::Patience patience; !received || !sent; patience.again()) {
      if (receive == nullptr) receive = loop.receive(1, kHalf, kBytes);
      if (receive != nullptr && !received) ASSERT_OK(receive->connection->test(*receive, &received, nullptr));
      if (send == nullptr) ASSERT_OK(loop.sender().isend(address, kBytes, 0, *memory, nullptr, &send));
      if (send != nullptr && !sent) ASSERT_OK(send->connection->test(*send, &sent, nullptr));
    }
  };
  for (int i = 0; i < 8; ++i) exchange();
  const test::Said said;
  for (const char* port : {"soft0:1", "soft1:1"}) test::changePort(port, "down");
  // A receiver that knows of one port only would offer the other, and use up a registration.
  for (const char* down : {"soft0 port 1: link down", "soft1 port 1: link down"})
    for (test::Patience patience; said.all().find(down) == std::string::npos; patience.again()) {
    }
  for (int i = 0; i < 8; ++i) exchange();
  EXPECT_HAS(said.all(), "memory cannot be registered");
  loop.device().memory().release(*memory);
}

// A message counts by its queue pair, whose memory belongs to other queue pairs after the epoch.
TEST(Failover, NoCounterOfALostEpochCompletesAMessage) {
  for (const int count : {1, 4}) {
    const std::string stuck = "count=1;fault opcode=write_imm count=1 stuck nth=" + std::to_string(count + 1);
    LoopConnection loop(2 * kHalf, stuck);
    ASSERT_TRUE(Traffic(loop).run(count, 512));
    Request* const receive = loop.receive(count, kHalf, 512);
    std::vector<Request*> sends;
    for (test::Patience patience; sends.size() < static_cast<std::size_t>(count); patience.again()) {
      if (Request* const send = loop.send(512, 512); send != nullptr) sends.push_back(send);
    }
    test::changePort("soft0:1", "down");
    const auto openSends = [&] {
      std::size_t open = 0;
      for (Request* const send : sends) {
        bool done = false;
        EXPECT_OK(send->connection->test(*send, &done, nullptr));
        open += done ? 0 : 1;
      }
      bool done = false;
      EXPECT_OK(receive->connection->test(*receive, &done, nullptr));
      return open;
    };
    for (test::Patience patience; loop.sender().epoch() == 1; patience.again())
      ASSERT_EQ(openSends(), sends.size());
    ASSERT_FALSE(loop.sender().running());
    std::vector<uint64_t> before;
    for (std::size_t i = 0; i < std::size_t{kMaxQueuePairs}; ++i)
      before.push_back(std::exchange(queuePairOf(loop.sender(), i).full_at, UINT64_MAX));
    EXPECT_EQ(openSends(), sends.size()) << count << " messages";
    for (std::size_t i = 0; i < before.size(); ++i) queuePairOf(loop.sender(), i).full_at = before[i];
    test::changePort("soft0:1", "up");
    EXPECT_TRUE(LoopConnection::finishBoth(sends.front(), receive));
    for (std::size_t i = 1; i < sends.size(); ++i) EXPECT_TRUE(LoopConnection::finish(sends[i]));
    EXPECT_EQ(std::memcmp(loop.at(512), loop.at(kHalf), 512), 0);
  }
}

// The device takes the write of a message, fails, and refuses the immediate behind it. The record must count
// the write (record_agreement.cc).
TEST(Failover, GoesOnWhenTheDeviceTakesHalfOfAMessage) {
  LoopConnection loop(2 * kHalf, "count=2,link=ib;fault device=soft0 opcode=write nth=28 device_fatal");
  ASSERT_TRUE(Traffic(loop).run(32, 60'000));
  EXPECT_GE(loop.sender().epoch(), 2U);
}

// Several lanes: what has arrived out of order stays so through several settlements.
TEST(Failover, SurvivesFailuresInARowOverSeveralRails) {
  LoopConnection loop(
      2 * kHalf,
      "count=4;fault opcode=write_imm every=23 status=general_err;fault verb=create_qp every=5 errno=ENOMEM",
      3);
  ASSERT_TRUE(Traffic(loop).run(400, 20'000, 16));
  EXPECT_GE(loop.sender().epoch(), 10U);
}

TEST(Failover, SurvivesOneFailureAfterTheOther) {
  LoopConnection loop(2 * kHalf, "count=2;fault opcode=write+write_imm every=97 status=general_err");
  ASSERT_TRUE(Traffic(loop).run(2000, 256));
  EXPECT_GE(loop.sender().epoch(), 10U);
}

// What one connection has waited a second for is known to the next: it asks, and waits for a tenth of a
// second.
TEST(Failover, TellsOtherConnectionsOfASilentPath) {
  LoopConnection loop(2 * kHalf, "count=2");
  SendConnection& other = *loop.connect();
  Traffic traffic(loop);
  ASSERT_TRUE(traffic.run(8, 512));
  test::addFault("device=soft0 stuck");
  ASSERT_TRUE(traffic.run(8, 512));
  ASSERT_STREQ(loop.sender().rails().front().name, "soft1");
  const test::Said said;
  Request* send = nullptr;
  for (test::Patience patience; other.running(); patience.again())
    ASSERT_OK(other.isend(loop.address(0), 64, 0, loop.memory(), nullptr, &send));
  EXPECT_HAS(said.all(), "nothing has come back for 100 ms");
}

TEST(Failback, GoesBackWhenThePortHasRecovered) {
  LoopConnection loop(2 * kHalf, "count=2");
  Traffic traffic(loop);
  ASSERT_TRUE(traffic.run(8, 512));
  test::changePort("soft0:1", "down");
  ASSERT_TRUE(traffic.run(8, 512));
  ASSERT_STREQ(loop.sender().rails().front().name, "soft1");
  test::changePort("soft0:1", "up");
  EXPECT_TRUE(until(traffic, [&] { return isOn(loop, "soft0"); }));
  EXPECT_EQ(loop.sender().epoch(), 3U);
}

TEST(Failback, AFusedDeviceGetsItsRailBack) {
  LoopConnection loop(2 * kHalf, "count=2", 2);
  Traffic traffic(loop);
  ASSERT_TRUE(traffic.run(8, 512));
  test::changePort("soft1:1", "down");
  ASSERT_TRUE(traffic.run(8, 512));
  ASSERT_EQ(loop.sender().rails().size(), 1U);
  test::changePort("soft1:1", "up");
  EXPECT_TRUE(until(traffic, [&] { return loop.sender().rails().size() == 2U && loop.sender().running(); }));
}

// Connections are also made while something is down: communicators that come later, peers that NCCL connects
// at their first message.
class BeginsLost : public ::testing::TestWithParam<int> {};  // rails of the device

TEST_P(BeginsLost, AConnectionMadeWhilePortsAreDownGoesOverAStandbyAndBack) {
  LoopConnection loop(2 * kHalf, "count=3", GetParam());
  for (int rail = 0; rail < GetParam(); ++rail) takeDown(loop, static_cast<std::size_t>(rail));
  loop.useAnother();
  Traffic traffic(loop);
  ASSERT_TRUE(traffic.run(16, 512));
  EXPECT_EQ(loop.sender().epoch(), 2U);
  EXPECT_EQ(loop.sender().rails().front().name, "soft" + std::to_string(GetParam()));
  for (int rail = 0; rail < GetParam(); ++rail) test::changePort("soft" + std::to_string(rail) + ":1", "up");
  EXPECT_TRUE(until(traffic, [&] {
    const auto& rails = loop.sender().rails();
    return loop.sender().running() && static_cast<int>(rails.size()) == GetParam() &&
           std::string(rails.front().name) == "soft0";
  }));
  ASSERT_TRUE(traffic.run(16, 20'000));
}

TEST_P(BeginsLost, AConnectionAndMemoryOfADeviceThatHasFailed) {
  LoopConnection loop(2 * kHalf, "count=3;fault verb=open_device device=soft0 nth=2 every=1 errno=EIO",
                      GetParam());
  const Hca& dead = *loop.device().rails().front().hca;
  test::changePort("soft0:1", "fatal");
  test::waitUntil([&] { return dead.state().fatal(); });
  loop.useAnother();
  loop.registerAnew();
  EXPECT_EQ(loop.memory()->keys[0].remote(), 0U);
  Traffic traffic(loop);
  ASSERT_TRUE(traffic.run(16, 20'000));
  EXPECT_EQ(loop.sender().epoch(), 2U);
  EXPECT_STREQ(loop.sender().rails().front().name, "soft1");
}

// The first rail refuses for ever, or only the next few times.
TEST_P(BeginsLost, AConnectionWhoseQueuePairsAreRefused) {
  const std::string kForEver = " nth=1 every=1 errno=ENOMEM";
  const std::string kWithoutRight = " nth=1 every=1 errno=EPERM";
  for (const char* verb : {"create_qp", "create_cq", "modify_qp", "post_recv"}) {
    for (const std::string& times :
         {kForEver, kWithoutRight, std::string(" nth=1 errno=ENOMEM"), std::string(" nth=2 errno=ENOMEM")}) {
      SCOPED_TRACE(verb + times);
      LoopConnection loop(2 * kHalf, "count=3", GetParam());
      test::addFault(std::string("device=soft0 verb=") + verb + times);
      loop.useAnother();
      Traffic traffic(loop);
      ASSERT_TRUE(traffic.run(16, 512));
      // A single refusal of create_qp is taken for one of so many inline bytes.
      if (times == kForEver || times == kWithoutRight) EXPECT_GE(loop.sender().epoch(), 2U);
      ASSERT_TRUE(traffic.run(16, 20'000));
    }
  }
}

TEST_P(BeginsLost, AConnectionOfADeviceWhoseFailureIsNotKnownYet) {
  LoopConnection loop(2 * kHalf, "count=3;fault verb=open_device device=soft0 nth=2 every=1 errno=EIO",
                      GetParam());
  test::changePort("soft0:1", "fatal");  // the event is read in a while, its calls are refused at once
  loop.useAnother();
  loop.registerAnew();
  Traffic traffic(loop);
  ASSERT_TRUE(traffic.run(16, 20'000));
  EXPECT_STREQ(loop.sender().rails().front().name, "soft1");
}

INSTANTIATE_TEST_SUITE_P(Rails, BeginsLost, ::testing::Values(1, 2));

TEST(Failover, MemoryIsAskedForAgain) {
  LoopConnection loop(2 * kHalf, "count=1");
  const test::Said said;
  test::addFault("verb=reg_mr count=3 errno=ENOMEM");
  loop.registerAnew();
  EXPECT_TRUE(Traffic(loop).run(16, 20'000));
  EXPECT_EQ(loop.sender().epoch(), 1U);
  EXPECT_EQ(said.warnings(), "");
  test::addFault("verb=reg_mr count=4 errno=ENOMEM");
  const auto refused = loop.device().memory().acquire(loop.address(0), 100, MemoryKind::kDevice);
  EXPECT_EQ(refused.status().code, Code::kSystem);
}

TEST(Failover, MemoryOfADeviceWhoseFailureIsReportedLateIsRegisteredWithTheOthers) {
  LoopConnection loop(2 * kHalf, "count=2", 2);
  test::addFault("device=soft0 verb=reg_mr count=4 errno=EIO");
  std::jthread late([] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    test::changePort("soft0:1", "fatal");
  });
  const auto made = loop.device().memory().acquire(loop.address(0), 100, MemoryKind::kDevice);
  ASSERT_OK(made);
  loop.device().memory().release(*made);
}

// The connection begins as one that has lost its path.
TEST(Failover, QueuePairsAreAskedForAgain) {
  for (const std::string verb : {"create_qp", "create_cq", "modify_qp", "post_recv"}) {
    SCOPED_TRACE(verb);
    LoopConnection loop(2 * kHalf, "count=1");
    test::addFault("verb=" + verb + " count=8 errno=ENOMEM");
    loop.useAnother();
    EXPECT_TRUE(Traffic(loop).run(16, 20'000));
    EXPECT_GE(loop.sender().epoch(), 2U);
    loop.useAnother();
    EXPECT_TRUE(Traffic(loop).run(16, 20'000));
    EXPECT_EQ(loop.sender().epoch(), 1U);
  }
}

TEST(Failover, QueuePairsOfFlushesAreAskedForAgain) {
  for (int nth = 1; nth <= 8; ++nth) {
    SCOPED_TRACE(nth);
    LoopConnection loop(2 * kHalf, "count=1,gpudirect=on");
    test::addFault("verb=modify_qp errno=EAGAIN every=1 count=6 nth=" + std::to_string(nth));
    loop.useAnother();
    ASSERT_TRUE(Traffic(loop).run(16, 512));
    Request* flush = nullptr;
    ASSERT_OK(loop.receiver().iflush(loop.address(kHalf), *loop.memory(), &flush));
    ASSERT_NE(flush, nullptr);
    EXPECT_TRUE(LoopConnection::finish(flush));
  }
}

// Nobody reaches a port without an address, also while the port is up.
TEST(Failover, AConnectionMadeAfterItsAddressIsGone) {
  LoopConnection loop(2 * kHalf, "gid=10.1.0.1/v2;name=soft1,gid=10.1.0.2/v2");
  test::changePort("soft0:1", "gid=0=::");
  loop.useAnother();
  Traffic traffic(loop);
  ASSERT_TRUE(traffic.run(16, 512));
  EXPECT_STREQ(loop.sender().rails().front().name, "soft1");
}

TEST(Failback, AFusedConnectionMadeWhileOnePortIsDownGetsItWhenItIsUp) {
  LoopConnection loop(2 * kHalf, "count=2", 2);
  takeDown(loop, 1);
  loop.useAnother();
  Traffic traffic(loop);
  ASSERT_TRUE(traffic.run(16, 100'000));
  EXPECT_EQ(loop.sender().epoch(), 1U);
  EXPECT_EQ(loop.sender().lanesInUse(), 1U);
  test::changePort("soft1:1", "up");
  EXPECT_TRUE(until(traffic, [&] { return loop.sender().running() && loop.sender().lanesInUse() == 2; }));
  const uint64_t epoch = loop.sender().epoch();
  ASSERT_TRUE(traffic.run(16, 100'000));
  EXPECT_EQ(loop.sender().epoch(), epoch);
}

TEST(Failover, AConnectionWaitsForTheOnlyPortToComeUp) {
  LoopConnection loop(2 * kHalf, "count=1");
  takeDown(loop, 0);
  loop.useAnother();
  Request* const receive = loop.receive(1, kHalf, 64);
  ASSERT_NE(receive, nullptr);
  EXPECT_EQ(loop.send(0, 64), nullptr);
  EXPECT_FALSE(loop.sender().running());
  test::changePort("soft0:1", "up");
  Request* send = nullptr;
  bool done = false;
  for (test::Patience patience; !done || send == nullptr; patience.again()) {
    if (send == nullptr) send = loop.send(0, 64);
    if (!done) ASSERT_OK(receive->connection->test(*receive, &done, nullptr));
  }
  EXPECT_TRUE(LoopConnection::finish(send));
  const uint64_t epoch = loop.sender().epoch();
  Traffic traffic(loop);
  ASSERT_TRUE(traffic.run(64, 512));
  EXPECT_EQ(loop.sender().epoch(), epoch);
}

TEST(Failover, WithoutItAConnectionIsRefusedWhileThePortIsDown) {
  const test::Setting no_failover("RAILWISE_FAILOVER", "0");
  LoopConnection loop(2 * kHalf, "count=2");
  const test::Said said;
  takeDown(loop, 0);
  char handle[kHandleBytes];
  Listener* const listener = *loop.context().listen(loop.device(), handle);
  Result<SendConnection*> made = static_cast<SendConnection*>(nullptr);
  for (test::Patience patience; made.ok() && *made == nullptr; patience.again())
    made = loop.context().connect(loop.device(), handle, -1);
  EXPECT_FALSE(made.ok());
  EXPECT_HAS(said.all(), "every port is down");
  Context::close(listener);
}

}  // namespace
}  // namespace railwise::net
