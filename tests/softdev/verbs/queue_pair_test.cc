#include <gtest/gtest.h>

#include <cerrno>

#include "softdev/endpoint.h"

namespace railwise::softdev::test {
namespace {

constexpr int kInitMask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
constexpr int kRtrMask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                         IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;

TEST(QueuePair, GoesThroughItsStates) {
  Endpoint end;
  EXPECT_EQ(end.state(), IBV_QPS_RESET);
  EXPECT_EQ(end.toInit(), 0);
  EXPECT_EQ(end.state(), IBV_QPS_INIT);
  EXPECT_EQ(end.toRtr(end.address()), 0);
  EXPECT_EQ(end.state(), IBV_QPS_RTR);
  EXPECT_EQ(end.toRts(), 0);
  EXPECT_EQ(end.state(), IBV_QPS_RTS);
  EXPECT_EQ(end.qp->state, IBV_QPS_RTS);
  EXPECT_EQ(end.toState(IBV_QPS_ERR), 0);
  EXPECT_EQ(end.state(), IBV_QPS_ERR);
  EXPECT_EQ(end.toState(IBV_QPS_RESET), 0);
  EXPECT_EQ(end.state(), IBV_QPS_RESET);
}

TEST(QueuePair, SkippingAStateFails) {
  Endpoint end;
  EXPECT_EQ(end.toRts(), EINVAL);
  EXPECT_EQ(end.toRtr(end.address()), EINVAL);
  ASSERT_EQ(end.toInit(), 0);
  EXPECT_EQ(end.toRts(), EINVAL);
}

TEST(QueuePair, EveryRequiredAttributeIsChecked) {
  Endpoint end;
  ibv_qp_attr init = end.initAttr();
  for (int bit : {IBV_QP_PKEY_INDEX, IBV_QP_PORT, IBV_QP_ACCESS_FLAGS})
    EXPECT_EQ(modifyQp(end.qp, &init, kInitMask & ~bit), EINVAL) << bit;
  EXPECT_EQ(modifyQp(end.qp, &init, kInitMask | IBV_QP_TIMEOUT), EINVAL);
  ASSERT_EQ(end.toInit(), 0);
  ibv_qp_attr rtr = end.rtrAttr(end.address());
  for (int bit : {IBV_QP_AV, IBV_QP_PATH_MTU, IBV_QP_DEST_QPN, IBV_QP_RQ_PSN, IBV_QP_MIN_RNR_TIMER})
    EXPECT_EQ(modifyQp(end.qp, &rtr, kRtrMask & ~static_cast<int>(bit)), EINVAL) << bit;
  EXPECT_EQ(end.state(), IBV_QPS_INIT);
}

TEST(QueuePair, BadValuesFail) {
  Endpoint end("mtu=1024");
  ibv_qp_attr init = end.initAttr();
  init.port_num = 2;
  EXPECT_EQ(modifyQp(end.qp, &init, kInitMask), EINVAL);
  init = end.initAttr();
  init.pkey_index = 1;
  EXPECT_EQ(modifyQp(end.qp, &init, kInitMask), EINVAL);
  ASSERT_EQ(end.toInit(), 0);
  ibv_qp_attr rtr = end.rtrAttr(end.address());
  rtr.path_mtu = IBV_MTU_2048;  // more than the port's
  EXPECT_EQ(modifyQp(end.qp, &rtr, kRtrMask), EINVAL);
  rtr = end.rtrAttr(end.address());
  rtr.ah_attr.is_global = 0;  // RoCE has no other way
  EXPECT_EQ(modifyQp(end.qp, &rtr, kRtrMask), EINVAL);
  rtr = end.rtrAttr(end.address());
  rtr.ah_attr.grh.sgid_index = 9;
  EXPECT_EQ(modifyQp(end.qp, &rtr, kRtrMask), EINVAL);
  EXPECT_EQ(end.toRtr(end.address()), 0);
}

TEST(QueuePair, QueryGivesBackWhatWasSet) {
  const OpenDevice device;
  Options options;
  options.rnr_retry = 3;
  options.timeout = 14;
  Pair pair(device, options);
  ibv_qp_attr attr{};
  ibv_qp_init_attr init{};
  ASSERT_EQ(queryQp(pair.a.qp, &attr, 0, &init), 0);
  EXPECT_EQ(attr.dest_qp_num, pair.b.qp->qp_num);
  EXPECT_EQ(attr.rnr_retry, 3);
  EXPECT_EQ(attr.timeout, 14);
  EXPECT_EQ(attr.path_mtu, IBV_MTU_1024);
  EXPECT_EQ(attr.cap.max_send_wr, options.max_send_wr);
  EXPECT_EQ(init.send_cq, pair.a.cq);
  EXPECT_EQ(init.cap.max_inline_data, options.max_inline);
}

TEST(QueuePair, LimitsAreEnforced) {
  const OpenDevice device("max_inline=32");
  const Endpoint end(device, {.max_inline = 32});
  ibv_qp_init_attr init{};
  init.send_cq = init.recv_cq = end.cq;
  init.qp_type = IBV_QPT_UC;
  EXPECT_EQ(createQp(end.pd, &init), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
  init.qp_type = IBV_QPT_RC;
  for (const ibv_qp_cap& cap :
       {ibv_qp_cap{1U << 20, 1, 1, 1, 0}, ibv_qp_cap{1, 1U << 20, 1, 1, 0}, ibv_qp_cap{1, 1, 99, 1, 0},
        ibv_qp_cap{1, 1, 1, 99, 0}, ibv_qp_cap{1, 1, 1, 1, 33}}) {
    init.cap = cap;
    EXPECT_EQ(createQp(end.pd, &init), nullptr);
    EXPECT_EQ(errno, EINVAL);
  }
}

TEST(QueuePair, ParentsAreBusy) {
  const Endpoint end;
  EXPECT_EQ(destroyCq(end.cq), EBUSY);
  EXPECT_EQ(deallocPd(end.pd), EBUSY);
}

TEST(QueuePair, PostingNeedsTheState) {
  Endpoint end;
  EXPECT_EQ(end.receive(1), EINVAL);
  EXPECT_EQ(end.send({}), EINVAL);
  ASSERT_EQ(end.toInit(), 0);
  EXPECT_EQ(end.receive(1), 0);
  ASSERT_EQ(end.toRtr(end.address()), 0);
  EXPECT_EQ(end.send({}), EINVAL);
}

TEST(QueuePair, ErrorFlushesReceivesAndLaterPosts) {
  Pair pair;
  ASSERT_EQ(pair.a.receive(5), 0);
  ASSERT_EQ(pair.a.toState(IBV_QPS_ERR), 0);
  ASSERT_EQ(pair.a.receive(6), 0);
  ASSERT_EQ(pair.a.send({.flags = 0, .wr_id = 7}), 0);  // flushed sends complete even when unsignalled
  for (uint64_t wr_id : {5U, 6U, 7U}) {
    const ibv_wc wc = pair.a.wait();
    EXPECT_EQ(wc.wr_id, wr_id);
    EXPECT_EQ(wc.status, IBV_WC_WR_FLUSH_ERR);
    EXPECT_EQ(wc.qp_num, pair.a.qp->qp_num);
  }
}

TEST(QueuePair, ResetEmptiesBothQueuesAndTheCompletions) {
  Pair pair;
  ASSERT_EQ(pair.a.receive(5), 0);
  ASSERT_EQ(pair.a.send({.length = 8}), 0);
  ASSERT_EQ(pair.a.toState(IBV_QPS_RESET), 0);
  ibv_wc wc{};
  EXPECT_EQ(pair.a.poll(&wc), 0);
  ASSERT_EQ(pair.b.toState(IBV_QPS_RESET), 0);
  connectEnds(pair.a, pair.b);
  ASSERT_EQ(pair.a.receive(8), 0);
  ASSERT_EQ(pair.b.send({.opcode = IBV_WR_RDMA_WRITE_WITH_IMM}), 0);
  EXPECT_EQ(pair.a.wait().wr_id, 8U);  // not 5
}

TEST(QueuePair, DestroyedQueuePairLeavesNoCompletions) {
  const OpenDevice device;
  const Endpoint shared(device);
  ibv_wc wc{};
  {
    Pair pair(device);
    ibv_qp_init_attr init{};
    init.send_cq = init.recv_cq = shared.cq;
    init.qp_type = IBV_QPT_RC;
    init.cap = {4, 4, 1, 1, 0};
    ibv_qp* qp = createQp(shared.pd, &init);
    std::swap(pair.a.qp, qp);
    pair.a.connect(pair.b.address());
    ASSERT_EQ(pair.a.toState(IBV_QPS_ERR), 0);
    ASSERT_EQ(pair.a.receive(5), 0);
    std::swap(pair.a.qp, qp);
    ASSERT_EQ(destroyQp(qp), 0);
  }
  EXPECT_EQ(ibv_poll_cq(shared.cq, 1, &wc), 0);
}

TEST(QueuePair, NumbersAreNotReusedAtOnce) {
  const OpenDevice device;
  uint32_t before = 0;
  for (int i = 0; i < 4; ++i) {
    const Endpoint end(device);
    EXPECT_NE(end.qp->qp_num, before);
    EXPECT_GT(end.qp->qp_num, 1U);
    before = end.qp->qp_num;
  }
}

}  // namespace
}  // namespace railwise::softdev::test
