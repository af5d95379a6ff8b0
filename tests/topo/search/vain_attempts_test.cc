#include "topo/search/vain_attempts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <vector>

#include "tests/topo/search/search_machines.h"

namespace railwise::topo {
namespace {

using namespace test;

struct VainAttemptsBench {
  VainAttemptsBench() : machine(machineOf(twoSwitches())), paths(searchPaths(machine)), candidates(paths) {
    limits.type_intra = PathType::kPix;
    limits.type_inter = PathType::kSys;
    LimitsNoted noted;
    noted.intra.note(PathType::kNvl, true);
    noted.intra.note(PathType::kPhb, false);
    attempts.add({.limits = limits, .noted = noted, .hops = 3, .steps_left = 100});
  }
  bool knows(const SearchLimits& asked, int hops = 3) {
    return attempts.find(asked, hops, candidates) != nullptr;
  }

  Machine machine;
  Paths paths;
  Candidates candidates;
  SearchLimits limits;
  VainAttempts attempts;
};

TEST(VainAttempts, AnswerForTypesThatWouldDoTheSame) {
  VainAttemptsBench f;
  SearchLimits asked = f.limits;
  asked.type_intra = PathType::kNvl;
  EXPECT_TRUE(f.knows(asked));
  asked.type_intra = PathType::kLoc;
  EXPECT_FALSE(f.knows(asked)) << "NVL was walked";
  asked.type_intra = PathType::kPhb;
  EXPECT_FALSE(f.knows(asked)) << "PHB was refused";
}

TEST(VainAttempts, OtherLimitsMustBeEqual) {
  VainAttemptsBench f;
  SearchLimits asked = f.limits;
  asked.bandwidth_intra = 7;
  EXPECT_FALSE(f.knows(asked));
  EXPECT_FALSE(f.knows(f.limits, 4)) << "other hops";
  f.attempts.clear();
  EXPECT_FALSE(f.knows(f.limits));
}

TEST(VainAttempts, ANicTheyDidNotLeaveByDoesNotCount) {
  VainAttemptsBench f;
  SearchLimits asked = f.limits;
  asked.cross_nic = 2;
  EXPECT_TRUE(f.knows(asked));
  LimitsNoted noted;
  noted.cross_nic = true;
  f.attempts.clear();
  f.attempts.add({.limits = f.limits, .noted = noted, .hops = 3, .steps_left = 0});
  EXPECT_FALSE(f.knows(asked));
}

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
