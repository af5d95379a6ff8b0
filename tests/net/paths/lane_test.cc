// What a lane counts.
#include "net/paths/lane.h"

#include <gtest/gtest.h>

namespace railwise::net {
namespace {

TEST(PostedReceives, HaveAllComeBackAlsoWhereTheCountsWrap) {
  constexpr uint32_t kLast = UINT32_MAX;
  EXPECT_TRUE(allCameBack(0, 0));
  EXPECT_FALSE(allCameBack(64, 63));
  EXPECT_TRUE(allCameBack(64, 64));
  for (uint32_t posted = kLast - 70; posted != 70; ++posted) {
    EXPECT_TRUE(allCameBack(posted, posted)) << posted;
    for (uint32_t missing = 1; missing <= 2 * kPostedReceives; ++missing)
      EXPECT_FALSE(allCameBack(posted, posted - missing)) << posted << " of which are missing " << missing;
  }
}

}  // namespace
}  // namespace railwise::net
