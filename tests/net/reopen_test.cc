// A device that has failed and works again is opened anew, and connections go on over it.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "loop_connection.h"
#include "net/device/reopener.h"
#include "net/in_child.h"
#include "net/loop_traffic.h"
#include "net/own_record.h"
#include "port_control.h"
#include "said.h"
#include "software_device.h"
#include "tests/ok.h"
#include "tests/wait.h"

namespace railwise::net {
namespace {

TEST(Reopened, TheOnlyDeviceFailsAndTheConnectionGoesOnOverIt) {
  LoopConnection loop(2 * kHalf, "count=1");
  Traffic traffic(loop);
  ASSERT_TRUE(traffic.run(16, 512));
  const Hca* const first = loop.sender().rails().front().hca;
  for (int failure = 1; failure <= 3; ++failure) {
    test::changePort("soft0:1", "fatal");
    ASSERT_TRUE(traffic.run(64, 20'000)) << failure;
    EXPECT_EQ(loop.sender().rails().front().hca->earlierGenerations(), failure);
    EXPECT_STREQ(loop.sender().rails().front().hca->name(), first->name());
  }
}

TEST(Reopened, AConnectionGoesBackFromAStandby) {
  LoopConnection loop(2 * kHalf, "count=2");
  Traffic traffic(loop);
  ASSERT_TRUE(traffic.run(8, 512));
  const Hca* const first = loop.sender().rails().front().hca;
  const test::Said said;
  test::changePort("soft0:1", "fatal");
  bool was_on_standby = false;
  const auto isOn = [&](const Connection& end, const Hca* hca) {
    return end.running() && end.rails().front().hca == hca;
  };
  ASSERT_TRUE(until(traffic, [&] {
    was_on_standby = was_on_standby || std::string(loop.sender().rails().front().name) == "soft1";
    const Hca* const second = first->nextGeneration();
    return second != nullptr && isOn(loop.sender(), second) && isOn(loop.receiver(), second);
  }));
  EXPECT_TRUE(was_on_standby);
  const Outcome<record::Snapshot> snapshot = test::ownRecord();
  ASSERT_OK(snapshot);
  const record::ConnectionRecord& sender = loop.sender().recorded();
  EXPECT_EQ(sender.counters.failovers, 1U);
  EXPECT_EQ(sender.degraded, 0);
  EXPECT_GT(sender.counters.degraded_ns, 0U);
  EXPECT_EQ(snapshot->rails.at(0).device, "soft0");
  EXPECT_EQ(snapshot->rails.at(0).returns, 2U);  // of both ends
  EXPECT_HAS(said.all(), "soft0: opened anew after its failure");
  ASSERT_TRUE(traffic.run(32, 60'000));
}

TEST(Reopened, AFusedDeviceGetsItsRailBack) {
  LoopConnection loop(2 * kHalf, "count=2", 2);
  Traffic traffic(loop);
  ASSERT_TRUE(traffic.run(8, 100'000));
  test::changePort("soft1:1", "fatal");
  ASSERT_TRUE(traffic.run(8, 100'000));
  EXPECT_TRUE(until(traffic, [&] {
    const auto& rails = loop.sender().rails();
    return rails.size() == 2 && rails.back().hca->earlierGenerations() == 1 && loop.sender().running();
  }));
  ASSERT_TRUE(traffic.run(32, 100'000));
}

// After a reset a NIC may get the next free name.
TEST(Reopened, ADeviceIsKnownByItsGuid) {
  LoopConnection loop(2 * kHalf, "count=1");
  Traffic traffic(loop);
  ASSERT_TRUE(traffic.run(8, 512));
  const Hca* const first = loop.sender().rails().front().hca;
  std::strcpy(first->context()->device->name, "soft7");
  const test::Said said;
  test::changePort("soft0:1", "fatal");
  ASSERT_TRUE(traffic.run(32, 20'000));
  EXPECT_STREQ(loop.sender().rails().front().hca->name(), "soft7");
  EXPECT_HAS(said.all(), "soft0: opened anew after its failure, its name is soft7 now");
  std::strcpy(first->context()->device->name, "soft0");
}

// Its driver needs a while.
TEST(Reopened, IsTriedAgainUntilItWorks) {
  LoopConnection loop(2 * kHalf,
                      "count=1;fault verb=open_device nth=2 every=1 count=2 errno=EIO;"
                      "fault verb=alloc_pd nth=2 errno=ENOMEM");
  Traffic traffic(loop);
  ASSERT_TRUE(traffic.run(8, 512));
  test::changePort("soft0:1", "fatal");
  ASSERT_TRUE(traffic.run(8, 512));
  EXPECT_EQ(loop.sender().rails().front().hca->earlierGenerations(), 1);
}

// Nobody goes back to a port that is down.
TEST(Reopened, APortThatIsDownThenIsWaitedFor) {
  LoopConnection loop(2 * kHalf, "count=2");
  Traffic traffic(loop);
  ASSERT_TRUE(traffic.run(8, 512));
  const Hca* const first = loop.sender().rails().front().hca;
  test::changePort("soft0:1", "down");
  test::changePort("soft0:1", "fatal");
  ASSERT_TRUE(until(traffic, [&] { return first->nextGeneration() != nullptr; }));
  ASSERT_TRUE(traffic.run(64, 512));
  EXPECT_STREQ(loop.sender().rails().front().name, "soft1");
  test::changePort("soft0:1", "up");
  EXPECT_TRUE(until(traffic, [&] {
    return loop.sender().rails().front().hca == first->nextGeneration() && loop.sender().running();
  }));
}

// What is dead is kept, so not for ever.
TEST(Reopened, SixteenLives) {
  const test::Setting failover_timeout("RAILWISE_FAILOVER_TIMEOUT", "1");
  LoopConnection loop(2 * kHalf, "count=1");
  Traffic traffic(loop);
  ASSERT_TRUE(traffic.run(8, 512));
  const test::Said said;
  for (int life = 1; life < 16; ++life) {
    test::changePort("soft0:1", "fatal");
    ASSERT_TRUE(traffic.run(8, 512)) << life;
  }
  EXPECT_LACKS(said.all(), "it has failed");
  test::changePort("soft0:1", "fatal");
  EXPECT_FALSE(traffic.run(8, 512));
  EXPECT_HAS(said.all(), "soft0: it has failed 16 times");
  EXPECT_HAS(said.all(), "no path to the peer is left");
}

// Its memory is registered with the new generation, so that messages need not look their keys up.
TEST(Reopened, MessagesTakeTheStraightPathAgain) {
  LoopConnection loop(2 * kHalf, "count=1");
  Traffic traffic(loop);
  const auto completionsOf = [&](int messages) {
    const uint64_t before = loop.sender().recorded().numbers.completions;
    EXPECT_TRUE(traffic.run(messages, 512));
    return loop.sender().recorded().numbers.completions - before;
  };
  ASSERT_TRUE(traffic.run(64, 512));
  const uint64_t at_first = completionsOf(64);
  EXPECT_LT(at_first, 32U) << "most messages need no completion of their own";
  for (int failure = 1; failure <= 2; ++failure) {
    test::changePort("soft0:1", "fatal");
    ASSERT_TRUE(traffic.run(64, 512));
    ASSERT_EQ(loop.sender().rails().front().hca->earlierGenerations(), failure);
    EXPECT_LE(completionsOf(64), at_first + 4) << failure;
  }
}

// NCCL registers memory at any time.
TEST(Reopened, HasTheMemoryThatWasRegisteredWhileTheDeviceWasDead) {
  LoopConnection loop(2 * kHalf, "count=1;fault verb=open_device nth=2 every=1 count=2 errno=EIO");
  Traffic traffic(loop);
  ASSERT_TRUE(traffic.run(8, 512));
  const Hca* const first = loop.device().rails().front().hca;
  test::changePort("soft0:1", "fatal");
  test::waitUntil([&] { return first->state().fatal(); });
  std::vector<char> bytes(10'000);
  const Result<MemoryHandle*> handle = loop.device().memory().acquire(
      reinterpret_cast<uint64_t>(bytes.data()), bytes.size(), MemoryKind::kHost);
  ASSERT_OK(handle);
  EXPECT_EQ((*handle)->keys[0].remote(), 0U);
  ASSERT_TRUE(traffic.run(8, 512));
  const Hca* const second = first->nextGeneration();
  ASSERT_NE(second, nullptr);
  EXPECT_TRUE(second->state().hasKeys());
  const Result<MemoryKeys> keys = loop.device().memory().keysOn(**handle, second->pd());
  ASSERT_OK(keys);
  EXPECT_NE(keys->remote, 0U);
  EXPECT_EQ((*handle)->keys[0].remote(), keys->remote);
  loop.device().memory().release(*handle);
}

// Then each message asks for its keys, as on a standby.
TEST(Reopened, AConnectionGoesOnWhereMemoryCannotBeRegisteredAtOnce) {
  for (int nth = 3; nth <= 4; ++nth) {
    LoopConnection loop(2 * kHalf, "count=1;fault verb=reg_mr nth=" + std::to_string(nth) + " errno=EFAULT");
    Traffic traffic(loop);
    ASSERT_TRUE(traffic.run(8, 512));
    const Hca* const first = loop.device().rails().front().hca;
    test::changePort("soft0:1", "fatal");
    ASSERT_TRUE(traffic.run(64, 512)) << nth;
    ASSERT_NE(first->nextGeneration(), nullptr);
    EXPECT_FALSE(first->nextGeneration()->state().hasKeys()) << nth;
    test::changePort("soft0:1", "fatal");
    ASSERT_TRUE(traffic.run(64, 512)) << nth;
    ASSERT_NE(first->nextGeneration()->nextGeneration(), nullptr);
    EXPECT_TRUE(first->nextGeneration()->nextGeneration()->state().hasKeys()) << nth;
  }
}

// NCCL registers memory all the same, and other rails have it.
TEST(Reopened, RefusesMemoryAndNobodyFails) {
  LoopConnection loop(2 * kHalf, "count=2");
  Traffic traffic(loop);
  ASSERT_TRUE(traffic.run(8, 512));
  const Hca* const first = loop.device().rails().front().hca;
  test::changePort("soft0:1", "fatal");
  test::waitUntil([&] { return first->nextGeneration() != nullptr; });
  Result<MemoryHandle*> nowhere = loop.device().memory().acquire(uint64_t{4096}, 4096, MemoryKind::kHost);
  EXPECT_FALSE(nowhere.ok()) << "no device registers what is not mapped";
  EXPECT_TRUE(first->nextGeneration()->state().hasKeys());
  test::addFault("device=soft0 verb=reg_mr nth=1 every=1 errno=ENOMEM");
  loop.registerAnew();
  EXPECT_EQ(loop.memory()->keys[0].remote(), 0U);
  EXPECT_FALSE(first->nextGeneration()->state().hasKeys());
  ASSERT_TRUE(traffic.run(32, 20'000));
  loop.useAnother();
  ASSERT_TRUE(traffic.run(32, 20'000));
}

TEST(Reopened, ADeviceThatIsFusedLaterHasTheKeysOfNow) {
  LoopConnection loop(2 * kHalf, "count=2");
  Traffic traffic(loop);
  ASSERT_TRUE(traffic.run(8, 512));
  const Hca* const first = loop.net().device(0)->rails().front().hca;
  test::changePort("soft0:1", "fatal");
  test::waitUntil([&] { return first->nextGeneration() != nullptr; });
  const Result<int> fused = loop.net().makeVirtualDevice(std::vector{0, 1});
  ASSERT_OK(fused);
  MemoryCache& memory = loop.net().device(*fused)->memory();
  const Result<MemoryHandle*> handle = memory.acquire(loop.address(0), 100, MemoryKind::kHost);
  ASSERT_OK(handle);
  const Result<MemoryKeys> keys = memory.keysOn(**handle, first->nextGeneration()->pd());
  ASSERT_OK(keys);
  EXPECT_EQ((*handle)->keys[0].remote(), keys->remote);
  memory.release(*handle);
}

TEST(Reopened, AForkedChildEndsWithoutTheThread) {
  const test::SoftwareDevice device("count=1;fault verb=open_device nth=2 every=1 errno=EIO");
  Result<DeviceList> found = discoverDevices(device.config());
  ASSERT_OK(found);
  DeviceList& list = *found;
  const test::Said said;
  test::changePort("soft0:1", "fatal");
  test::waitUntil([&] { return list.hcas.front()->state().fatal(); });
  EXPECT_EQ("", inChild([&]() -> std::string {
              list.reopener.reset();
              return "";
            }));
}

TEST(Reopened, ADriverThatDoesNotAnswerKeepsNobody) {
  const pid_t child = fork();
  if (child == 0) {
    test::endInTwoMinutes();
    const test::SoftwareDevice device("count=1;fault verb=open_device nth=2 delay=1000s");
    Result<DeviceList> found = discoverDevices(device.config());
    if (!found.ok()) _exit(1);
    test::changePort("soft0:1", "fatal");
    test::waitUntil([&] { return found->hcas.front()->state().fatal(); });
    std::this_thread::sleep_for(std::chrono::milliseconds(300));  // six times the pause before the attempt
    found->reopener.reset();
    _exit(0);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

// A driver answers when nobody waits for it any more, in a process that goes on.
class AnswersLate : public testing::TestWithParam<const char*> {};

TEST_P(AnswersLate, TouchesNothingThatIsGone) {
  EXPECT_EQ("", inChild([&]() -> std::string {
              {
                LoopConnection loop(2 * kHalf, std::string("count=1;fault delay=600ms ") + GetParam());
                const Hca& first = *loop.device().rails().front().hca;
                test::changePort("soft0:1", "fatal");
                test::waitUntil([&] { return first.state().fatal(); });
                // Five times the pause before the attempt.
                std::this_thread::sleep_for(std::chrono::milliseconds(250));
                if (first.nextGeneration() != nullptr) return "the driver has answered already";
              }
              std::this_thread::sleep_for(std::chrono::seconds(1));
              return "";
            }));
}

INSTANTIATE_TEST_SUITE_P(Driver, AnswersLate,
                         testing::Values("verb=open_device nth=2", "verb=alloc_pd nth=2", "verb=reg_mr nth=3",
                                         "verb=reg_mr nth=4"));

TEST(Reopened, NotWithoutFailover) {
  const test::Setting no_failover("RAILWISE_FAILOVER", "0");
  LoopConnection loop(2 * kHalf, "count=1");
  Traffic traffic(loop);
  ASSERT_TRUE(traffic.run(8, 512));
  const Hca* const first = loop.sender().rails().front().hca;
  test::changePort("soft0:1", "fatal");
  EXPECT_FALSE(traffic.run(8, 512));
  EXPECT_EQ(first->nextGeneration(), nullptr);
}

}  // namespace
}  // namespace railwise::net
