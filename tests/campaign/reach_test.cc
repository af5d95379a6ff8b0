// How many pairs of devices can carry traffic.
#include "tests/campaign/reach.h"

#include <gtest/gtest.h>

namespace railwise::cli {
namespace {

softdev::PortInfo portOf(const std::string& host, const std::string& device) {
  softdev::PortInfo port;
  port.host = host;
  port.device = device;
  port.number = 1;
  port.active = true;
  port.contexts = 1;
  port.gids = {"fe80::1/v2"};
  return port;
}

softdev::FaultStatus ruleOf(const std::string& text) {
  softdev::FaultStatus status;
  status.id = 1;
  status.state = softdev::FaultState::kArmed;
  const auto rule = softdev::parseFaultRule(text);
  EXPECT_TRUE(rule.ok()) << rule.error();
  if (rule.ok()) status.rule = *rule;
  return status;
}

class DeviceReach : public testing::Test {
 protected:
  DeviceReach() { devices_.see(ports_); }
  int left(const std::vector<softdev::FaultStatus>& rules = {}) {
    devices_.see(ports_);
    return pairsBetween(devices_, rules, "h0", "h1");
  }
  int leftUnder(const std::string& rule) { return left({ruleOf(rule)}); }

  std::vector<softdev::PortInfo> ports_ = {portOf("h0", "soft0"), portOf("h0", "soft1"),
                                           portOf("h1", "soft0"), portOf("h1", "soft1"),
                                           portOf("h1", "soft2")};
  DeviceStates devices_;
};

TEST_F(DeviceReach, EachDeviceWithEach) {
  EXPECT_EQ(left(), 6);
  EXPECT_EQ(pairsBetween(devices_, {}, "h1", "h0"), 6);
  EXPECT_EQ(pairsBetween(devices_, {}, "h0", "h2"), 0);
}

TEST_F(DeviceReach, PortsThatAreDownOrHaveNoAddressDoNotCount) {
  ports_[0].active = false;
  EXPECT_EQ(left(), 3);
  ports_[2].gids = {"", ""};
  EXPECT_EQ(left(), 2);
  ports_[0].active = true;
  EXPECT_EQ(left(), 4);
}

TEST_F(DeviceReach, ADeviceThatFailedIsGoneUntilItIsOpenedAgain) {
  ports_[1].failed_contexts = 1;
  EXPECT_EQ(left(), 3);
  ports_.erase(ports_.begin() + 1);  // closed
  EXPECT_EQ(left(), 3);
  ports_.push_back(portOf("h0", "soft1"));
  EXPECT_EQ(left(), 6);
}

TEST_F(DeviceReach, ADeviceThatIsMerelyClosedCounts) {
  ports_.pop_back();
  EXPECT_EQ(left(), 6);
}

TEST_F(DeviceReach, ABlackHoleOfADeviceTakesItsPairs) {
  EXPECT_EQ(leftUnder("host=h0 device=soft0 drop"), 3);
  EXPECT_EQ(leftUnder("host=h1 device=soft0 stuck"), 4);
  EXPECT_EQ(leftUnder("device=soft0 opcode=write_imm status=retry_exc_err"), 2);
  EXPECT_EQ(leftUnder("host=h0 device=soft1 verb=post_send errno=EIO"), 3);
}

TEST_F(DeviceReach, OneDirectionIsEnough) {
  EXPECT_EQ(leftUnder("host=h0 peer=h1 drop"), 0);
  EXPECT_EQ(leftUnder("host=h1 peer=h0 drop"), 0);
  EXPECT_EQ(leftUnder("host=h* drop"), 0);
  EXPECT_EQ(leftUnder("host=h0 peer=h2 drop"), 6);
}

TEST_F(DeviceReach, WhatStrikesNowAndThenOrElsewhereTakesNothing) {
  for (const char* rule :
       {"host=h0 drop=8", "host=h0 nth=3 drop", "host=h0 count=2 stuck", "host=h0 probability=0.5 drop",
        "host=h0 every=2 drop", "host=h0 qp=17 drop", "host=h0 process=9 drop", "host=h0 opcode=read drop",
        "host=h0 delay=3ms", "host=h0 event=sm_change", "host=h0 verb=create_qp errno=EIO"})
    EXPECT_EQ(leftUnder(rule), 6) << rule;
}

TEST_F(DeviceReach, ASpentRuleTakesNothing) {
  auto rule = ruleOf("host=h0 drop");
  rule.state = softdev::FaultState::kSpent;
  EXPECT_EQ(left({rule}), 6);
}

TEST_F(DeviceReach, RulesOfBothEndsMultiply) {
  EXPECT_EQ(left({ruleOf("host=h0 device=soft0 drop"), ruleOf("host=h1 device=soft2 drop")}), 2);
}

}  // namespace
}  // namespace railwise::cli
