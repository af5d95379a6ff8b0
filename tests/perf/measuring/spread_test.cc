#include <gtest/gtest.h>

#include "perf/measuring/measuring.h"

namespace railwise::cli {
namespace {

TEST(Spread, HasThePercentilesOfNcclTests) {
  const Spread its = spreadOf({8, 1, 7, 2, 6, 3, 5, 4});
  EXPECT_EQ(its.samples, 8);
  EXPECT_DOUBLE_EQ(its.least, 1);
  EXPECT_DOUBLE_EQ(its.quarter, 2);
  EXPECT_DOUBLE_EQ(its.median, 4);
  EXPECT_DOUBLE_EQ(its.three_quarters, 6);
  EXPECT_DOUBLE_EQ(its.p99, 8);
  EXPECT_DOUBLE_EQ(its.mean, 4.5);
  EXPECT_NEAR(its.deviation, 2.2913, 1e-4);
  EXPECT_NEAR(its.variation(), 50.918, 1e-3);
}

TEST(Spread, OfOneSampleOrNone) {
  EXPECT_DOUBLE_EQ(spreadOf({3}).quarter, 3);
  EXPECT_DOUBLE_EQ(spreadOf({3}).p99, 3);
  EXPECT_EQ(spreadOf({}).samples, 0);
  EXPECT_DOUBLE_EQ(spreadOf({}).variation(), 0);
}

}  // namespace
}  // namespace railwise::cli
