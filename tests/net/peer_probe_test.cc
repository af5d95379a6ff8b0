// A connection that waits asks the peer's device whether there is still a way to it.
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "loop_connection.h"
#include "said.h"
#include "tests/ok.h"
#include "tests/wait.h"

namespace railwise::net {
namespace {

std::unique_ptr<LoopConnection> withoutFailover(const std::string& link, const std::string& fault) {
  const test::Setting timeout("NCCL_IB_TIMEOUT", "1");  // the least patience then
  const test::Setting no_failover("RAILWISE_FAILOVER", "0");
  auto loop = std::make_unique<LoopConnection>(4096, "link=" + link + ";" + fault);
  return loop;
}

// The first question is answered and the wait goes on; the second, like everything after it, never is.
TEST(PeerProbe, EndsAWaitThatNothingEnds) {
  const auto connected = withoutFailover("iwarp", "fault opcode=read nth=2 stuck");
  LoopConnection& loop = *connected;
  const test::Said said;
  Request* const request = loop.receive(1, 0, 64);
  ASSERT_NE(request, nullptr);
  EXPECT_FALSE(LoopConnection::finish(request));
  EXPECT_HAS(said.all(), "soft0 port 1 qp ");
  EXPECT_HAS(said.all(), "the peer's device does not answer for 3 s");
}

TEST(PeerProbe, AnAnswerIsEnough) {
  LoopConnection loop(4096, "link=iwarp");
  Request* const receive = loop.receive(1, 0, 64);
  ASSERT_NE(receive, nullptr);
  for (test::Patience patience; loop.counters().reads < 2; patience.again()) {
    bool done = false;
    ASSERT_OK(loop.receiver().test(*receive, &done, nullptr));
    ASSERT_FALSE(done);
  }
  Request* const send = loop.sendWhenReady(1024, 64);
  EXPECT_TRUE(LoopConnection::finish(send));
  EXPECT_TRUE(LoopConnection::finish(receive));
}

// Elsewhere the transport has acknowledgements. A device that loses track of them must not keep us for ever
// (Soft-RoCE with 7 retries).
TEST(SilentDevice, EndsASend) {
  const auto connected = withoutFailover("roce", "fault opcode=write_imm stuck");
  LoopConnection& loop = *connected;
  ASSERT_NE(loop.receive(1, 0, 64), nullptr);
  Request* const send = loop.sendWhenReady(1024, 64);
  const test::Said said;
  EXPECT_FALSE(LoopConnection::finish(send));
  EXPECT_HAS(said.all(), "for 5 s the device has reported neither the end of a send nor an error");
  EXPECT_EQ(loop.counters().reads, 0U);
}

// A receive whose clear-to-send has arrived waits with nothing under way. An empty write now and then asks
// whether the peer's device is there: here the first of these is answered, and the second never is.
TEST(SilentDevice, EndsAWaitForData) {
  const auto connected = withoutFailover("roce", "fault opcode=write nth=4 stuck");
  LoopConnection& loop = *connected;
  Request* const request = loop.receive(1, 0, 64);
  ASSERT_NE(request, nullptr);
  const test::Said said;
  EXPECT_FALSE(LoopConnection::finish(request));
  EXPECT_EQ(loop.counters().writes, 4U);  // the clear-to-send, the question whether it has arrived, and two
  EXPECT_HAS(said.all(), "for 5 s the device has reported neither the end of a send nor an error");
}

TEST(SilentDevice, ASenderWithoutClearToSendAsksToo) {
  const auto connected = withoutFailover("roce", "fault opcode=write nth=2 stuck");
  LoopConnection& loop = *connected;
  const test::Said said;
  Request* send = nullptr;
  for (test::Patience patience;
       loop.sender().isend(loop.address(0), 64, 0, loop.memory(), nullptr, &send).ok(); patience.again())
    ASSERT_EQ(send, nullptr);
  EXPECT_EQ(loop.counters().writes, 2U);
}

}  // namespace
}  // namespace railwise::net
