// ibv_query_qp tells live packet sequence numbers: the responder's next expected one, and the requester's
// next one to send.
#include <gtest/gtest.h>

#include <vector>

#include "softdev/endpoint.h"

namespace railwise::softdev::test {
namespace {

constexpr uint32_t kFirst = 1000;
constexpr uint32_t kMtu = 1024;  // of Endpoint

Options numbered(uint32_t first = kFirst) {
  Options options;
  options.mr_access |= IBV_ACCESS_REMOTE_ATOMIC;
  options.qp_access |= IBV_ACCESS_REMOTE_ATOMIC;
  options.sq_psn = options.rq_psn = first;
  return options;
}

ibv_qp_attr query(const Endpoint& end) {
  ibv_qp_attr attr{};
  ibv_qp_init_attr init{};
  EXPECT_EQ(queryQp(end.qp, &attr, IBV_QP_RQ_PSN | IBV_QP_SQ_PSN, &init), 0);
  return attr;
}
uint32_t expected(const Endpoint& end) { return query(end).rq_psn; }
uint32_t next(const Endpoint& end) { return query(end).sq_psn; }

struct Case {
  Send send;
  uint32_t packets;
};

void expectPackets(Pair& pair, const std::vector<Case>& cases, uint32_t first) {
  uint32_t packets = 0;
  for (const Case& sent : cases) {
    ASSERT_EQ(pair.b.receive(1, 0, 8192), 0);
    ASSERT_EQ(pair.a.send(sent.send), 0);
    ASSERT_EQ(pair.a.wait().status, IBV_WC_SUCCESS);
    packets += sent.packets;
    EXPECT_EQ(expected(pair.b), (first + packets) & 0xffffff) << sent.send.opcode << ' ' << sent.send.length;
    EXPECT_EQ(next(pair.a), (first + packets) & 0xffffff) << sent.send.opcode << ' ' << sent.send.length;
  }
  EXPECT_EQ(expected(pair.a), first);
  EXPECT_EQ(next(pair.b), first);
}

const std::vector<Case> kCases = {
    {{.length = 0}, 1},
    {{.length = 8}, 1},
    {{.length = kMtu}, 1},
    {{.length = kMtu + 1}, 2},
    {{.length = 8 * kMtu}, 8},
    {{.opcode = IBV_WR_RDMA_WRITE_WITH_IMM, .length = 0}, 1},
    {{.opcode = IBV_WR_RDMA_WRITE_WITH_IMM, .length = 2 * kMtu}, 2},
    {{.opcode = IBV_WR_SEND, .length = 0}, 1},
    {{.opcode = IBV_WR_SEND, .length = 3 * kMtu - 1}, 3},
    {{.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD, .length = 8}, 1},
    {{.opcode = IBV_WR_RDMA_READ, .length = 8}, 1},
    {{.opcode = IBV_WR_RDMA_READ, .length = 5 * kMtu}, 5},
};

TEST(LivePsn, EveryRequestTakesItsPackets) {
  const OpenDevice device;
  Pair pair(device, numbered());
  expectPackets(pair, kCases, kFirst);
}

// The slow path counts as the fast one does.
TEST(LivePsn, EveryRequestTakesItsPacketsOnAWire) {
  const OpenDevice device("pacing=on");
  Pair pair(device, numbered());
  expectPackets(pair, kCases, kFirst);
}

TEST(LivePsn, NumbersHave24Bits) {
  const OpenDevice device;
  Pair pair(device, numbered(0xfffffe));
  expectPackets(pair, {{{.length = 8}, 1}, {{.length = 4 * kMtu}, 4}}, 0xfffffe);
}

TEST(LivePsn, AQueuePairInErrorSaysTheLast) {
  const OpenDevice device;
  Pair pair(device, numbered());
  ASSERT_EQ(pair.a.send({.length = 2 * kMtu}), 0);
  ASSERT_EQ(pair.b.toState(IBV_QPS_ERR), 0);
  ASSERT_EQ(pair.a.toState(IBV_QPS_ERR), 0);
  ASSERT_EQ(pair.a.send({.length = 8}), 0);  // flushed
  EXPECT_EQ(expected(pair.b), kFirst + 2);
  EXPECT_EQ(next(pair.a), kFirst + 2);
}

// What the sender sees as an error says nothing of the receiver; its number does.
TEST(LivePsn, ARefusedRequestIsStillExpected) {
  const OpenDevice device;
  Pair pair(device, numbered());
  ASSERT_EQ(pair.a.send({.length = 8}), 0);
  ASSERT_EQ(pair.a.wait().status, IBV_WC_SUCCESS);
  ASSERT_EQ(pair.a.send({.length = 3 * kMtu, .remote_offset = 1 << 20}), 0);
  ASSERT_EQ(pair.a.wait().status, IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(expected(pair.b), kFirst + 1);
  EXPECT_EQ(next(pair.a), kFirst + 4);
}

TEST(LivePsn, ASendThatWaitsForItsReceiverHasLeft) {
  const OpenDevice device;
  Pair pair(device, numbered());
  ASSERT_EQ(pair.a.send({.opcode = IBV_WR_SEND, .length = 2 * kMtu}), 0);
  EXPECT_EQ(expected(pair.b), kFirst);
  EXPECT_EQ(next(pair.a), kFirst + 2);
  ASSERT_EQ(pair.a.toState(IBV_QPS_ERR), 0);
  EXPECT_EQ(next(pair.a), kFirst + 2);
}

TEST(LivePsn, ResetBeginsAnew) {
  const OpenDevice device;
  Pair pair(device, numbered());
  ASSERT_EQ(pair.a.send({.length = 8}), 0);
  for (Endpoint* end : {&pair.a, &pair.b}) ASSERT_EQ(end->toState(IBV_QPS_RESET), 0);
  connectEnds(pair.a, pair.b);
  EXPECT_EQ(expected(pair.b), kFirst);
  EXPECT_EQ(next(pair.a), kFirst);
}

}  // namespace
}  // namespace railwise::softdev::test
