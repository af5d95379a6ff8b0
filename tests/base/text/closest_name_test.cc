#include <gtest/gtest.h>

#include "base/text/words.h"

namespace railwise {
namespace {

TEST(EditDistance, CountsEachSlipOnce) {
  EXPECT_EQ(editDistance("same", "same"), 0U);
  EXPECT_EQ(editDistance("HCS", "HCA"), 1U);
  EXPECT_EQ(editDistance("HAC", "HCA"), 1U);
  EXPECT_EQ(editDistance("TIMEOUTS", "TIMEOUT"), 1U);
  EXPECT_EQ(editDistance("", "abc"), 3U);
  EXPECT_EQ(editDistance("kitten", "sitting"), 3U);
}

TEST(Closest, FindsTheNearestAndNothingFar) {
  const std::vector<std::string> names = {"devices", "perf", "topo"};
  EXPECT_EQ(closest("devcies", names), "devices");
  EXPECT_EQ(closest("dev", names), "devices");
  EXPECT_EQ(closest("something", names), std::nullopt);
  const std::vector<std::string> words = {"LOC", "SYS"};
  EXPECT_EQ(closest("FOO", words), std::nullopt);
  EXPECT_EQ(closest("LOK", words), "LOC");
  const std::vector<std::string> paths = {"PIX", "PXB", "PHB"};
  EXPECT_EQ(closest("PBX", paths), "PXB");
}

}  // namespace
}  // namespace railwise
