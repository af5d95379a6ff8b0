// Shared receive queues: receives for several queue pairs, their limit, and what errors do to them.
#include <gtest/gtest.h>

#include <cerrno>
#include <memory>

#include "softdev/endpoint.h"
#include "softdev/peer_process.h"

namespace railwise::softdev::test {
namespace {

// Endpoints with one SRQ, whose receives are 64 bytes at 64 * wr_id of the first one's buffer.
struct Shared {
  Shared(ibv_context* device, int count, uint32_t max_wr = 16) : context(device) {
    for (int i = 0; i < count; ++i) ends.push_back(std::make_unique<Endpoint>(device));
    ibv_srq_init_attr init{};
    init.attr = {max_wr, 2, 0};
    srq = createSrq(ends[0]->pd, &init);
    for (auto& end : ends) {
      destroyQp(end->qp);
      ibv_qp_init_attr qp_init{};
      qp_init.send_cq = qp_init.recv_cq = end->cq;
      qp_init.srq = srq;
      qp_init.qp_type = IBV_QPT_RC;
      qp_init.cap = {16, 0, 2, 0, 0};
      end->qp = createQp(end->pd, &qp_init);
    }
  }
  ~Shared() {
    ends[0].swap(first);  // it has the SRQ's PD
    ends.clear();
    destroyQp(first->qp);
    EXPECT_EQ(destroySrq(srq), 0);
    ibv_qp_init_attr init{};
    init.send_cq = init.recv_cq = first->cq;
    init.qp_type = IBV_QPT_RC;
    first->qp = createQp(first->pd, &init);
  }
  int receive(uint64_t wr_id) {
    ibv_sge sge{reinterpret_cast<uint64_t>(ends[0]->buffer.data()) + 64 * wr_id, 64, ends[0]->mr->lkey};
    ibv_recv_wr wr{wr_id, nullptr, &sge, 1};
    ibv_recv_wr* bad = nullptr;
    return ibv_post_srq_recv(srq, &wr, &bad);
  }

