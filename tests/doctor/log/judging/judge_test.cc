#include "doctor/log/judging/judge.h"

#include "doctor/log/read_job.h"
#include "tests/ok.h"

namespace railwise::doctor {
namespace {

// A rank over a network with two NICs, all well.
std::vector<std::string> goodLines(int rank, int ranks) {
  return {"NCCL version 2.29.7+cuda13.0",
          "NCCL_NET_PLUGIN set by environment to railwise",
          "NET/Plugin: Loaded net plugin Railwise (v11)",
          "NET/Railwise : Railwise 0.1.0, libibverbs: mlx5_0/RoCE mlx5_1/RoCE",
          "Using network Railwise",
          initLine(rank, ranks, "START"),
          "NET/Railwise : GPU Direct RDMA Enabled for HCA 0 'mlx5_0'",
          "NET/Railwise : GPU Direct RDMA Enabled for HCA 1 'mlx5_1'",
          "Channel 00/0 : 0[0] -> 1[0] [send] via NET/Railwise/0/GDRDMA",
          "2 coll channels, 2 collnet channels, 0 nvls channels, 2 p2p channels, 2 p2p channels per peer",
          initLine(rank, ranks, "COMPLETE")};
}

std::string goodJob(int ranks) {
  std::string text;
  for (int rank = 0; rank < ranks; ++rank) text += saidBy(rank, goodLines(rank, ranks));
  return text;
}

TEST(Judge, AGoodJobIsFine) { EXPECT_EQ(checksOf(judged(goodJob(3))), ""); }

// The good lines of two ranks, in which each `from` has become `to`; on rank 1 alone, if wanted so.
std::string changed(const std::string& from, const std::string& to, bool second_alone = false) {
  std::string text;
  for (int rank = 0; rank < 2; ++rank) {
    std::string its = saidBy(rank, goodLines(rank, 2));
    for (std::size_t at = its.find(from); at != std::string::npos && !(second_alone && rank == 0);
         at = its.find(from, at + to.size()))
      its.replace(at, from.size(), to);
    text += its;
  }
  return text;
}

TEST(Judge, ThePluginIsNotThere) {
  std::string text;
  for (int rank = 0; rank < 2; ++rank)
    text += saidBy(
        rank, {"NCCL_NET_PLUGIN set by environment to railwise",
               "NET/Plugin: Could not find: railwise libnccl-net-railwise.so", "NET/IB : No device found.",
               "Using network Socket", initLine(rank, 2, "START"), initLine(rank, 2, "COMPLETE")});
  const Findings findings = judged(text);
  EXPECT_EQ(checksOf(findings), "plugin-not-found socket-network");
  EXPECT_EQ(findings.exitStatus(), 2);
  const Finding& socket = findings.all()[1];
  EXPECT_EQ(socket.seen.size(), 2U);
  EXPECT_EQ(socket.seen[0].device, "rank 0 (node0)");
  EXPECT_HAS(socket.fix, "LD_LIBRARY_PATH");
}

TEST(Judge, WhyThePluginIsNotUsed) {
  const std::pair<std::vector<std::string>, const char*> kCases[] = {
      {{"NET/Plugin: libnccl-net-railwise.so: undefined symbol: x", "Using network Socket"}, "plugin-load"},
      {{"NET/Plugin: Failed to find ncclNetPlugin_v8 symbol.",
        "NET/Plugin: Failed to find ncclNetPlugin symbol (>= v5). ncclNetPlugin symbols v4 and lower are not "
        "supported.",
        "Using network Socket"},
       "plugin-api"},
      {{"External network plugin /x/libnccl-net.so is unsupported", "Using network Socket"}, "plugin-api"},
      {{"NET/Plugin: Loaded net plugin Railwise (v8)", "Using network Socket"}, "plugin-init"},
      {{"NET/Plugin: Loaded net plugin Railwise (v11)", "Failed to initialize NET plugin Railwise",
        "Using network Socket"},
       "plugin-init"},
      {{"NCCL_NET_PLUGIN set by environment to railwise", "NET/Plugin: Loaded net plugin AWS Libfabric (v9)",
        "Using network AWS Libfabric"},
       "wrong-plugin"},
      {{"NET/Plugin: Could not find: other libnccl-net-other.so.", "Using network IB"}, "plugin-not-found"},
      {{"NET/Plugin: Loaded net plugin IBext_v8 (v8)", "Using network IBext_v8"}, "unasked-plugin"},
  };
  for (const auto& [lines, check] : kCases)
    EXPECT_NE(findingOf(judged(saidBy(0, lines)), check), nullptr) << check << " " << lines[0];
}

TEST(Judge, OneLineIsEnoughForAMissingPlugin) {
  const Findings findings = judged(
      "node1:123:123 [0] NCCL INFO NET/Plugin: Could not find: libnccl-net-railwise.so. Using "
      "internal network plugin.\n");
  EXPECT_NE(findingOf(findings, "plugin-not-found"), nullptr) << checksOf(findings);
}

TEST(Judge, WhySocket) {
  const std::pair<const char*, const char*> kCases[] = {
      {"NCCL_IB_DISABLE set by environment to 1.", "NCCL_IB_DISABLE=1"},
      {"Comm config netName reset to NCCL_NET=Socket", "NCCL_NET=Socket"},
      {"NET/IB : No device found.", "no RDMA device"},
      {"Failed to open libibverbs.so[.1]", "no RDMA device"},
  };
  for (const auto& [line, why] : kCases) {
    const Findings findings = judged(
        saidBy(0, {line, "Using network Socket", "Channel 00/0 : 0[0] -> 1[0] [send] via NET/Socket/0"}));
    EXPECT_HAS(found(findings, "socket-network").why, why) << line;
    EXPECT_EQ(findings.exitStatus(), 2) << line;
  }
}

TEST(Judge, LibfabricOverTcp) {
  const char* const kUsing = "Using network AWS Libfabric";
  const Findings tcp = judged(saidBy(0, {"NET/OFI Selected Provider is tcp;ofi_rxm (found 1 nics)", kUsing}));
  EXPECT_NE(findingOf(tcp, "socket-network"), nullptr) << checksOf(tcp);
  const Job efa =
      readJob(saidBy(0, {"NET/OFI Selected provider is efa, fabric is efa (found 3 nics)", kUsing}));
  EXPECT_EQ(findingOf(judged(efa), "socket-network"), nullptr);
  EXPECT_EQ(efa.processes.front().nics.size(), 3U);
}

TEST(Judge, APluginThatNcclSaysNothingOf) {
  const Job job =
      readJob(saidBy(0, {"NET/Railwise : Railwise 0.1.0, libibverbs: mlx5_0/IB", "Using network Socket"}));
  EXPECT_NE(findingOf(judged(job), "plugin-init"), nullptr);
}

TEST(Judge, SocketThatNobodyUsesCostsNothing) {
  const Findings findings = judged(saidBy(
      0, {"NET/IB : No device found.", "Using network Socket", "Channel 00 : 0[0] -> 1[1] via P2P/IPC"}));
  EXPECT_EQ(findings.exitStatus(), 0) << checksOf(findings);
}

TEST(Judge, GpuDirectIsOff) {
  const Findings off = judged(changed("RDMA Enabled", "RDMA Disabled"));
  EXPECT_NE(findingOf(off, "gdr-off"), nullptr) << checksOf(off);
  const Findings some = judged(changed("RDMA Enabled for HCA 1", "RDMA Disabled for HCA 1"));
  EXPECT_NE(findingOf(some, "gdr-some"), nullptr) << checksOf(some);
  const Findings one = judged(changed("RDMA Enabled", "RDMA Disabled", true));
  EXPECT_NE(findingOf(one, "differ-gdr"), nullptr) << checksOf(one);
}

TEST(Judge, RcclTakesNoDmaBufsUnasked) {
  const std::string off = changed("RDMA Enabled", "RDMA Disabled");
  EXPECT_LACKS(found(judged(off), "gdr-off").fix, "NCCL_DMABUF_ENABLE");
  for (const char* line : {"Dmabuf feature disabled without NCCL_DMABUF_ENABLE=1", "ROCr version 1.18"}) {
    const Finding finding = found(judged(off + saidBy(0, {line})), "gdr-off");
    EXPECT_HAS(finding.fix, "export NCCL_DMABUF_ENABLE=1");
    EXPECT_LACKS((finding.why + finding.fix), "nvidia") << finding.why;
  }
}

TEST(Judge, AFatalErrorOfRcclIsTheReason) {
  const Finding finding =
      found(judged(goodJob(2) + "node0:100:100 [0] [FATAL ERROR]: HSA_NO_SCRATCH_RECLAIM=1 must be set to "
                                "avoid performance degradation\n"),
            "rccl-fatal");
  EXPECT_EQ(finding.severity, Severity::kError);
  EXPECT_HAS(finding.fix, "export HSA_NO_SCRATCH_RECLAIM=1");
  EXPECT_NE(findingOf(judged("a:1:1 [0] [FATAL ERROR]: HIP failure: 'out of memory'\n"), "rccl-fatal"),
            nullptr);
}

TEST(Judge, TheReasonOfThePlugin) {
  std::string text = changed("RDMA Enabled", "RDMA Disabled");
  text += saidBy(0, {"NET/Railwise : mlx5_0: GPUDirect: none, because libibverbs registers no dma-bufs"});
  EXPECT_HAS(found(judged(text), "gdr-off").why, "registers no dma-bufs");
}

TEST(Judge, TooFarForGpuDirect) {
  const std::string far = "GPU Direct RDMA Disabled for GPU/0-1000 (rank 0) - NET/0-0 (distance 9 > 5)";
  EXPECT_EQ(findingOf(judged(goodJob(2) + saidBy(0, {far})), "gdr-far"), nullptr);
  const std::string host = "Channel 00/0 : 0[0] -> 1[0] [send] via NET/Railwise/1";
  const Findings some = judged(goodJob(2) + saidBy(0, {far, host, host}));
  EXPECT_EQ(found(some, "gdr-far").severity, Severity::kAdvice);
  EXPECT_EQ(found(some, "gdr-far").why, "Their distance is SYS, and PXB is the most that is allowed.");
  const Findings all = judged(changed("/GDRDMA", "") + saidBy(0, {far}));
  EXPECT_EQ(found(all, "gdr-far").severity, Severity::kWarning);
  // Older logs do not say which NICs can: NCCL measures the distance of those that can.
  std::string silent = changed("/GDRDMA", "");
  for (std::size_t at = 0; (at = silent.find("GPU Direct RDMA Enabled", at)) != std::string::npos;)
    silent.replace(at, 3, "A");
  EXPECT_EQ(findingOf(judged(silent), "gdr-far"), nullptr);
  EXPECT_EQ(found(judged(silent + saidBy(0, {far})), "gdr-far").severity, Severity::kWarning);
  EXPECT_HAS(found(judged(silent), "gdr-unused").why, "do not say whether");
  const std::string one = "Channel 00/0 : 0[0] -> 1[0] [receive] via NET/Railwise/0/GDRDMA";
  EXPECT_EQ(findingOf(judged(silent + saidBy(1, {one})), "gdr-unused"), nullptr) << "rank 0 may only send";
  EXPECT_NE(findingOf(judged(changed("/GDRDMA", "")), "gdr-unused"), nullptr);
}

TEST(Judge, RanksThatDiffer) {
  const std::tuple<const char*, const char*, const char*> kCases[] = {
      {"2.29.7", "2.21.5", "differ-version"},
      {"network Railwise", "network IB", "differ-network"},
      {"Railwise 0.1.0", "Railwise 0.0.9", "differ-plugin"},
      {" mlx5_1/RoCE", "", "differ-nics"},
      {"2 coll", "4 coll", "differ-channels"},
      {"to railwise", "to other", "differ-settings"},
  };
  for (const auto& [from, to, check] : kCases) {
    const Findings findings = judged(changed(from, to, true));
    EXPECT_NE(findingOf(findings, check), nullptr) << check << ": " << checksOf(findings);
  }
}

TEST(Judge, ARankWhoseLogLacksTheVersionDoesNotDiffer) {
  const std::string version = "Railwise 0.1.0, ";
  std::string text = goodJob(2);
  ASSERT_NE(text.rfind(version), std::string::npos);
  const std::size_t line = text.rfind('\n', text.rfind(version)) + 1;
  text.erase(line, text.find('\n', line) + 1 - line);
  EXPECT_EQ(findingOf(judged(text), "differ-plugin"), nullptr);
}

TEST(Judge, TheOddOneIsNamed) {
  std::string text = goodJob(3);
  text.replace(text.rfind("2.29.7"), 6, "2.29.3");
  const Findings findings = judged(text);
  ASSERT_EQ(found(findings, "differ-version").seen.size(), 1U);
  EXPECT_EQ(found(findings, "differ-version").seen[0].device, "rank 2 (node2)");
}

TEST(Judge, ASettingThatAHostLacks) {
  const Findings findings = judged(goodJob(2) + saidBy(0, {"NCCL_IB_HCA set by environment to mlx5_0"}));
  EXPECT_EQ(found(findings, "differ-settings").severity, Severity::kAdvice);
  EXPECT_EQ(found(findings, "differ-settings").seen[0].device, "node1");
}

TEST(Judge, RanksThatAreMissing) {
  std::string text;
  for (const int rank : {0, 1, 3}) text += saidBy(rank, {initLine(rank, 4, "START")});
  const Findings waits = judged(text);
  EXPECT_EQ(checksOf(waits), "missing-ranks init-incomplete");
  EXPECT_HAS(waits.all()[0].what, ": 2");
  const Findings told = judged(goodJob(2), 3);
  EXPECT_EQ(found(told, "missing-ranks").severity, Severity::kWarning);
  EXPECT_NE(findingOf(told, "ranks-mismatch"), nullptr);
  const Findings one = judged(saidBy(0, goodLines(0, 2)));
  EXPECT_EQ(checksOf(one), "missing-ranks");
  EXPECT_EQ(one.exitStatus(), 0);
}

std::string inCommunicator(int rank, int ranks, const std::string& id, const char* state) {
  std::string line = initLine(rank, ranks, state);
  return line.replace(line.find("0x1 "), 3, id);
}

TEST(Judge, EachNodeRunsAJobOfItsOwn) {
  const std::string one =
      saidBy(0, {inCommunicator(0, 1, "0xa", "START"), inCommunicator(0, 1, "0xa", "COMPLETE")});
  const std::string other =
      saidBy(1, {inCommunicator(0, 1, "0xb", "START"), inCommunicator(0, 1, "0xb", "COMPLETE")});
  EXPECT_EQ(checksOf(judged(one + other)), "separate-jobs");
}

// Two groups of two ranks, which a third communicator connects.
TEST(Judge, GroupsOfOneJobAreNotSeparate) {
  std::string text;
  for (int rank = 0; rank < 4; ++rank)
    for (const char* state : {"START", "COMPLETE"})
      text += saidBy(rank, {inCommunicator(rank % 2, 2, rank < 2 ? "0xa" : "0xb", state),
                            inCommunicator(rank / 2, 2, rank % 2 == 0 ? "0xc" : "0xd", state)});
  EXPECT_EQ(findingOf(judged(text), "separate-jobs"), nullptr);
}

TEST(Judge, ASplitThatWasNeverCompleted) {
  const Findings findings = judged(
      goodJob(2) + saidBy(0, {"ncclCommSplit comm 0x9 rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 1 parent 0x7 "
                              "splitCount 1 color 3 key 0- Init START"}));
  EXPECT_EQ(found(findings, "init-incomplete").severity, Severity::kWarning);
}

const char* const kRetry = "NET/IB : Got completion from peer 10.0.0.1<1> with status=12 opcode=0";
const char* const kClosed = "socketProgress: Connection closed by remote peer n1<4>";

TEST(Judge, TheFirstErrorByTime) {
  const std::string text = goodJob(3) + warnedBy(1, kRetry, "10:00:09") +
                           warnedBy(0, "Cuda failure 700 'x'", "10:00:03") + warnedBy(2, kClosed, "10:00:04");
  const Findings findings = judged(text);
  EXPECT_EQ(findings.all()[0].check, "cuda-failure");
  EXPECT_EQ(findings.all()[0].seen[0].device, "rank 0 (node0)");
  EXPECT_HAS(findings.all()[0].why, "2 other errors of 2 ranks came later");
  EXPECT_EQ(found(findings, "connection-closed").severity, Severity::kAdvice);
}

TEST(Judge, ACauseOfTheSameMomentComesFirst) {
  const std::string text = goodJob(2) + warnedBy(0, kClosed, "10:00:03") + warnedBy(1, kRetry, "10:00:04");
  EXPECT_EQ(judged(text).all()[0].check, "completion-error");
  const std::string later = goodJob(2) + warnedBy(0, kClosed, "10:00:03") + warnedBy(1, kRetry, "10:20:04");
  EXPECT_EQ(judged(later).all()[0].check, "connection-closed");
}

TEST(Judge, WithoutTimesACauseComesFirst) {
  const std::string text = goodJob(2) + warnedBy(0, kClosed) + warnedBy(1, kRetry);
  const Findings findings = judged(text);
  EXPECT_EQ(findings.all()[0].check, "completion-error");
  EXPECT_HAS(findings.all()[0].why, "no times");
}

// Rank 0 blames rank 2, rank 2 blames rank 1, and rank 1 was killed.
TEST(Judge, TheTrailOfBlame) {
  const auto lost = [](int rank, const std::string& time, int peer) {
    return warnedBy(rank,
                    "NET/Railwise : mlx5_0: connection from node" + std::to_string(peer) +
                        ".cluster:100 (mlx5_0): the peer closed the connection or died with work outstanding",
                    time);
  };
  const std::string text = goodJob(3) + lost(0, "10:00:02", 2) + lost(2, "10:00:01", 1) +
                           "WRONG: remote process exited or there was a network error\n";
  const Findings findings = judged(text);
  EXPECT_EQ(findings.all()[0].seen[0].device, "rank 2 (node2)");
  EXPECT_HAS(findings.all()[0].why, "It blames rank 1 (node1), whose log has no error: look there first.");
  EXPECT_HAS(findings.all()[1].why, "It blames rank 2 (node2), and that one rank 1 (node1), whose log");
}

TEST(Judge, ThePeersAddressIsAHost) {
  const std::string text =
      saidBy(1, {"Bootstrap : Using eth0:10.0.0.1<0>"}) + goodJob(2) + warnedBy(0, kRetry);
  EXPECT_HAS(judged(text).all()[0].why, "The peer 10.0.0.1 is node1.");
}

TEST(Judge, RanksThatAreSilentAtATimeout) {
  const std::string text = goodJob(3) +
                           "[rank0]:[E1124 06:24:44.9 P.cpp:6] [Rank 0] Watchdog caught collective operation "
                           "timeout: WorkNCCL(SeqNum=8)\n"
                           "[rank2]:[E1124 06:24:44.9 P.cpp:6] [Rank 2] Watchdog caught collective operation "
                           "timeout: WorkNCCL(SeqNum=9)\n";
  const Findings findings = judged(text);
  EXPECT_EQ(findings.all()[0].check, "watchdog");
  EXPECT_HAS(findings.all()[0].why,
             "rank 0 (node0) waits in number 8, rank 2 (node2) in number 9. Nothing of it from rank 1.");
}

TEST(Judge, ErrorsWithoutAWarning) {
  const Findings findings = judged(goodJob(2) + saidBy(1, {"transport/net.cc:1302 -> 6"}));
  EXPECT_NE(findingOf(findings, "error-trace"), nullptr);
  EXPECT_EQ(checksOf(judged(goodJob(2) + saidBy(1, {"init.cc:99 -> 7"}))), "");
}

TEST(Judge, AnUnknownWarningOfWhoGoesOnIsNoError) {
  const std::string warning = warnedBy(0, "the moon is in the way");
  EXPECT_EQ(judged(goodJob(1) + warning).exitStatus(), 2);
  EXPECT_EQ(judged(goodJob(1) + warning + goodJob(1)).exitStatus(), 1);
}

TEST(Judge, RowsOfNcclTestsAfterAWarningShowThatTheJobWentOn) {
  const std::string warning = warnedBy(0, "the moon is in the way");
  const std::string row =
      "     8388608       2097152     float     sum      -1    132.4   63.36  110.88      0    131.9\n";
  EXPECT_EQ(judged(goodJob(1) + row + warning).exitStatus(), 2);
  const Findings findings = judged(goodJob(1) + warning + row);
  EXPECT_EQ(findings.exitStatus(), 1);
  EXPECT_HAS(findings.all()[0].why, "went on");
}

TEST(Judge, APytorchTimeoutAfterAnErrorSaysThatTheProcessHangs) {
  const std::string timeout =
      "[rank0]:[E1124 06:24:44.9 P.cpp:6] [Rank 0] Watchdog caught collective operation timeout: "
      "WorkNCCL(SeqNum=8)\n";
  const std::string hinted = "[rank0]: node0:100:100 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[0] via P2P/IPC\n";
  const Findings findings = judged(goodJob(2) + hinted + warnedBy(0, kRetry) + timeout);
  EXPECT_EQ(findings.all()[0].check, "completion-error");
  EXPECT_HAS(findings.all()[0].why, "hangs");
  const Findings without = judged(goodJob(2) + hinted + warnedBy(0, kRetry));
  EXPECT_LACKS(without.all()[0].why, "hangs");
}

TEST(Judge, AProcessThatIsSilentWhileOthersWriteHangs) {
  const auto at = [](const char* time, int rank, const char* level, const std::string& text) {
    return std::string("[2025-11-24 ") + time + "] node" + std::to_string(rank) + ":100:100 [0] NCCL " +
           level + " " + text + "\n";
  };
  const std::string head = goodJob(2) + at("10:00:00", 0, "WARN", kRetry);
  const Findings hung = judged(head + at("10:30:00", 1, "INFO", "Channel 00/0 : 1[0] -> 0[0] via P2P/IPC"));
  EXPECT_HAS(hung.all()[0].why, "while others go on for 30 min");
  // A month that ends, a year that ends, and a clock without days past midnight.
  const auto hangs = [](const std::string& one, const std::string& other) {
    const auto line = [](const std::string& time, int rank, const char* level, const std::string& text) {
      return "[" + time + "] node" + std::to_string(rank) + ":100:100 [0] NCCL " + level + " " + text + "\n";
    };
    const Findings findings = judged(goodJob(2) + line(one, 0, "WARN", kRetry) +
                                     line(other, 1, "INFO", "Channel 00/0 : 1[0] -> 0[0] via P2P/IPC"));
    return findings.all()[0].why.find("hangs") != std::string::npos;
  };
  EXPECT_FALSE(hangs("2025-11-30 23:59:58", "2025-12-01 00:00:02"));
  EXPECT_TRUE(hangs("2025-11-30 23:59:58", "2025-12-01 00:30:02"));
  EXPECT_FALSE(hangs("2026-01-01 08:00:00", "2025-12-31 23:00:00"));
  EXPECT_FALSE(hangs("00:10:00", "23:50:00"));
  // What a training prints counts, too.
  const std::string hinted =
      "[rank0]: [2025-11-24 09:59:00] node0:100:100 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[0] via P2P/IPC\n";
  const Findings busy = judged(goodJob(2) + hinted + at("10:00:00", 0, "WARN", kRetry) +
                               "[rank0]: [2025-11-24 10:29:00] step 400, loss 2.1\n" +
                               at("10:30:00", 1, "INFO", "Channel 00/0 : 1[0] -> 0[0] via P2P/IPC"));
  EXPECT_LACKS(busy.all()[0].why, "hangs");
  const Findings soon = judged(head + at("10:00:30", 1, "INFO", "Channel 00/0 : 1[0] -> 0[0] via P2P/IPC"));
  EXPECT_LACKS(soon.all()[0].why, "hangs");
}

// Ranks of two versions read each other's messages wrongly.
TEST(Judge, VersionsThatDifferAreWhyRanksDisagree) {
  const std::string warning = warnedBy(0, "Bootstrap Root : mismatch in rank count from procs 16 : 2138");
  const Findings alone = judged(goodJob(2) + warning);
  EXPECT_EQ(alone.all()[0].check, "ranks-mismatch");
  EXPECT_HAS(alone.all()[0].fix, "WORLD_SIZE");
  const Findings mixed = judged(changed("2.29.7", "2.21.5", true) + warning);
  EXPECT_EQ(mixed.all()[0].check, "differ-version");
  EXPECT_LACKS(found(mixed, "ranks-mismatch").fix, "WORLD_SIZE");
  EXPECT_HAS(found(mixed, "ranks-mismatch").why, "NCCL 2.21.5 and 2.29.7");
}

TEST(Judge, APortThatFailedInAJobThatEndedWell) {
  const std::string port = warnedBy(0, "NET/IB : mlx5_1:1 Got non-fatal async event: port error(10)");
  const std::string end = saidBy(0, {"comm 0x70 rank 0 nranks 2 - Destroy COMPLETE"});
  const std::string all = end + saidBy(1, {"comm 0x71 rank 1 nranks 2 - Destroy COMPLETE"});
  EXPECT_EQ(judged(goodJob(2) + port + all).exitStatus(), 1);
  EXPECT_EQ(judged(goodJob(2) + port + end).exitStatus(), 2) << "rank 1 came to no end";
  EXPECT_EQ(judged(goodJob(2) + port + warnedBy(1, kRetry) + all).exitStatus(), 2);
}

TEST(Judge, ALauncherThatFailedNeedsNoLineOfNccl) {
  const std::string slots = "There are not enough slots available in the system to satisfy the 16\n";
  EXPECT_EQ(checksOf(judged(slots)), "launcher-failed");
  EXPECT_EQ(judged(slots + goodJob(2)).exitStatus(), 1) << "it was started again";
}

TEST(Judge, NoLineOfNccl) {
  EXPECT_EQ(checksOf(judged("epoch 1\nepoch 2\n")), "log-level");
  const Findings warned =
      judged("railwise: rank 0: plugin warns: NET/Railwise : soft0 port 1: link down: check\n");
  EXPECT_EQ(checksOf(warned), "port-event log-level");
  EXPECT_EQ(found(warned, "log-level").severity, Severity::kAdvice);
  EXPECT_EQ(judged("").exitStatus(), 2);
}

// As PyTorch 2.5 and newer write it.
std::string watchdogOf(int rank, int number, const char* group = "0(default_pg)") {
  const std::string its = std::to_string(rank);
  return "[rank" + its + "]:[E1124 06:24:4" + its + ".9 P.cpp:6] [PG ID 0 PG GUID " + group + " Rank " + its +
         "] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=" + std::to_string(number) + ")\n";
}

TEST(Judge, TheWatchdogOfWhoIsBehindComesFirst) {
  const std::string ahead = watchdogOf(0, 9) + watchdogOf(1, 9);
  const Findings findings = judged(goodJob(3) + ahead + watchdogOf(2, 8));
  EXPECT_EQ(findings.all()[0].seen[0].device, "rank 2 (node2)");
  EXPECT_HAS(findings.all()[0].why, "rank 2 (node2) waits in number 8, rank 0 (node0) in number 9.");
  const Findings other = judged(goodJob(3) + ahead + watchdogOf(2, 8, "7(of_two)"));
  EXPECT_EQ(other.all()[0].seen[0].device, "rank 0 (node0)") << "numbers of two groups do not compare";
  EXPECT_LACKS(other.all()[0].why, "waits in number");
}

TEST(Judge, AWatchdogNamesWhoIsSilent) {
  const auto worst = [](const std::string& text) { return judged(text).all()[0].what; };
  EXPECT_TRUE(worst(goodJob(3) + watchdogOf(0, 9) + watchdogOf(1, 9)).ends_with(", without rank 2 (node2)"));
  EXPECT_LACKS(worst(goodJob(3) + watchdogOf(0, 9)), "without") << "two of three are silent";
}

TEST(Judge, AnExceptionOfTheProgramComesBeforeTheWatchdog) {
  const std::string watchdog =
      "[rank0]:[E1129 03:12:44.5 ProcessGroupNCCL.cpp:685] [Rank 0] Watchdog caught collective operation "
      "timeout: WorkNCCL(SeqNum=8, OpType=ALLREDUCE) ran for 600014 milliseconds\n";
  const Findings findings = judged(goodJob(2) + watchdog + "[rank1]: ValueError: loss is nan\n");
  EXPECT_EQ(findings.all()[0].what, "first error of the job: the program raised ValueError");
  EXPECT_EQ(findings.all()[0].seen[0].device, "rank 1 (node1)");
  EXPECT_LACKS(findings.all()[0].why, "no earlier error");
}

TEST(Judge, AnExceptionThatTheProgramHandledIsNoError) {
  const std::string text =
      "Traceback (most recent call last):\nModuleNotFoundError: No module named 'apex'\n";
  EXPECT_EQ(judged(text + goodJob(2)).all()[0].severity, Severity::kWarning);
  EXPECT_EQ(judged(goodJob(2) + text).all()[0].severity, Severity::kError);
  const Findings waiting = judged(text + goodJob(2) + saidBy(1, {initLine(7, 8, "START")}));
  EXPECT_EQ(found(waiting, "program-error").severity, Severity::kError);
}

TEST(Judge, AConsequenceThatIsTheFirstErrorDoesNotPointToItself) {
  const Findings findings = judged("[rank0]: DistBackendError: NCCL communicator was aborted on rank 0.\n");
  EXPECT_LACKS(findings.all()[0].fix, "first error");
}

TEST(Judge, SlurmKillsTheRanksOfANodeThatFailed) {
  const std::string killed = "srun: error: node1: tasks 2-3: Killed\n",
                    node = "srun: error: Node failure on node1\n";
  EXPECT_HAS(judged(killed).all()[0].what, "first error of the job: a rank was killed");
  EXPECT_HAS(judged(killed + node).all()[0].what,
             "first error of the job: Slurm ended the job: a node failed");
}

}  // namespace
}  // namespace railwise::doctor
