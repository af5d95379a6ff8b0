// A send queue that is drained (SQD), and the first message in RTR.
#include <gtest/gtest.h>

#include <cerrno>

#include "softdev/endpoint.h"

namespace railwise::softdev::test {
namespace {

int drain(Endpoint& end, bool notify) {
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_SQD;
  attr.en_sqd_async_notify = notify ? 1 : 0;
  return modifyQp(end.qp, &attr, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY);
}

void expectEvent(ibv_context* context, ibv_event_type type, const ibv_qp* qp) {
  ibv_async_event event{};
  ASSERT_EQ(getAsyncEvent(context, &event), 0);
  EXPECT_EQ(event.event_type, type);
  EXPECT_EQ(event.element.qp, qp);
  ackAsyncEvent(&event);
}

bool draining(const Endpoint& end) {
  ibv_qp_attr attr{};
  ibv_qp_init_attr init{};
  EXPECT_EQ(queryQp(end.qp, &attr, IBV_QP_STATE, &init), 0);
  return attr.sq_draining != 0;
}

TEST(Drain, AnEmptyQueueIsDrainedAtOnce) {
  const OpenDevice device;
  Pair pair(device);
  ASSERT_EQ(drain(pair.a, true), 0);
  EXPECT_EQ(pair.a.state(), IBV_QPS_SQD);
  expectEvent(device, IBV_EVENT_SQ_DRAINED, pair.a.qp);
  EXPECT_FALSE(draining(pair.a));
}

TEST(Drain, RequestsWaitUntilItGoesOn) {
  Pair pair;
  *pair.a.word(0) = 7;
  ASSERT_EQ(drain(pair.a, false), 0);
  ASSERT_EQ(pair.a.send({.length = 8}), 0);
  ibv_wc wc;
  EXPECT_EQ(pair.a.poll(&wc), 0);
  EXPECT_EQ(*pair.b.word(0), 0U);
  *pair.b.word(64) = 9;
  ASSERT_EQ(pair.b.send({.offset = 64, .length = 8, .remote_offset = 64}), 0);  // receiving goes on
  EXPECT_EQ(pair.b.wait().status, IBV_WC_SUCCESS);
  EXPECT_EQ(*pair.a.word(64), 9U);
  ASSERT_EQ(pair.a.toState(IBV_QPS_RTS), 0);
  EXPECT_EQ(pair.a.wait().status, IBV_WC_SUCCESS);
  EXPECT_EQ(*pair.b.word(0), 7U);
}

TEST(Drain, WhatHasBegunIsFinished) {
  const OpenDevice device;
  Pair pair(device);
  ASSERT_EQ(pair.a.send({.opcode = IBV_WR_SEND, .wr_id = 1}), 0);  // waits for a receive
  ASSERT_EQ(pair.a.send({.opcode = IBV_WR_SEND, .wr_id = 2}), 0);
  ASSERT_EQ(drain(pair.a, true), 0);
  EXPECT_TRUE(draining(pair.a));
  ASSERT_EQ(pair.b.receive(1), 0);
  ASSERT_EQ(pair.b.receive(2), 0);
  EXPECT_EQ(pair.a.wait().wr_id, 1U);
  expectEvent(device, IBV_EVENT_SQ_DRAINED, pair.a.qp);
  ibv_wc wc;
  EXPECT_EQ(pair.a.poll(&wc), 0);
  ASSERT_EQ(pair.a.toState(IBV_QPS_RTS), 0);
  EXPECT_EQ(pair.a.wait().wr_id, 2U);
}

TEST(Drain, AttributesMayChangeMeanwhile) {
  Pair pair;
  ASSERT_EQ(drain(pair.a, false), 0);
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_SQD;
  attr.timeout = 9;
  attr.retry_cnt = 3;
  EXPECT_EQ(modifyQp(pair.a.qp, &attr, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT), 0);
  EXPECT_EQ(modifyQp(pair.a.qp, &attr, IBV_QP_STATE | IBV_QP_ALT_PATH), EINVAL);
  EXPECT_EQ(modifyQp(pair.a.qp, &attr, IBV_QP_STATE | IBV_QP_CAP), EINVAL);
  ASSERT_EQ(pair.a.toState(IBV_QPS_RTS), 0);
  attr.cur_qp_state = IBV_QPS_SQD;
  EXPECT_EQ(modifyQp(pair.a.qp, &attr, IBV_QP_CUR_STATE), EINVAL);
}

TEST(Drain, TheFirstMessageInRtrIsAnEvent) {
  const OpenDevice device;
  Endpoint a(device);
  Endpoint b(device);
  a.connect(b.address());
  ASSERT_EQ(b.toInit(), 0);
  ASSERT_EQ(b.toRtr(a.address()), 0);
  for (int i = 0; i < 2; ++i) ASSERT_EQ(a.send({.length = 8}), 0);
  expectEvent(device, IBV_EVENT_COMM_EST, b.qp);
  ASSERT_EQ(b.toRts(), 0);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(a.wait().status, IBV_WC_SUCCESS);
}

TEST(Drain, ReadsNeedResources) {
  const OpenDevice device;
  Endpoint a(device);
  Endpoint b(device);
  a.connect(b.address());
  ASSERT_EQ(b.toInit(), 0);
  ibv_qp_attr attr = b.rtrAttr(a.address());
  attr.max_dest_rd_atomic = 0;
  ASSERT_EQ(modifyQp(b.qp, &attr,
                     IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                         IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER),
            0);
  EXPECT_EQ(sendAndWait(a, {.opcode = IBV_WR_RDMA_READ, .length = 8}), IBV_WC_REM_INV_REQ_ERR);
}

}  // namespace
}  // namespace railwise::softdev::test
