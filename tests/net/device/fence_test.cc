// A driver refuses to stop or to destroy queue pairs. Nothing counts as stopped without a proof, and memory
// that such a queue pair may write is not used again.
#include "net/device/fence.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "loop_connection.h"
#include "net/in_child.h"
#include "net/loop_traffic.h"
#include "port_control.h"
#include "said.h"
#include "tests/ok.h"
#include "tests/wait.h"
#include "verbs/queue_pair.h"

namespace railwise::net {
namespace {

constexpr const char* kEachTime = " nth=1 every=1";

// A queue pair on the first device, in INIT, and what it needs.
struct OneQueuePair {
  OneQueuePair() : hca(*loop.device().rails().front().hca) {
    const Rail& rail = loop.device().rails().front();
    cq.reset(verbs::library().create_cq(hca.context(), 4, nullptr, nullptr, 0));
    Result<verbs::QueuePair> made =
        verbs::createQueuePair(hca.pd(), cq.get(), rail.port, config, verbs::QueuePairSize{1, 1, 0});
    EXPECT_OK(made);
    qp = std::move(made->qp);
  }
  std::shared_ptr<Fence> fence() { return Fence::begin(hca, {qp.get()}); }
  // Gives the queue pair away, with memory that it may write.
  std::shared_ptr<Remains> remains(const std::shared_ptr<int>& memory,
                                   std::shared_ptr<Fence> fence = nullptr) {
    auto made = Remains::create(1);
    made->fence = std::move(fence);
    made->memory = memory;
    made->queue_pairs.push_back(std::move(qp));
    made->cqs.push_back(std::move(cq));
    return made;
  }

