// Each way a send can fail: its status at both ends, and what becomes of the queue pairs.
#include <gtest/gtest.h>

#include "softdev/endpoint.h"

namespace railwise::softdev::test {
namespace {

// Posts `request` with the local or remote key changed.
int sendWithKeys(Endpoint& end, const Send& request, uint32_t lkey, uint32_t rkey) {
  ibv_sge sge;
  ibv_send_wr wr;
  ibv_send_wr* bad = nullptr;
  end.fill(request, &wr, &sge);
  sge.lkey = lkey;
  wr.wr.rdma.rkey = rkey;
  return ibv_post_send(end.qp, &wr, &bad);
}

void expectFailed(Endpoint& end, ibv_wc_status status) {
  const ibv_wc wc = end.wait();
  EXPECT_EQ(wc.status, status) << wcStatusStr(wc.status);
  EXPECT_EQ(wc.wr_id, 1U);
  EXPECT_EQ(end.state(), IBV_QPS_ERR);
}

TEST(Errors, LocalKey) {
  Pair pair;
  ASSERT_EQ(pair.a.receive(8), 0);
  ASSERT_EQ(sendWithKeys(pair.a, {.length = 8, .flags = 0}, pair.a.mr->lkey + 1, pair.b.mr->rkey), 0);
  expectFailed(pair.a, IBV_WC_LOC_PROT_ERR);
  const ibv_wc flushed = pair.a.wait();
  EXPECT_EQ(flushed.wr_id, 8U);
  EXPECT_EQ(flushed.status, IBV_WC_WR_FLUSH_ERR);
  EXPECT_EQ(pair.b.state(), IBV_QPS_RTS);
}

TEST(Errors, LocalRange) {
  Pair pair;
  ASSERT_EQ(pair.a.send({.offset = pair.a.buffer.size() - 4, .length = 8}), 0);
  expectFailed(pair.a, IBV_WC_LOC_PROT_ERR);
}

TEST(Errors, LocalKeyOfAnotherPd) {
  Pair pair;
  ibv_sge sge{reinterpret_cast<uint64_t>(pair.b.buffer.data()), 8, pair.b.mr->lkey};
  ibv_sge unused;
  ibv_send_wr wr;
  ibv_send_wr* bad = nullptr;
  pair.a.fill({}, &wr, &unused);
  wr.sg_list = &sge;
  wr.num_sge = 1;
  ASSERT_EQ(ibv_post_send(pair.a.qp, &wr, &bad), 0);
  expectFailed(pair.a, IBV_WC_LOC_PROT_ERR);
}

TEST(Errors, ReadNeedsLocalWrite) {
  const OpenDevice device;
  Pair pair(device, device, {.mr_access = IBV_ACCESS_REMOTE_READ}, {});
  ASSERT_EQ(pair.a.send({.opcode = IBV_WR_RDMA_READ, .length = 8}), 0);
  expectFailed(pair.a, IBV_WC_LOC_PROT_ERR);
}

TEST(Errors, MessageTooLong) {
  Pair pair("max_msg=1024");
  ASSERT_EQ(pair.a.send({.length = 1025}), 0);
  expectFailed(pair.a, IBV_WC_LOC_LEN_ERR);
}

TEST(Errors, RemoteKeyMovesBothEndsToError) {
  Pair pair;
  ASSERT_EQ(pair.b.receive(8), 0);
  ASSERT_EQ(sendWithKeys(pair.a, {.length = 8}, pair.a.mr->lkey, pair.b.mr->rkey ^ 1), 0);
  expectFailed(pair.a, IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(pair.b.state(), IBV_QPS_ERR);
  EXPECT_EQ(pair.b.wait().status, IBV_WC_WR_FLUSH_ERR);
}

TEST(Errors, RemoteRange) {
  const OpenDevice device;
  for (uint64_t offset : {uint64_t{1 << 16}, uint64_t{(1 << 16) - 4}, uint64_t{0} - 8}) {
    Pair pair(device);
    ASSERT_EQ(pair.a.send({.length = 8, .remote_offset = offset}), 0);
    expectFailed(pair.a, IBV_WC_REM_ACCESS_ERR);
  }
}

TEST(Errors, RemoteAccessOfTheRegion) {
  const OpenDevice device;
  for (ibv_wr_opcode opcode : {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ}) {
    Pair pair(device, device, {}, {.mr_access = IBV_ACCESS_LOCAL_WRITE});
    ASSERT_EQ(pair.a.send({.opcode = opcode, .length = 8}), 0);
    expectFailed(pair.a, IBV_WC_REM_ACCESS_ERR);
  }
}

TEST(Errors, RemoteAccessOfTheQueuePair) {
  const OpenDevice device;
  Pair pair(device, device, {}, {.qp_access = IBV_ACCESS_REMOTE_READ});
  EXPECT_EQ(sendAndWait(pair.a, {.opcode = IBV_WR_RDMA_READ, .length = 8}), IBV_WC_SUCCESS);
  ASSERT_EQ(pair.a.send({.length = 8}), 0);
  expectFailed(pair.a, IBV_WC_REM_ACCESS_ERR);
}

TEST(Errors, RemoteKeyOfAnotherPd) {
  const OpenDevice device;
  Pair pair(device);
  const Endpoint other(device);
  pair.a.peer.memory = other.address().memory;
  pair.a.peer.rkey = other.mr->rkey;
  ASSERT_EQ(pair.a.send({.length = 8}), 0);
  expectFailed(pair.a, IBV_WC_REM_ACCESS_ERR);
}

TEST(Errors, DeregisteredRegion) {
  Pair pair;
  ASSERT_EQ(deregMr(pair.b.mr), 0);
  pair.b.mr = nullptr;
  ASSERT_EQ(pair.a.send({.length = 8}), 0);
  expectFailed(pair.a, IBV_WC_REM_ACCESS_ERR);
}

TEST(Errors, SendLongerThanTheReceive) {
  Pair pair;
  ASSERT_EQ(pair.b.receive(8, 0, 16), 0);
  ASSERT_EQ(pair.a.send({.opcode = IBV_WR_SEND, .length = 17}), 0);
  expectFailed(pair.a, IBV_WC_REM_INV_REQ_ERR);
  const ibv_wc wc = pair.b.wait();
  EXPECT_EQ(wc.wr_id, 8U);
  EXPECT_EQ(wc.status, IBV_WC_LOC_LEN_ERR);
  EXPECT_EQ(pair.b.state(), IBV_QPS_ERR);
}

TEST(Errors, ReceiveIntoAForeignRegion) {
  Pair pair;
  ibv_sge sge{reinterpret_cast<uint64_t>(pair.a.buffer.data()), 64, pair.a.mr->lkey};
  ibv_recv_wr wr{8, nullptr, &sge, 1};
  ibv_recv_wr* bad = nullptr;
  ASSERT_EQ(ibv_post_recv(pair.b.qp, &wr, &bad), 0);
  ASSERT_EQ(pair.a.send({.opcode = IBV_WR_SEND, .length = 8}), 0);
  expectFailed(pair.a, IBV_WC_REM_OP_ERR);
  EXPECT_EQ(pair.b.wait().status, IBV_WC_LOC_PROT_ERR);
}

TEST(Errors, LaterRequestsOfTheChainAreFlushed) {
  Pair pair;
  ibv_sge sges[3];
  ibv_send_wr wrs[3];
  ibv_send_wr* bad = nullptr;
  for (unsigned i = 0; i < 3; ++i) pair.a.fill({.length = 8, .flags = 0, .wr_id = i}, &wrs[i], &sges[i]);
  wrs[0].next = &wrs[1];
  wrs[1].next = &wrs[2];
  wrs[1].wr.rdma.rkey = 0;
  ASSERT_EQ(ibv_post_send(pair.a.qp, wrs, &bad), 0);
  ibv_wc wc = pair.a.wait();
  EXPECT_EQ(wc.wr_id, 1U);
  EXPECT_EQ(wc.status, IBV_WC_REM_ACCESS_ERR);
  wc = pair.a.wait();
  EXPECT_EQ(wc.wr_id, 2U);
  EXPECT_EQ(wc.status, IBV_WC_WR_FLUSH_ERR);
}

}  // namespace
}  // namespace railwise::softdev::test
