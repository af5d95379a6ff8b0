// A schedule on the software device of this process, at times that the test says.
#include "tests/campaign/conductor.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "softdev/engine/attachment.h"
#include "softdev/fabric/segment.h"
#include "software_device.h"
#include "tests/ok.h"

namespace railwise::cli {
namespace {

using std::chrono::milliseconds;

FaultStep stepOf(int at_ms, FaultStep::What what, const std::string& text, const std::string& place = "") {
  FaultStep step;
  step.at_ms = at_ms;
  step.what = what;
  step.text = text;
  step.place = place;
  return step;
}

// Host h0 with two devices, which talks to itself.
class Conductor : public testing::Test {
 protected:
  Conductor()
      : device_("count=2,host=h0"),
        first_(device_.open(0)),
        second_(device_.open(1)),
        fabric_("test" + std::to_string(getpid())) {}

  int leftAt(FaultConductor& conductor, int ms) {
    conductor.conduct(milliseconds(ms));
    return conductor.pairs().last;
  }

  const test::SoftwareDevice device_;
  const verbs::Context first_, second_;
  const std::string fabric_;
  Schedule schedule_;
  const std::vector<std::pair<int, int>> talking_ = {{0, 0}};
};

TEST(ConductorAlone, WaitsForSomebody) {
  const Schedule none;
  FaultConductor conductor("nobody" + std::to_string(getpid()), none, {});
  EXPECT_FALSE(conductor.attach());
  EXPECT_FALSE(conductor.othersLeft());
}

TEST_F(Conductor, DoesEachStepInItsTimeAndSeesWhatIsLeft) {
  schedule_.steps = {stepOf(10, FaultStep::kPort, "down", "h0/soft0"),
                     stepOf(20, FaultStep::kRule, "host=h0 device=soft1 drop"),
                     stepOf(30, FaultStep::kHeal, ""), stepOf(40, FaultStep::kPort, "up", "h0/soft0")};
  schedule_.steps[2].heals = 1;
  FaultConductor conductor(fabric_, schedule_, talking_);
  ASSERT_TRUE(conductor.attach());
  EXPECT_EQ(leftAt(conductor, 9), 4);
  EXPECT_EQ(conductor.stepsDone(), 0);
  EXPECT_EQ(leftAt(conductor, 10), 1);
  EXPECT_EQ(leftAt(conductor, 25), 0);
  EXPECT_EQ(leftAt(conductor, 30), 1);
  EXPECT_EQ(leftAt(conductor, 99), 4);
  EXPECT_EQ(conductor.stepsDone(), 4);
  conductor.close();
  EXPECT_EQ(conductor.pairs().least, 0);
  EXPECT_TRUE(conductor.pairs().zero_age_ms);
  EXPECT_EQ(conductor.fired(), 2U);
  ASSERT_EQ(conductor.marks().size(), 3U);
  EXPECT_EQ(conductor.marks()[0].words, "h0/soft0 port=down");
  EXPECT_EQ(conductor.marks()[1].words, "rule 1 is removed");
}

TEST_F(Conductor, ADeviceThatFailedIsGone) {
  schedule_.steps = {stepOf(0, FaultStep::kPort, "fatal", "h0/soft1")};
  FaultConductor conductor(fabric_, schedule_, talking_);
  ASSERT_TRUE(conductor.attach());
  EXPECT_EQ(leftAt(conductor, 0), 1);
  conductor.close();
  EXPECT_FALSE(conductor.pairs().zero_age_ms);
}

TEST_F(Conductor, TheLastLookIsAtTheEnd) {
  FaultConductor conductor(fabric_, schedule_, talking_);
  ASSERT_TRUE(conductor.attach());
  EXPECT_EQ(leftAt(conductor, 0), 4);
  Schedule other;
  other.steps = {stepOf(0, FaultStep::kPort, "down", "h0/soft0"),
                 stepOf(0, FaultStep::kPort, "down", "h0/soft1")};
  FaultConductor somebody(fabric_, other, talking_);
  ASSERT_TRUE(somebody.attach());
  somebody.conduct(milliseconds(0));
  conductor.close();
  EXPECT_EQ(conductor.pairs().last, 0);
  EXPECT_EQ(conductor.fired(), 2U);
}

TEST_F(Conductor, DisarmsWhatWouldStrikeOnce) {
  schedule_.steps = {stepOf(0, FaultStep::kRule, "opcode=write nth=5 qp_fatal"),
                     stepOf(0, FaultStep::kRule, "verb=post_send count=2 errno=EIO"),
                     stepOf(0, FaultStep::kRule, "host=h0 device=soft1 drop")};
  FaultConductor conductor(fabric_, schedule_, talking_);
  ASSERT_TRUE(conductor.attach());
  EXPECT_EQ(leftAt(conductor, 0), 1);
  conductor.disarm();
  const auto fabric = softdev::joinFabric(fabric_);
  ASSERT_OK(fabric);
  const auto rules = softdev::listFaults(**fabric);
  ASSERT_EQ(rules.size(), 1U);
  EXPECT_EQ(rules[0].rule.action, softdev::FaultAction::kDrop);
  softdev::detachFabric(*fabric);
}

volatile std::sig_atomic_t g_goes_on = 0;

// A process of host h1 that holds the lock of the fabric's faults until it gets SIGCONT.
[[noreturn]] void holdLockUntilContinued(const std::string& fabric, int ready) {
  alarm(60);
  std::signal(SIGCONT, [](int) { g_goes_on = 1; });
  Config config;
  config.device = "software:fabric=" + fabric + ",host=h1";
  if (!verbs::load(config).ok()) _exit(1);
  int count = 0;
  ibv_device** const list = verbs::library().get_device_list(&count);
  const verbs::Context context(count > 0 ? verbs::library().open_device(list[0]) : nullptr);
  const auto joined = softdev::joinFabric(fabric);
  if (context == nullptr || !joined.ok()) _exit(1);
  {
    const softdev::SharedLockGuard guard((*joined)->segment->faults.lock, (*joined)->self);
    if (write(ready, "", 1) != 1) _exit(1);
    while (g_goes_on == 0) usleep(1000);
  }
  for (;;) pause();
}

// The conductor waits for that lock, too.
TEST(ConductorAlone, WhoIsStoppedWithALockOfTheFabricGoesOn) {
  const std::string fabric = "stopped" + std::to_string(getpid());
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  if (child == 0) holdLockUntilContinued(fabric, ready[1]);
  close(ready[1]);
  char byte = 1;
  EXPECT_EQ(read(ready[0], &byte, 1), 1);
  close(ready[0]);

  Schedule schedule;
  schedule.steps = {stepOf(0, FaultStep::kStop, "", "h1"), stepOf(100, FaultStep::kGoOn, "", "h1")};
  FaultConductor conductor(fabric, schedule, {});
  EXPECT_TRUE(conductor.attach());
  conductor.conduct(milliseconds(0));
  EXPECT_TRUE(conductor.anyoneStopped());
  conductor.conduct(milliseconds(100));
  EXPECT_FALSE(conductor.anyoneStopped());
  ASSERT_EQ(conductor.marks().size(), 2U);
  EXPECT_EQ(conductor.marks()[0].words, "the process of h1 is stopped");
  EXPECT_EQ(conductor.marks()[1].words, "the process of h1 goes on");
  kill(child, SIGKILL);
  EXPECT_EQ(waitpid(child, nullptr, 0), child);
}

TEST_F(Conductor, NoOtherProcessIsThere) {
  FaultConductor conductor(fabric_, schedule_, talking_);
  ASSERT_TRUE(conductor.attach());
  EXPECT_FALSE(conductor.othersLeft());
}

}  // namespace
}  // namespace railwise::cli
