// Engine mode: another thread executes what is posted (docs/software-device.md).
#include <gtest/gtest.h>

#include <cstring>

#include "softdev/endpoint.h"

namespace railwise::softdev::test {
namespace {

TEST(Engine, EveryOpcodeArrives) {
  Pair pair("engine=on");
  std::memset(pair.a.buffer.data(), 0x5a, 4096);
  for (const ibv_wr_opcode opcode :
       {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_SEND, IBV_WR_SEND_WITH_IMM}) {
    std::memset(pair.b.buffer.data(), 0, 8192);
    ASSERT_EQ(pair.b.receive(7, 4096, 4096), 0);
    ASSERT_EQ(pair.a.send({.opcode = opcode, .length = 4096, .wr_id = 3}), 0);
    const ibv_wc sent = pair.a.wait();
    EXPECT_EQ(sent.status, IBV_WC_SUCCESS);
    EXPECT_EQ(sent.wr_id, 3U);
    const bool is_send = opcode == IBV_WR_SEND || opcode == IBV_WR_SEND_WITH_IMM;
    const std::byte* arrived = pair.b.buffer.data() + (is_send ? 4096 : 0);
    EXPECT_EQ(std::memcmp(arrived, pair.a.buffer.data(), 4096), 0) << opcode;
    if (opcode != IBV_WR_RDMA_WRITE) EXPECT_EQ(pair.b.wait().status, IBV_WC_SUCCESS);
    if (opcode == IBV_WR_RDMA_WRITE) ASSERT_EQ(pair.b.toState(IBV_QPS_ERR), 0);
    if (opcode != IBV_WR_RDMA_WRITE) continue;
    EXPECT_EQ(pair.b.wait().status, IBV_WC_WR_FLUSH_ERR);
    ASSERT_EQ(pair.a.toState(IBV_QPS_RESET), 0);
    ASSERT_EQ(pair.b.toState(IBV_QPS_RESET), 0);
    connectEnds(pair.a, pair.b);
  }
}

TEST(Engine, InlineDataIsTakenAtThePost) {
  Pair pair("engine=on");
  for (uint64_t i = 1; i <= 500; ++i) {
    *pair.a.word(0) = i;
    ASSERT_EQ(pair.a.send({.length = 8, .flags = IBV_SEND_INLINE | IBV_SEND_SIGNALED}), 0);
    *pair.a.word(0) = 0;  // ours again
    ASSERT_EQ(pair.a.wait().status, IBV_WC_SUCCESS);
    ASSERT_EQ(*pair.b.word(0), i);
  }
}

TEST(Engine, KeepsTheOrderOfAQueuePair) {
  Pair pair("engine=on");
  for (int round = 0; round < 50; ++round) {
    for (uint64_t i = 0; i < 32; ++i) {
      *pair.a.word(8 * i) = i;
      ASSERT_EQ(pair.a.send({.offset = 8 * i, .length = 8, .wr_id = i}), 0);
    }
    for (uint64_t i = 0; i < 32; ++i) ASSERT_EQ(pair.a.wait().wr_id, i);
    EXPECT_EQ(*pair.b.word(0), 31U);
  }
}

TEST(Engine, FullSendQueueIsRefused) {
  Pair pair("engine=on");
  for (uint32_t i = 0; i < pair.a.options.max_send_wr; ++i) ASSERT_EQ(pair.a.send({.length = 8}), 0);
  EXPECT_EQ(pair.a.send({.length = 8}), ENOMEM);
  EXPECT_EQ(pair.a.wait().status, IBV_WC_SUCCESS);
  EXPECT_EQ(pair.a.send({.length = 8}), 0);
}

TEST(Engine, WaitsForAReceive) {
  Pair pair("engine=on");
  ASSERT_EQ(pair.a.send({.opcode = IBV_WR_SEND, .length = 8, .wr_id = 1}), 0);
  ASSERT_EQ(pair.a.send({.length = 8, .wr_id = 2}), 0);
  ASSERT_EQ(pair.b.receive(9, 0, 64), 0);
  EXPECT_EQ(pair.a.wait().wr_id, 1U);
  EXPECT_EQ(pair.a.wait().wr_id, 2U);
  EXPECT_EQ(pair.b.wait().wr_id, 9U);
}

TEST(Engine, ErrorFlushesWhatIsQueued) {
  Pair pair("engine=on");
  Send wrong{.length = 8, .wr_id = 1};
  wrong.remote_offset = pair.b.buffer.size();
  ASSERT_EQ(pair.a.send(wrong), 0);
  EXPECT_EQ(sendAndWait(pair.a, {.length = 8, .wr_id = 2}), IBV_WC_REM_ACCESS_ERR);
  const ibv_wc flushed = pair.a.wait();
  EXPECT_EQ(flushed.status, IBV_WC_WR_FLUSH_ERR);
  EXPECT_EQ(flushed.wr_id, 2U);
  EXPECT_EQ(sendAndWait(pair.a, {.length = 8, .wr_id = 3}), IBV_WC_WR_FLUSH_ERR);
}

TEST(Engine, DestroyedWithWorkQueued) {
  const OpenDevice device("engine=on");
  for (int round = 0; round < 100; ++round) {
    Pair pair(device);
    for (int i = 0; i < 8; ++i) ASSERT_EQ(pair.a.send({.length = 4096}), 0);
    if (round % 2 == 0) ASSERT_EQ(pair.a.toState(IBV_QPS_RESET), 0);
  }
}

}  // namespace
}  // namespace railwise::softdev::test
