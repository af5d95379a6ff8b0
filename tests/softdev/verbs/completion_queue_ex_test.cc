// Extended completion queues: the functions that read a completion, time stamps, and what creation refuses.
#include <gtest/gtest.h>

#include <cerrno>

#include "base/clock.h"
#include "softdev/endpoint.h"
#include "softdev/fault_helpers.h"

namespace railwise::softdev::test {
namespace {

constexpr uint64_t kStamped = uint64_t{IBV_WC_STANDARD_FLAGS} | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP |
                              IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK;

ibv_cq_ex* makeCq(ibv_context* context, uint32_t cqe, uint64_t wc_flags, uint32_t flags = 0) {
  ibv_cq_init_attr_ex attr{};
  attr.cqe = cqe;
  attr.wc_flags = wc_flags;
  attr.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS;
  attr.flags = flags;
  return createCqEx(context, &attr);
}

// An endpoint whose queue pair completes to an extended CQ.
struct Extended {
  Extended(ibv_context* context, uint32_t cqe, uint64_t wc_flags, uint32_t flags = 0) : end(context) {
    cq = makeCq(context, cqe, wc_flags, flags);
    destroyQp(end.qp);
    destroyCq(end.cq);
    end.cq = ibv_cq_ex_to_cq(cq);
    ibv_qp_init_attr init{};
    init.send_cq = init.recv_cq = end.cq;
    init.qp_type = IBV_QPT_RC;
    init.cap = {32, 32, 1, 1, 0};
    end.qp = createQp(end.pd, &init);
    end.connect(end.address());
  }
  Endpoint end;
  ibv_cq_ex* cq;
};

TEST(CompletionQueueEx, ReadsEveryField) {
  const OpenDevice device;
  Extended to_itself(device, 16, kStamped);
  ibv_cq_ex* cq = to_itself.cq;
  ibv_poll_cq_attr none{};
  EXPECT_EQ(ibv_start_poll(cq, &none), ENOENT);
  ASSERT_EQ(to_itself.end.receive(5), 0);
  ASSERT_EQ(
      to_itself.end.send({.opcode = IBV_WR_RDMA_WRITE_WITH_IMM, .length = 24, .flags = 0, .imm = 0x12345678}),
      0);
  ASSERT_EQ(to_itself.end.send({.length = 8, .wr_id = 6}), 0);
  ASSERT_EQ(ibv_start_poll(cq, &none), 0);
  EXPECT_EQ(cq->wr_id, 5U);
  EXPECT_EQ(cq->status, IBV_WC_SUCCESS);
  EXPECT_EQ(ibv_wc_read_opcode(cq), IBV_WC_RECV_RDMA_WITH_IMM);
  EXPECT_EQ(ibv_wc_read_byte_len(cq), 24U);
  EXPECT_EQ(ibv_wc_read_imm_data(cq), 0x12345678U);
  EXPECT_EQ(ibv_wc_read_wc_flags(cq), unsigned{IBV_WC_WITH_IMM});
  EXPECT_EQ(ibv_wc_read_qp_num(cq), to_itself.end.qp->qp_num);
  EXPECT_EQ(ibv_wc_read_src_qp(cq), to_itself.end.qp->qp_num);
  EXPECT_EQ(ibv_wc_read_vendor_err(cq), 0U);
  const uint64_t first = ibv_wc_read_completion_ts(cq);
  const uint64_t wall = ibv_wc_read_completion_wallclock_ns(cq);
  ASSERT_EQ(ibv_next_poll(cq), 0);
  EXPECT_EQ(cq->wr_id, 6U);
  EXPECT_EQ(ibv_wc_read_opcode(cq), IBV_WC_RDMA_WRITE);
  EXPECT_GE(ibv_wc_read_completion_ts(cq), first);
  EXPECT_EQ(ibv_next_poll(cq), ENOENT);
  ibv_end_poll(cq);
  ibv_values_ex now{};
  now.comp_mask = IBV_VALUES_MASK_RAW_CLOCK;
  ASSERT_EQ(ibv_query_rt_values_ex(device, &now), 0);
  const uint64_t raw =
      static_cast<uint64_t>(now.raw_clock.tv_sec) * 1000000000 + static_cast<uint64_t>(now.raw_clock.tv_nsec);
  EXPECT_GT(first, 0U);
  EXPECT_LE(first, raw);
  EXPECT_GT(wall, 0U);
}

TEST(CompletionQueueEx, IsAnOrdinaryOneToo) {
  const OpenDevice device;
  Extended to_itself(device, 16, IBV_WC_STANDARD_FLAGS, IBV_CREATE_CQ_ATTR_SINGLE_THREADED);
  ASSERT_EQ(to_itself.end.send({.length = 8}), 0);
  EXPECT_EQ(to_itself.end.wait().opcode, IBV_WC_RDMA_WRITE);
}

TEST(CompletionQueueEx, IgnoredOverrunLosesCompletionsOnly) {
  const OpenDevice device;
  Extended to_itself(device, 2, 0, IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN);
  for (int i = 0; i < 3; ++i) ASSERT_EQ(to_itself.end.send({.length = 8}), 0);
  EXPECT_EQ(to_itself.end.wait().status, IBV_WC_SUCCESS);
  EXPECT_EQ(to_itself.end.wait().status, IBV_WC_SUCCESS);
  ibv_wc wc;
  EXPECT_EQ(to_itself.end.poll(&wc), 0);
}

TEST(CompletionQueueEx, CreationRefusesWhatItCannot) {
  const OpenDevice device;
  EXPECT_EQ(makeCq(device, 4, IBV_WC_EX_WITH_TM_INFO), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
  EXPECT_EQ(makeCq(device, 4, 0, 1U << 30), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
  EXPECT_EQ(makeCq(device, 0, 0), nullptr);
  EXPECT_EQ(errno, EINVAL);
}

TEST(CompletionQueueEx, ExtendedAttributesKeepToTheCallersSize) {
  const OpenDevice device;
  struct {
    ibv_device_attr_ex attr;
    uint64_t beyond;
  } answer{};
  answer.beyond = 7;
  ASSERT_EQ(queryDeviceEx(device, nullptr, &answer.attr, sizeof answer.attr), 0);
  EXPECT_EQ(answer.attr.phys_port_cnt_ex, 1U);
  EXPECT_EQ(answer.attr.hca_core_clock, 1000000U);
  EXPECT_EQ(answer.beyond, 7U);
  answer.attr.hca_core_clock = 5;
  const size_t old = offsetof(ibv_device_attr_ex, hca_core_clock);
  ASSERT_EQ(queryDeviceEx(device, nullptr, &answer.attr, old), 0);
  EXPECT_EQ(answer.attr.hca_core_clock, 5U);
  ibv_query_device_ex_input input{1};
  EXPECT_EQ(queryDeviceEx(device, &input, &answer.attr, sizeof answer.attr), EINVAL);
}

TEST(CompletionQueueEx, OthersPollWhileAFaultRuleDelaysOne) {
  const OpenDevice device;
  Extended to_itself(device, 16, 0);
  addRule(device, "verb=poll_cq nth=1 delay=60s");
  ibv_poll_cq_attr none{};
  const HeldUp polling(device, [&] { EXPECT_EQ(ibv_start_poll(to_itself.cq, &none), ENOENT); });
  ASSERT_EQ(to_itself.end.send({.length = 8, .wr_id = 6}), 0);
  ASSERT_EQ(ibv_start_poll(to_itself.cq, &none), 0);
  EXPECT_EQ(to_itself.cq->wr_id, 6U);
  addRule(device, "verb=poll_cq nth=1 errno=EIO");
  EXPECT_EQ(ibv_next_poll(to_itself.cq), ENOENT) << "no rule is asked with the queue locked";
  ibv_end_poll(to_itself.cq);
  EXPECT_EQ(ibv_start_poll(to_itself.cq, &none), EIO);
}

}  // namespace
}  // namespace railwise::softdev::test