  LoopConnection loop{4096, "count=1"};
  Config config = Config::load();
  Hca& hca;
  verbs::Cq cq;
  verbs::Qp qp;
};

class RefusedStop : public testing::TestWithParam<const char*> {};

TEST_P(RefusedStop, IsNoProof) {
  OneQueuePair one;
  const test::Said said;
  test::addFault(std::string("device=soft0 count=4 verb=modify_qp errno=") + GetParam() + kEachTime);
  const auto fence = one.fence();
  test::waitUntil([&] { return fence->refusedSince().has_value(); });
  EXPECT_FALSE(fence->proven());
  EXPECT_HAS(fence->refusal(), "soft0: ibv_modify_qp refuses to stop a queue pair");
  test::waitUntil([&] { return fence->proven(); });  // it asks again until the driver does it
  EXPECT_EQ(fence->refusal(), "");
  EXPECT_HAS(said.warnings(), "refuses to stop a queue pair");
  fence->cease();
}
INSTANTIATE_TEST_SUITE_P(, RefusedStop, testing::Values("EAGAIN", "EBUSY", "EIO", "ENOMEM", "ETIMEDOUT"),
                         [](const auto& each) { return std::string(each.param); });

TEST(Fence, IsProvenByAQueryThatSaysErr) {
  OneQueuePair one;
  ibv_qp_attr attributes = {};
  attributes.qp_state = IBV_QPS_ERR;
  ASSERT_EQ(verbs::library().modify_qp(one.qp.get(), &attributes, IBV_QP_STATE), 0);
  test::addFault(std::string("device=soft0 verb=modify_qp errno=EIO") + kEachTime);
  const auto fence = one.fence();
  test::waitUntil([&] { return fence->proven(); });
  EXPECT_FALSE(fence->refusedSince());
}

TEST(Fence, IsNotProvenByAQueryThatIsRefusedToo) {
  OneQueuePair one;
  test::addFault(std::string("device=soft0 verb=modify_qp+query_qp errno=EIO") + kEachTime);
  const auto fence = one.fence();
  test::waitUntil([&] { return fence->refusedSince().has_value(); });
  EXPECT_FALSE(fence->proven());
  fence->cease();
}

TEST(Fence, IsProvenByADestruction) {
  OneQueuePair one;
  test::addFault(std::string("device=soft0 verb=modify_qp errno=EBUSY") + kEachTime);
  const auto fence = one.fence();
  test::waitUntil([&] { return fence->refusedSince().has_value(); });
  destroyLater(one.hca, one.remains(std::make_shared<int>(), fence));
  test::waitUntil([&] { return fence->proven(); });
}

// The destruction is refused, too, and then the driver stops the queue pair: its memory stays.
TEST(Fence, IsProvenByAStopAfterARefusedDestruction) {
  OneQueuePair one;
  test::addFault(std::string("device=soft0 count=4 verb=modify_qp errno=EBUSY") + kEachTime);
  test::addFault(std::string("device=soft0 count=12 verb=destroy_qp errno=EBUSY") + kEachTime);
  const auto fence = one.fence();
  test::waitUntil([&] { return fence->refusedSince().has_value(); });
  const auto memory = std::make_shared<int>();
  destroyLater(one.hca, one.remains(memory, fence));
  test::waitUntil([&] { return fence->proven(); });
  EXPECT_GT(memory.use_count(), 1);
  test::waitUntil([&] { return memory.use_count() == 1; });
}

TEST(Fence, IsProvenByADeviceThatHasFailed) {
  OneQueuePair one;
  test::addFault(std::string("device=soft0 verb=modify_qp errno=EIO") + kEachTime);
  const auto fence = one.fence();
  test::waitUntil([&] { return fence->refusedSince().has_value(); });
  test::changePort("soft0:1", "fatal");
  test::waitUntil([&] { return fence->proven(); });
  fence->cease();
}

// One refusal does not keep the stops of other connections waiting.
TEST(Fence, LetsOtherStopsGoOn) {
  OneQueuePair one;
  OneQueuePair other;
  test::addFault("device=soft0 count=1 verb=modify_qp errno=EIO nth=1");
  const auto refused = one.fence();
  test::waitUntil([&] { return refused->refusedSince().has_value(); });
  const auto fence = other.fence();
  test::waitUntil([&] { return fence->proven(); });
  test::waitUntil([&] { return refused->proven(); });
}

// A connection may give its queue pairs away because there is no memory.
TEST(Remains, HaveRoomForAllThatAConnectionGivesAway) {
  const auto remains = Remains::create(3);
  EXPECT_GE(remains->managed.capacity(), 3U);
  EXPECT_GE(remains->queue_pairs.capacity(), 3U);
  EXPECT_GE(remains->listeners.capacity(), 1U);
  EXPECT_GE(remains->cqs.capacity(), 1U);
}

TEST(Remains, KeepMemoryUntilTheQueuePairIsDestroyed) {
  for (const bool later : {false, true}) {
    OneQueuePair one;
    const test::Said said;
    const auto memory = std::make_shared<int>();
    test::addFault(std::string("device=soft0 count=3 verb=destroy_qp errno=EBUSY") + kEachTime);
    (later ? destroyLater : destroyNow)(one.hca, one.remains(memory));
    test::waitUntil([&] { return said.warnings().find("ibv_destroy_qp is refused") != std::string::npos; });
    EXPECT_GT(memory.use_count(), 1);
    test::waitUntil([&] { return memory.use_count() == 1; });
  }
}

// The net ends while the driver still refuses: the memory stays for ever.
TEST(Remains, StayForEverIfTheDriverNeverDestroysTheQueuePair) {
  EXPECT_EQ("", inChild([]() -> std::string {
              const auto memory = std::make_shared<int>();
              {
                OneQueuePair one;
                test::addFault(std::string("device=soft0 verb=destroy_qp errno=EBUSY") + kEachTime);
                destroyNow(one.hca, one.remains(memory));
              }
              return memory.use_count() > 1 ? "" : "the memory was given back";
            }));
}

class RefusedEnd : public testing::TestWithParam<const char*> {
 protected:
  static std::string devices(int count) { return "count=" + std::to_string(count) + ",link=" + GetParam(); }
};

// A clear-to-send of a closed connection is still on the wire, and its queue pair is not destroyed. The next
// connection's sender must not take it for one of its own.
TEST_P(RefusedEnd, LeavesTheNextConnectionAlone) {
  EXPECT_EQ("", inChild([&]() -> std::string {
              LoopConnection loop(2 * kHalf, devices(1));
              SendConnection& first = loop.sender();
              ReceiveConnection& other = loop.receiver();
              test::addFault(std::string("device=soft0 verb=destroy_qp errno=EBUSY") + kEachTime);
              test::addFault("device=soft0 opcode=any delay=600ms nth=1 count=1");
              if (loop.receive(1, 0, 4096) == nullptr) return "no receive";
              const Deadline arrived = Deadline::after(std::chrono::milliseconds(1200));
              Context::close(&other);
              Context::close(&first);
              loop.useAnother();
              while (!arrived.passed()) {
                if (loop.send(kHalf, 4096) != nullptr) return "a send without a receive was taken";
              }
              return "";
            }));
}

// Both stops are refused, and writes of the old epoch arrive late.
TEST_P(RefusedEnd, KeepsLateWritesOutOfBuffersInUse) {
  EXPECT_EQ("", inChild([&]() -> std::string {
              LoopConnection loop(2 * kHalf, devices(2));
              Traffic traffic(loop);
              if (!traffic.run(16, 512)) return "no traffic";
              Request* const receive = loop.receive(1, kHalf, 512);
              if (receive == nullptr) return "no receive";
              std::memset(loop.at(0), 1, 512);
              test::addFault("device=soft0 opcode=any delay=2s nth=1 count=1");
              const Deadline arrived = Deadline::after(std::chrono::milliseconds(2500));
              Request* const send = loop.sendWhenReady(0, 512);
              test::addFault(std::string("device=soft0 verb=modify_qp errno=EAGAIN") + kEachTime);
              test::addFault(std::string("device=soft0 verb=destroy_qp delay=2s") + kEachTime);
              // Nothing completes, so both ends leave the path.
              bool received = false;
              bool sent = false;
              test::waitUntil([&] {
                if (!received) (void)loop.receiver().test(*receive, &received, nullptr);
                if (!sent) (void)loop.sender().test(*send, &sent, nullptr);
                return received && sent;
              });
              std::memset(loop.at(kHalf), 2, 512);  // the buffer is in use again
              while (!arrived.passed()) usleep(1000);
              char* const begin = loop.at(kHalf);
              return std::count(begin, begin + 512, 2) == 512 ? "" : "a late write came into it";
            }));
}

// A driver that refuses for good ends the connection, with the reason.
TEST_P(RefusedEnd, FailsInTimeWithTheReason) {
  EXPECT_EQ("", inChild([&]() -> std::string {
              const test::Setting failover_timeout("RAILWISE_FAILOVER_TIMEOUT", "2");
              LoopConnection loop(2 * kHalf, devices(2));
              Traffic traffic(loop);
              if (!traffic.run(16, 512)) return "no traffic";
              const test::Said said;
              test::addFault(std::string("device=soft0 verb=modify_qp+destroy_qp+query_qp errno=EAGAIN") +
                             kEachTime);
              test::changePort("soft0:1", "down");
              if (traffic.run(16, 512)) return "it goes on without a proof";
              const bool told =
                  said.all().find("The last one cannot be left: soft0: ibv_modify_qp refuses") !=
                  std::string::npos;
              return told ? "" : "without the reason: " + said.all();
            }));
}
INSTANTIATE_TEST_SUITE_P(, RefusedEnd, testing::Values("ib", "roce", "iwarp"),
                         [](const auto& each) { return std::string(each.param); });

}  // namespace
}  // namespace railwise::net
