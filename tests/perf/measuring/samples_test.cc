// The samples of a measurement: src/perf/measuring/spread.h.
#include <gtest/gtest.h>

#include "perf/measuring/measuring.h"

namespace railwise::cli {
namespace {

std::vector<double> samplesOf(int iterations) {
  Samples samples(iterations);
  for (int i = 0; i < iterations; ++i) samples.add(i);
  return samples.take();
}

TEST(Samples, ToAThousandIterationsEachIsOne) {
  EXPECT_EQ(samplesOf(3), (std::vector<double>{0, 1, 2}));
  EXPECT_EQ(samplesOf(1000).size(), 1000U);
}

TEST(Samples, OfMoreASampleIsTheMeanOfSeveral) {
  const auto samples = samplesOf(2500);  // three each
  ASSERT_EQ(samples.size(), 833U);
  EXPECT_EQ(samples[0], 1);
  EXPECT_EQ(samples[1], 4);
  EXPECT_EQ(samples[832], 2497);
}

TEST(Samples, IterationsThatWereTimedTogetherAreOne) {
  Samples samples(2000);
  samples.add(6, 2);
  EXPECT_EQ(samples.take(), std::vector<double>{3});
}

}  // namespace
}  // namespace railwise::cli
