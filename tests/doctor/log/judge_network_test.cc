// Which network a job uses: plugins of others, jobs of one node, GPUDirect.
#include <gtest/gtest.h>

#include "doctor/log/judge.h"
#include "doctor/log/read_job.h"

namespace railwise::doctor {
namespace {

TEST(JudgeNetwork, RcclLooksForItsOwnDefaultPlugin) {
  const Job job = readJob(saidBy(
      0, {"NET/Plugin : dlerror=librccl-net.so: cannot open shared object file: No such file or directory No "
          "plugin found (librccl-net.so), using internal implementation",
          "NET/IB : Using [0]mlx5_0:1/RoCE [RO]; OOB eth0:10.0.0.1<0>", "Using network IB"}));
  EXPECT_EQ(findingOf(judged(job), "plugin-not-found"), nullptr);
}

TEST(JudgeNetwork, APluginThatIsNotFoundIsShownInTheWordsOfTheLog) {
  const Findings findings = judged(
      readJob(saidBy(0, {"NET/Plugin: Could not find: other libnccl-net-other.so.", "Using network IB"})));
  const Finding* const finding = findingOf(findings, "plugin-not-found");
  ASSERT_NE(finding, nullptr);
  EXPECT_EQ(finding->seen[0].value, "other, libnccl-net-other.so");
}

TEST(JudgeNetwork, HpcxRenamesItself) {
  const Job job = readJob(saidBy(0, {"NET/Plugin: Loaded net plugin NCCL RDMA Plugin v6 (v6)",
                                     "P2P plugin IBext", "Using network IBext"}));
  EXPECT_EQ(job.processes.front().plugin.value, "IBext");
  EXPECT_EQ(findingOf(judged(job), "plugin-init"), nullptr);
}

TEST(JudgeNetwork, APluginThatCouldNotStartIsShownInTheWordsOfTheLog) {
  const Findings findings =
      judged(readJob(saidBy(0, {"NET/Plugin: Loaded net plugin Railwise (v8)", "Using network Socket"})));
  ASSERT_NE(findingOf(findings, "plugin-init"), nullptr);
  EXPECT_EQ(findingOf(findings, "plugin-init")->seen[0].value, "Using network Socket");
  EXPECT_NE(findingOf(findings, "plugin-init")->what.find("Railwise"), std::string::npos);
}

}  // namespace
}  // namespace railwise::doctor
