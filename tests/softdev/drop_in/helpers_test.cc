// The helpers of the drop-in that need no queue pair: rates, names, kernel copies, /sys, sizes of structs,
// counters.
#include <gtest/gtest.h>
#include <rdma/ib_user_verbs.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "railwise/device.h"
#include "softdev/drop_in/opened.h"

#undef ibv_query_port  // the exported function

extern "C" void ibv_copy_ah_attr_from_kern(ibv_ah_attr* to, const ib_uverbs_ah_attr* from);
extern "C" int ibv_read_sysfs_file(const char* folder, const char* file, char* text, size_t size);
extern "C" int ibv_query_port_speed(ibv_context* context, uint32_t port_num, uint64_t* speed);

namespace railwise::drop_in::test {
namespace {

std::string sysfs(const ibv_context* context, const char* file) {
  char text[128] = "";
  return ibv_read_sysfs_file(context->device->ibdev_path, file, text, sizeof text) > 0 ? text : "none";
}

TEST(FrontHelpers, RatesGoToMultiplesAndMegabits) {
  EXPECT_EQ(ibv_rate_to_mult(IBV_RATE_10_GBPS), 4);
  EXPECT_EQ(ibv_rate_to_mult(IBV_RATE_100_GBPS), -1);
  EXPECT_EQ(mult_to_ibv_rate(48), IBV_RATE_120_GBPS);
  EXPECT_EQ(mult_to_ibv_rate(-1), IBV_RATE_MAX);
  for (int code = IBV_RATE_2_5_GBPS; code <= IBV_RATE_1200_GBPS; ++code) {
    const int mbps = ibv_rate_to_mbps(static_cast<ibv_rate>(code));
    EXPECT_GT(mbps, 0) << code;
    EXPECT_EQ(mbps_to_ibv_rate(mbps), code);
  }
  EXPECT_EQ(ibv_rate_to_mbps(static_cast<ibv_rate>(30)), -1);
  EXPECT_EQ(mbps_to_ibv_rate(1), IBV_RATE_MAX);
}

TEST(FrontHelpers, CodesHaveNames) {
  EXPECT_STREQ(ibv_node_type_str(IBV_NODE_CA), "InfiniBand channel adapter");
  EXPECT_STREQ(ibv_node_type_str(static_cast<ibv_node_type>(0)), "unknown");
  EXPECT_STREQ(ibv_port_state_str(IBV_PORT_ACTIVE), "active");
  EXPECT_STREQ(ibv_port_state_str(static_cast<ibv_port_state>(7)), "invalid state");
  EXPECT_STREQ(ibv_wc_status_str(IBV_WC_SUCCESS), "success");
  EXPECT_NE(ibv_event_type_str(IBV_EVENT_PORT_ERR), nullptr);
}

TEST(FrontHelpers, CopiesTheKernelsAddressHandle) {
  ib_uverbs_ah_attr from{};
  from.grh.dgid[15] = 9;
  from.grh.flow_label = 1;
  from.grh.sgid_index = 2;
  from.grh.hop_limit = 3;
  from.grh.traffic_class = 4;
  from.dlid = 5;
  from.sl = 6;
  from.src_path_bits = 7;
  from.static_rate = 8;
  from.is_global = 1;
  from.port_num = 2;
  ibv_ah_attr to{};
  ibv_copy_ah_attr_from_kern(&to, &from);
  EXPECT_EQ(to.grh.dgid.raw[15], 9);
  EXPECT_EQ(to.grh.flow_label, 1U);
  EXPECT_EQ(to.grh.sgid_index, 2);
  EXPECT_EQ(to.grh.hop_limit, 3);
  EXPECT_EQ(to.grh.traffic_class, 4);
  EXPECT_EQ(to.dlid, 5);
  EXPECT_EQ(to.sl, 6);
  EXPECT_EQ(to.src_path_bits, 7);
  EXPECT_EQ(to.static_rate, 8);
  EXPECT_EQ(to.is_global, 1);
  EXPECT_EQ(to.port_num, 2);
}

TEST(FrontHelpers, OldQueryPortWritesTheOldStructOnly) {
  Opened device("soft0");
  struct {
    ibv_port_attr attr;
    uint8_t behind[64];
  } answer;
  std::memset(&answer, 0xa5, sizeof answer);
  ASSERT_EQ(ibv_query_port(device, 1, reinterpret_cast<_compat_ibv_port_attr*>(&answer.attr)), 0);
  EXPECT_EQ(answer.attr.state, IBV_PORT_ACTIVE);
  EXPECT_EQ(answer.attr.link_layer, IBV_LINK_LAYER_INFINIBAND);
  const auto* bytes = reinterpret_cast<const uint8_t*>(&answer);
  for (size_t i = offsetof(ibv_port_attr, port_cap_flags2); i < sizeof answer; ++i)
    ASSERT_EQ(bytes[i], 0xa5) << i;
}

TEST(FrontHelpers, QueryPortOfTheContextKeepsToTheCallersSize) {
  Opened device("soft0");
  verbs_context* context = verbs_get_ctx(device);
  ASSERT_NE(context, nullptr);
  for (size_t size : {size_t{8}, sizeof(ibv_port_attr), sizeof(ibv_port_attr) + 4}) {
    uint8_t bytes[256];
    std::memset(bytes, 0xa5, sizeof bytes);
    ASSERT_EQ(context->query_port(device, 1, reinterpret_cast<ibv_port_attr*>(bytes), size), 0);
    EXPECT_NE(bytes[0], 0xa5);
    for (size_t i = size; i < sizeof bytes; ++i) ASSERT_EQ(bytes[i], 0xa5) << size << " " << i;
  }
}

TEST(FrontHelpers, SysfsAttributesOfTheDevice) {
  Opened device("soft1");
  EXPECT_EQ(sysfs(device, "node_type"), "1: CA");
  EXPECT_EQ(sysfs(device, "board_id"), "railwise-software");
  EXPECT_EQ(sysfs(device, "node_guid").size(), 19U);
  EXPECT_EQ(sysfs(device, "ports/1/state"), "4: ACTIVE");
  EXPECT_EQ(sysfs(device, "ports/1/link_layer"), "Ethernet");
  EXPECT_EQ(sysfs(device, "ports/1/rate"), "100 Gb/sec");
  EXPECT_EQ(sysfs(device, "ports/1/pkeys/0"), "0xffff");
  EXPECT_EQ(sysfs(device, "ports/1/gids/0").substr(0, 5), "fe80:");
  EXPECT_EQ(sysfs(device, "ports/1/gid_attrs/types/1"), "RoCE v2");
  EXPECT_EQ(sysfs(device, "ports/2/state"), "none");
  EXPECT_EQ(sysfs(device, "ports/1/gids/200"), "none");
  EXPECT_EQ(sysfs(device, "no_such"), "none");
  char small[3];
  EXPECT_EQ(ibv_read_sysfs_file(device.get()->device->ibdev_path, "node_type", small, sizeof small), -1);
}

TEST(FrontHelpers, SpeedsAndKeys) {
  Opened device("soft1");
  uint64_t speed = 0;
  EXPECT_EQ(ibv_query_port_speed(device, 1, &speed), 0);
  EXPECT_EQ(speed, 1000U);
  EXPECT_EQ(ibv_get_pkey_index(device, 1, static_cast<__be16>(0xffff)), 0);
  EXPECT_LT(ibv_get_pkey_index(device, 1, 7), 0);
  EXPECT_EQ(ibv_get_device_index(device.get()->device), -1);
  EXPECT_EQ(ibv_is_fork_initialized(), IBV_FORK_UNNEEDED);
}

TEST(FrontHelpers, AddressHandleOfAReceivedDatagram) {
  Opened device("soft1");
  ibv_gid_entry v2{};
  ASSERT_EQ(ibv_query_gid_ex(device, 1, 1, &v2, 0), 0);
  ASSERT_EQ(v2.gid_type, static_cast<uint32_t>(IBV_GID_TYPE_ROCE_V2));
  ibv_wc wc{};
  wc.wc_flags = IBV_WC_GRH;
  wc.sl = 3;
  ibv_grh grh{};
  grh.version_tclass_flow = htobe32(6U << 28 | 5U << 20 | 77U);
  grh.next_hdr = 17;  // UDP: RoCE v2
  grh.hop_limit = 64;
  grh.dgid = v2.gid;
  grh.sgid.raw[15] = 42;
  ibv_ah_attr attr;
  ASSERT_EQ(ibv_init_ah_from_wc(device, 1, &wc, &grh, &attr), 0);
  EXPECT_EQ(attr.is_global, 1);
  EXPECT_EQ(attr.grh.sgid_index, 1);
  EXPECT_EQ(attr.grh.dgid.raw[15], 42);
  EXPECT_EQ(attr.grh.traffic_class, 5);
  EXPECT_EQ(attr.grh.flow_label, 77U);
  EXPECT_EQ(attr.sl, 3);
  grh.dgid.raw[0] = 0xff;
  EXPECT_EQ(ibv_init_ah_from_wc(device, 1, &wc, &grh, &attr), -1);
  grh.dgid.raw[0] = 0x20;
  EXPECT_EQ(ibv_init_ah_from_wc(device, 1, &wc, &grh, &attr), -1);
}

TEST(FrontHelpers, CountersFitTheCallersStruct) {
  Opened device("soft0");
  struct railwise_device_counts counts;
  std::memset(&counts, 0xa5, sizeof counts);
  EXPECT_EQ(railwise_device_counters(device, &counts, sizeof counts.post_send_calls), 0);
  EXPECT_EQ(counts.post_send_calls, 0U);
  EXPECT_EQ(counts.writes, 0xa5a5a5a5a5a5a5a5U);
  EXPECT_EQ(railwise_device_counters(device, nullptr, 8), EINVAL);
  uint64_t larger[64];
  std::memset(larger, 0xa5, sizeof larger);
  EXPECT_EQ(
      railwise_device_counters(device, reinterpret_cast<railwise_device_counts*>(larger), sizeof larger), 0);
  EXPECT_EQ(larger[63], 0U);
}

TEST(FrontHelpers, CountersOfAQueuePair) {
  Opened device("soft0");
  ibv_pd* pd = ibv_alloc_pd(device);
  ibv_cq* cq = ibv_create_cq(device, 4, nullptr, nullptr, 0);
  ASSERT_TRUE(pd != nullptr && cq != nullptr);
  ibv_qp_init_attr init{};
  init.send_cq = init.recv_cq = cq;
  init.qp_type = IBV_QPT_RC;
  init.cap.max_recv_wr = 4;
  ibv_qp* qp = ibv_create_qp(pd, &init);
  ASSERT_NE(qp, nullptr);
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_INIT;
  attr.port_num = 1;
  EXPECT_EQ(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
            0);
  ibv_recv_wr second{2, nullptr, nullptr, 0};
  ibv_recv_wr first{1, &second, nullptr, 0};
  ibv_recv_wr* bad = nullptr;
  EXPECT_EQ(ibv_post_recv(qp, &first, &bad), 0);
  struct railwise_device_counts counts;
  EXPECT_EQ(railwise_device_qp_counters(qp, &counts, sizeof counts), 0);
  EXPECT_EQ(counts.receives, 2U);
  EXPECT_EQ(counts.post_recv_calls, 1U);
  EXPECT_EQ(counts.writes, 0U);
  EXPECT_EQ(railwise_device_qp_counters(nullptr, &counts, sizeof counts), EINVAL);
  EXPECT_EQ(ibv_destroy_qp(qp), 0);
  EXPECT_EQ(ibv_destroy_cq(cq), 0);
  EXPECT_EQ(ibv_dealloc_pd(pd), 0);
}

TEST(FrontHelpers, ProbesThatProgramsMake) {
  Opened device("soft0");
  errno = 0;
  EXPECT_EQ(ibv_reg_mr_iova2(nullptr, nullptr, 0, 0, 0), nullptr);  // NCCL: is the function there?
  ibv_pd* pd = ibv_alloc_pd(device);
  ASSERT_NE(pd, nullptr);
  errno = 0;
  EXPECT_EQ(ibv_reg_dmabuf_mr(pd, 0, 4096, 0, -1, 0), nullptr);
  EXPECT_TRUE(errno == EBADF || errno == EOPNOTSUPP) << errno;
  EXPECT_EQ(ibv_dealloc_pd(pd), 0);
}

TEST(FrontHelpers, CloseTakesWhatIsLeft) {
  for (int round = 0; round < 3; ++round) {
    Opened device("soft0");
    static ibv_pd* pds[3];  // reachable: the leak checker sees a leak otherwise, as it is
    ibv_pd* pd = pds[round] = ibv_alloc_pd(device);
    ibv_cq* cq = ibv_create_cq(device, 8, nullptr, nullptr, 0);
    ibv_qp_init_attr init{};
    init.send_cq = init.recv_cq = cq;
    init.qp_type = IBV_QPT_RC;
    init.cap = {8, 8, 1, 1, 0};
    ASSERT_NE(ibv_create_qp(pd, &init), nullptr);
  }  // the destructor expects that ibv_close_device succeeds
}

}  // namespace
}  // namespace railwise::drop_in::test
