// Queue pairs with send operations (ibv_wr_*), and the other extended attributes of creation.
#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "softdev/endpoint.h"
#include "softdev/fault_helpers.h"

namespace railwise::softdev::test {
namespace {

constexpr uint64_t kAll = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM |
                          IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_RDMA_READ |
                          IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD |
                          IBV_QP_EX_WITH_ATOMIC_WRITE;

ibv_qp_init_attr_ex extendedInit(const Endpoint& end, uint64_t operations) {
  ibv_qp_init_attr_ex init{};
  init.send_cq = init.recv_cq = end.cq;
  init.qp_type = IBV_QPT_RC;
  init.cap = {4, 4, 4, 4, 64};
  init.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
  init.pd = end.pd;
  init.send_ops_flags = operations;
  return init;
}

// An end whose QP has send operations, connected to a plain one.
struct Builder {
  explicit Builder(ibv_context* context, uint64_t operations = kAll)
      : a(context, options()), b(context, options()) {
    ibv_qp_init_attr_ex init = extendedInit(a, operations);
    destroyQp(a.qp);
    a.qp = createQpEx(context, &init);
    connectEnds(a, b);
    qp = qpToQpEx(a.qp);
    qp->wr_id = 1;
    qp->wr_flags = IBV_SEND_SIGNALED;
  }
  static Options options() {
    Options options;
    options.mr_access |= IBV_ACCESS_REMOTE_ATOMIC;
    options.qp_access |= IBV_ACCESS_REMOTE_ATOMIC;
    return options;
  }
  void setSge(uint64_t offset, uint32_t length) {
    ibv_wr_set_sge(qp, a.mr->lkey, reinterpret_cast<uint64_t>(a.buffer.data()) + offset, length);
  }

