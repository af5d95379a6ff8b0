// Sends that wait for their peer.
#include <gtest/gtest.h>

#include <thread>

#include "softdev/endpoint.h"

namespace railwise::softdev::test {
namespace {

TEST(Parked, DeliveredWithoutThePosterPolling) {
  Pair pair;
  *pair.a.word(0) = 1;
  ASSERT_EQ(pair.a.send({.opcode = IBV_WR_RDMA_WRITE_WITH_IMM, .length = 8, .imm = 6}), 0);
  ibv_wc wc{};
  EXPECT_EQ(pair.b.poll(&wc), 0);
  ASSERT_EQ(pair.b.receive(4), 0);
  wc = pair.b.wait();  // nobody touches a
  EXPECT_EQ(wc.wr_id, 4U);
  EXPECT_EQ(wc.imm_data, 6U);
  EXPECT_EQ(*pair.b.word(0), 1U);
  EXPECT_EQ(pair.a.wait().status, IBV_WC_SUCCESS);
}

TEST(Parked, SuccessorsKeepTheOrder) {
  Pair pair;
  *pair.a.word(0) = 1;
  *pair.a.word(8) = 2;
  ASSERT_EQ(pair.a.send({.opcode = IBV_WR_RDMA_WRITE_WITH_IMM, .wr_id = 10}), 0);
  ASSERT_EQ(pair.a.send({.length = 8, .wr_id = 11}), 0);
  ASSERT_EQ(pair.a.send({.offset = 8, .length = 8, .wr_id = 12}), 0);
  ibv_wc wc{};
  EXPECT_EQ(pair.a.poll(&wc), 0);
  EXPECT_EQ(*pair.b.word(0), 0U);
  ASSERT_EQ(pair.b.receive(1), 0);
  for (uint64_t wr_id : {10U, 11U, 12U}) EXPECT_EQ(pair.a.wait().wr_id, wr_id);
  EXPECT_EQ(*pair.b.word(0), 2U);
}

TEST(Parked, InlinePayloadIsCopiedAtPost) {
  Pair pair;
  *pair.a.word(0) = 1;
  ASSERT_EQ(pair.a.send({.opcode = IBV_WR_RDMA_WRITE_WITH_IMM, .length = 8, .flags = IBV_SEND_INLINE}), 0);
  *pair.a.word(0) = 2;
  ASSERT_EQ(pair.b.receive(1), 0);
  pair.b.wait();
  EXPECT_EQ(*pair.b.word(0), 1U);
}

TEST(Parked, WaitsForAPeerThatIsNotReady) {
  const OpenDevice device;
  Endpoint a(device);
  Endpoint b(device);
  a.connect(b.address());
  *a.word(0) = 1;
  ASSERT_EQ(a.send({.length = 8}), 0);
  ibv_wc wc{};
  EXPECT_EQ(a.poll(&wc), 0);
  b.connect(a.address());
  EXPECT_EQ(a.wait().status, IBV_WC_SUCCESS);
  EXPECT_EQ(*b.word(0), 1U);
}

TEST(Parked, ReceiverNotReadyRetriesRunOut) {
  const OpenDevice device;
  for (const uint8_t retries : {uint8_t{0}, uint8_t{1}, uint8_t{6}}) {
    Pair pair(device, {.rnr_retry = retries});
    ASSERT_EQ(pair.a.send({.opcode = IBV_WR_RDMA_WRITE_WITH_IMM}), 0);
    EXPECT_EQ(sendAndWait(pair.a, {.length = 8, .wr_id = 2}), IBV_WC_RNR_RETRY_EXC_ERR);
    const ibv_wc wc = pair.a.wait();
    EXPECT_EQ(wc.wr_id, 2U);
    EXPECT_EQ(wc.status, IBV_WC_WR_FLUSH_ERR);
    EXPECT_EQ(pair.b.state(), IBV_QPS_RTS);
  }
}

// Every kind of unreachable: a wrong address, a QP that does not point back, in ERR, destroyed, on a port
// that is down.
class Unreachable : public testing::Test {
 protected:
  static void expectRetriesExceeded(Endpoint& end) {
    EXPECT_EQ(sendAndWait(end, {.length = 8}), IBV_WC_RETRY_EXC_ERR);
    EXPECT_EQ(end.state(), IBV_QPS_ERR);
  }
  Options options_{.timeout = 1};
};

TEST_F(Unreachable, NoSuchNumber) {
  const OpenDevice device;
  Endpoint a(device, options_);
  Address nobody = a.address();
  nobody.qp_num = 0xfffffe;
  a.connect(nobody);
  expectRetriesExceeded(a);
}

TEST_F(Unreachable, NumberNeverUsed) {
  const OpenDevice device;
  Endpoint a(device, options_);
  Address nobody = a.address();
  nobody.qp_num = 12345;  // a record that is there and was nobody's
  a.connect(nobody);
  expectRetriesExceeded(a);
}

// The address of a port that is there, and has no such queue pair. (One that nobody has is refused at once.)
TEST_F(Unreachable, WrongGidOrLid) {
  for (const bool infiniband : {false, true}) {
    const OpenDevice device(infiniband ? "link=ib,count=2" : "count=2");
    ibv_context* second = openNamed("soft1");
    {
      Pair pair(device, options_);
      const Endpoint other(second);
      ASSERT_EQ(pair.a.toState(IBV_QPS_RESET), 0);
      Address wrong = pair.b.address();
      if (infiniband) wrong.lid = other.address().lid;
      else wrong.gid = other.address().gid;
      pair.a.connect(wrong);
      expectRetriesExceeded(pair.a);
    }
    closeDevice(second);
  }
}

TEST_F(Unreachable, NotPointingBack) {
  const OpenDevice device;
  Endpoint a(device, options_);
  Pair others(device);
  a.connect(others.a.address());
  expectRetriesExceeded(a);
}

TEST_F(Unreachable, PeerInError) {
  const OpenDevice device;
  Pair pair(device, options_);
  ASSERT_EQ(pair.b.toState(IBV_QPS_ERR), 0);
  expectRetriesExceeded(pair.a);
}

TEST_F(Unreachable, PeerDestroyedAfterItWasReached) {
  const OpenDevice device;
  Endpoint a(device, options_);
  {
    Endpoint b(device);
    connectEnds(a, b);
    EXPECT_EQ(sendAndWait(a, {.length = 8}), IBV_WC_SUCCESS);
  }
  expectRetriesExceeded(a);
}

TEST_F(Unreachable, PortDown) {
  const OpenDevice device("count=1;name=dead,port_state=down");
  ibv_context* dead = openNamed("dead");
  {
    Pair pair(device, dead, options_, {});
    expectRetriesExceeded(pair.a);
  }
  closeDevice(dead);
}

TEST(Parked, ErrorFlushesThem) {
  Pair pair;
  ASSERT_EQ(pair.a.send({.opcode = IBV_WR_RDMA_WRITE_WITH_IMM, .flags = 0, .wr_id = 5}), 0);
  ASSERT_EQ(pair.a.toState(IBV_QPS_ERR), 0);
  const ibv_wc wc = pair.a.wait();
  EXPECT_EQ(wc.wr_id, 5U);
  EXPECT_EQ(wc.status, IBV_WC_WR_FLUSH_ERR);
}

TEST(Parked, FlushedWhenThePeerBreaksTheConnection) {
  Pair pair;
  ASSERT_EQ(pair.a.send({.opcode = IBV_WR_RDMA_WRITE_WITH_IMM, .wr_id = 5}), 0);
  pair.b.peer.rkey = 0;
  ASSERT_EQ(pair.b.send({.length = 8}), 0);  // an access error moves both to ERR
  EXPECT_EQ(pair.b.wait().status, IBV_WC_REM_ACCESS_ERR);
  const ibv_wc wc = pair.a.wait();
  EXPECT_EQ(wc.wr_id, 5U);
  EXPECT_EQ(wc.status, IBV_WC_WR_FLUSH_ERR);
}

TEST(Parked, DestroyAndResetForgetThem) {
  const OpenDevice device;
  Endpoint b(device);
  {
    Endpoint a(device);
    connectEnds(a, b);
    ASSERT_EQ(a.send({.opcode = IBV_WR_RDMA_WRITE_WITH_IMM}), 0);
    ASSERT_EQ(a.toState(IBV_QPS_RESET), 0);
    a.connect(b.address());
    ASSERT_EQ(a.send({.opcode = IBV_WR_RDMA_WRITE_WITH_IMM}), 0);
  }
  ASSERT_EQ(b.receive(1), 0);
  ibv_wc wc{};
  EXPECT_EQ(b.poll(&wc), 0);
}

}  // namespace
}  // namespace railwise::softdev::test
