#include "topo/search/vain_attempts.h"

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

}  // namespace
}  // namespace railwise::topo
