#include <gtest/gtest.h>

#include "topo/search/vain_attempts.h"

namespace railwise::topo {
namespace {

TEST(KnownStages, KnowsWhatAStageCameTo) {
  KnownStages known;
  EXPECT_FALSE(known.find(7));
  known.add(7, {.steps = 12, .least_hops = -3});
  const auto found = known.find(7);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->steps, 12);
  EXPECT_EQ(found->least_hops, -3);
  EXPECT_FALSE(known.find(8));
}

TEST(KnownStages, KeepsTheLastOutcomeOfAStage) {
  KnownStages known;
  known.add(7, {.steps = 1, .least_hops = 0});
  known.add(7, {.steps = 2, .least_hops = 0});
  EXPECT_EQ(known.find(7)->steps, 2);
}

TEST(KnownStages, GrowsAndKeepsAllStages) {
  KnownStages known;
  for (int i = 0; i < 5000; ++i) known.add(static_cast<uint64_t>(i) << 13U, {.steps = i, .least_hops = 0});
  for (int i = 0; i < 5000; ++i) EXPECT_EQ(known.find(static_cast<uint64_t>(i) << 13U)->steps, i);
}

TEST(KnownStages, ForgetsAll) {
  KnownStages known;
  known.add(7, {.steps = 1, .least_hops = 0});
  for (int i = 0; i < 1 << 16; ++i) {  // more attempts than it can count
    known.clear();
    ASSERT_FALSE(known.find(7));
    known.add(9, {.steps = 1, .least_hops = 0});
  }
}

}  // namespace
}  // namespace railwise::topo