  Endpoint a;
  Endpoint b;
  ibv_qp_ex* qp;
};

TEST(SendOperations, EveryOperation) {
  const OpenDevice device;
  Builder ends(device);
  ibv_qp_ex* qp = ends.qp;
  *ends.a.word(0) = 11;
  *ends.b.word(64) = 5;
  ASSERT_EQ(ends.b.receive(8, 128, 64), 0);
  const uint64_t remote = ends.b.address().memory;
  const uint32_t rkey = ends.b.mr->rkey;

  ibv_wr_start(qp);
  ibv_wr_rdma_write(qp, rkey, remote);
  ends.setSge(0, 8);
  ibv_wr_send_imm(qp, 77);
  ends.setSge(0, 8);
  ibv_wr_rdma_read(qp, rkey, remote + 64);
  ends.setSge(8, 8);
  ibv_wr_atomic_fetch_add(qp, rkey, remote + 64, 3);
  ends.setSge(16, 8);
  EXPECT_EQ(*ends.b.word(0), 0U);  // nothing happens before it is complete
  ASSERT_EQ(ibv_wr_complete(qp), 0);
  for (ibv_wc_opcode opcode : {IBV_WC_RDMA_WRITE, IBV_WC_SEND, IBV_WC_RDMA_READ, IBV_WC_FETCH_ADD}) {
    const ibv_wc wc = ends.a.wait();
    EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
    EXPECT_EQ(wc.opcode, opcode);
  }
  EXPECT_EQ(*ends.b.word(0), 11U);
  EXPECT_EQ(ends.b.wait().imm_data, 77U);
  EXPECT_EQ(*ends.b.word(128), 11U);
  EXPECT_EQ(*ends.a.word(8), 5U);
  EXPECT_EQ(*ends.a.word(16), 5U);
  EXPECT_EQ(*ends.b.word(64), 8U);

  ASSERT_EQ(ends.b.receive(9), 0);
  const uint64_t value = 99;
  ibv_wr_start(qp);
  ibv_wr_atomic_cmp_swp(qp, rkey, remote + 64, 8, 21);
  ends.setSge(16, 8);
  ibv_wr_atomic_write(qp, rkey, remote + 72, &value);
  ibv_wr_rdma_write_imm(qp, rkey, remote, 78);
  ASSERT_EQ(ibv_wr_complete(qp), 0);
  for (ibv_wc_opcode opcode : {IBV_WC_COMP_SWAP, IBV_WC_ATOMIC_WRITE, IBV_WC_RDMA_WRITE})
    EXPECT_EQ(ends.a.wait().opcode, opcode);
  EXPECT_EQ(*ends.b.word(64), 21U);
  EXPECT_EQ(*ends.b.word(72), 99U);
  EXPECT_EQ(ends.b.wait().imm_data, 78U);
}

TEST(SendOperations, InlineDataIsTakenWhenItIsSet) {
  const OpenDevice device;
  Builder ends(device);
  char first[] = "inline, ";
  char second[] = "in two pieces";
  const ibv_data_buf pieces[] = {{first, std::strlen(first)}, {second, sizeof second}};
  ibv_wr_start(ends.qp);
  ibv_wr_rdma_write(ends.qp, ends.b.mr->rkey, ends.b.address().memory);
  ibv_wr_set_inline_data_list(ends.qp, 2, pieces);
  std::memset(first, 0, sizeof first);
  std::memset(second, 0, sizeof second);
  ASSERT_EQ(ibv_wr_complete(ends.qp), 0);
  EXPECT_EQ(ends.a.wait().status, IBV_WC_SUCCESS);
  EXPECT_STREQ(reinterpret_cast<const char*>(ends.b.buffer.data()), "inline, in two pieces");
}

TEST(SendOperations, AllOrNothing) {
  const OpenDevice device;
  Builder ends(device);
  std::vector<std::byte> large(65);
  const auto write = [&] {
    ibv_wr_rdma_write(ends.qp, ends.b.mr->rkey, ends.b.address().memory);
    ends.setSge(0, 8);
  };
  ibv_wr_start(ends.qp);
  write();
  write();
  ibv_wr_set_inline_data(ends.qp, large.data(), large.size());
  EXPECT_EQ(ibv_wr_complete(ends.qp), EINVAL);
  ibv_wr_start(ends.qp);
  for (int i = 0; i < 5; ++i) write();  // the queue has room for four
  EXPECT_EQ(ibv_wr_complete(ends.qp), ENOMEM);
  ibv_wr_start(ends.qp);
  ends.setSge(0, 8);  // of no request
  EXPECT_EQ(ibv_wr_complete(ends.qp), EINVAL);
  ibv_wr_start(ends.qp);
  write();
  ibv_wr_abort(ends.qp);
  ibv_wc wc;
  EXPECT_EQ(ends.a.poll(&wc), 0);
  ibv_wr_start(ends.qp);
  for (int i = 0; i < 4; ++i) write();
  EXPECT_EQ(ibv_wr_complete(ends.qp), 0);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(ends.a.wait().status, IBV_WC_SUCCESS);
}

TEST(SendOperations, WhatWasNotAskedForFails) {
  const OpenDevice device;
  Builder ends(device, IBV_QP_EX_WITH_SEND);
  ibv_wr_start(ends.qp);
  ibv_wr_rdma_write(ends.qp, 0, 0);
  EXPECT_EQ(ibv_wr_complete(ends.qp), EOPNOTSUPP);
  ibv_wr_start(ends.qp);
  ibv_wr_local_inv(ends.qp, 1);
  EXPECT_EQ(ibv_wr_complete(ends.qp), EOPNOTSUPP);
}

TEST(SendOperations, CreationRefusesWhatItCannot) {
  const OpenDevice device;
  const Endpoint end(device);
  EXPECT_EQ(qpToQpEx(end.qp), nullptr);
  ibv_qp_init_attr_ex init = extendedInit(end, IBV_QP_EX_WITH_LOCAL_INV);
  EXPECT_EQ(createQpEx(device, &init), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
  init = extendedInit(end, kAll);
  init.qp_type = IBV_QPT_UD;
  EXPECT_EQ(createQpEx(device, &init), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
  init = extendedInit(end, kAll);
  init.comp_mask |= IBV_QP_INIT_ATTR_XRCD;
  EXPECT_EQ(createQpEx(device, &init), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
  init = extendedInit(end, kAll);
  init.comp_mask = IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
  EXPECT_EQ(createQpEx(device, &init), nullptr);
  EXPECT_EQ(errno, EINVAL);
}

TEST(SendOperations, OthersPostWhileAFaultRuleDelaysOne) {
  const OpenDevice device;
  Builder ends(device);
  const auto write = [&](uint64_t wr_id) {
    ibv_wr_start(ends.qp);
    ends.qp->wr_id = wr_id;
    ibv_wr_rdma_write(ends.qp, ends.b.mr->rkey, ends.b.address().memory + 8 * wr_id);
    const uint64_t value = 100 + wr_id;
    ibv_wr_set_inline_data(ends.qp, const_cast<uint64_t*>(&value), sizeof value);
    EXPECT_EQ(ibv_wr_complete(ends.qp), 0);
  };
  addRule(device, "verb=post_send nth=1 delay=60s");
  {
    const HeldUp posting(device, [&] { write(1); });
    write(2);
    EXPECT_EQ(ends.a.wait().wr_id, 2U);
    EXPECT_EQ(__atomic_load_n(ends.b.word(8), __ATOMIC_RELAXED), 0U);
    EXPECT_EQ(*ends.b.word(16), 102U);
  }
  EXPECT_EQ(ends.a.wait().wr_id, 1U);
  EXPECT_EQ(*ends.b.word(8), 101U);
  addRule(device, "verb=post_send nth=1 errno=ENOBUFS");
  ibv_wr_start(ends.qp);
  ibv_wr_rdma_write(ends.qp, ends.b.mr->rkey, ends.b.address().memory);
  ends.setSge(0, 8);
  EXPECT_EQ(ibv_wr_complete(ends.qp), ENOBUFS);
  write(3);
  EXPECT_EQ(ends.a.wait().wr_id, 3U);
}

}  // namespace
}  // namespace railwise::softdev::test
