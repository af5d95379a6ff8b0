#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>
#include <thread>

#include "softdev/endpoint.h"
#include "tests/wait.h"

namespace railwise::softdev::test {
namespace {

constexpr uint32_t kImm = 0x12345678;

void fillPattern(Endpoint& end, uint64_t offset, size_t length) {
  for (size_t i = 0; i < length; ++i) end.buffer[offset + i] = static_cast<std::byte>(i * 7 + 3);
}

bool sameBytes(const Endpoint& a, uint64_t at_a, const Endpoint& b, uint64_t at_b, size_t length) {
  return std::memcmp(a.buffer.data() + at_a, b.buffer.data() + at_b, length) == 0;
}

void expectSent(const ibv_wc& wc, const Endpoint& end, ibv_wc_opcode opcode, uint64_t wr_id) {
  EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
  EXPECT_EQ(wc.opcode, opcode);
  EXPECT_EQ(wc.wr_id, wr_id);
  EXPECT_EQ(wc.qp_num, end.qp->qp_num);
}

TEST(Datapath, WritesOfAllSizesAndAlignments) {
  Pair pair;
  fillPattern(pair.a, 0, 5000);
  for (uint32_t length : {1U, 3U, 4U, 7U, 8U, 9U, 15U, 16U, 64U, 4095U, 4096U, 5000U}) {
    for (uint64_t offset : {0U, 1U, 4U}) {
      std::fill(pair.b.buffer.begin(), pair.b.buffer.end(), std::byte{0});
      ASSERT_EQ(pair.a.send({.length = length, .remote_offset = 64 + offset, .wr_id = length}), 0);
      expectSent(pair.a.wait(), pair.a, IBV_WC_RDMA_WRITE, length);
      EXPECT_TRUE(sameBytes(pair.a, 0, pair.b, 64 + offset, length)) << length << " at " << offset;
      EXPECT_EQ(pair.b.buffer[63 + offset], std::byte{0});
      EXPECT_EQ(pair.b.buffer[64 + offset + length], std::byte{0});
    }
  }
  ibv_wc wc{};
  EXPECT_EQ(pair.b.poll(&wc), 0);
}

TEST(Datapath, WriteWithImm) {
  Pair pair;
  fillPattern(pair.a, 0, 100);
  ASSERT_EQ(pair.b.receive(9), 0);
  ASSERT_EQ(pair.a.send({.opcode = IBV_WR_RDMA_WRITE_WITH_IMM, .length = 100, .imm = kImm}), 0);
  const ibv_wc wc = pair.b.wait();
  EXPECT_EQ(wc.wr_id, 9U);
  EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
  EXPECT_EQ(wc.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
  EXPECT_EQ(wc.byte_len, 100U);
  EXPECT_EQ(wc.imm_data, kImm);
  EXPECT_EQ(wc.wc_flags, static_cast<unsigned>(IBV_WC_WITH_IMM));
  EXPECT_EQ(wc.qp_num, pair.b.qp->qp_num);
  EXPECT_EQ(wc.src_qp, pair.a.qp->qp_num);
  EXPECT_TRUE(sameBytes(pair.a, 0, pair.b, 0, 100));
  expectSent(pair.a.wait(), pair.a, IBV_WC_RDMA_WRITE, 1);
}

TEST(Datapath, ZeroLengthNeedsNoKey) {
  Pair pair;
  pair.a.peer.rkey = 0xdeadbeef;
  ASSERT_EQ(pair.b.receive(9), 0);
  ASSERT_EQ(pair.a.send({.opcode = IBV_WR_RDMA_WRITE_WITH_IMM, .imm = kImm}), 0);
  EXPECT_EQ(pair.b.wait().byte_len, 0U);
  EXPECT_EQ(pair.a.wait().status, IBV_WC_SUCCESS);
  EXPECT_EQ(sendAndWait(pair.a, {.opcode = IBV_WR_RDMA_READ}), IBV_WC_SUCCESS);
}

TEST(Datapath, Read) {
  Pair pair;
  fillPattern(pair.b, 200, 77);
  ASSERT_EQ(pair.a.send({.opcode = IBV_WR_RDMA_READ, .offset = 5, .length = 77, .remote_offset = 200}), 0);
  expectSent(pair.a.wait(), pair.a, IBV_WC_RDMA_READ, 1);
  EXPECT_TRUE(sameBytes(pair.a, 5, pair.b, 200, 77));
}

TEST(Datapath, SendFillsTheOldestReceive) {
  Pair pair;
  fillPattern(pair.a, 0, 40);
  ASSERT_EQ(pair.b.receive(1, 100, 64), 0);
  ASSERT_EQ(pair.b.receive(2, 300, 64), 0);
  ASSERT_EQ(pair.a.send({.opcode = IBV_WR_SEND, .length = 40}), 0);
  ASSERT_EQ(pair.a.send({.opcode = IBV_WR_SEND_WITH_IMM, .length = 8, .imm = kImm}), 0);
  ibv_wc wc = pair.b.wait();
  EXPECT_EQ(wc.wr_id, 1U);
  EXPECT_EQ(wc.opcode, IBV_WC_RECV);
  EXPECT_EQ(wc.byte_len, 40U);
  EXPECT_EQ(wc.wc_flags, 0U);
  wc = pair.b.wait();
  EXPECT_EQ(wc.wr_id, 2U);
  EXPECT_EQ(wc.imm_data, kImm);
  EXPECT_TRUE(sameBytes(pair.a, 0, pair.b, 100, 40));
  EXPECT_TRUE(sameBytes(pair.a, 0, pair.b, 300, 8));
  expectSent(pair.a.wait(), pair.a, IBV_WC_SEND, 1);
}

TEST(Datapath, ScatterAndGather) {
  Pair pair;
  fillPattern(pair.a, 0, 1000);
  const auto base = reinterpret_cast<uint64_t>(pair.a.buffer.data());
  const auto target = reinterpret_cast<uint64_t>(pair.b.buffer.data());
  ibv_sge out[3] = {
      {base, 10, pair.a.mr->lkey}, {base + 10, 3, pair.a.mr->lkey}, {base + 13, 21, pair.a.mr->lkey}};
  ibv_sge in[2] = {{target + 500, 30, pair.b.mr->lkey}, {target + 600, 30, pair.b.mr->lkey}};
  ibv_recv_wr receive{1, nullptr, in, 2};
  ibv_recv_wr* bad_receive = nullptr;
  ASSERT_EQ(ibv_post_recv(pair.b.qp, &receive, &bad_receive), 0);
  ibv_sge unused;
  ibv_send_wr wr;
  ibv_send_wr* bad = nullptr;
  for (ibv_wr_opcode opcode : {IBV_WR_SEND, IBV_WR_RDMA_WRITE}) {
    pair.a.fill({.opcode = opcode}, &wr, &unused);
    wr.sg_list = out;
    wr.num_sge = 3;
    ASSERT_EQ(ibv_post_send(pair.a.qp, &wr, &bad), 0);
    EXPECT_EQ(pair.a.wait().status, IBV_WC_SUCCESS);
  }
  EXPECT_EQ(pair.b.wait().byte_len, 34U);
  EXPECT_TRUE(sameBytes(pair.a, 0, pair.b, 500, 30));
  EXPECT_TRUE(sameBytes(pair.a, 30, pair.b, 600, 4));
  EXPECT_TRUE(sameBytes(pair.a, 0, pair.b, 0, 34));
}

TEST(Datapath, InlineNeedsNoKey) {
  Pair pair;
  uint64_t value = 4711;
  ibv_sge sge{reinterpret_cast<uint64_t>(&value), 8, 0};
  ibv_sge unused;
  ibv_send_wr wr;
  ibv_send_wr* bad = nullptr;
  pair.a.fill({.flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE | IBV_SEND_FENCE | IBV_SEND_SOLICITED}, &wr,
              &unused);
  wr.sg_list = &sge;
  wr.num_sge = 1;
  ASSERT_EQ(ibv_post_send(pair.a.qp, &wr, &bad), 0);
  EXPECT_EQ(pair.a.wait().status, IBV_WC_SUCCESS);
  EXPECT_EQ(*pair.b.word(0), 4711U);
}

TEST(Datapath, BadRequestsAreRefusedAtPost) {
  Pair pair;
  EXPECT_EQ(pair.a.send({.length = 65, .flags = IBV_SEND_INLINE}), EINVAL);
  EXPECT_EQ(pair.a.send({.opcode = IBV_WR_RDMA_READ, .length = 8, .flags = IBV_SEND_INLINE}), EINVAL);
  EXPECT_EQ(pair.a.send({.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD, .length = 8, .flags = IBV_SEND_INLINE}),
            EINVAL);
  EXPECT_EQ(pair.a.send({.opcode = IBV_WR_LOCAL_INV}), EINVAL);
  ibv_sge sges[5] = {};
  ibv_sge unused;
  ibv_send_wr wr;
  ibv_send_wr* bad = nullptr;
  pair.a.fill({}, &wr, &unused);
  wr.sg_list = sges;
  wr.num_sge = 5;
  EXPECT_EQ(ibv_post_send(pair.a.qp, &wr, &bad), EINVAL);
  EXPECT_EQ(bad, &wr);
  EXPECT_EQ(pair.a.state(), IBV_QPS_RTS);
}

TEST(Datapath, ChainStopsAtTheBadRequest) {
  Pair pair;
  *pair.a.word(0) = 5;
  ibv_sge sges[3];
  ibv_send_wr wrs[3];
  ibv_send_wr* bad = nullptr;
  for (unsigned i = 0; i < 3; ++i) pair.a.fill({.length = 8, .remote_offset = 8 * i}, &wrs[i], &sges[i]);
  wrs[0].next = &wrs[1];
  wrs[1].next = &wrs[2];
  wrs[1].opcode = IBV_WR_LOCAL_INV;
  EXPECT_EQ(ibv_post_send(pair.a.qp, wrs, &bad), EINVAL);
  EXPECT_EQ(bad, &wrs[1]);
  EXPECT_EQ(*pair.b.word(0), 5U);
  EXPECT_EQ(*pair.b.word(16), 0U);
}

TEST(Datapath, UnsignalledSlotsAreFreedByTheNextCompletion) {
  const OpenDevice device;
  Pair pair(device, {.max_send_wr = 4});
  for (int i = 0; i < 3; ++i) ASSERT_EQ(pair.a.send({.length = 8, .flags = 0}), 0);
  ASSERT_EQ(pair.a.send({.length = 8}), 0);
  EXPECT_EQ(pair.a.send({.length = 8}), ENOMEM);
  pair.a.wait();
  for (int i = 0; i < 4; ++i) ASSERT_EQ(pair.a.send({.length = 8, .flags = 0}), 0);
  EXPECT_EQ(pair.a.send({.length = 8}), ENOMEM);
  ibv_wc wc{};
  EXPECT_EQ(pair.a.poll(&wc), 0);
}

TEST(Datapath, SignalAll) {
  const OpenDevice device;
  Pair pair(device, {.signal_all = 1});
  EXPECT_EQ(sendAndWait(pair.a, {.length = 8, .flags = 0}), IBV_WC_SUCCESS);
}

TEST(Datapath, ReceiveQueueIsFullUntilPolled) {
  const OpenDevice device;
  Pair pair(device, {.max_recv_wr = 3});
  for (uint64_t i = 0; i < 3; ++i) ASSERT_EQ(pair.b.receive(i), 0);
  EXPECT_EQ(pair.b.receive(3), ENOMEM);
  ASSERT_EQ(pair.a.send({.opcode = IBV_WR_RDMA_WRITE_WITH_IMM}), 0);
  EXPECT_EQ(pair.b.receive(3), ENOMEM);  // consumed, but not polled
  EXPECT_EQ(pair.b.wait().wr_id, 0U);
  EXPECT_EQ(pair.b.receive(3), 0);
}

TEST(Datapath, ReceiveRingWrapsInOrder) {
  const OpenDevice device;
  Pair pair(device, {.max_recv_wr = 3});
  for (uint64_t i = 0; i < 20; ++i) {
    ASSERT_EQ(pair.b.receive(i), 0);
    ASSERT_EQ(pair.a.send({.opcode = IBV_WR_RDMA_WRITE_WITH_IMM, .imm = static_cast<uint32_t>(i)}), 0);
    const ibv_wc wc = pair.b.wait();
    EXPECT_EQ(wc.wr_id, i);
    EXPECT_EQ(wc.imm_data, i);
    pair.a.wait();
  }
}

TEST(Datapath, CompletionQueueOverflow) {
  const OpenDevice device;
  Pair pair(device, {.cqe = 4});
  for (uint64_t i = 0; i < 5; ++i) ASSERT_EQ(pair.a.send({.length = 8, .wr_id = i}), 0);
  ibv_wc wc[8];
  EXPECT_EQ(ibv_poll_cq(pair.a.cq, 8, wc), 4);
  EXPECT_LT(ibv_poll_cq(pair.a.cq, 8, wc), 0);
}

TEST(Datapath, ConnectedToItself) {
  Endpoint end;
  end.connect(end.address());
  *end.word(0) = 99;
  EXPECT_EQ(sendAndWait(end, {.length = 8, .remote_offset = 64}), IBV_WC_SUCCESS);
  EXPECT_EQ(*end.word(64), 99U);
  EXPECT_EQ(sendAndWait(end, {.opcode = IBV_WR_RDMA_READ, .offset = 128, .length = 8, .remote_offset = 64}),
            IBV_WC_SUCCESS);
  EXPECT_EQ(*end.word(128), 99U);
}

TEST(Datapath, InfinibandByLid) {
  const OpenDevice device("link=ib,count=2");
  ibv_context* other = openNamed("soft1");
  {
    Pair pair(device, other, {}, {});
    *pair.a.word(0) = 3;
    ASSERT_EQ(pair.b.receive(1), 0);
    EXPECT_EQ(sendAndWait(pair.a, {.opcode = IBV_WR_RDMA_WRITE_WITH_IMM, .length = 8}), IBV_WC_SUCCESS);
    EXPECT_EQ(pair.b.wait().slid, pair.b.peer.lid);
    EXPECT_EQ(*pair.b.word(0), 3U);
  }
  closeDevice(other);
}

// A reader that sees the last word of a write sees all of it: what NCCL's receiver relies on.
TEST(Datapath, LastWordComesLast) {
  Pair pair;
  constexpr uint64_t kRounds = 2000;
  constexpr size_t kBytes = 512;
  constexpr size_t kWords = kBytes / 8;
  std::thread reader([&] {
    for (uint64_t round = 1; round <= kRounds; ++round) {
      railwise::test::waitUntil(
          [&] { return __atomic_load_n(pair.b.word(kBytes - 8), __ATOMIC_ACQUIRE) >= round; });
      for (size_t i = 0; i < kWords; ++i) EXPECT_EQ(*pair.b.word(i * 8), round);
      __atomic_store_n(pair.b.word(kBytes), round, __ATOMIC_RELEASE);
    }
  });
  for (uint64_t round = 1; round <= kRounds; ++round) {
    for (size_t i = 0; i < kWords; ++i) *pair.a.word(i * 8) = round;
    ASSERT_EQ(pair.a.send({.length = kBytes}), 0);
    pair.a.wait();
    railwise::test::waitUntil(
        [&] { return __atomic_load_n(pair.b.word(kBytes), __ATOMIC_ACQUIRE) >= round; });
  }
  reader.join();
}

// Plain reads after the completion are ordered too (ThreadSanitizer sees it).
TEST(Datapath, DataComesBeforeTheCompletion) {
  Pair pair;
  constexpr uint64_t kRounds = 2000;
  std::thread receiver([&] {
    for (uint64_t round = 1; round <= kRounds; ++round) {
      EXPECT_EQ(pair.b.wait().status, IBV_WC_SUCCESS);
      EXPECT_EQ(*pair.b.word(0), round);
      EXPECT_EQ(*pair.b.word(1024), round);
      EXPECT_EQ(pair.b.receive(round), 0);
      __atomic_store_n(pair.b.word(4096), round, __ATOMIC_RELEASE);
    }
  });
  ASSERT_EQ(pair.b.receive(0), 0);
  for (uint64_t round = 1; round <= kRounds; ++round) {
    *pair.a.word(0) = *pair.a.word(1024) = round;
    ASSERT_EQ(pair.a.send({.opcode = IBV_WR_RDMA_WRITE_WITH_IMM, .length = 1032}), 0);
    pair.a.wait();
    railwise::test::waitUntil([&] { return __atomic_load_n(pair.b.word(4096), __ATOMIC_ACQUIRE) >= round; });
  }
  receiver.join();
}

}  // namespace
}  // namespace railwise::softdev::test