  ibv_context* context;
  std::vector<std::unique_ptr<Endpoint>> ends;
  std::unique_ptr<Endpoint> first;
  ibv_srq* srq;
};

TEST(SharedReceiveQueue, ServesSeveralQueuePairs) {
  const OpenDevice device;
  Shared shared(device, 2);
  Endpoint one(device);
  Endpoint two(device);
  one.connect(shared.ends[0]->address());
  shared.ends[0]->connect(one.address());
  two.connect(shared.ends[1]->address());
  shared.ends[1]->connect(two.address());
  for (uint64_t i = 1; i <= 3; ++i) ASSERT_EQ(shared.receive(i), 0);
  *one.word(0) = 111;
  *two.word(0) = 222;
  ASSERT_EQ(one.send({.opcode = IBV_WR_SEND, .length = 8}), 0);
  ASSERT_EQ(two.send({.opcode = IBV_WR_SEND_WITH_IMM, .length = 8, .imm = 9}), 0);
  ASSERT_EQ(one.send({.opcode = IBV_WR_RDMA_WRITE_WITH_IMM, .length = 8}), 0);
  ibv_wc wc = shared.ends[0]->wait();
  EXPECT_EQ(wc.wr_id, 1U);
  EXPECT_EQ(wc.qp_num, shared.ends[0]->qp->qp_num);
  wc = shared.ends[1]->wait();
  EXPECT_EQ(wc.wr_id, 2U);
  EXPECT_EQ(wc.imm_data, 9U);
  EXPECT_EQ(shared.ends[0]->wait().wr_id, 3U);
  EXPECT_EQ(*shared.ends[0]->word(64), 111U);
  EXPECT_EQ(*shared.ends[0]->word(128), 222U);
}

TEST(SharedReceiveQueue, ASenderWaitsForAReceive) {
  const OpenDevice device;
  Shared shared(device, 1);
  Endpoint sender(device);
  sender.connect(shared.ends[0]->address());
  shared.ends[0]->connect(sender.address());
  ASSERT_EQ(sender.send({.opcode = IBV_WR_SEND, .length = 8}), 0);
  ibv_wc wc;
  EXPECT_EQ(sender.poll(&wc), 0);
  ASSERT_EQ(shared.receive(1), 0);
  EXPECT_EQ(sender.wait().status, IBV_WC_SUCCESS);
  EXPECT_EQ(shared.ends[0]->wait().wr_id, 1U);
}

TEST(SharedReceiveQueue, AnotherProcessTakesReceives) {
  const OpenDevice device;
  PeerProcess peer(device.fabric());
  Shared shared(device, 1, 4);
  shared.ends[0]->connect(peer.address());
  peer.connect(shared.ends[0]->address());
  peer.setWord(0, 4711);
  for (uint64_t i = 1; i <= 200; ++i) {
    ASSERT_EQ(shared.receive(i % 100 + 1), 0);
    ASSERT_EQ(peer.send({.opcode = IBV_WR_SEND, .length = 8}), 0);
    EXPECT_EQ(shared.ends[0]->wait().wr_id, i % 100 + 1);
    EXPECT_EQ(peer.wait().status, IBV_WC_SUCCESS);
    EXPECT_EQ(*shared.ends[0]->word(64 * (i % 100 + 1)), 4711U);
  }
}

TEST(SharedReceiveQueue, TellsWhenFewAreLeft) {
  const OpenDevice device;
  Shared shared(device, 1);
  Endpoint sender(device);
  sender.connect(shared.ends[0]->address());
  shared.ends[0]->connect(sender.address());
  for (uint64_t i = 1; i <= 4; ++i) ASSERT_EQ(shared.receive(i), 0);
  ibv_srq_attr attr{0, 0, 3};
  ASSERT_EQ(modifySrq(shared.srq, &attr, IBV_SRQ_LIMIT), 0);
  ASSERT_EQ(querySrq(shared.srq, &attr), 0);
  EXPECT_EQ(attr.srq_limit, 3U);
  EXPECT_EQ(attr.max_wr, 16U);
  for (int i = 0; i < 2; ++i) ASSERT_EQ(sender.send({.opcode = IBV_WR_SEND}), 0);
  ibv_async_event event{};
  ASSERT_EQ(getAsyncEvent(device, &event), 0);
  EXPECT_EQ(event.event_type, IBV_EVENT_SRQ_LIMIT_REACHED);
  EXPECT_EQ(event.element.srq, shared.srq);
  ackAsyncEvent(&event);
  ASSERT_EQ(querySrq(shared.srq, &attr), 0);
  EXPECT_EQ(attr.srq_limit, 0U);
}

TEST(SharedReceiveQueue, TheLastRequestOfAFailedQueuePair) {
  const OpenDevice device;
  Shared shared(device, 1);
  shared.ends[0]->connect(shared.ends[0]->address());
  ASSERT_EQ(shared.receive(1), 0);
  ASSERT_EQ(shared.ends[0]->toState(IBV_QPS_ERR), 0);
  ibv_async_event event{};
  ASSERT_EQ(getAsyncEvent(device, &event), 0);
  EXPECT_EQ(event.event_type, IBV_EVENT_QP_LAST_WQE_REACHED);
  ackAsyncEvent(&event);
  ibv_wc wc;
  EXPECT_EQ(shared.ends[0]->poll(&wc), 0);  // the receive stays in the SRQ
}

TEST(SharedReceiveQueue, BadRequests) {
  const OpenDevice device;
  Shared shared(device, 1, 2);
  ASSERT_EQ(shared.receive(1), 0);
  ASSERT_EQ(shared.receive(2), 0);
  EXPECT_EQ(shared.receive(3), ENOMEM);
  EXPECT_EQ(destroySrq(shared.srq), EBUSY);
  ibv_srq_attr attr{8, 0, 3};
  EXPECT_EQ(modifySrq(shared.srq, &attr, IBV_SRQ_MAX_WR), EINVAL);
  EXPECT_EQ(modifySrq(shared.srq, &attr, IBV_SRQ_LIMIT), EINVAL);
  ibv_recv_wr wr{};
  ibv_recv_wr* bad = nullptr;
  EXPECT_NE(ibv_post_recv(shared.ends[0]->qp, &wr, &bad), 0);
  ibv_srq_init_attr init{};
  EXPECT_EQ(createSrq(shared.ends[0]->pd, &init), nullptr);
  EXPECT_EQ(errno, EINVAL);
}

}  // namespace
}  // namespace railwise::softdev::test
