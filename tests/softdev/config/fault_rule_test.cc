// The text of fault rules: what is accepted, what is refused and how.
#include "softdev/config/fault_rule.h"

#include <infiniband/verbs.h>

#include <cerrno>
#include <cstring>

#include "tests/ok.h"

namespace railwise::softdev::test {
namespace {

FaultRule parsed(const std::string& text) {
  const auto rule = parseFaultRule(text);
  EXPECT_TRUE(rule.ok()) << text << ": " << rule.error();
  return rule.ok() ? *rule : FaultRule{};
}

std::string refused(const std::string& text) {
  const auto rule = parseFaultRule(text);
  EXPECT_FALSE(rule.ok()) << text;
  return rule.error();
}

TEST(FaultRule, EverySelector) {
  const FaultRule rule = parsed(
      "host=a device=mlx5_* port=2 peer=b peer_device=mlx* process=17 qp=0x10002 opcode=write+read after=64k "
      "nth=3 every=2 probability=0.25 seed=9 count=5 drop");
  EXPECT_STREQ(rule.host, "a");
  EXPECT_STREQ(rule.device, "mlx5_*");
  EXPECT_STREQ(rule.peer_device, "mlx*");
  EXPECT_STREQ(rule.peer, "b");
  EXPECT_EQ(rule.port, 2U);
  EXPECT_EQ(rule.process, 17U);
  EXPECT_EQ(rule.qp, 0x10002U);
  EXPECT_EQ(rule.operations, kFaultWrite | kFaultRead);
  EXPECT_EQ(rule.after_bytes, 65536U);
  EXPECT_EQ(rule.nth, 3U);
  EXPECT_EQ(rule.every, 2U);
  EXPECT_EQ(rule.probability, 0.25);
  EXPECT_EQ(rule.seed, 9U);
  EXPECT_EQ(rule.count, 5U);
  EXPECT_EQ(rule.action, FaultAction::kDrop);
}

TEST(FaultRule, Actions) {
  EXPECT_EQ(parsed("status=IBV_WC_REM_ACCESS_ERR").code, static_cast<uint32_t>(IBV_WC_REM_ACCESS_ERR));
  EXPECT_EQ(parsed("status=rem_access_err").code, static_cast<uint32_t>(IBV_WC_REM_ACCESS_ERR));
  EXPECT_EQ(parsed("drop=3").amount, 3U);
  EXPECT_EQ(parsed("rnr").amount, 0U);
  EXPECT_EQ(parsed("delay=20us").amount, 20'000U);
  EXPECT_EQ(parsed("delay=7").amount, 7U);
  EXPECT_EQ(parsed("verb=reg_mr errno=ENOMEM").code, static_cast<uint32_t>(ENOMEM));
  EXPECT_EQ(parsed("event=IBV_EVENT_SM_CHANGE").code, static_cast<uint32_t>(IBV_EVENT_SM_CHANGE));
  EXPECT_EQ(parsed("port=down").action, FaultAction::kPortDown);
  EXPECT_EQ(parsed("port=2 port=up").action, FaultAction::kPortUp);
  EXPECT_EQ(parsed("port=2 port=up").port, 2U);
  EXPECT_EQ(parsed("kill").action, FaultAction::kKillSelf);
  EXPECT_EQ(parsed("kill=peer").action, FaultAction::kKillPeer);
  EXPECT_EQ(parsed("speed=100000").code, 100000U);
  const FaultRule gid = parsed("gid=3=10.1.2.3/v2");
  EXPECT_EQ(gid.gid_index, 3);
  EXPECT_EQ(gid.gid_type, 2U);
  EXPECT_EQ(gid.gid[15], 3);
  EXPECT_EQ(parsed("gid=0=fe80::1").gid_type, kKeepGidType);
}

TEST(FaultRule, EverySendWhenNothingIsSaid) {
  EXPECT_EQ(parsed("stuck").operations, static_cast<uint32_t>(kFaultAnySend));
  EXPECT_EQ(parsed("opcode=any stuck").operations, static_cast<uint32_t>(kFaultAnySend));
}

TEST(FaultRule, TextParsesToTheSameRule) {
  for (const char* text : {"host=a device=mlx5_* port=2 peer=b peer_device=mlx* process=17 qp=65538 "
                           "opcode=write+read after=65536 nth=3 "
                           "every=2 probability=0.25 seed=9 count=5 drop=2",
                           "verb=reg_mr+create_qp nth=2 errno=ENOMEM", "opcode=recv status=loc_prot_err",
                           "opcode=any delay=20us", "device=soft0 opcode=any gid=3=::ffff:10.1.2.3/v2",
                           "opcode=any place=adversarial", "opcode=any kill=peer",
                           "port=1 opcode=write port=down", "opcode=send rnr=4", "opcode=any speed=25000",
                           "opcode=any event=lid_change", "opcode=any device_fatal", "opcode=any qp_fatal"}) {
    const FaultRule rule = parsed(text);
    EXPECT_EQ(faultRuleText(rule), text);
    const FaultRule again = parsed(faultRuleText(rule));
    EXPECT_EQ(std::memcmp(&rule, &again, sizeof rule), 0) << text;
  }
}

TEST(FaultRule, CommasSeparateToo) {
  EXPECT_EQ(faultRuleText(parsed("opcode=write,nth=2, stuck")), "opcode=write nth=2 stuck");
}

TEST(FaultRule, ErrorsNameTheWordAndWhatIsAccepted) {
  struct Case {
    const char* text;
    const char* expected;
  };
  for (const Case& wrong :
       {Case{"opcode=wirte drop", "\"opcode=wirte\": expected any or names joined by +: write"},
        Case{"status=oops", "\"status=oops\": expected one of loc_len_err"},
        Case{"bogus=1 drop", "\"bogus=1\": unknown; known are host="},
        Case{"nth=0 drop", "\"nth=0\": expected a number from 1"},
        Case{"probability=1.5 drop", "expected a number above 0"},
        Case{"drop stuck", "\"stuck\": a rule has one action only"},
        Case{"opcode=write", "no action; one of status, drop"},
        Case{"", "no action"},
        Case{"errno=EIO", "needs verb="},
        Case{"verb=reg_mr drop", "is for opcode="},
        Case{"verb=reg_mr opcode=write delay=1us", "not for both"},
        Case{"verb=reg_mr peer=b errno=EIO", "\"peer\": is for opcode="},
        Case{"verb=reg_mr peer_device=b errno=EIO", "\"peer_device\": is for opcode="},
        Case{"verb=nothing errno=EIO", "alloc_pd"},
        Case{"verb=reg_mr errno=EBOGUS", "EPERM"},
        Case{"opcode=recv drop", "is not for opcode=recv"},
        Case{"opcode=recv+send stuck", "recv stands alone"},
        Case{"opcode=recv status=rem_access_err", "local status"},
        Case{"delay=5h", "as 500ns"},
        Case{"delay=99999999999s", "as 500ns"},
        Case{"delay", "as 500ns"},
        Case{"gid=16=::1", "INDEX=ADDRESS"},
        Case{"gid=1", "INDEX=ADDRESS"},
        Case{"speed=123", "verbs has a code for"},
        Case{"kill=7", "self or peer"},
        Case{"stuck=1", "expected no value"},
        Case{"port=9 drop", "from 1 to 4"},
        Case{"qp=1 drop", "queue pair's number"},
        Case{"host=a/b drop", "host's name"},
        Case{"seed=4 drop", "needs probability="}}) {
    EXPECT_HAS(refused(wrong.text), wrong.expected);
  }
}

TEST(FaultRule, AnEmptyRuleAppliesToNothing) {
  const FaultRule rule{};
  EXPECT_EQ(rule.action, FaultAction::kNone);
  EXPECT_EQ(rule.operations | rule.verbs, 0U);
}

}  // namespace
}  // namespace railwise::softdev::test
