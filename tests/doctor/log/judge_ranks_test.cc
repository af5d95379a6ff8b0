// Ranks that are missing, differ or are counted wrongly.
#include <gtest/gtest.h>

#include "doctor/log/judge.h"
#include "doctor/log/read_job.h"

namespace railwise::doctor {
namespace {

TEST(JudgeRanks, ASizeThatCannotBeIsNotBelieved) {
  const std::string line = saidBy(0, {initLine(0, 200'000'000, "START")});
  EXPECT_EQ(Ranks(readJob(line), 0).size(), 0);
  EXPECT_EQ(Ranks(readJob(saidBy(0, {initLine(0, 1 << 20, "START")})), 0).size(), 1 << 20);
}

TEST(JudgeRanks, AHugeNumberOfRanksCostsNothing) {
  const Job job = readJob(saidBy(3, {initLine(3, 8, "START")}));
  const Findings findings = judged(job, 2'000'000'000);
  ASSERT_NE(findingOf(findings, "missing-ranks"), nullptr);
  EXPECT_NE(findingOf(findings, "missing-ranks")->what.find(": 0-2, 4-1999999999"), std::string::npos);
}

TEST(JudgeRanks, Gaps) {
  EXPECT_EQ(gapsOf({0, 2, 5}, 8).text, "1, 3, 4, 6, 7");
  EXPECT_EQ(gapsOf({0, 2, 5}, 8).count, 5U);
  EXPECT_EQ(gapsOf({0, 1}, 2).count, 0U);
  EXPECT_EQ(gapsOf({7}, 3).text, "0-2");
}

}  // namespace
}  // namespace railwise::doctor
