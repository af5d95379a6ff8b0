// What an endpoint knows of its queue pairs, lanes and rails, without a device.
#include "net/paths/endpoint.h"

#include <gtest/gtest.h>

#include "record/writer.h"

namespace railwise::net {
namespace {

Rail makeRail(uint8_t port) {
  Rail rail = {};
  rail.port.number = port;
  return rail;
}

// The memory of the queue pairs of one endpoint, which a connection has in front of it.
class Memory {
 public:
  Memory() : memory_(record::PageMemory::allocate(QueuePairs::kBytes)) {}
  ~Memory() { record::PageMemory::free(memory_, QueuePairs::kBytes); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  void* get() const { return memory_; }

 private:
  void* const memory_;
};

Endpoint makeEndpoint(const Memory& memory, std::size_t queue_pairs) {
  Endpoint endpoint(memory.get(), {makeRail(1)}, {makeRail(1)});
  for (std::size_t i = 0; i < queue_pairs; ++i) endpoint.queue_pairs.add().index = static_cast<uint8_t>(i);
  return endpoint;
}

TEST(Endpoint, IsNativeOnTheDevicesOwnRailsInTheirOrder) {
  const std::vector<Rail> own = {makeRail(1), makeRail(2)};
  const Memory memory;
  EXPECT_TRUE(Endpoint(memory.get(), own, own).native);
  EXPECT_FALSE(Endpoint(memory.get(), {makeRail(2), makeRail(1)}, own).native);
  EXPECT_FALSE(Endpoint(memory.get(), {makeRail(1)}, own).native);
}

TEST(Endpoint, KnowsTheOwnPlaceOfEachRail) {
  const Memory memory;
  const Endpoint endpoint(memory.get(), {makeRail(3), makeRail(2)}, {makeRail(1), makeRail(2)});
  EXPECT_EQ(endpoint.native_rail[0], -1);  // a standby
  EXPECT_EQ(endpoint.native_rail[1], 1);
}

TEST(Endpoint, SortsQueuePairsIntoLanesInTurn) {
  const Memory memory;
  Endpoint endpoint = makeEndpoint(memory, 5);
  endpoint.makeLanes(2);
  ASSERT_EQ(endpoint.lanes.size(), 2U);
  EXPECT_EQ(endpoint.lanes[0].count, 3);
  EXPECT_EQ(endpoint.lanes[1].count, 2);
  EXPECT_EQ(endpoint.lanes[1].queue_pairs[1], 3);
  EXPECT_EQ(endpoint.queue_pairs[4].lane, 0);
}

TEST(Endpoint, DropsALaneWithoutQueuePairsInUse) {
  const Memory memory;
  Endpoint endpoint = makeEndpoint(memory, 4);
  endpoint.makeLanes(2);
  endpoint.queue_pairs[0].rest->used = endpoint.queue_pairs[2].rest->used = false;
  endpoint.dropUnusedLanes();
  ASSERT_EQ(endpoint.lanes.size(), 1U);
  EXPECT_EQ(endpoint.lanes[0].queue_pairs[0], 1);
  EXPECT_EQ(endpoint.queue_pairs[3].lane, 0);
}

TEST(Endpoint, IsInOrderWithOneQueuePairOnly) {
  const Memory memory;
  const Memory other;
  Endpoint endpoint = makeEndpoint(memory, 2);
  endpoint.makeLanes(1);
  EXPECT_FALSE(endpoint.oneQueuePair());
  endpoint = makeEndpoint(other, 1);
  endpoint.makeLanes(1);
  EXPECT_TRUE(endpoint.oneQueuePair());
}

TEST(Endpoint, OwesWhatWasPostedAndHasNotCompleted) {
  const Memory memory;
  Endpoint endpoint = makeEndpoint(memory, 2);
  EXPECT_TRUE(endpoint.owedNothing());
  endpoint.queue_pairs[1].posted() = 3;
  endpoint.queue_pairs[1].retire(2);
  EXPECT_FALSE(endpoint.owedNothing());
}

TEST(Endpoint, IsProvenByACompletionOrAReceive) {
  const Memory memory;
  Endpoint endpoint = makeEndpoint(memory, 2);
  endpoint.queue_pairs[0].posted() = 1;
  EXPECT_FALSE(endpoint.proven());
  endpoint.queue_pairs[1].consumed = 1;
  EXPECT_TRUE(endpoint.proven());
}

TEST(LaneQueuePair, UncountsRefusedPayloadAndWhatLiesInTheWindow) {
  const Memory memory;
  Endpoint endpoint = makeEndpoint(memory, 1);
  LaneQueuePair& queue_pair = endpoint.queue_pairs[0];
  queue_pair.window_key = 7;
  queue_pair.counts() = {.posted = 3, .bytes = 1100, .control_extra = 40};
  ibv_sge record = {0, 40, 7};
  ibv_send_wr tail = {};
  tail.sg_list = &record;
  tail.num_sge = 1;
  ibv_sge payload = {0, 1000, 8};
  ibv_send_wr data = {};
  data.sg_list = &payload;
  data.num_sge = 1;
  data.next = &tail;
  queue_pair.uncount(&data);
  EXPECT_EQ(queue_pair.posted(), 1U);
  EXPECT_EQ(queue_pair.counts().bytes, 100U);
  EXPECT_EQ(queue_pair.counts().control_extra, 0);
}

TEST(Endpoint, FindsAQueuePairOfARail) {
  const Memory memory;
  Endpoint endpoint = makeEndpoint(memory, 2);
  endpoint.queue_pairs[0].rest->used = false;
  EXPECT_EQ(endpoint.onRail(0), &endpoint.queue_pairs[1]);
  EXPECT_EQ(endpoint.onRail(1), nullptr);
}

TEST(Endpoint, OfALostConnectionHasOneQueuePairThatIsNotUsed) {
  const Memory memory;
  Endpoint endpoint(memory.get(), {makeRail(1)}, {makeRail(1)});
  endpoint.lose();
  EXPECT_EQ(endpoint.queue_pairs.size(), 1U);
  EXPECT_FALSE(endpoint.anyUsed());
  EXPECT_TRUE(endpoint.lanes.empty());
}

}  // namespace
}  // namespace railwise::net
