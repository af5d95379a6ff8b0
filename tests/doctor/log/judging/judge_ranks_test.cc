// Ranks that are missing, differ or are counted wrongly.

#include "doctor/log/judging/judge.h"
#include "doctor/log/read_job.h"
#include "tests/ok.h"

namespace railwise::doctor {
namespace {

TEST(JudgeRanks, ASizeThatCannotBeIsNotBelieved) {
  const std::string line = saidBy(0, {initLine(0, 200'000'000, "START")});
  EXPECT_EQ(Ranks(readJob(line), 0).size(), 0);
  EXPECT_EQ(Ranks(readJob(saidBy(0, {initLine(0, 1 << 20, "START")})), 0).size(), 1 << 20);
}

TEST(JudgeRanks, AHugeNumberOfRanksCostsNothing) {
  const Job job = readJob(saidBy(3, {initLine(3, 8, "START")}));
  EXPECT_HAS(found(judged(job, 2'000'000'000), "missing-ranks").what, ": 0-2, 4-1999999999");
}

TEST(JudgeRanks, Gaps) {
  EXPECT_EQ(gapsOf({0, 2, 5}, 8).text, "1, 3, 4, 6, 7");
  EXPECT_EQ(gapsOf({0, 2, 5}, 8).count, 5U);
  EXPECT_EQ(gapsOf({0, 1}, 2).count, 0U);
  EXPECT_EQ(gapsOf({7}, 3).text, "0-2");
}

TEST(JudgeRanks, RayHasDroppedLines) {
  const std::string repeated = " [repeated 7x across cluster] (Ray deduplicates logs by default.)";
  const Job job =
      readJob("(Worker pid=7) " + saidBy(0, {initLine(0, 8, "START") + repeated, "Using network IB"}));
  const Findings findings = judged(job);
  EXPECT_EQ(checksOf(findings), "log-deduplicated");
  EXPECT_EQ(findings.all()[0].seen[0].value, "[repeated 7x across cluster]");
  ASSERT_EQ(job.processes.front().inits.size(), 1U);
}

TEST(JudgeRanks, NamesOfNicsMayDiffer) {
  const auto jobWith = [](const std::string& nics) {
    return judged(saidBy(0, {"NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB", "Using network IB"}) +
                  saidBy(1, {"NET/IB : Using " + nics, "Using network IB"}));
  };
  EXPECT_EQ(found(jobWith("[0]mlx5_0:1/IB [1]mlx5_4:1/IB"), "differ-nics").severity, Severity::kAdvice);
  EXPECT_EQ(found(jobWith("[0]mlx5_0:1/IB [1]mlx5_1:1/RoCE"), "differ-nics").severity, Severity::kWarning);
  EXPECT_EQ(found(jobWith("[0]mlx5_0:1/IB"), "differ-nics").severity, Severity::kWarning);
  const Finding roce = found(jobWith("[0]mlx5_0:1/RoCE [1]mlx5_1:1/RoCE"), "differ-nics");
  EXPECT_EQ(roce.severity, Severity::kError);
  EXPECT_HAS(roce.why, "node0 lists InfiniBand alone, node1 RoCE alone");
}

}  // namespace
}  // namespace railwise::doctor
