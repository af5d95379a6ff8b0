#include <endian.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "softdev/endpoint.h"
#include "tests/ok.h"

namespace railwise::softdev::test {
namespace {

// Destroyed after every other object with static storage, and says by the exit status whether the device
// still has its name.
struct LastToGo {
  ibv_device* device = nullptr;
  ~LastToGo() {
    if (device != nullptr) _exit(std::strcmp(getDeviceName(device), "lasting") == 0 ? 0 : 1);
  }
};
__attribute__((init_priority(101))) LastToGo last_to_go;

void exitWithAnOpenDevice() {
  const OpenDevice device("name=lasting");
  last_to_go.device = static_cast<ibv_context*>(device)->device;
  exit(0);
}

// Threads of the plugin, and NCCL's, may still run then.
TEST(DeviceDeathTest, HasItsNameWhileTheProcessExits) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(exitWithAnOpenDevice(), testing::ExitedWithCode(0), "");
}

TEST(Device, ListHasTheConfiguredDevices) {
  ASSERT_OK(configure("count=2;name=rail,pci=/sys/devices/x"));
  int count = -1;
  ibv_device** list = getDeviceList(&count);
  ASSERT_NE(list, nullptr);
  ASSERT_EQ(count, 3);
  EXPECT_STREQ(getDeviceName(list[0]), "soft0");
  EXPECT_STREQ(getDeviceName(list[2]), "rail");
  EXPECT_STREQ(pciPath(list[0]), "");
  EXPECT_STREQ(pciPath(list[2]), "/sys/devices/x");
  EXPECT_EQ(list[3], nullptr);
  EXPECT_EQ(list[0]->node_type, IBV_NODE_CA);
  freeDeviceList(list);
}

TEST(Device, ConfigureWhileOpen) {
  const OpenDevice device("name=a");
  const std::string same = "fabric=" + device.fabric() + ";name=a";
  EXPECT_OK(configure(same.c_str()));
  EXPECT_EQ(configure("name=b").code, Code::kInvalidUsage);
}

TEST(Device, ConfigureChangesTheDevicesAndAMistakeDoesNot) {
  ASSERT_OK(configure("name=first"));
  EXPECT_FALSE(configure("name=second,mtu=1").ok());
  ibv_device** list = getDeviceList(nullptr);
  EXPECT_STREQ(getDeviceName(list[0]), "first");
  freeDeviceList(list);
}

TEST(Device, QueryDeviceTellsTheLimits) {
  const OpenDevice device("max_qp=3,guid=0102030405060708");
  ibv_device_attr attr{};
  ASSERT_EQ(queryDevice(device, &attr), 0);
  EXPECT_EQ(attr.max_qp, 3);
  EXPECT_EQ(be64toh(attr.node_guid), 0x0102030405060708ULL);
  EXPECT_EQ(attr.phys_port_cnt, 1);
  EXPECT_EQ(attr.atomic_cap, IBV_ATOMIC_HCA);
  EXPECT_GT(attr.max_srq, 0);
}

TEST(Device, WhatTheConfigurationTakesAwayIsRefused) {
  const OpenDevice device("max_sge=2,max_cqe=8,ece=off,atomics=off,link=ib");
  ibv_device_attr attr{};
  ASSERT_EQ(queryDevice(device, &attr), 0);
  EXPECT_EQ(attr.max_sge, 2);
  EXPECT_EQ(attr.max_cqe, 8);
  EXPECT_EQ(attr.atomic_cap, IBV_ATOMIC_NONE);
  EXPECT_EQ(createCq(device, 9, nullptr, nullptr, 0), nullptr);
  ibv_cq* cq = createCq(device, 8, nullptr, nullptr, 0);
  ASSERT_NE(cq, nullptr);
  EXPECT_EQ(resizeCq(cq, 9), EINVAL);
  ibv_pd* pd = allocPd(device);
  ibv_qp_init_attr init{};
  init.send_cq = init.recv_cq = cq;
  init.qp_type = IBV_QPT_RC;
  init.cap = {1, 1, 3, 1, 0};
  EXPECT_EQ(createQp(pd, &init), nullptr);
  init.cap.max_send_sge = 2;
  ibv_qp* qp = createQp(pd, &init);
  ASSERT_NE(qp, nullptr);
  ibv_ece ece{};
  EXPECT_EQ(queryEce(qp, &ece), EOPNOTSUPP);
  EXPECT_EQ(setEce(qp, &ece), EOPNOTSUPP);
  EXPECT_EQ(destroyQp(qp), 0);
  EXPECT_EQ(deallocPd(pd), 0);
  EXPECT_EQ(destroyCq(cq), 0);
}

TEST(Device, WithoutDmaBufNoneIsTaken) {
  const OpenDevice device("dmabuf=off");
  ibv_pd* pd = allocPd(device);
  errno = 0;
  EXPECT_EQ(regDmabufMr(pd, 0, 0, 0, -1, 0), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP) << "as a kernel without dma-buf answers";
  EXPECT_EQ(deallocPd(pd), 0);
}

TEST(Device, MaxQpIsEnforced) {
  const OpenDevice device("max_qp=2");
  const Endpoint first(device);
  const Endpoint second(device);
  ibv_qp_init_attr init{};
  init.send_cq = init.recv_cq = first.cq;
  init.qp_type = IBV_QPT_RC;
  EXPECT_EQ(createQp(first.pd, &init), nullptr);
  EXPECT_EQ(errno, ENOMEM);
}

TEST(Device, PortOfRoce) {
  const OpenDevice device("speed=200000,mtu=2048");
  ibv_port_attr port{};
  ASSERT_EQ(queryPort(device, 1, &port), 0);
  EXPECT_EQ(port.state, IBV_PORT_ACTIVE);
  EXPECT_EQ(port.link_layer, IBV_LINK_LAYER_ETHERNET);
  EXPECT_EQ(port.active_mtu, IBV_MTU_2048);
  EXPECT_EQ(port.lid, 0);
  EXPECT_EQ(port.active_width, 2);
  EXPECT_EQ(port.active_speed, 64);
  EXPECT_EQ(port.gid_tbl_len, 4);
  EXPECT_EQ(port.max_msg_sz, 1U << 30);
  EXPECT_EQ(queryPort(device, 2, &port), EINVAL);
}

TEST(Device, PortOfInfiniband) {
  const OpenDevice device("link=ib,port_state=down");
  ibv_port_attr port{};
  ASSERT_EQ(queryPort(device, 1, &port), 0);
  EXPECT_EQ(port.state, IBV_PORT_DOWN);
  EXPECT_EQ(port.link_layer, IBV_LINK_LAYER_INFINIBAND);
  EXPECT_NE(port.lid, 0);
  EXPECT_EQ(port.gid_tbl_len, 1);
}

TEST(Device, SeveralDevicesDiffer) {
  ASSERT_OK(configure(("fabric=" + uniqueFabric() + ";link=ib,speed=100000;link=ib,speed=200000").c_str()));
  ibv_context* first = openNamed("soft0");
  ibv_context* second = openNamed("soft1");
  ibv_port_attr ports[2] = {};
  ibv_gid gids[2] = {};
  ibv_device_attr attrs[2] = {};
  ibv_context* contexts[] = {first, second};
  for (int i = 0; i < 2; ++i) {
    ASSERT_EQ(queryPort(contexts[i], 1, &ports[i]), 0);
    ASSERT_EQ(queryGid(contexts[i], 1, 0, &gids[i]), 0);
    ASSERT_EQ(queryDevice(contexts[i], &attrs[i]), 0);
  }
  EXPECT_NE(ports[0].lid, ports[1].lid);
  EXPECT_NE(ports[0].active_speed, ports[1].active_speed);
  EXPECT_NE(std::memcmp(&gids[0], &gids[1], sizeof gids[0]), 0);
  EXPECT_NE(attrs[0].node_guid, attrs[1].node_guid);
  EXPECT_EQ(closeDevice(first), 0);
  EXPECT_EQ(closeDevice(second), 0);
}

TEST(Device, SameDeviceOpenedTwiceHasOneLid) {
  const OpenDevice device("link=ib");
  ibv_context* again = openNamed("soft0");
  ibv_port_attr ports[2] = {};
  ASSERT_EQ(queryPort(device, 1, &ports[0]), 0);
  ASSERT_EQ(queryPort(again, 1, &ports[1]), 0);
  EXPECT_EQ(ports[0].lid, ports[1].lid);
  EXPECT_EQ(closeDevice(again), 0);
}

TEST(Device, GidAndPkeyTables) {
  const OpenDevice device;
  ibv_gid gid{};
  __be16 pkey = 0;
  EXPECT_EQ(queryGid(device, 1, 3, &gid), 0);
  EXPECT_EQ(queryGid(device, 1, 4, &gid), -1);
  EXPECT_EQ(queryGid(device, 1, -1, &gid), -1);
  EXPECT_EQ(queryPkey(device, 1, 0, &pkey), 0);
  EXPECT_EQ(be16toh(pkey), 0xffff);
  EXPECT_EQ(queryPkey(device, 1, 1, &pkey), -1);
}

TEST(Device, CloseWithObjectsIsBusy) {
  ASSERT_OK(configure(("fabric=" + uniqueFabric() + ",name=soft0").c_str()));
  ibv_context* context = openNamed("");
  ibv_pd* pd = allocPd(context);
  EXPECT_EQ(closeDevice(context), EBUSY);
  EXPECT_EQ(deallocPd(pd), 0);
  EXPECT_EQ(closeDevice(context), 0);
}

TEST(Device, AsyncDescriptorIsPollable) {
  const OpenDevice device;
  ibv_context* context = device;
  pollfd poller{context->async_fd, POLLIN, 0};
  EXPECT_EQ(poll(&poller, 1, 0), 0);
  ASSERT_EQ(fcntl(context->async_fd, F_SETFL, O_NONBLOCK), 0);
  ibv_async_event event{};
  EXPECT_EQ(getAsyncEvent(context, &event), -1);
  EXPECT_EQ(errno, EAGAIN);
}

TEST(Device, CompletionEventsNeedAChannelOfTheDevice) {
  const OpenDevice device;
  const Endpoint endpoint(device);
  ibv_comp_channel channel{};
  EXPECT_EQ(createCq(device, 1, nullptr, &channel, 0), nullptr);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(ibv_req_notify_cq(endpoint.cq, 0), EINVAL);
}

TEST(Device, Names) {
  EXPECT_STREQ(wcStatusStr(IBV_WC_SUCCESS), "success");
  EXPECT_STRNE(wcStatusStr(IBV_WC_RETRY_EXC_ERR), wcStatusStr(IBV_WC_RNR_RETRY_EXC_ERR));
  EXPECT_STREQ(eventTypeStr(IBV_EVENT_PORT_ERR), "port error");
}

TEST(Device, CountersAreExact) {
  const OpenDevice device;
  {
    Options options;
    options.max_inline = 16;
    Pair pair(device, options);
    ASSERT_EQ(pair.b.receive(1), 0);
    ASSERT_EQ(pair.b.receive(2, 0, 64), 0);
    ASSERT_EQ(pair.a.send({.opcode = IBV_WR_RDMA_WRITE, .length = 8, .flags = IBV_SEND_INLINE}), 0);
    ASSERT_EQ(pair.a.send({.opcode = IBV_WR_RDMA_WRITE_WITH_IMM, .length = 100}), 0);
    ASSERT_EQ(pair.a.send({.opcode = IBV_WR_RDMA_READ, .length = 50}), 0);
    ASSERT_EQ(pair.a.send({.opcode = IBV_WR_SEND, .length = 7}), 0);
    ibv_wc wc[8];
    EXPECT_EQ(ibv_poll_cq(pair.a.cq, 8, wc), 3);
    EXPECT_EQ(ibv_poll_cq(pair.a.cq, 8, wc), 0);
    EXPECT_EQ(ibv_poll_cq(pair.b.cq, 1, wc), 1);
    EXPECT_EQ(ibv_poll_cq(pair.b.cq, 1, wc), 1);
  }
  const Counters sum = counters(device);  // also of what is destroyed
  EXPECT_EQ(sum.post_send_calls, 4U);
  EXPECT_EQ(sum.writes, 1U);
  EXPECT_EQ(sum.writes_with_imm, 1U);
  EXPECT_EQ(sum.reads, 1U);
  EXPECT_EQ(sum.sends, 1U);
  EXPECT_EQ(sum.send_sges, 4U);
  EXPECT_EQ(sum.inline_sends, 1U);
  EXPECT_EQ(sum.signalled_sends, 3U);
  EXPECT_EQ(sum.receives, 2U);
  EXPECT_EQ(sum.poll_calls, 4U);
  EXPECT_EQ(sum.empty_polls, 1U);
  EXPECT_EQ(sum.completions, 5U);
  EXPECT_EQ(sum.bytes, 165U);
  EXPECT_EQ(sum.system_calls, 0U);
}

}  // namespace
}  // namespace railwise::softdev::test
