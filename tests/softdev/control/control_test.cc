// What tools see of a fabric: ports, counts; and changes at a command.
#include "softdev/control/control.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "softdev/endpoint.h"
#include "softdev/engine/attachment.h"
#include "softdev/fault_helpers.h"
#include "softdev/peer_process.h"
#include "tests/ok.h"

namespace railwise::softdev::test {
namespace {

TEST(Control, JoiningNeedsSomebodyThere) {
  const std::string fabric = uniqueFabric();
  const auto nobody = joinFabric(fabric);
  EXPECT_EQ(nobody.status().code, Code::kNoDevice);
  const PeerProcess peer(fabric);
  auto joined = joinFabric(fabric);
  ASSERT_OK(joined);
  EXPECT_EQ(otherProcesses(**joined), 1U);
  EXPECT_EQ(listPorts(**joined).size(), 1U);
  detachFabric(*joined);
}

TEST(Control, Ports) {
  const OpenDevice device("host=A,name=one,link=ib;name=two,speed=100000");
  const OpenSecond second("two");
  const std::vector<PortInfo> ports = listPorts(fabricOf(device));
  ASSERT_EQ(ports.size(), 2U);
  EXPECT_EQ(ports[0].host, "A");
  EXPECT_EQ(ports[0].device, "one");
  EXPECT_EQ(ports[0].number, 1U);
  EXPECT_TRUE(ports[0].infiniband);
  EXPECT_NE(ports[0].lid, 0U);
  EXPECT_TRUE(ports[0].active);
  EXPECT_EQ(ports[0].contexts, 1U);
  EXPECT_EQ(ports[1].speed_mbps, 100000U);
  EXPECT_FALSE(ports[1].gids.empty());
}

TEST(Control, PortsByName) {
  const OpenDevice device("host=A,name=one");
  const PeerProcess other(device.fabric(), {}, "host=B,name=one");
  const auto several = findPorts(fabricOf(device), "one");
  ASSERT_FALSE(several.ok());
  EXPECT_HAS(several.error(), "several hosts (A, B)");
  EXPECT_EQ(findPorts(fabricOf(device), "B/one")->size(), 1U);
  EXPECT_EQ(findPorts(fabricOf(device), "B/one:1")->size(), 1U);
  const auto none = findPorts(fabricOf(device), "B/one:2");
  ASSERT_FALSE(none.ok());
  EXPECT_HAS(none.error(), "open are A/one:1, B/one:1");
}

// As in fault rules: a name may end with *.
TEST(Control, PortsByPattern) {
  const OpenDevice device("host=A,name=one,count=2,ports=2");
  const OpenSecond second("one1");
  const PeerProcess other(device.fabric(), {}, "host=B,name=two");
  std::string error;
  const auto count = [&](const char* name) {
    const auto found = findPorts(fabricOf(device), name);
    error = found.error();
    return found.ok() ? found->size() : 0;
  };
  EXPECT_EQ(count("A/*:1"), 2U) << error;
  EXPECT_EQ(count("A/one*"), 4U) << error;
  EXPECT_EQ(count("one*:2"), 2U) << error;
  EXPECT_EQ(count("*/*:1"), 3U) << error;
  EXPECT_EQ(count("B*/*"), 1U) << error;
  EXPECT_EQ(count("*"), 0U);
  EXPECT_HAS(error, "several hosts (A, B)");
  EXPECT_EQ(count("A/two*"), 0U);
  EXPECT_HAS(error, "open are A/one0:1");
}

TEST(Control, ChangesAtACommandAreLogged) {
  const OpenDevice device;
  const PortInfo port = findPorts(fabricOf(device), "soft0:1")->at(0);
  for (const char* change : {"down", "up", "speed=25000", "gid=2=10.0.0.7", "event=sm_change"})
    EXPECT_TRUE(changePort(fabricOf(device), port, change).ok()) << change;
  const PortInfo now = listPorts(fabricOf(device)).at(0);
  EXPECT_TRUE(now.active);
  EXPECT_EQ(now.speed_mbps, 25000U);
  EXPECT_EQ(now.gids.at(2), "::ffff:10.0.0.7/v1");
  EXPECT_EQ(nextEvent(device), eventTypeStr(IBV_EVENT_PORT_ERR));
  EXPECT_EQ(nextEvent(device), eventTypeStr(IBV_EVENT_PORT_ACTIVE));
  EXPECT_EQ(nextEvent(device), eventTypeStr(IBV_EVENT_GID_CHANGE));
  EXPECT_EQ(nextEvent(device), eventTypeStr(IBV_EVENT_SM_CHANGE));
  const std::vector<FaultLogEntry> log = readFaultLog(fabricOf(device));
  ASSERT_EQ(log.size(), 5U);
  EXPECT_STREQ(log[0].action, "port=down");
  EXPECT_EQ(log[0].rule, 0U);
  for (const char* wrong : {"sideways", "drop", "event=qp_fatal", "speed=1", "nth=3", "kill"}) {
    const auto changed = changePort(fabricOf(device), port, wrong);
    EXPECT_FALSE(changed.ok()) << wrong;
    EXPECT_HAS(changed.error(), wrong);
  }
}

TEST(Control, CountsByEverything) {
  const OpenDevice device("name=one;name=two");
  const OpenSecond second("two");
  PeerProcess peer(device.fabric(), {}, "name=one;name=two");
  Endpoint here(device);
  connectEnds(here, peer);
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(here.send({.length = 16}), 0);
    here.wait();
  }
  ASSERT_EQ(peer.send({.opcode = IBV_WR_RDMA_READ, .length = 8}), 0);
  peer.wait();
  Fabric& fabric = fabricOf(device);
  const auto by_qp = listCounts(fabric, CountsBy::kQp);
  ASSERT_EQ(by_qp.size(), 2U);
  const CountsRow& mine = by_qp[by_qp[0].qp == here.qp->qp_num ? 0 : 1];
  EXPECT_EQ(mine.process, static_cast<uint32_t>(getpid()));
  EXPECT_EQ(mine.peer_qp, peer.address().qp_num);
  EXPECT_STREQ(mine.state, "RTS");
  EXPECT_EQ(mine.counts.writes, 3U);
  EXPECT_EQ(mine.counts.bytes, 48U);
  const auto by_process = listCounts(fabric, CountsBy::kProcess);
  ASSERT_EQ(by_process.size(), 2U);
  const CountsRow& other = by_process[by_process[0].process == static_cast<uint32_t>(peer.pid()) ? 0 : 1];
  EXPECT_EQ(other.counts.reads, 1U);
  EXPECT_EQ(other.counts.completions, 1U);
  EXPECT_EQ(other.counts.system_calls, 1U);
  EXPECT_EQ(other.queue_pairs, 1U);
  const auto by_device = listCounts(fabric, CountsBy::kDevice);
  ASSERT_EQ(by_device.size(), 2U);
  EXPECT_EQ(by_device[0].device, "one");
  EXPECT_EQ(by_device[0].counts.writes + by_device[0].counts.reads, 4U);
  EXPECT_EQ(by_device[0].counts.completions, 4U);
  EXPECT_EQ(by_device[1].counts.post_send_calls, 0U);
  const auto by_port = listCounts(fabric, CountsBy::kPort);
  ASSERT_EQ(by_port.size(), 2U);
  EXPECT_EQ(by_port[0].port, 1U);
  EXPECT_EQ(by_port[0].counts.bytes, 56U);
}

TEST(Control, WhatIsDestroyedStillCounts) {
  const OpenDevice device;
  {
    Pair pair(device);
    ASSERT_EQ(pair.a.send({.length = 16}), 0);
    pair.a.wait();
    EXPECT_EQ(qpCounters(pair.a.qp).writes, 1U);
    EXPECT_EQ(qpCounters(pair.b.qp).writes, 0U);
  }
  const auto rows = listCounts(fabricOf(device), CountsBy::kProcess);
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows[0].queue_pairs, 0U);
  EXPECT_EQ(rows[0].counts.writes, 1U);
  EXPECT_EQ(rows[0].counts.completions, 1U);
}

}  // namespace
}  // namespace railwise::softdev::test
