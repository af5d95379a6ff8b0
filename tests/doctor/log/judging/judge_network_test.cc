// Which network a job uses: plugins of others, jobs of one node, GPUDirect.

#include "doctor/log/judging/judge.h"
#include "doctor/log/read_job.h"
#include "tests/ok.h"

namespace railwise::doctor {
namespace {

TEST(JudgeNetwork, RcclLooksForItsOwnDefaultPlugin) {
  // Up to 2.21, and since 2.27.
  for (const char* line :
       {"NET/Plugin : dlerror=librccl-net.so: cannot open shared object file: No such file or directory No "
        "plugin found (librccl-net.so), using internal implementation",
        "NET/Plugin: Could not find: libnccl-net.so"}) {
    const Job job = readJob(
        saidBy(0, {line, "NET/IB : Using [0]mlx5_0:1/RoCE [RO]; OOB eth0:10.0.0.1<0>", "Using network IB"}));
    EXPECT_EQ(job.processes.front().attempts.size(), 1U) << line;
    EXPECT_EQ(findingOf(judged(job), "plugin-not-found"), nullptr) << line;
  }
}

TEST(JudgeNetwork, APluginThatIsNotFoundIsShownInTheWordsOfTheLog) {
  const Finding finding =
      found(judged(readJob(
                saidBy(0, {"NET/Plugin: Could not find: other libnccl-net-other.so.", "Using network IB"}))),
            "plugin-not-found");
  EXPECT_EQ(finding.seen[0].value, "other, libnccl-net-other.so");
  EXPECT_HAS(finding.fix, "export NCCL_NET=NAME");
}

TEST(JudgeNetwork, WhereNcclNetIsSetItIsNotAdvised) {
  const Findings findings =
      judged(saidBy(0, {"NCCL_NET set by environment to Railwise",
                        "NET/Plugin: Could not find: railwise libnccl-net-railwise.so."}));
  EXPECT_LACKS(found(findings, "plugin-not-found").fix, "NCCL_NET=");
}

TEST(JudgeNetwork, HpcxRenamesItself) {
  const Job job = readJob(saidBy(0, {"NET/Plugin: Loaded net plugin NCCL RDMA Plugin v6 (v6)",
                                     "P2P plugin IBext", "Using network IBext"}));
  EXPECT_EQ(job.processes.front().plugin.value, "IBext");
  EXPECT_EQ(findingOf(judged(job), "plugin-init"), nullptr);
}

TEST(JudgeNetwork, APluginThatCouldNotStartIsShownInTheWordsOfTheLog) {
  const Findings findings =
      judged(saidBy(0, {"NET/Plugin: Loaded net plugin Railwise (v8)", "Using network Socket"}));
  EXPECT_EQ(found(findings, "plugin-init").seen[0].value, "Using network Socket");
  EXPECT_HAS(found(findings, "plugin-init").what, "Railwise");
}

TEST(JudgeNetwork, LibfabricHasNoProviderForRdma) {
  const Finding finding = found(
      judged(saidBy(0, {"NET/OFI No eligible providers were found", "NET/IB : No device found.",
                        "Using network Socket", "Channel 00/0 : 0[0] -> 1[0] [send] via NET/Socket/0"})),
      "socket-network");
  EXPECT_HAS(finding.why, "aws-ofi-nccl");
  EXPECT_HAS(finding.fix, "fi_info -p efa");
}

// A rank that warns behind `lines`.
std::string warned(const std::vector<std::string>& lines, const std::string& warning) {
  return saidBy(0, lines) + warnedBy(0, warning);
}

TEST(JudgeNetwork, HarmlessEventsOfANic) {
  for (const char* const event : {"client reregistration", "SM change", "LID change", "LID table change",
                                  "P_Key change", "last WQE reached"}) {
    const Findings findings = judged(warned({}, std::string("NET/IB : mlx5_0:1 Got async event : ") + event));
    EXPECT_EQ(found(findings, "port-event").severity, Severity::kAdvice) << event;
  }
  for (const char* const event : {"port error", "local catastrophic error", "CQ error"})
    EXPECT_EQ(judged(warned({}, std::string("NET/IB : mlx5_0:1 Got async event : ") + event)).exitStatus(), 2)
        << event;
}

TEST(JudgeNetwork, ANicThatCannotBeOpened) {
  const std::string warning = "NET/IB : Unable to open device mlx5_3";
  EXPECT_EQ(judged(warned({}, warning) + saidBy(0, {"Using network IB"})).exitStatus(), 1);
  EXPECT_EQ(judged(warned({}, warning) + saidBy(0, {"Using network Socket"})).exitStatus(), 2);
}

TEST(JudgeNetwork, SocketOfJobsThatNeverLeaveANode) {
  const auto oneHost = [](int nodes) {
    return judged(saidBy(0, {"NET/IB : No device found.", "Using network Socket",
                             "comm 0x1 rank 0 nRanks 2 nNodes " + std::to_string(nodes) + " localRanks 1"}) +
                  saidBy(1, {"NET/IB : No device found.", "Using network Socket",
                             "comm 0x2 rank 0 nRanks 2 nNodes " + std::to_string(nodes) + " localRanks 1"}));
  };
  EXPECT_EQ(found(oneHost(1), "socket-network").severity, Severity::kAdvice);
  EXPECT_EQ(found(oneHost(2), "socket-network").severity, Severity::kError);
}

TEST(JudgeNetwork, SocketOnSeveralHostsCostsAlsoWhereNoLineCountsThem) {
  const auto judgedOn = [](int hosts) {
    std::string text;
    for (int host = 0; host < hosts; ++host)
      text += saidBy(host, {"NET/IB : No device found.", "Using network Socket"});
    return judged(text);
  };
  EXPECT_EQ(judgedOn(1).exitStatus(), 0);
  EXPECT_EQ(judgedOn(2).exitStatus(), 2);
}

TEST(JudgeNetwork, TheSettingThatMayHaveChosenNoDeviceIsNamed) {
  const std::vector<std::string> lines = {"NET/IB : No device found.", "Using network Socket"};
  std::vector<std::string> chosen = lines;
  chosen.insert(chosen.begin(), "NCCL_IB_HCA set by environment to mlx5_9");
  for (const auto& [said, names] : {std::pair{lines, false}, std::pair{chosen, true}}) {
    const Finding finding = found(judged(saidBy(0, said)), "socket-network");
    EXPECT_EQ(finding.why.find("NCCL_IB_HCA=mlx5_9") != std::string::npos, names) << finding.why;
    EXPECT_EQ(finding.fix.find("unset NCCL_IB_HCA") != std::string::npos, names) << finding.fix;
  }
}

TEST(JudgeNetwork, DistancesByRelease) {
  const std::tuple<const char*, int, int, const char*> kCases[] = {
      {"2.25.1", 7, 4, "distance is SYS, and PXB"},
      {"2.26.5", 7, 5, "distance is PHB, and PXB"},
      {"2.27.7", 7, 6, "distance is P2C, and PXN"},
      {"2.28.3", 7, 6, "distance is PXN, and P2C"},
      {"2.27.7", 9, 8, "distance is SYS, and PHB"}};
  for (const auto& [version, distance, allowed, words] : kCases) {
    const Findings findings =
        judged(saidBy(0, {std::string("NCCL version ") + version + "+cuda12.4", "Using network IB",
                          "NET/IB : GPU Direct RDMA Enabled for HCA 0 'mlx5_0'",
                          "GPU Direct RDMA Disabled for GPU 0 / HCA 3 (distance " + std::to_string(distance) +
                              " > " + std::to_string(allowed) + ")"}));
    EXPECT_HAS(found(findings, "gdr-far").why, words) << version << ": ";
  }
}

TEST(JudgeNetwork, GpuDirectOfAws) {
  const Findings findings = judged(saidBy(
      0, {"Using network AWS Libfabric", "NET/AWS Libfabric : GPU Direct RDMA Disabled for HCA 0 'rdmap0'"}));
  EXPECT_NE(findingOf(findings, "gdr-off"), nullptr) << checksOf(findings);
}

TEST(JudgeNetwork, AWarningOfOfiThatEndsTheJob) {
  const std::string warning = warned({"Using network AWS Libfabric"}, "NET/OFI Request completed with error");
  EXPECT_EQ(judged(warning).exitStatus(), 1);
  EXPECT_EQ(judged(warning + saidBy(0, {"transport/net.cc:99 -> 2"})).exitStatus(), 2);
  EXPECT_EQ(
      judged(warning + saidBy(0, {"transport/net.cc:99 -> 2", initLine(0, 1, "COMPLETE")})).exitStatus(), 1);
}

TEST(JudgeNetwork, HintsOfRccl) {
  for (const char* const hint :
       {"Missing \"amd_iommu=on\" from kernel command line", "NUMA auto balancing enabled",
        "Missing \"HSA_FORCE_FINE_GRAIN_PCIE=1\" from environment"})
    EXPECT_EQ(judged(warned({"Using network IB"}, hint)).exitStatus(), 0) << hint;
}

TEST(JudgeNetwork, AKnownCauseComesBeforeAnUnknownWarning) {
  const Findings findings = judged(warned({}, "the moon is in the way") + warned({}, "Cuda failure 700 'x'"));
  EXPECT_EQ(findings.all()[0].check, "cuda-failure");
}

TEST(JudgeNetwork, CommandsFitOtherSystems) {
  EXPECT_HAS(judged(warned({}, "NET/IB : Unable to open device mlx5_3")).all()[0].fix, "dnf install");
  EXPECT_HAS(judged(warned({}, "NET/IB : async fatal event")).all()[0].fix, "mstlink");
}

}  // namespace
}  // namespace railwise::doctor
