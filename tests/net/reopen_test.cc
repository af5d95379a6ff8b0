// A device that has failed and works again is opened anew, and connections go on over it.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <string>
#include <thread>

#include "loop_connection.h"
#include "net/device/reopener.h"
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
  EXPECT_EQ(sender.failovers, 1U);
  EXPECT_EQ(sender.degraded, 0);
  EXPECT_GT(sender.degraded_ns, 0U);
  EXPECT_EQ(snapshot->rails.at(0).device, "soft0");
  EXPECT_EQ(snapshot->rails.at(0).returns, 2U);  // of both ends
  EXPECT_NE(said.all().find("soft0: opened anew after its failure"), std::string::npos) << said.all();
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
  EXPECT_NE(said.all().find("soft0: opened anew after its failure, its name is soft7 now"), std::string::npos)
      << said.all();
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
  setenv("RAILWISE_FAILOVER_TIMEOUT", "1", 1);
  LoopConnection loop(2 * kHalf, "count=1");
  unsetenv("RAILWISE_FAILOVER_TIMEOUT");
  Traffic traffic(loop);
  ASSERT_TRUE(traffic.run(8, 512));
  const test::Said said;
  for (int life = 1; life < 16; ++life) {
    test::changePort("soft0:1", "fatal");
    ASSERT_TRUE(traffic.run(8, 512)) << life;
  }
  EXPECT_EQ(said.all().find("it has failed"), std::string::npos);
  test::changePort("soft0:1", "fatal");
  EXPECT_FALSE(traffic.run(8, 512));
  EXPECT_NE(said.all().find("soft0: it has failed 16 times"), std::string::npos) << said.all();
  EXPECT_NE(said.all().find("no path to the peer is left"), std::string::npos) << said.all();
}

TEST(Reopened, AForkedChildEndsWithoutTheThread) {
  const test::SoftwareDevice device("count=1;fault verb=open_device nth=2 every=1 errno=EIO");
  Result<DeviceList> found = discoverDevices(device.config());
  ASSERT_OK(found);
  DeviceList& list = *found;
  const test::Said said;
  test::changePort("soft0:1", "fatal");
  test::waitUntil([&] { return list.hcas.front()->state().fatal(); });
  const pid_t child = fork();
  if (child == 0) {
    test::endInTwoMinutes();
    list.reopener.reset();
    _exit(0);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
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

TEST(Reopened, NotWithoutFailover) {
  setenv("RAILWISE_FAILOVER", "0", 1);
  LoopConnection loop(2 * kHalf, "count=1");
  unsetenv("RAILWISE_FAILOVER");
  Traffic traffic(loop);
  ASSERT_TRUE(traffic.run(8, 512));
  const Hca* const first = loop.sender().rails().front().hca;
  test::changePort("soft0:1", "fatal");
  EXPECT_FALSE(traffic.run(8, 512));
  EXPECT_EQ(first->nextGeneration(), nullptr);
}

}  // namespace
}  // namespace railwise::net
