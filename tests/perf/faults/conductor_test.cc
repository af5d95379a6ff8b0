// A schedule on the software device of this process, at times that the test says.
#include "perf/faults/conductor.h"

#include <gtest/gtest.h>

#include "softdev/engine/attachment.h"
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

TEST_F(Conductor, NoOtherProcessIsThere) {
  FaultConductor conductor(fabric_, schedule_, talking_);
  ASSERT_TRUE(conductor.attach());
  EXPECT_FALSE(conductor.othersLeft());
}

}  // namespace
}  // namespace railwise::cli
