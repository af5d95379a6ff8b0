#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <vector>

#include "topo/search/vain_attempts.h"

namespace railwise::topo {
namespace {

bool tries(const std::vector<float>& speeds, float speed) {
  return std::find(speeds.begin(), speeds.end(), speed) != speeds.end();
}

TEST(SearchSpeeds, FallForEveryVersionAndGpu) {
  for (const NcclVersion version : {NcclVersion::k2_28, NcclVersion::k2_30})
    for (const bool inter : {false, true})
      for (const int sm : {60, 80, 90, 100, 121}) {
        const auto speeds = searchSpeeds(version, inter, sm);
        EXPECT_TRUE(std::is_sorted(speeds.begin(), speeds.end(), std::greater<>())) << sm;
      }
}

TEST(SearchSpeeds, ArriveWithTheGeneration) {
  EXPECT_EQ(searchSpeeds(NcclVersion::k2_30, false, 86).front(), 40);
  EXPECT_EQ(searchSpeeds(NcclVersion::k2_30, false, 90).front(), 60);
  EXPECT_EQ(searchSpeeds(NcclVersion::k2_30, false, 100).front(), 90);
  EXPECT_EQ(searchSpeeds(NcclVersion::k2_30, true, 100).front(), 96);
}

TEST(SearchSpeeds, OfBlackwellGrewWithTheVersions) {
  EXPECT_TRUE(tries(searchSpeeds(NcclVersion::k2_30, true, 100), 86));
  EXPECT_FALSE(tries(searchSpeeds(NcclVersion::k2_28, true, 100), 86));
  EXPECT_TRUE(tries(searchSpeeds(NcclVersion::k2_30, false, 100), 45));
  EXPECT_FALSE(tries(searchSpeeds(NcclVersion::k2_28, false, 100), 45));
}

TEST(SearchSpeeds, Of2_29AreThoseOfTheTag) {
  const NcclVersion release{22907};
  EXPECT_TRUE(tries(searchSpeeds(release, true, 100), 80));
  EXPECT_FALSE(tries(searchSpeeds(release, true, 100), 86));
  EXPECT_FALSE(tries(searchSpeeds(NcclVersion::k2_30, true, 100), 90.2F));
  EXPECT_TRUE(tries(searchSpeeds(NcclVersion::k2_31, true, 100), 90.2F));
}

}  // namespace
}  // namespace railwise::topo
