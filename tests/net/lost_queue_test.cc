// A connection whose queue pair, completion queue or device is reported lost while the data path sees
// nothing.

#include "loop_connection.h"
#include "port_control.h"
#include "said.h"
#include "tests/ok.h"
#include "tests/wait.h"

namespace railwise::net {
namespace {

// What is said and done where a connection may not go another way.
struct WithoutFailover : testing::Test {
  const test::Setting no_failover{"RAILWISE_FAILOVER", "0"};
};
struct LostQueue : WithoutFailover {};
struct FailedCompletion : WithoutFailover {};

// The receiver's clear-to-send is the first write; `event` comes with it.
bool receiveEnds(const std::string& event) {
  LoopConnection loop(4096, "count=1;fault opcode=write nth=1 " + event);
  Request* const request = loop.receive(1, 0, 64);
  return request != nullptr &&
         !LoopConnection::finish(request);  // nobody sends: it ends by an error or never
}

TEST_F(LostQueue, EndsAWait) {
  for (const char* event : {"event=qp_access_err", "event=qp_req_err", "event=cq_err", "device_fatal"})
    EXPECT_TRUE(receiveEnds(event)) << event;
}

TEST_F(LostQueue, OnlyReportedWhenSoAsked) {
  const test::Setting reported_only("NCCL_IB_RETURN_ASYNC_EVENTS", "0");
  LoopConnection loop(4096, "count=1;fault opcode=write nth=1 event=qp_access_err");
  Request* const receive = loop.receive(1, 0, 64);
  ASSERT_NE(receive, nullptr);
  Request* const send = loop.sendWhenReady(1024, 64);
  EXPECT_TRUE(LoopConnection::finish(send));
  EXPECT_TRUE(LoopConnection::finish(receive));
}

// Whatever the status is that the device reports then.
TEST_F(FailedCompletion, SaysThatThePortIsDown) {
  const test::Setting timeout("NCCL_IB_TIMEOUT", "8");
  const test::Setting retries("NCCL_IB_RETRY_CNT", "0");
  LoopConnection loop(4096);
  test::changePort("soft0:1", "down");
  const test::Said said;
  Request* const request = loop.receive(1, 0, 64);  // its clear-to-send does not arrive
  ASSERT_NE(request, nullptr);
  EXPECT_FALSE(LoopConnection::finish(request));
  EXPECT_HAS(said.all(), "soft0 port 1 qp ");
  EXPECT_HAS(said.all(), "its port is down");
}

// What the sender says when its write fails by `status`; before it hears of that the peer may leave.
std::string saidOfWrite(const std::string& link, const std::string& status, bool peer_leaves) {
  LoopConnection loop(4096, "count=1,link=" + link + ";fault opcode=" +
                                (link == "iwarp" ? "write" : "write_imm") + " status=" + status);
  const test::Said said;
  EXPECT_NE(loop.receive(1, 0, 64), nullptr);
  Request* request = nullptr;
  for (int i = 0; i < 1'000'000 && request == nullptr; ++i) request = loop.send(1024, 64);
  if (request == nullptr) return "no send";
  if (peer_leaves) Context::close(&loop.receiver());
  EXPECT_FALSE(LoopConnection::finish(request));
  return said.all();
}

// The kernel takes the memory of a process that is killed before its queue pairs: the peer's last word is a
// refusal, and that it died shows on the side channel.
TEST_F(FailedCompletion, SaysThatThePeerDied) {
  const std::string said = saidOfWrite("ib", "rem_access_err", true);
  EXPECT_HAS(said, "the peer died or closed the connection while its memory was in use");
}

TEST_F(FailedCompletion, SaysThatMemoryIsRefused) {
  const std::string said = saidOfWrite("ib", "rem_access_err", false);
  EXPECT_HAS(said, "released the memory, or never registered it for this access");
}

// Of a TCP connection that broke, since the peer was killed or for another reason, soft-iWARP says no more.
TEST_F(FailedCompletion, SaysThatThePeerDiedOverIwarp) {
  const std::string said = saidOfWrite("iwarp", "loc_qp_op_err", true);
  EXPECT_HAS(said, "the peer died or closed the connection: see its log");
  // An ordinary end flushes, too: what the peer says of it is waited for.
  const std::string flushed = saidOfWrite("iwarp", "wr_flush_err", true);
  EXPECT_HAS(flushed, "the peer closed the connection or died with work outstanding");
}

TEST_F(FailedCompletion, SaysThatTheTcpConnectionBroke) {
  const std::string said = saidOfWrite("iwarp", "loc_qp_op_err", false);
  EXPECT_HAS(said, "its TCP connection broke");
}

TEST_F(FailedCompletion, SaysThatTheAddressIsGone) {
  const test::Setting timeout("NCCL_IB_TIMEOUT", "8");
  const test::Setting retries("NCCL_IB_RETRY_CNT", "0");
  LoopConnection loop(4096, "count=1,link=roce");
  const test::Said said;
  for (int index = 0; index < 4; ++index)
    test::changePort("soft0:1", "gid=" + std::to_string(index) + "=10.99.0." + std::to_string(index + 1));
  Request* const request = loop.receive(1, 0, 64);
  ASSERT_NE(request, nullptr);
  EXPECT_FALSE(LoopConnection::finish(request));
  EXPECT_HAS(said.all(), "is gone from the port (GID index ");
}

}  // namespace
}  // namespace railwise::net
