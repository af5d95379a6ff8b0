// What both of AMD's libraries leave to their reader, without a library.
#include "gpu/amd_rules.h"

#include <gtest/gtest.h>

namespace railwise::gpu {
namespace {

TEST(AmdRulesTest, ArchitectureFromTheDecimalNumberUpToRocm63) {
  EXPECT_EQ(amdArchitecture(942), "gfx942");
  EXPECT_EQ(amdArchitecture(9000), "gfx900");
  EXPECT_EQ(amdArchitecture(9008), "gfx908");
  EXPECT_EQ(amdArchitecture(9010), "gfx90a");
  EXPECT_EQ(amdArchitecture(1030), "gfx1030");
  EXPECT_EQ(amdArchitecture(1201), "gfx1201");
}

TEST(AmdRulesTest, ArchitectureFromTheHexadecimalNumberSinceRocm64) {
  EXPECT_EQ(amdArchitecture(0x942), "gfx942");
  EXPECT_EQ(amdArchitecture(0x950), "gfx950");
  EXPECT_EQ(amdArchitecture(0x900), "gfx900");
  EXPECT_EQ(amdArchitecture(0x90a), "gfx90a");
  EXPECT_EQ(amdArchitecture(0x1030), "gfx1030");
  EXPECT_EQ(amdArchitecture(0x1201), "gfx1201");
}

TEST(AmdRulesTest, ANumberOfNoGpuIsNoArchitecture) {
  EXPECT_EQ(amdArchitecture(0), "");
  EXPECT_EQ(amdArchitecture(0xffff'ffff), "");
  EXPECT_EQ(amdArchitecture(~uint64_t{0}), "");
}

}  // namespace
}  // namespace railwise::gpu
