// Failover where RDMA CM connects the queue pairs: on iWARP, and on InfiniBand and RoCE if
// RAILWISE_CONNECT=cm.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "loop_connection.h"
#include "net/loop_traffic.h"
#include "port_control.h"
#include "said.h"
#include "tests/ok.h"
#include "tests/wait.h"

namespace railwise::net {
namespace {

struct Transport {
  const char* link;
  const char* report;  // the opcode that reports a message
};

class ManagedFailover : public ::testing::TestWithParam<Transport> {
 protected:
  // `count` devices; `more`: further keys, or faults behind a semicolon.
  static std::string devices(int count, const std::string& more = "") {
    return "count=" + std::to_string(count) + ",link=" + GetParam().link + more;
  }
  static std::string report() { return GetParam().report; }

 private:
  const test::Setting manager_{"RAILWISE_CONNECT", "cm"};
};

TEST_P(ManagedFailover, GoesToAStandbyAndBack) {
  LoopConnection loop(2 * kHalf, devices(2));
  Traffic traffic(loop);
  ASSERT_TRUE(traffic.run(64, 512));
  test::changePort("soft0:1", "down");
  ASSERT_TRUE(traffic.run(64, 512));
  EXPECT_GE(loop.sender().epoch(), 2U);
  EXPECT_STREQ(loop.sender().rails().front().name, "soft1");
  ASSERT_TRUE(traffic.run(16, 60'000));
  test::changePort("soft0:1", "up");
  EXPECT_TRUE(until(traffic, [&] { return isOn(loop, "soft0"); }));
  EXPECT_GE(loop.sender().epoch(), 3U);
}

TEST_P(ManagedFailover, AFusedDeviceGoesOnWithTheRestAndGetsItsRailBack) {
  LoopConnection loop(2 * kHalf, devices(3), 2);
  Traffic traffic(loop);
  ASSERT_TRUE(traffic.run(32, 100'000));
  test::changePort("soft1:1", "down");
  ASSERT_TRUE(traffic.run(32, 100'000));
  EXPECT_EQ(loop.sender().rails().size(), 1U);
  EXPECT_STREQ(loop.sender().rails().front().name, "soft0");
  test::changePort("soft0:1", "down");
  ASSERT_TRUE(traffic.run(32, 100'000));
  EXPECT_STREQ(loop.sender().rails().front().name, "soft2");
  test::changePort("soft0:1", "up");
  test::changePort("soft1:1", "up");
  EXPECT_TRUE(until(traffic, [&] { return loop.sender().rails().size() == 2U && loop.sender().running(); }));
}

TEST_P(ManagedFailover, GoesOnAfterOneFailedCompletion) {
  for (const char* status :
       {"loc_qp_op_err", "rem_access_err", "retry_exc_err", "wr_flush_err", "general_err"}) {
    LoopConnection loop(2 * kHalf, devices(1, ";fault opcode=" + report() + " nth=40 status=" + status));
    ASSERT_TRUE(Traffic(loop).run(128, 512)) << status;
    EXPECT_GE(loop.sender().epoch(), 2U) << status;
    EXPECT_STREQ(loop.sender().rails().front().name, "soft0");
  }
}

TEST_P(ManagedFailover, SurvivesFailuresInARowOverSeveralRails) {
  LoopConnection loop(
      2 * kHalf,
      devices(4, ";fault opcode=" + report() +
                     " every=47 status=general_err;fault verb=create_qp every=7 errno=ENOMEM"),
      3);
  ASSERT_TRUE(Traffic(loop).run(400, 20'000, 16));
  EXPECT_GE(loop.sender().epoch(), 5U);
}

// Nobody says that nothing gets through any more, and on iWARP every send is complete all the same.
TEST_P(ManagedFailover, LeavesASilentPath) {
  LoopConnection loop(2 * kHalf, devices(2));
  Traffic traffic(loop);
  ASSERT_TRUE(traffic.run(64, 512));
  test::addFault("device=soft0 stuck");
  ASSERT_TRUE(traffic.run(64, 512));
  EXPECT_STREQ(loop.sender().rails().front().name, "soft1");
}

TEST_P(ManagedFailover, AConnectionMadeWhileItsPortIsDownGoesOverAStandbyAndBack) {
  LoopConnection loop(2 * kHalf, devices(2));
  takeDown(loop, 0);
  loop.useAnother();
  Traffic traffic(loop);
  ASSERT_TRUE(traffic.run(16, 512));
  EXPECT_GE(loop.sender().epoch(), 2U);
  EXPECT_STREQ(loop.sender().rails().front().name, "soft1");
  test::changePort("soft0:1", "up");
  EXPECT_TRUE(until(traffic, [&] { return isOn(loop, "soft0"); }));
}

// An ordinary end of the peer, too, disconnects the queue pairs: no search for another path begins.
TEST_P(ManagedFailover, AnOrdinaryEndOfThePeerIsNoFailure) {
  LoopConnection loop(2 * kHalf, devices(2));
  ASSERT_TRUE(Traffic(loop).run(16, 512));
  Request* const receive = loop.receive(1, kHalf, 64);
  ASSERT_NE(receive, nullptr);
  const test::Said said;
  Context::close(&loop.sender());
  EXPECT_FALSE(LoopConnection::finish(receive));
  EXPECT_HAS(said.all(), "the peer closed the connection or died");
  EXPECT_LACKS(said.all(), "looking for another path");
}

// The port goes down after the listener has replied, before the sender's calls.
TEST_P(ManagedFailover, APathThatIsLostDuringTheHandshakeIsNoError) {
  LoopConnection loop(2 * kHalf, devices(2));
  char handle[kHandleBytes];
  Listener* const listener = *loop.context().listen(loop.device(), handle);
  SendConnection* send = nullptr;
  ReceiveConnection* receive = nullptr;
  const auto step = [&] {
    if (receive == nullptr) receive = *Context::accept(*listener);
    if (send == nullptr) send = *loop.context().connect(loop.device(), handle, -1);
  };
  send = *loop.context().connect(loop.device(), handle, -1);
  ASSERT_EQ(send, nullptr);
  for (int i = 0; i < 3; ++i) receive = *Context::accept(*listener);  // hears the request, and replies
  ASSERT_EQ(receive, nullptr);
  takeDown(loop, 0);
  for (test::Patience patience; send == nullptr || receive == nullptr; patience.again()) step();
  Context::close(listener);
  const ReceiveBuffer buffer = {loop.address(kHalf), 64, 0, loop.memory(), nullptr};
  Request* requests[2] = {};
  bool done[2] = {};
  for (test::Patience patience; !done[0] || !done[1]; patience.again()) {
    if (requests[0] == nullptr) ASSERT_OK(receive->irecv({&buffer, 1}, false, &requests[0]));
    if (requests[1] == nullptr)
      ASSERT_OK(send->isend(loop.address(0), 64, 0, loop.memory(), nullptr, &requests[1]));
    for (int i = 0; i < 2; ++i)
      if (requests[i] != nullptr && !done[i])
        ASSERT_OK(requests[i]->connection->test(*requests[i], &done[i], nullptr));
  }
  EXPECT_STREQ(send->rails().front().name, "soft1");
}

// On iWARP the read behind the last message may get no answer any more: the receiver had all, and has closed.
TEST(IwarpFailover, ALastMessageThatHasArrivedIsComplete) {
  LoopConnection loop(2 * kHalf, "link=iwarp,count=2;fault opcode=read nth=9 stuck");
  ASSERT_TRUE(Traffic(loop).run(8, 512));
  Request* const receive = loop.receive(1, kHalf, 64);
  ASSERT_NE(receive, nullptr);
  Request* const send = loop.sendWhenReady(0, 64);
  ASSERT_TRUE(LoopConnection::finish(receive));
  Context::close(&loop.receiver());
  EXPECT_TRUE(LoopConnection::finish(send));
}

INSTANTIATE_TEST_SUITE_P(Transports, ManagedFailover,
                         ::testing::Values(Transport{"iwarp", "send"}, Transport{"roce", "write_imm"},
                                           Transport{"ib", "write_imm"}),
                         [](const auto& its) { return std::string(its.param.link); });

}  // namespace
}  // namespace railwise::net
