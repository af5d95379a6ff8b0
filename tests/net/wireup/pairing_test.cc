#include "net/wireup/pairing.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>

#include <cstring>

namespace railwise::net {
namespace {

// An end with a RoCE rail for each address.
EndInfo pairedEnd(std::initializer_list<const char*> addresses) {
  EndInfo end = {};
  for (const char* address : addresses) {
    RailInfo& rail = end.rail[end.rails++];
    rail.link_layer = LinkLayer::kRoce;
    rail.rail = rail.plane = -1;
    rail.gid_count = 1;
    rail.gid_versions[0] = 2;
    EXPECT_EQ(inet_pton(AF_INET6, address, rail.gids[0]), 1) << address;
  }
  return end;
}

std::vector<int> railsOf(const EndInfo& connector, const EndInfo& listener, int lanes) {
  std::vector<int> rails;
  for (const auto& pair : pairRails(connector, listener, lanes, 24))
    rails.push_back(pair ? pair->listener_rail : -1);
  return rails;
}

TEST(Pairing, EqualRailsMeetAtTheSamePlace) {
  const EndInfo a = pairedEnd({"::ffff:10.0.0.1", "::ffff:10.0.0.2", "::ffff:10.0.0.3"});
  const EndInfo b = pairedEnd({"::ffff:10.0.0.4", "::ffff:10.0.0.5", "::ffff:10.0.0.6"});
  EXPECT_EQ(railsOf(a, b, 3), (std::vector<int>{0, 1, 2}));
}

TEST(Pairing, SubnetsMeetWhateverTheOrder) {
  const EndInfo a = pairedEnd({"::ffff:10.0.1.1", "::ffff:10.0.2.1"});
  const EndInfo b = pairedEnd({"::ffff:10.0.2.9", "::ffff:10.0.1.9"});
  EXPECT_EQ(railsOf(a, b, 2), (std::vector<int>{1, 0}));
}

TEST(Pairing, RoutedRailsMeetByTheirPlace) {
  const EndInfo a = pairedEnd({"::ffff:10.1.1.1", "::ffff:10.1.2.1"});
  const EndInfo b = pairedEnd({"::ffff:10.2.1.1", "::ffff:10.2.2.1"});
  EXPECT_EQ(railsOf(a, b, 2), (std::vector<int>{0, 1}));
}

TEST(Pairing, RailsOfTheNetworkMeetAndPlanesDoNotMix) {
  EndInfo a = pairedEnd({"::ffff:10.1.1.1", "::ffff:10.1.2.1"});
  EndInfo b = pairedEnd({"::ffff:10.2.1.1", "::ffff:10.2.2.1"});
  a.rail[0].rail = b.rail[1].rail = 4;
  a.rail[1].rail = b.rail[0].rail = 5;
  EXPECT_EQ(railsOf(a, b, 2), (std::vector<int>{1, 0}));
  a.rail[0].plane = b.rail[0].plane = 0;
  a.rail[1].plane = b.rail[1].plane = 1;
  EXPECT_EQ(railsOf(a, b, 2), (std::vector<int>{0, 1}));
}

TEST(Pairing, FewerRailsAreSharedEvenly) {
  const EndInfo a = pairedEnd({"::ffff:10.0.0.1", "::ffff:10.0.0.2", "::ffff:10.0.0.3", "::ffff:10.0.0.4"});
  const EndInfo b = pairedEnd({"::ffff:10.0.0.5", "::ffff:10.0.0.6"});
  EXPECT_EQ(railsOf(a, b, 4), (std::vector<int>{0, 1, 0, 1}));
  EXPECT_EQ(railsOf(b, a, 4), (std::vector<int>{0, 1, 2, 3}));
}

TEST(Pairing, ARailThatReachesNothingIsLeftOut) {
  const EndInfo a = pairedEnd({"::ffff:10.0.0.1", "fe80::1"});
  const EndInfo b = pairedEnd({"::ffff:10.0.0.5", "::ffff:10.0.0.6"});
  EXPECT_EQ(railsOf(a, b, 2), (std::vector<int>{0, -1}));
}

TEST(Pairing, TheGidsOfAPairAreOfOneKind) {
  EndInfo a = pairedEnd({"::ffff:10.0.0.1"});
  EndInfo b = pairedEnd({"2001:db8::1"});
  EXPECT_EQ(railsOf(a, b, 1), (std::vector<int>{-1}));
  a.rail[0].gid_count = 2;
  a.rail[0].gid_versions[1] = 2;
  ASSERT_EQ(inet_pton(AF_INET6, "2001:db8::2", a.rail[0].gids[1]), 1);
  const auto pairs = pairRails(a, b, 1, 24);
  ASSERT_TRUE(pairs[0]);
  EXPECT_EQ(pairs[0]->connector_gid, 1);
  EXPECT_EQ(pairs[0]->listener_gid, 0);
}

TEST(Pairing, LinkLayersDoNotMix) {
  const EndInfo a = pairedEnd({"::ffff:10.0.0.1"});
  EndInfo b = pairedEnd({"::ffff:10.0.0.2"});
  b.rail[0].link_layer = LinkLayer::kInfiniBand;
  EXPECT_EQ(railsOf(a, b, 1), (std::vector<int>{-1}));
}

}  // namespace
}  // namespace railwise::net
