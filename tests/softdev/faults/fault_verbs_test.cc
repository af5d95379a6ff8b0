// Fault rules for verbs, ports and devices.
#include <arpa/inet.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>
#include <functional>

#include "softdev/endpoint.h"
#include "softdev/engine/attachment.h"
#include "softdev/fabric/fabric.h"
#include "softdev/fault_helpers.h"
#include "softdev/faults/port_control.h"
#include "tests/ok.h"

namespace railwise::softdev::test {
namespace {

constexpr Options kImpatientDevice = {.timeout = 10, .retry_cnt = 1};
constexpr Options kPatient = {.timeout = 0};

ibv_port_state stateOf(ibv_context* context) {
  ibv_port_attr attr{};
  EXPECT_EQ(queryPort(context, 1, &attr), 0);
  return attr.state;
}

TEST(FaultVerbs, EveryVerbFailsWithItsErrno) {
  const OpenDevice device;
  Pair pair(device);
  Endpoint& end = pair.a;
  ibv_device_attr device_attr{};
  ibv_port_attr port_attr{};
  ibv_gid gid{};
  ibv_qp_attr qp_attr{};
  ibv_qp_init_attr init{};
  init.send_cq = init.recv_cq = end.cq;
  init.qp_type = IBV_QPT_RC;
  ibv_wc wc{};
  const auto pointer = [](const void* p) { return p == nullptr ? errno : 0; };
  const auto negative = [](int result) { return result < 0 ? errno : 0; };
  struct Call {
    const char* verb;
    std::function<int()> run;
  };
  const Call calls[] = {
      {"alloc_pd", [&] { return pointer(allocPd(device)); }},
      {"dealloc_pd", [&] { return deallocPd(end.pd); }},
      {"reg_mr", [&] { return pointer(regMr(end.pd, end.buffer.data(), 8, 0)); }},
      {"dereg_mr", [&] { return deregMr(end.mr); }},
      {"create_cq", [&] { return pointer(createCq(device, 4, nullptr, nullptr, 0)); }},
      {"destroy_cq", [&] { return destroyCq(end.cq); }},
      {"create_qp", [&] { return pointer(createQp(end.pd, &init)); }},
      {"modify_qp", [&] { return end.toState(IBV_QPS_RESET); }},
      {"query_qp", [&] { return queryQp(end.qp, &qp_attr, 0, &init); }},
      {"destroy_qp", [&] { return destroyQp(end.qp); }},
      {"query_device", [&] { return queryDevice(device, &device_attr); }},
      {"query_port", [&] { return queryPort(device, 1, &port_attr); }},
      {"query_gid", [&] { return negative(queryGid(device, 1, 0, &gid)); }},
      {"post_send", [&] { return end.send({.length = 8}); }},
      {"post_recv", [&] { return end.receive(1); }},
      {"poll_cq", [&] { return -end.poll(&wc); }},
      {"open_device",
       [&] {
         ibv_device** list = getDeviceList(nullptr);
         const int error = pointer(openDevice(list[0]));
         freeDeviceList(list);
         return error;
       }},
  };
  for (const Call& call : calls) {
    addRule(device, std::string("nth=1 errno=ENOBUFS verb=") + call.verb);
    EXPECT_EQ(call.run(), ENOBUFS) << call.verb;
  }
  EXPECT_EQ(logLines(device).size(), std::size(calls));
  EXPECT_EQ(faultsArmed(fabricOf(device)), 0U);
  ASSERT_EQ(end.send({.length = 8}), 0);
  EXPECT_EQ(end.wait().status, IBV_WC_SUCCESS) << "nothing was harmed";
}

// A rule of a configuration that has struck stays spent while the process lives, though no device is open.
TEST(FaultVerbs, AConfigurationsRuleIsArmedOnce) {
  const std::string fabric = uniqueFabric();
  const auto use = [](ibv_device* device) {
    ibv_context* context = openDevice(device);
    if (context == nullptr) return errno;
    ibv_port_attr attr{};
    const int error = queryPort(context, 1, &attr);
    EXPECT_EQ(closeDevice(context), 0);
    return error;
  };
  ASSERT_OK(
      configure(("fabric=" + fabric +
                 ";count=3;fault verb=open_device nth=1 errno=ENODEV;fault verb=query_port nth=1 errno=EIO")
                    .c_str()));
  ibv_device** list = getDeviceList(nullptr);
  EXPECT_EQ(use(list[0]), ENODEV);
  EXPECT_EQ(use(list[1]), EIO);
  EXPECT_EQ(use(list[2]), 0);
  EXPECT_EQ(use(list[0]), 0);
  freeDeviceList(list);
  // With another configuration the process leaves, and nothing stays behind.
  ASSERT_OK(configure(""));
  EXPECT_FALSE(joinFabric(fabric).ok());
}

TEST(FaultVerbs, VerbsOfSharedQueuesChannelsAndAddresses) {
  const OpenDevice device;
  const Endpoint end(device);
  ibv_srq_init_attr init{};
  init.attr.max_wr = 4;
  init.attr.max_sge = 1;
  ibv_srq* srq = createSrq(end.pd, &init);
  ASSERT_NE(srq, nullptr);
  ibv_srq_attr attr{};
  ibv_recv_wr receive{1, nullptr, nullptr, 0};
  ibv_recv_wr* bad = nullptr;
  ibv_ah_attr address{};
  address.port_num = 1;
  address.is_global = 1;
  ASSERT_EQ(queryGid(device, 1, 0, &address.grh.dgid), 0);
  ibv_ah* ah = createAh(end.pd, &address);
  ASSERT_NE(ah, nullptr);
  const auto pointer = [](const void* p) { return p == nullptr ? errno : 0; };
  struct Call {
    const char* verb;
    std::function<int()> run;
  };
  const Call calls[] = {
      {"create_srq", [&] { return pointer(createSrq(end.pd, &init)); }},
      {"modify_srq", [&] { return modifySrq(srq, &attr, IBV_SRQ_LIMIT); }},
      {"query_srq", [&] { return querySrq(srq, &attr); }},
      {"post_srq_recv", [&] { return ibv_post_srq_recv(srq, &receive, &bad); }},
      {"destroy_srq", [&] { return destroySrq(srq); }},
      {"resize_cq", [&] { return resizeCq(end.cq, 128); }},
      {"req_notify_cq", [&] { return ibv_req_notify_cq(end.cq, 0); }},
      {"create_comp_channel", [&] { return pointer(createCompChannel(device)); }},
      {"rereg_mr", [&] { return reregMr(end.mr, IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, 0); }},
      {"reg_dmabuf_mr", [&] { return pointer(regDmabufMr(end.pd, 0, 8, 0, -1, 0)); }},
      {"destroy_ah", [&] { return destroyAh(ah); }},
      {"create_ah", [&] { return pointer(createAh(end.pd, &address)); }},
  };
  for (const Call& call : calls) {
    addRule(device, std::string("nth=1 errno=EMFILE verb=") + call.verb);
    EXPECT_EQ(call.run(), EMFILE) << call.verb;
  }
  EXPECT_EQ(bad, &receive);
  EXPECT_EQ(destroyAh(ah), 0);
  EXPECT_EQ(destroySrq(srq), 0);
}

TEST(FaultVerbs, NthAndSelectors) {
  const OpenDevice device("name=one;name=two");
  const Endpoint end(device);
  addRule(device, "verb=reg_mr device=two errno=ENOMEM");
  addRule(device, "verb=reg_mr+reg_dmabuf_mr device=one nth=2 errno=EFAULT");
  std::vector<std::byte> memory(64);
  ibv_mr* first = regMr(end.pd, memory.data(), 64, 0);
  EXPECT_NE(first, nullptr);
  EXPECT_EQ(regMr(end.pd, memory.data(), 64, 0), nullptr);
  EXPECT_EQ(errno, EFAULT);
  ibv_mr* third = regMr(end.pd, memory.data(), 64, 0);
  EXPECT_NE(third, nullptr);
  EXPECT_EQ(deregMr(first), 0);
  EXPECT_EQ(deregMr(third), 0);
}

TEST(FaultVerbs, DelayOfACall) {
  const OpenDevice device;
  addRule(device, "verb=query_port nth=1 delay=2ms");
  const auto before = Clock::now();
  EXPECT_EQ(stateOf(device), IBV_PORT_ACTIVE);
  EXPECT_GE(Clock::now() - before, std::chrono::milliseconds(2));
}

TEST(FaultPorts, DownThenTimeout) {
  const OpenDevice device("name=one;name=two");
  const OpenSecond second("two");
  Pair pair(device, second, kImpatientDevice, kImpatientDevice);
  addRule(device, "device=one opcode=write nth=2 port=down");
  EXPECT_EQ(sendAndWait(pair.a, {.length = 8}), IBV_WC_SUCCESS);
  ASSERT_EQ(pair.a.send({.length = 8}), 0);
  EXPECT_EQ(nextEvent(device), eventTypeStr(IBV_EVENT_PORT_ERR));
  EXPECT_EQ(nextEvent(second), "");
  EXPECT_EQ(stateOf(device), IBV_PORT_DOWN);
  EXPECT_EQ(stateOf(second), IBV_PORT_ACTIVE);
  EXPECT_EQ(pair.a.wait().status, IBV_WC_RETRY_EXC_ERR);
  ASSERT_EQ(pair.b.send({.length = 8}), 0);  // towards the port that is down
  EXPECT_EQ(pair.b.wait().status, IBV_WC_RETRY_EXC_ERR);
}

TEST(FaultPorts, UpInTimeGoesOn) {
  const OpenDevice device;
  Pair pair(device, kPatient);
  setPortState(fabricOf(device), portOf(device), false);
  setPortState(fabricOf(device), portOf(device), false);  // once is enough
  EXPECT_EQ(nextEvent(device), eventTypeStr(IBV_EVENT_PORT_ERR));
  EXPECT_EQ(nextEvent(device), "");
  *pair.a.word(0) = 4;
  ASSERT_EQ(pair.a.send({.length = 8}), 0);
  ibv_wc wc{};
  EXPECT_EQ(pair.a.poll(&wc), 0);
  setPortState(fabricOf(device), portOf(device), true);
  EXPECT_EQ(nextEvent(device), eventTypeStr(IBV_EVENT_PORT_ACTIVE));
  EXPECT_EQ(pair.a.wait().status, IBV_WC_SUCCESS);
  EXPECT_EQ(*pair.b.word(0), 4U);
}

TEST(FaultPorts, ARuleBringsItUpAgain) {
  const OpenDevice device("name=one;name=two");
  const OpenSecond second("two");
  Pair pair(device, kPatient);
  Pair other(static_cast<ibv_context*>(second), kPatient);
  addRule(device, "device=one opcode=write nth=1 port=down");
  addRule(device, "verb=query_gid nth=1 port=up");
  ASSERT_EQ(pair.a.send({.length = 8}), 0);
  ibv_wc wc{};
  EXPECT_EQ(pair.a.poll(&wc), 0);
  ibv_gid gid{};
  EXPECT_EQ(queryGid(device, 1, 0, &gid), 0);
  EXPECT_EQ(pair.a.wait().status, IBV_WC_SUCCESS);
}

TEST(FaultPorts, GidChange) {
  const OpenDevice device("name=one;name=two");
  const OpenSecond second("two");
  Options options = kImpatientDevice;
  options.gid_index = 3;
  Pair pair(device, second, options, options);
  Options elsewhere = kPatient;
  elsewhere.gid_index = 1;
  Pair other(device, second, elsewhere, elsewhere);
  addRule(device, "device=one opcode=write nth=2 gid=3=10.9.9.9");
  EXPECT_EQ(sendAndWait(pair.a, {.length = 8}), IBV_WC_SUCCESS);
  ASSERT_EQ(pair.a.send({.length = 8}), 0);
  EXPECT_EQ(nextEvent(device), eventTypeStr(IBV_EVENT_GID_CHANGE));
  EXPECT_EQ(nextEvent(second), "");
  ibv_gid gid{};
  ASSERT_EQ(queryGid(device, 1, 3, &gid), 0);
  EXPECT_EQ(gid.raw[13], 9);
  EXPECT_EQ(pair.a.wait().status, IBV_WC_RETRY_EXC_ERR) << "the answers go to the old address";
  ASSERT_EQ(pair.b.send({.length = 8}), 0);
  EXPECT_EQ(pair.b.wait().status, IBV_WC_RETRY_EXC_ERR) << "the old address is nobody's";
  ASSERT_EQ(other.a.send({.length = 8}), 0);
  EXPECT_EQ(other.a.wait().status, IBV_WC_SUCCESS) << "other addresses are as they were";
}

TEST(FaultPorts, GidTableGrowsAndLosesEntries) {
  const OpenDevice device;
  uint8_t raw[16] = {0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7};
  setPortGid(fabricOf(device), portOf(device), 6, raw, kKeepGidType);
  ibv_port_attr attr{};
  ASSERT_EQ(queryPort(device, 1, &attr), 0);
  EXPECT_EQ(attr.gid_tbl_len, 7);
  ibv_gid_entry entry{};
  ASSERT_EQ(queryGidEx(device, 1, 6, &entry, 0, sizeof entry), 0);
  EXPECT_EQ(entry.gid.raw[15], 7);
  EXPECT_EQ(queryGidEx(device, 1, 5, &entry, 0, sizeof entry), ENODATA);
  const uint8_t none[16] = {};
  setPortGid(fabricOf(device), portOf(device), 6, none, kKeepGidType);
  EXPECT_EQ(queryGidEx(device, 1, 6, &entry, 0, sizeof entry), ENODATA);
}

TEST(FaultPorts, Speed) {
  const OpenDevice device;
  Pair pair(device);
  addRule(device, "opcode=write nth=1 speed=100000");
  EXPECT_EQ(sendAndWait(pair.a, {.length = 8}), IBV_WC_SUCCESS);
  uint64_t speed = 0;
  EXPECT_EQ(queryPortSpeed(device, 1, &speed), 0);
  EXPECT_EQ(speed, 1000U);
}

TEST(FaultDevice, Fatal) {
  const OpenDevice device("name=one;name=two");
  const OpenSecond twin("one");
  const OpenSecond second("two");
  Pair pair(device, second, kImpatientDevice, kImpatientDevice);
  Pair other(static_cast<ibv_context*>(second), kPatient);
  ASSERT_EQ(pair.a.receive(3), 0);
  addRule(device, "device=one opcode=write nth=1 device_fatal");
  ASSERT_EQ(pair.a.send({.length = 8}), 0);
  EXPECT_EQ(nextEvent(device), eventTypeStr(IBV_EVENT_DEVICE_FATAL));
  EXPECT_EQ(nextEvent(twin), eventTypeStr(IBV_EVENT_DEVICE_FATAL));
  EXPECT_EQ(nextEvent(second), "");
  EXPECT_EQ(pair.a.wait().status, IBV_WC_WR_FLUSH_ERR);
  EXPECT_EQ(pair.a.wait().status, IBV_WC_WR_FLUSH_ERR);
  EXPECT_EQ(pair.a.send({.length = 8}), EIO);
  EXPECT_EQ(allocPd(device), nullptr);
  EXPECT_EQ(errno, EIO);
  ibv_port_attr attr{};
  EXPECT_EQ(queryPort(device, 1, &attr), EIO);
  EXPECT_EQ(queryPort(twin, 1, &attr), EIO);
  EXPECT_EQ(sendAndWait(pair.b, {.length = 8}), IBV_WC_RETRY_EXC_ERR);
  EXPECT_EQ(sendAndWait(other.a, {.length = 8}), IBV_WC_SUCCESS);
  const OpenSecond restarted("one");
  EXPECT_EQ(queryPort(restarted, 1, &attr), 0);
}

// With the delay under its lock, the queue pair whose send waits would stop the engine's thread.
TEST(FaultDelays, TheEngineGoesOnMeanwhile) {
  const OpenDevice device("engine=on");
  Pair pair(device);
  Pair other(device);
  ASSERT_EQ(pair.a.send({.opcode = IBV_WR_SEND, .length = 8, .wr_id = 1}), 0);
  addRule(device, "verb=post_send nth=1 delay=60s");
  {
    const HeldUp posting(device, [&] { EXPECT_EQ(pair.a.send({.length = 8, .wr_id = 2}), 0); });
    EXPECT_EQ(sendAndWait(other.a, {.length = 8}), IBV_WC_SUCCESS);
    ASSERT_EQ(pair.b.receive(9, 0, 64), 0);
    EXPECT_EQ(pair.a.wait().wr_id, 1U);
    ASSERT_EQ(pair.a.send({.length = 8, .wr_id = 3}), 0);
    EXPECT_EQ(pair.a.wait().wr_id, 3U);
  }
  EXPECT_EQ(pair.a.wait().wr_id, 2U);
}

}  // namespace
}  // namespace railwise::softdev::test
