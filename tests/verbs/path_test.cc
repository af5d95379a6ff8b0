#include "verbs/path.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>

#include <set>

namespace railwise::verbs {
namespace {

ibv_gid gidFrom(const char* text) {
  ibv_gid gid = {};
  EXPECT_EQ(inet_pton(AF_INET6, text, gid.raw), 1) << text;
  return gid;
}

// The kernel's words: the upper 6 bits folded into the lower 14, at or above 0xc000.
TEST(UdpSourcePort, FoldsTheFlowLabel) {
  EXPECT_EQ(udpSourcePort(0), 0xc000);
  EXPECT_EQ(udpSourcePort(1), 0xc001);
  EXPECT_EQ(udpSourcePort(0x03fff), 0xffff);
  EXPECT_EQ(udpSourcePort(0x04000), 0xc001);
  EXPECT_EQ(udpSourcePort(0xfc000), 0xc03f);
  EXPECT_EQ(udpSourcePort(0xfffff), 0xffc0);
}

TEST(LaneFlowLabel, LanesOfAConnectionLeaveFromDifferentPorts) {
  for (uint32_t entropy : {0U, 1U, 2U, 0x1234U, 0xdeadbeefU, 0xffffffffU}) {
    std::set<uint16_t> ports;
    for (uint32_t lane = 0; lane < 16384; ++lane) {
      const uint32_t label = laneFlowLabel(entropy, lane);
      ASSERT_NE(label, 0U);
      ASSERT_LE(label, 0xfffffU);
      ports.insert(udpSourcePort(label));
    }
    EXPECT_EQ(ports.size(), 16384U) << entropy;
  }
}

TEST(LaneFlowLabel, ConnectionsSpreadOverThePorts) {
  std::set<uint16_t> ports;
  for (uint32_t entropy = 0; entropy < 4096; ++entropy)
    ports.insert(udpSourcePort(laneFlowLabel(entropy, 0)));
  // 4096 draws of 16384 hit 3624 different ones on average.
  EXPECT_GT(ports.size(), 3500U);
}

TEST(OnOtherSubnet, ComparesSubnetNumbersWhereOneGidIsRoutable) {
  const ibv_gid plain = gidFrom("fe80::1");
  const ibv_gid routable1 = gidFrom("fec0:0:7:1::1");  // FLID 7, subnet 1
  const ibv_gid routable2 = gidFrom("fec0:0:9:2::1");
  EXPECT_FALSE(onOtherSubnet(plain, gidFrom("fe80::2")));
  EXPECT_TRUE(onOtherSubnet(plain, gidFrom("fec0::2"))) << "other prefixes, no FLID";
  EXPECT_FALSE(onOtherSubnet(routable1, gidFrom("fec0:0:8:1::2"))) << "two routers of one subnet";
  EXPECT_FALSE(onOtherSubnet(gidFrom("fe80:0:0:1::1"), routable1));
  EXPECT_TRUE(onOtherSubnet(routable1, routable2));
  EXPECT_TRUE(onOtherSubnet(plain, routable2));
}

}  // namespace
}  // namespace railwise::verbs
