// NCCL's environment variables, read as NCCL reads them.
#include "topo/settings.h"

#include <map>
#include <string>

#include "tests/ok.h"

namespace railwise::topo::test {
namespace {

Settings settingsOf(const std::map<std::string, std::string>& environment) {
  return settingsFromEnvironment([&](const char* name) {
    const auto found = environment.find(name);
    return found == environment.end() ? nullptr : found->second.c_str();
  });
}

int level(PathType type) { return static_cast<int>(type); }

TEST(SettingsTest, NothingSetIsNcclsDefaults) {
  const Settings settings = settingsOf({});
  EXPECT_EQ(settings.p2p_level, Settings::kUnset);
  EXPECT_EQ(settings.net_merge_level, PathType::kNvl);  // PORT
  EXPECT_TRUE(settings.from_environment.empty());
  EXPECT_TRUE(settings.warnings.empty());
}

TEST(SettingsTest, LevelsByName) {
  EXPECT_EQ(settingsOf({{"NCCL_P2P_LEVEL", "PXB"}}).p2p_level, level(PathType::kPxb));
  EXPECT_EQ(settingsOf({{"NCCL_NET_GDR_LEVEL", "SYS"}}).net_gdr_level, level(PathType::kSys));
}

TEST(SettingsTest, LevelsByNumbersOfOld) {
  const std::map<std::string, PathType> numbers = {{"0", PathType::kLoc}, {"1", PathType::kPix},
                                                   {"2", PathType::kPxb}, {"3", PathType::kPhb},
                                                   {"4", PathType::kSys}, {"99", PathType::kSys}};
  for (const auto& [text, type] : numbers)
    EXPECT_EQ(settingsOf({{"NCCL_P2P_LEVEL", text}}).p2p_level, level(type)) << text;
}

TEST(SettingsTest, UnknownLevelIsIgnoredWithAWarning) {
  const Settings settings = settingsOf({{"NCCL_P2P_LEVEL", "PATH_SYS"}});
  EXPECT_EQ(settings.p2p_level, Settings::kUnset);
  ASSERT_EQ(settings.warnings.size(), 1U);
  EXPECT_HAS(settings.warnings[0], "NCCL_P2P_LEVEL='PATH_SYS'");
}

TEST(SettingsTest, P2pDisableGoesBeforeTheLevel) {
  EXPECT_EQ(settingsOf({{"NCCL_P2P_DISABLE", "1"}, {"NCCL_P2P_LEVEL", "SYS"}}).p2p_level,
            level(PathType::kLoc));
  EXPECT_EQ(settingsOf({{"NCCL_P2P_DISABLE", "0"}, {"NCCL_P2P_LEVEL", "SYS"}}).p2p_level,
            level(PathType::kSys));
}

TEST(SettingsTest, NumbersAsStrtollReadsThem) {
  EXPECT_EQ(settingsOf({{"NCCL_PXN_DISABLE", "0x1"}}).pxn_disable, 1);
  EXPECT_EQ(settingsOf({{"NCCL_CROSS_NIC", ""}}).cross_nic, 2);
  const Settings words = settingsOf({{"NCCL_PXN_C2C", "yes"}});
  EXPECT_EQ(words.pxn_c2c, 0);
  EXPECT_EQ(words.warnings.size(), 1U);
  EXPECT_EQ(settingsOf({{"NCCL_PXN_C2C", "99999999999999999999"}}).pxn_c2c, 1);
}

TEST(SettingsTest, NetDevsPolicy) {
  EXPECT_EQ(settingsOf({{"NCCL_NETDEVS_POLICY", "all"}}).netdevs_policy, Settings::NetDevsPolicy::kAll);
  const Settings two = settingsOf({{"NCCL_NETDEVS_POLICY", "MAX:2"}});
  EXPECT_EQ(two.netdevs_policy, Settings::NetDevsPolicy::kMax);
  EXPECT_EQ(two.netdevs_max, 2);
  const Settings none = settingsOf({{"NCCL_NETDEVS_POLICY", "MAX:0"}});
  EXPECT_EQ(none.netdevs_policy, Settings::NetDevsPolicy::kAuto);
  EXPECT_EQ(none.warnings.size(), 1U);
}

TEST(SettingsTest, MergeLevelFallsBackToNoFusion) {
  EXPECT_EQ(settingsOf({{"NCCL_NET_MERGE_LEVEL", "PXB"}}).net_merge_level, PathType::kPxb);
  const Settings unknown = settingsOf({{"NCCL_NET_MERGE_LEVEL", "ALL"}});
  EXPECT_EQ(unknown.net_merge_level, PathType::kLoc);
  EXPECT_EQ(unknown.warnings.size(), 1U);
}

TEST(SettingsTest, WhatWasSetIsListed) {
  const Settings settings = settingsOf({{"NCCL_P2P_LEVEL", "SYS"}, {"NCCL_NVB_DISABLE", "1"}});
  EXPECT_EQ(settings.from_environment,
            (std::vector<std::string>{"NCCL_P2P_LEVEL=SYS", "NCCL_NVB_DISABLE=1"}));
}

TEST(SettingsTest, EveryPathTypeHasANameAndAMeaning) {
  for (int i = 0; i < kPathTypes; ++i) {
    EXPECT_EQ(std::string(pathTypeName(static_cast<PathType>(i))).size(), 3U);
    EXPECT_GT(std::string(pathTypeMeaning(static_cast<PathType>(i))).size(), 5U);
  }
}

}  // namespace
}  // namespace railwise::topo::test
