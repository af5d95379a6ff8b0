// Wrong values, settings that contradict each other, and settings that NCCL no longer reads.
#include "base/settings/setting_mistakes.h"

#include "tests/ok.h"

namespace railwise {
namespace {

// The texts of all mistakes, a line each.
std::string mistakes(const Environment& environment) {
  std::string lines;
  for (const SettingMistake& mistake : settingMistakes(environment)) lines += mistake.text + "\n";
  return lines;
}

bool found(const Environment& environment, const char* part) {
  return mistakes(environment).find(part) != std::string::npos;
}

TEST(SettingMistakes, NoneInAGoodEnvironment) {
  EXPECT_EQ(mistakes({{"NCCL_DEBUG", "info"},
                      {"NCCL_DEBUG_SUBSYS", "^INIT,net"},
                      {"NCCL_ALGO", "Ring,Tree"},
                      {"NCCL_PROTO", "^LL"},
                      {"NCCL_IB_HCA", "=mlx5_0:1"},
                      {"NCCL_IB_TIMEOUT", "22"},
                      {"NCCL_IB_PKEY", "0x10"},
                      {"NCCL_BUFFSIZE", "8388608"},
                      {"NCCL_NET_GDR_LEVEL", "PHB"},
                      {"NCCL_NET_PLUGIN", "railwise"},
                      {"NCCL_NET", "railwise"},
                      {"NCCL_CROSS_NIC", ""},
                      {"NCCL_VERSION", "2.29.7-1"}}),
            "");
}

TEST(ValueMistakes, NumbersOutOfRange) {
  EXPECT_TRUE(found({{"NCCL_CROSS_NIC", "3"}}, "NCCL_CROSS_NIC=3 is out of range: a number from 0 to 2"));
  EXPECT_TRUE(found({{"NCCL_NVLS_ENABLE", "-1"}}, "out of range"));
  EXPECT_TRUE(found({{"NCCL_NTHREADS", "100"}}, "NCCL_NTHREADS=100 is no multiple of 32"));
  EXPECT_EQ(mistakes({{"NCCL_NTHREADS", "128"}}), "");
  EXPECT_TRUE(found({{"NCCL_IB_TIMEOUT", "32"}}, "NCCL_IB_TIMEOUT=32 is not accepted"));
}

TEST(ValueMistakes, TextWhereANumberBelongs) {
  EXPECT_TRUE(
      found({{"NCCL_P2P_DISABLE", "yes"}}, "NCCL_P2P_DISABLE=yes is not a number: NCCL reads it as 0"));
  EXPECT_TRUE(found({{"NCCL_BUFFSIZE", "8M"}}, "NCCL reads it as 8"));
  EXPECT_TRUE(found({{"NCCL_BUFFSIZE", "99999999999999999999"}}, "larger than NCCL's numbers"));
}

TEST(ValueMistakes, WordsThatAreNone) {
  EXPECT_TRUE(found({{"NCCL_DEBUG", "INFOS"}}, "did you mean INFO?"));
  EXPECT_TRUE(found({{"NCCL_NET_GDR_LEVEL", "phb"}}, "NCCL wants in capital letters"));
  EXPECT_TRUE(found({{"NCCL_ALGO", "Rng"}}, "\"Rng\" is none of Tree, Ring"));
  EXPECT_TRUE(found({{"NCCL_PROTO", "allreduce:LL,Simpel"}}, "did you mean SIMPLE?"));
  EXPECT_TRUE(found({{"NCCL_DEBUG_SUBSYS", "NETWORK"}}, "\"NETWORK\" is none of"));
  EXPECT_TRUE(found({{"RAILWISE_CONNECT", "udp"}}, "RAILWISE_CONNECT=udp is not accepted"));
  EXPECT_TRUE(found({{"RAILWISE_STRICT", "gdrr"}}, "RAILWISE_STRICT=gdrr is not accepted"));
}

TEST(ValueMistakes, NamesOfCollectivesAreUnderstood) {
  EXPECT_EQ(mistakes({{"NCCL_ALGO", "allreduce:tree,ring;broadcast:^pat"}}), "");
  EXPECT_TRUE(found({{"NCCL_ALGO", "allredcue:tree"}}, "did you mean ALLREDUCE?"));
}

// As NCCL's parseList() takes them apart: empty parts count for nothing.
TEST(ValueMistakes, AListThatNcclRefusesFailsInit) {
  for (const char* bad :
       {"Foo", "CollNet", "allreduce:ring;tree", "ring;ring", ";ring", ":", "sendrecv:ring"}) {
    const auto all = valueMistakes({{"NCCL_ALGO", bad}});
    ASSERT_EQ(all.size(), 1U) << bad;
    EXPECT_TRUE(all[0].init_fails) << bad;
    EXPECT_HAS(all[0].text, "NCCL's init fails with it (2.24.3 and later)");
  }
  for (const char* good : {"Simple,", ",LL", "^", "LL;", "LL;allreduce:Simple", "LL::"})
    EXPECT_EQ(mistakes({{"NCCL_PROTO", good}}), "") << good;
  const auto subsystem = valueMistakes({{"NCCL_DEBUG_SUBSYS", "NETWORK"}});
  ASSERT_EQ(subsystem.size(), 1U);
  EXPECT_FALSE(subsystem[0].init_fails);
}

TEST(Contradictions, AnotherNetworkThanRailwise) {
  const Environment railwise = {{"NCCL_NET_PLUGIN", "railwise"}};
  const auto with = [&](const char* name, const char* value) {
    Environment environment = railwise;
    environment[name] = value;
    return mistakes(environment);
  };
  EXPECT_HAS(with("NCCL_NET", "IB"), "NCCL_NET=IB wins");
  EXPECT_HAS(with("NCCL_NET", "Socket"), "NCCL_NET=Socket wins");
  EXPECT_HAS(with("NCCL_IB_DISABLE", "1"), "switches Railwise off too");
  EXPECT_EQ(mistakes({{"NCCL_NET_PLUGIN", "none"}}), "") << "the way back from Railwise";
  EXPECT_TRUE(found({{"NCCL_NET_PLUGIN", "railwise"}, {"NCCL_NET", "Railwise"}, {"NCCL_IB_DISABLE", "1"}},
                    "and its init fails"));
  EXPECT_TRUE(found({{"NCCL_NET_PLUGIN", "none"}, {"NCCL_NET", "Railwise"}}, "NCCL's init fails"));
  EXPECT_EQ(
      mistakes({{"NCCL_IB_DISABLE", "1"}, {"NCCL_NET_PLUGIN", "railwise"}, {"RAILWISE_DEVICE", "verbs"}}),
      "");
}

TEST(Contradictions, TheGidIndexWins) {
  const Environment both = {{"NCCL_IB_GID_INDEX", "3"}, {"NCCL_IB_ADDR_FAMILY", "AF_INET6"}};
  EXPECT_TRUE(found(both, "NCCL_IB_GID_INDEX=3 wins over NCCL_IB_ADDR_FAMILY=AF_INET6"));
  EXPECT_EQ(mistakes({{"NCCL_IB_GID_INDEX", "-1"}, {"NCCL_IB_ROCE_VERSION_NUM", "2"}}), "");
}

TEST(Contradictions, AnotherTunerThanRailwise) {
  EXPECT_TRUE(found({{"NCCL_TUNER_PLUGIN", "ofi"}, {"RAILWISE_TUNER_CONFIG", "/t.csv"}},
                    "NCCL_TUNER_PLUGIN=ofi wins over RAILWISE_TUNER_CONFIG=/t.csv"));
  EXPECT_EQ(mistakes({{"NCCL_TUNER_PLUGIN", "libnccl-net-railwise.so"}, {"RAILWISE_TUNER_CONFIG", "/t.csv"}}),
            "");
}

TEST(Contradictions, CollNetHasNoEffectWithRailwise) {
  EXPECT_TRUE(
      found({{"NCCL_COLLNET_ENABLE", "1"}, {"NCCL_NET_PLUGIN", "railwise"}}, "Railwise offers no CollNet"));
  EXPECT_FALSE(found({{"NCCL_COLLNET_ENABLE", "0"}, {"NCCL_NET_PLUGIN", "railwise"}}, "CollNet"));
  EXPECT_FALSE(found({{"NCCL_COLLNET_ENABLE", "1"}, {"NCCL_NET_PLUGIN", "sharp"}}, "CollNet"));
}

TEST(Contradictions, NvlsAloneWithoutNvls) {
  EXPECT_TRUE(found({{"NCCL_ALGO", "nvls,NVLSTree"}, {"NCCL_NVLS_ENABLE", "0"}}, "leaves no algorithm of"));
  EXPECT_FALSE(found({{"NCCL_ALGO", "NVLS,Ring"}, {"NCCL_NVLS_ENABLE", "0"}}, "leaves no algorithm of"));
  EXPECT_FALSE(found({{"NCCL_ALGO", "NVLS"}}, "leaves no algorithm of"));
}

TEST(Contradictions, ALongTimeoutIsToldInSeconds) {
  EXPECT_TRUE(found({{"NCCL_IB_TIMEOUT", "23"}}, "fails after 275 s at the earliest"));
  EXPECT_TRUE(found({{"NCCL_IB_TIMEOUT", "23"}, {"NCCL_IB_RETRY_CNT", "0"}}, "fails after 34 s"));
}

TEST(Contradictions, NcclsFailoverVariableIsNotRailwises) {
  const Environment off = {{"NCCL_IB_RESILIENCY_PORT_FAILOVER", "0"}, {"NCCL_NET_PLUGIN", "railwise"}};
  EXPECT_TRUE(found(off, "NCCL_IB_RESILIENCY_PORT_FAILOVER=0 does not turn off Railwise's failover"));
  Environment both = off;
  both["RAILWISE_FAILOVER"] = "0";
  EXPECT_FALSE(found(both, "does not turn off"));
  EXPECT_FALSE(found({{"NCCL_IB_RESILIENCY_PORT_FAILOVER", "0"}}, "does not turn off"))
      << "NCCL's own network";
}

TEST(Contradictions, OthersNameBothAndTheWinner) {
  EXPECT_TRUE(
      found({{"NCCL_NET_GDR_LEVEL", "LOC"}, {"NCCL_NET_GDR_READ", "1"}}, "wins over NCCL_NET_GDR_READ=1"));
  EXPECT_TRUE(found({{"NCCL_P2P_DISABLE", "1"}, {"NCCL_P2P_LEVEL", "SYS"}}, "NCCL_P2P_DISABLE=1 wins over"));
  EXPECT_TRUE(found(
      {{"RAILWISE_FAILOVER", "0"}, {"RAILWISE_FAILOVER_TIMEOUT", "9"}},
      "RAILWISE_FAILOVER=0 wins over RAILWISE_FAILOVER_TIMEOUT=9: the first failure that the NIC's retries "
      "do not bridge ends the connection"));
  EXPECT_TRUE(
      found({{"NCCL_NET_OPTIONAL_RECV_COMPLETION", "1"}}, "has no effect while RAILWISE_FAILOVER is on"));
  EXPECT_TRUE(found({{"NCCL_MIN_CTAS", "9"}, {"NCCL_MAX_CTAS", "8"}}, "is more than NCCL_MAX_CTAS=8"));
  EXPECT_TRUE(
      found({{"NCCL_IB_MERGE_NICS", "0"}, {"NCCL_NET_MERGE_LEVEL", "PORT"}}, "wins over NCCL_NET_MERGE"));
  EXPECT_TRUE(found({{"NCCL_PXN_DISABLE", "1"}, {"NCCL_P2P_PXN_LEVEL", "2"}}, "NCCL_PXN_DISABLE=1 wins"));
}

TEST(SettingsNoLongerRead, NameTheSuccessor) {
  const auto found = settingsNoLongerRead({{"NCCL_IB_GDR_LEVEL", "3"}});
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].text, "NCCL_IB_GDR_LEVEL=3 has no effect: NCCL 2.3 was the last to read it");
  EXPECT_EQ(found[0].fix, "unset NCCL_IB_GDR_LEVEL; NCCL_NET_GDR_LEVEL took its place");
}

}  // namespace
}  // namespace railwise
