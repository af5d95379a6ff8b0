// What an endpoint knows of its queue pairs, lanes and rails, without a device.
#include "net/connection/endpoint.h"

#include <gtest/gtest.h>

namespace railwise::net {
namespace {

Rail makeRail(uint8_t port) {
  Rail rail = {};
  rail.port.number = port;
  return rail;
}

Endpoint makeEndpoint(std::size_t queue_pairs) {
  Endpoint endpoint({makeRail(1)}, {makeRail(1)});
  for (std::size_t i = 0; i < queue_pairs; ++i)
    endpoint.queue_pairs.emplace_back().index = static_cast<uint8_t>(i);
  return endpoint;
}

TEST(Endpoint, IsNativeOnTheDevicesOwnRailsInTheirOrder) {
  const std::vector<Rail> own = {makeRail(1), makeRail(2)};
  EXPECT_TRUE(Endpoint(own, own).native);
  EXPECT_FALSE(Endpoint({makeRail(2), makeRail(1)}, own).native);
  EXPECT_FALSE(Endpoint({makeRail(1)}, own).native);
}

TEST(Endpoint, KnowsTheOwnPlaceOfEachRail) {
  const Endpoint endpoint({makeRail(3), makeRail(2)}, {makeRail(1), makeRail(2)});
  EXPECT_EQ(endpoint.native_rail[0], -1);  // a standby
  EXPECT_EQ(endpoint.native_rail[1], 1);
}

TEST(Endpoint, SortsQueuePairsIntoLanesInTurn) {
  Endpoint endpoint = makeEndpoint(5);
  endpoint.makeLanes(2);
  ASSERT_EQ(endpoint.lanes.size(), 2U);
  EXPECT_EQ(endpoint.lanes[0].count, 3);
  EXPECT_EQ(endpoint.lanes[1].count, 2);
  EXPECT_EQ(endpoint.lanes[1].queue_pairs[1], 3);
  EXPECT_EQ(endpoint.queue_pairs[4].lane, 0);
}

TEST(Endpoint, DropsALaneWithoutQueuePairsInUse) {
  Endpoint endpoint = makeEndpoint(4);
  endpoint.makeLanes(2);
  endpoint.queue_pairs[0].used = endpoint.queue_pairs[2].used = false;
  endpoint.dropUnusedLanes();
  ASSERT_EQ(endpoint.lanes.size(), 1U);
  EXPECT_EQ(endpoint.lanes[0].queue_pairs[0], 1);
  EXPECT_EQ(endpoint.queue_pairs[3].lane, 0);
}

TEST(Endpoint, IsInOrderWithOneQueuePairOnly) {
  Endpoint endpoint = makeEndpoint(2);
  endpoint.makeLanes(1);
  EXPECT_FALSE(endpoint.oneQueuePair());
  endpoint = makeEndpoint(1);
  endpoint.makeLanes(1);
  EXPECT_TRUE(endpoint.oneQueuePair());
}

TEST(Endpoint, OwesWhatWasPostedAndHasNotCompleted) {
  Endpoint endpoint = makeEndpoint(2);
  EXPECT_TRUE(endpoint.owedNothing());
  endpoint.queue_pairs[1].posted = 3;
  endpoint.queue_pairs[1].completed = 2;
  EXPECT_FALSE(endpoint.owedNothing());
}

TEST(Endpoint, IsProvenByACompletionOrAReceive) {
  Endpoint endpoint = makeEndpoint(2);
  endpoint.queue_pairs[0].posted = 1;
  EXPECT_FALSE(endpoint.proven());
  endpoint.queue_pairs[1].consumed = 1;
  EXPECT_TRUE(endpoint.proven());
}

TEST(Endpoint, FindsAQueuePairOfARail) {
  Endpoint endpoint = makeEndpoint(2);
  endpoint.queue_pairs[0].used = false;
  EXPECT_EQ(endpoint.onRail(0), &endpoint.queue_pairs[1]);
  EXPECT_EQ(endpoint.onRail(1), nullptr);
}

TEST(Endpoint, OfALostConnectionHasOneQueuePairThatIsNotUsed) {
  const Endpoint endpoint = Endpoint::lost({makeRail(1)}, {makeRail(1)});
  EXPECT_EQ(endpoint.queue_pairs.size(), 1U);
  EXPECT_FALSE(endpoint.anyUsed());
  EXPECT_TRUE(endpoint.lanes.empty());
}

}  // namespace
}  // namespace railwise::net
