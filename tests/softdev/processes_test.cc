// The data path between two processes.
#include <gtest/gtest.h>

#include <cstring>

#include "softdev/peer_process.h"

namespace railwise::softdev::test {
namespace {

TEST(TwoProcesses, WriteAndRead) {
  Processes two;
  for (size_t i = 0; i < 4; ++i) *two.end.word(8 * i) = 100 + i;
  EXPECT_EQ(sendAndWait(two.end, {.length = 32, .remote_offset = 64}), IBV_WC_SUCCESS);
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(two.peer.word(64 + 8 * i), 100 + i);
  two.peer.setWord(512, 7);
  ASSERT_EQ(two.end.send({.opcode = IBV_WR_RDMA_READ, .offset = 1024, .length = 8, .remote_offset = 512}), 0);
  const ibv_wc wc = two.end.wait();
  EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
  EXPECT_EQ(wc.opcode, IBV_WC_RDMA_READ);
  EXPECT_EQ(*two.end.word(1024), 7U);
  EXPECT_EQ(counters(two.device).system_calls, 2U);
}

TEST(TwoProcesses, WriteWithImmBothWays) {
  Processes two;
  ASSERT_EQ(two.peer.receive(3), 0);
  ASSERT_EQ(two.end.receive(4), 0);
  *two.end.word(0) = 55;
  ASSERT_EQ(two.end.send({.opcode = IBV_WR_RDMA_WRITE_WITH_IMM, .length = 8, .imm = 99}), 0);
  ibv_wc wc = two.peer.wait();
  EXPECT_EQ(wc.wr_id, 3U);
  EXPECT_EQ(wc.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
  EXPECT_EQ(wc.imm_data, 99U);
  EXPECT_EQ(wc.byte_len, 8U);
  EXPECT_EQ(wc.src_qp, two.end.qp->qp_num);
  EXPECT_EQ(two.peer.word(0), 55U);
  EXPECT_EQ(two.end.wait().opcode, IBV_WC_RDMA_WRITE);
  two.peer.setWord(0, 66);
  ASSERT_EQ(two.peer.send({.opcode = IBV_WR_RDMA_WRITE_WITH_IMM, .length = 8, .imm = 98}), 0);
  wc = two.end.wait();
  EXPECT_EQ(wc.wr_id, 4U);
  EXPECT_EQ(wc.imm_data, 98U);
  EXPECT_EQ(*two.end.word(0), 66U);
}

TEST(TwoProcesses, Send) {
  Processes two;
  ASSERT_EQ(two.peer.receive(3, 256, 16), 0);
  *two.end.word(0) = 5;
  *two.end.word(8) = 6;
  ASSERT_EQ(two.end.send({.opcode = IBV_WR_SEND_WITH_IMM, .length = 16, .imm = 1}), 0);
  const ibv_wc wc = two.peer.wait();
  EXPECT_EQ(wc.opcode, IBV_WC_RECV);
  EXPECT_EQ(wc.byte_len, 16U);
  EXPECT_EQ(two.peer.word(256), 5U);
  EXPECT_EQ(two.peer.word(264), 6U);
}

TEST(TwoProcesses, ZeroLengthWithImm) {
  Processes two;
  ASSERT_EQ(two.peer.receive(3), 0);
  ASSERT_EQ(two.end.send({.opcode = IBV_WR_RDMA_WRITE_WITH_IMM, .imm = 17}), 0);
  EXPECT_EQ(two.peer.wait().imm_data, 17U);
  EXPECT_EQ(counters(two.device).system_calls, 0U);
}

TEST(TwoProcesses, AChainTakesOneSystemCall) {
  Processes two;
  constexpr unsigned kWrites = 8;
  ASSERT_EQ(two.peer.receive(3), 0);
  ibv_sge sges[kWrites];
  ibv_send_wr wrs[kWrites];
  ibv_send_wr* bad = nullptr;
  for (unsigned i = 0; i < kWrites; ++i) {
    *two.end.word(16 * i) = i + 1;
    two.end.fill({.offset = 16 * i, .length = 16, .remote_offset = 32 * i, .flags = 0}, &wrs[i], &sges[i]);
    wrs[i].next = i + 1 < kWrites ? &wrs[i + 1] : nullptr;
  }
  wrs[kWrites - 1].opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
  wrs[kWrites - 1].send_flags = IBV_SEND_SIGNALED;
  ASSERT_EQ(ibv_post_send(two.end.qp, wrs, &bad), 0);
  EXPECT_EQ(two.peer.wait().byte_len, 16U);
  for (unsigned i = 0; i < kWrites; ++i) EXPECT_EQ(two.peer.word(32 * i), i + 1);
  EXPECT_EQ(counters(two.device).system_calls, 1U);
}

TEST(TwoProcesses, MoreThanABatchInOneChain) {
  Processes two({.max_send_wr = 200}, {});
  constexpr unsigned kWrites = 150;
  ibv_sge sges[kWrites];
  ibv_send_wr wrs[kWrites];
  ibv_send_wr* bad = nullptr;
  for (unsigned i = 0; i < kWrites; ++i) {
    *two.end.word(8 * i) = i + 1;
    two.end.fill({.offset = 8 * i, .length = 8, .remote_offset = 8 * i, .flags = 0, .wr_id = i}, &wrs[i],
                 &sges[i]);
    wrs[i].next = i + 1 < kWrites ? &wrs[i + 1] : nullptr;
  }
  wrs[kWrites - 1].send_flags = IBV_SEND_SIGNALED;
  ASSERT_EQ(ibv_post_send(two.end.qp, wrs, &bad), 0);
  EXPECT_EQ(two.end.wait().wr_id, kWrites - 1);
  for (unsigned i = 0; i < kWrites; ++i) ASSERT_EQ(two.peer.word(8 * i), i + 1);
}

TEST(TwoProcesses, RemoteKey) {
  Processes two;
  two.end.peer.rkey ^= 1;
  EXPECT_EQ(sendAndWait(two.end, {.length = 8}), IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(two.peer.state(), IBV_QPS_ERR);
}

TEST(TwoProcesses, ErrorInTheMiddleOfAChain) {
  Processes two;
  ibv_sge sges[3];
  ibv_send_wr wrs[3];
  ibv_send_wr* bad = nullptr;
  *two.end.word(0) = 8;
  for (unsigned i = 0; i < 3; ++i)
    two.end.fill({.length = 8, .remote_offset = 8 * i, .wr_id = i}, &wrs[i], &sges[i]);
  wrs[0].next = &wrs[1];
  wrs[1].next = &wrs[2];
  wrs[1].wr.rdma.rkey = 0;
  ASSERT_EQ(ibv_post_send(two.end.qp, wrs, &bad), 0);
  const ibv_wc_status expected[] = {IBV_WC_SUCCESS, IBV_WC_REM_ACCESS_ERR, IBV_WC_WR_FLUSH_ERR};
  for (unsigned i = 0; i < 3; ++i) {
    const ibv_wc wc = two.end.wait();
    EXPECT_EQ(wc.wr_id, i);
    EXPECT_EQ(wc.status, expected[i]);
  }
  EXPECT_EQ(two.peer.word(0), 8U);
  EXPECT_EQ(two.peer.word(16), 0U);
}

TEST(TwoProcesses, SendLongerThanTheReceive) {
  Processes two;
  ASSERT_EQ(two.peer.receive(3, 0, 8), 0);
  EXPECT_EQ(sendAndWait(two.end, {.opcode = IBV_WR_SEND, .length = 9}), IBV_WC_REM_INV_REQ_ERR);
  EXPECT_EQ(two.peer.wait().status, IBV_WC_LOC_LEN_ERR);
}

TEST(TwoProcesses, MemoryThatTheLivePeerUnmapped) {
  for (ibv_wr_opcode opcode : {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ}) {
    Processes two;
    two.peer.unmapBuffer();
    two.end.peer = two.peer.address();
    ASSERT_EQ(two.end.send({.opcode = opcode, .length = 8, .wr_id = 1}), 0);
    EXPECT_EQ(sendAndWait(two.end, {.length = 8, .wr_id = 2}), IBV_WC_REM_ACCESS_ERR);
    EXPECT_EQ(two.end.wait().status, IBV_WC_WR_FLUSH_ERR);
    EXPECT_EQ(two.peer.state(), IBV_QPS_ERR);
  }
}

TEST(TwoProcesses, ParkedUntilThePeerPostsAReceive) {
  Processes two;
  *two.end.word(0) = 3;
  ASSERT_EQ(two.end.send({.opcode = IBV_WR_RDMA_WRITE_WITH_IMM, .length = 8, .flags = IBV_SEND_INLINE}), 0);
  *two.end.word(0) = 4;
  ASSERT_EQ(two.peer.receive(5), 0);
  EXPECT_EQ(two.peer.wait().wr_id, 5U);  // this process does nothing meanwhile
  EXPECT_EQ(two.peer.word(0), 3U);
}

TEST(TwoProcesses, KilledPeer) {
  for (uint32_t length : {8U, 0U}) {
    Processes two;
    ASSERT_EQ(two.peer.receive(1), 0);
    ASSERT_EQ(two.end.receive(2), 0);
    two.peer.kill();
    ASSERT_EQ(two.end.send({.opcode = IBV_WR_RDMA_WRITE_WITH_IMM, .length = length}), 0);
    const ibv_wc wc = two.end.wait();
    EXPECT_EQ(wc.status, IBV_WC_RETRY_EXC_ERR) << wcStatusStr(wc.status);
    EXPECT_EQ(two.end.wait().status, IBV_WC_WR_FLUSH_ERR);
    EXPECT_EQ(two.end.state(), IBV_QPS_ERR);
  }
}

TEST(TwoProcesses, PeerKilledWhileASendWaitsForIt) {
  Processes two;  // timeout and RNR retries are for ever: only the death ends the wait
  ASSERT_EQ(two.end.send({.opcode = IBV_WR_RDMA_WRITE_WITH_IMM, .length = 8}), 0);
  two.peer.kill();
  EXPECT_EQ(two.end.wait().status, IBV_WC_RETRY_EXC_ERR);
}

}  // namespace
}  // namespace railwise::softdev::test
