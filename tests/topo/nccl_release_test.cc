// Which rules a release of NCCL has, and which the model uses for it.
#include "topo/nccl_release.h"

#include <algorithm>

#include "tests/ok.h"
#include "topo/settings.h"

namespace railwise::topo::test {
namespace {

TEST(NcclReleaseTest, ReadsAndWritesReleases) {
  EXPECT_EQ(parseNcclVersion("2.30.7"), NcclVersion::k2_30);
  EXPECT_EQ(parseNcclVersion("2.30.7-1"), NcclVersion::k2_30);
  EXPECT_EQ(parseNcclVersion("2.30.7+cuda13.0"), NcclVersion::k2_30);
  EXPECT_EQ(ncclVersionName(NcclVersion::k2_31), "2.31.2");
  for (const char* text : {"", "2", "2.30", "2.30.", "2.30.x", "2.30.7x", "a.30.7", "2.30.700", "-2.30.7"})
    EXPECT_FALSE(parseNcclVersion(text).has_value()) << text;
}

TEST(NcclReleaseTest, AMinorVersionIsItsNewestRelease) {
  EXPECT_EQ(rulesFor("2.30")->rules, NcclVersion::k2_30);
  EXPECT_EQ(rulesFor("2.28")->rules, NcclVersion::k2_28);
  EXPECT_EQ(rulesFor("2.31")->rules, NcclVersion::k2_31);
  EXPECT_EQ(rulesFor("2.30.4")->rules, NcclVersion{23004});
  for (const char* text : {"2.12", "2.33", "3.0", "1.30", "2", "2.", "", "2.30.7.1", "newest"})
    EXPECT_FALSE(rulesFor(text).has_value()) << text;
}

TEST(NcclReleaseTest, ReleasesWithKnownRulesLeaveNoDoubt) {
  for (const char* text : {"2.24", "2.28.3", "2.30.4", "2.30.7", "2.31.2"})
    EXPECT_EQ(rulesFor(text)->doubt, "") << text;
}

TEST(NcclReleaseTest, SaysWhatIsNotKnown) {
  const NcclChoice newer = *rulesFor("2.32");
  EXPECT_EQ(newer.rules, NcclVersion::k2_31);
  EXPECT_TRUE(newer.newer);
  EXPECT_HAS(newer.doubt, "NCCL 2.32 is newer than 2.31.2");
  EXPECT_HAS(newer.doubt, "rails and planes of ConnectX-9");
  EXPECT_HAS(rulesFor("2.32.6")->doubt, "NCCL 2.32.6 is newer");
  EXPECT_TRUE(rulesFor(NcclVersion{30101}).newer);
  EXPECT_LACKS(rulesFor(NcclVersion{30101}).doubt, "ConnectX");
  EXPECT_EQ(rulesFor("2.30.5")->rules, NcclVersion{23004});
  EXPECT_EQ(rulesFor("2.30.5")->doubt, "NCCL 2.30.5 has no public tag; 2.30.4 is the one before it");
  EXPECT_HAS(rulesFor("2.17")->doubt, "PXN");
  EXPECT_HAS(rulesFor("2.20")->doubt, "merges ports");
  EXPECT_EQ(rulesFor(NcclVersion{20805}).rules, NcclVersion{21304});
}

TEST(NcclReleaseTest, RulesBeginAndEndWithTheirReleases) {
  EXPECT_FALSE(NcclVersion{22907}.has(NcclRule::kDeviceNodes));
  EXPECT_TRUE(NcclVersion{23003}.has(NcclRule::kDeviceNodes));
  EXPECT_FALSE(NcclVersion{23004}.has(NcclRule::kTypeBeforeBandwidth));
  EXPECT_FALSE(NcclVersion{23004}.has(NcclRule::kNicsByShare));
  EXPECT_TRUE(NcclVersion::k2_30.has(NcclRule::kNicsByShare));
  EXPECT_FALSE(NcclVersion::k2_31.has(NcclRule::kNicsByShare));
}

TEST(NcclReleaseTest, ChangesAreEqualInBothDirections) {
  const auto up = ruleChanges(NcclVersion::k2_28, NcclVersion::k2_31);
  const auto down = ruleChanges(NcclVersion::k2_31, NcclVersion::k2_28);
  ASSERT_EQ(up.size(), down.size());
  for (std::size_t i = 0; i < up.size(); ++i) EXPECT_EQ(up[i].text, down[i].text);
  EXPECT_TRUE(std::is_sorted(up.begin(), up.end(),
                             [](const RuleChange& a, const RuleChange& b) { return a.release < b.release; }));
  EXPECT_TRUE(ruleChanges(NcclVersion::k2_30, NcclVersion::k2_30).empty());
  // What began and ended between them is no change.
  EXPECT_TRUE(std::none_of(up.begin(), up.end(), [](const RuleChange& change) {
    return !change.begins && change.release == NcclVersion::k2_31 && change.text.starts_with("equally near");
  }));
}

TEST(NcclReleaseTest, SettingsThatAReleaseDoesNotHaveAreNotRead) {
  const auto lookup = [](const char* name) {
    const std::string_view text = name;
    return text == "NCCL_TOPO_SCATTER_START_NET" ? "1" : text == "NCCL_NETDEVS_POLICY" ? "ALL" : nullptr;
  };
  EXPECT_EQ(settingsFromEnvironment(lookup, NcclVersion::k2_31).topo_scatter_start_net, 1);
  EXPECT_EQ(settingsFromEnvironment(lookup, NcclVersion::k2_30).topo_scatter_start_net, 0);
  EXPECT_EQ(settingsFromEnvironment(lookup, NcclVersion{22707}).netdevs_policy,
            Settings::NetDevsPolicy::kAuto);
  EXPECT_EQ(settingsFromEnvironment(lookup, NcclVersion{22606}).net_gdr_c2c, 0);
  EXPECT_EQ(settingsFromEnvironment(lookup, NcclVersion{22707}).pxn_c2c, 0);
}

TEST(NcclReleaseTest, SaysWhatP2pAcrossCliquesObeys) {
  const auto lookup = [](const char* name) {
    const std::string_view text = name;
    return text == "NCCL_MNNVL_CROSS_CLIQUE" || text == "NCCL_P2P_DISABLE" ? "1" : nullptr;
  };
  const auto warnings = [&](NcclVersion release) {
    return settingsFromEnvironment(lookup, release).warnings;
  };
  ASSERT_EQ(warnings(NcclVersion::k2_31).size(), 1U);
  EXPECT_HAS(warnings(NcclVersion::k2_31)[0], "has no effect");
  ASSERT_EQ(warnings(NcclVersion::k2_30).size(), 1U);
  EXPECT_HAS(warnings(NcclVersion::k2_30)[0], "allows P2P");
  EXPECT_TRUE(warnings(NcclVersion::k2_28).empty());
}

}  // namespace
}  // namespace railwise::topo::test
