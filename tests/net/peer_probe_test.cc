// An iWARP connection that waits asks the peer's device whether there is still a way to it.
#include <gtest/gtest.h>

#include "loop_connection.h"
#include "said.h"

namespace railwise::net {
namespace {

// The first question is answered and the wait goes on; the second, like everything after it, never is.
TEST(PeerProbe, EndsAWaitThatNothingEnds) {
  setenv("NCCL_IB_TIMEOUT", "1", 1);  // the least patience then
  LoopConnection loop(4096, "link=iwarp;fault opcode=read nth=2 stuck");
  unsetenv("NCCL_IB_TIMEOUT");
  const test::Said said;
  Request* const request = loop.receive(1, 0, 64);
  ASSERT_NE(request, nullptr);
  EXPECT_FALSE(LoopConnection::finish(request));
  EXPECT_NE(said.all().find("soft0 port 1 qp "), std::string::npos) << said.all();
  EXPECT_NE(said.all().find("the peer's device does not answer for 3 s"), std::string::npos) << said.all();
}

TEST(PeerProbe, AnAnswerIsEnough) {
  LoopConnection loop(4096, "link=iwarp");
  Request* const receive = loop.receive(1, 0, 64);
  ASSERT_NE(receive, nullptr);
  while (loop.counters().reads < 2) {
    bool done = false;
    ASSERT_TRUE(loop.receiver().test(*receive, &done, nullptr).ok());
    ASSERT_FALSE(done);
  }
  Request* send = nullptr;
  while (send == nullptr) send = loop.send(1024, 64);
  EXPECT_TRUE(LoopConnection::finish(send));
  EXPECT_TRUE(LoopConnection::finish(receive));
}

// Elsewhere the transport has acknowledgements. A device that loses track of them must not keep us for ever
// (Soft-RoCE with 7 retries).
TEST(SilentDevice, EndsASend) {
  setenv("NCCL_IB_TIMEOUT", "1", 1);
  setenv("RAILWISE_FAILOVER", "0", 1);
  LoopConnection loop(4096, "link=roce;fault opcode=write_imm stuck");
  unsetenv("NCCL_IB_TIMEOUT");
  unsetenv("RAILWISE_FAILOVER");
  ASSERT_NE(loop.receive(1, 0, 64), nullptr);
  Request* send = nullptr;
  while (send == nullptr) send = loop.send(1024, 64);
  const test::Said said;
  EXPECT_FALSE(LoopConnection::finish(send));
  EXPECT_NE(said.all().find("for 5 s the device has reported neither the end of a send nor an error"),
            std::string::npos)
      << said.all();
  EXPECT_EQ(loop.counters().reads, 0U);
}

}  // namespace
}  // namespace railwise::net
