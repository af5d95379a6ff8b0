// One-sided communication: who serves it, and what of it does not fit. The lines are NCCL's own.

#include "doctor/log/judging/judge.h"
#include "doctor/log/ranks.h"
#include "doctor/log/read_job.h"
#include "tests/ok.h"

namespace railwise::doctor {
namespace {

using Lines = std::vector<std::string>;

Lines operator+(Lines a, const Lines& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

const Lines kPlugin = {
    "NCCL_NET_PLUGIN set by environment to railwise", "NET/Plugin: Loaded net plugin Railwise (v12)",
    "NET/Railwise : Railwise 0.1.0, libibverbs: mlx5_0/RoCE mlx5_1/RoCE", "Using network Railwise"};
// NCCL 2.30.7 beside a plugin without a table of its own.
const Lines kNobodyElse = {"RMA/Plugin: Could not find: libnccl-rma.so",
                           "RMA/Plugin: Failed to load external plugin /opt/lib/libnccl-net-railwise.so, "
                           "dlHandle: (nil), ncclRma: (nil)",
                           "ncclOsDlsym(ncclRmaPlugin_v13) failed: /opt/lib/libnccl-net-railwise.so: "
                           "undefined symbol: ncclRmaPlugin_v13",
                           "RMA/Plugin: Failed to load external plugin /opt/lib/libnccl-net-railwise.so, "
                           "dlHandle: 0x55f1e2c3bbb0, ncclRma: (nil)",
                           "RMA/Plugin: Assigned plugin RMA_IB_PROXY to comm",
                           "GIN/Plugin: Could not find: libnccl-gin.so",
                           "GIN/Plugin: Failed to load external plugin /opt/lib/libnccl-net-railwise.so, "
                           "dlHandle: 0x55f1e2c3bbb0, ncclGin: (nil)",
                           "GIN/Plugin: Assigned plugin RMA_IB_PROXY type 2 to comm"};
const Lines kDevicesOfNccl = {"NET/RMA_IB_PROXY : GPU Direct RDMA Enabled for HCA 0 'mlx5_0'",
                              "NET/RMA_IB_PROXY : GPU Direct RDMA Enabled for HCA 1 'mlx5_1'"};
const Lines kDevices = {"NET/Railwise : GPU Direct RDMA Enabled for HCA 0 'mlx5_0'",
                        "NET/Railwise : GPU Direct RDMA Enabled for HCA 1 'mlx5_1'"};
const Lines kNone = {"RMA/Plugin: Failed to initialize any plugin",
                     "GIN/Plugin: Failed to initialize any GIN plugin"};

// Two ranks, each on a host, which made a communicator.
std::string job(const Lines& first, const Lines& second) {
  std::string text;
  for (int rank = 0; rank < 2; ++rank)
    text += saidBy(rank, kPlugin + Lines{initLine(rank, 2, "START")} + (rank == 0 ? first : second) +
                             Lines{initLine(rank, 2, "COMPLETE")});
  return text;
}

std::string job(const Lines& both) { return job(both, both); }

std::string lookedAt(const std::string& text) {
  const Job read = readJob(text);
  std::string found;
  for (const std::string& line : logStyle(read, Ranks(read, 0)).looked)
    if (line.starts_with("one-sided communication") || line.starts_with("NICs of its connections"))
      found += line + "\n";
  return found;
}

TEST(OneSided, NcclsOwnNetworkBesideThePlugin) {
  const std::string text = job(kNobodyElse + kDevicesOfNccl + kDevices);
  EXPECT_EQ(lookedAt(text),
            "one-sided communication: GIN and RMA: NCCL's own IB network over 2 NICs (mlx5_0, mlx5_1), not "
            "Railwise, which serves collectives, send and receive\n");
  EXPECT_EQ(checksOf(judged(text)), "");
}

TEST(OneSided, Json) {
  const Job read = readJob(job(kNobodyElse));
  JsonWriter json;
  json.beginObject();
  writeJobJson(json, read, Ranks(read, 0));
  json.endObject();
  EXPECT_HAS(json.text(), "\"one_sided\": \"RMA_IB_PROXY for GIN and RMA\"");
}

TEST(OneSided, FormsOfOlderReleases) {
  // 2.29.7
  EXPECT_EQ(
      lookedAt(job({"Successfully loaded external gin plugin /opt/libnccl-net-railwise.so",
                    "Assigned GIN plugin GIN_IB_GDAKI to comm", "Assigned RMA plugin GIN_IB_PROXY to comm",
                    "NET/GIN_IB_GDAKI : GPU Direct RDMA Enabled for HCA 0 'mlx5_0'"})),
      "one-sided communication: GIN: NCCL's own IB network from the GPU (GDAKI); RMA: NCCL's own IB network "
      "over 1 NIC (mlx5_0), not Railwise, which serves collectives, send and receive\n");
  EXPECT_EQ(lookedAt(job({"Failed to initialize any GIN plugin"})),
            "one-sided communication: GIN and RMA: none\n");
  EXPECT_EQ(lookedAt(job(Lines{})), "") << "2.29.3 and older do not say that there is none";
}

TEST(OneSided, ThePluginsOwnTable) {
  EXPECT_EQ(lookedAt(job(Lines{"RMA/Plugin: Loaded rma plugin Railwise (v14)",
                               "RMA/Plugin: Assigned plugin Railwise to comm",
                               "GIN/Plugin: Assigned plugin Railwise type 2 to comm"} +
                         kDevices)),
            "one-sided communication: GIN and RMA: Railwise over 2 NICs (mlx5_0, mlx5_1)\n");
  EXPECT_EQ(lookedAt(job({"Assigned RMA plugin Other RMA to comm"})),
            "one-sided communication: RMA: plugin Other RMA\n");
}

TEST(OneSided, ALibraryOfGinIsNotTheNetPlugin) {
  const Job read =
      readJob(saidBy(0, {"Successfully loaded external gin plugin libnccl-gin.so", "Using network IB"}));
  EXPECT_EQ(read.processes.front().plugin_path.value, "");
}

TEST(OneSided, ANicWithTwoNumbers) {
  const Lines others = {"TOPO/NET : Changing Railwise dev index from 0 to 1",
                        "NET/Railwise : GPU Direct RDMA Enabled for HCA 1 'mlx5_0'",
                        "TOPO/NET : Changing Railwise dev index from 1 to 0",
                        "NET/Railwise : GPU Direct RDMA Enabled for HCA 0 'mlx5_1'"};
  // Each communicator of the process repeats them.
  const Finding finding =
      found(judged(job(kNobodyElse + kDevicesOfNccl + others + kDevicesOfNccl + others)), "one-sided-device");
  EXPECT_EQ(finding.severity, Severity::kWarning);
  ASSERT_EQ(finding.seen.size(), 4U) << "two NICs of two ranks";
  EXPECT_EQ(finding.seen[0].value, "mlx5_0 is device 1 with Railwise, device 0 with RMA_IB_PROXY");
  EXPECT_HAS(finding.fix, "NCCL_IB_HCA='=mlx5_0:1,mlx5_1:1'");
}

// Of a card with two ports, which NCCL's own network calls by one name: 2.30.7 on a software GPU.
TEST(OneSided, TwoPortsOfOneNameAreNoMistake) {
  const Lines ports = {"NET/RMA_IB_PROXY : GPU Direct RDMA Enabled for HCA 1 'mlx5_1'",
                       "NET/RMA_IB_PROXY : GPU Direct RDMA Enabled for HCA 2 'mlx5_2'",
                       "TOPO/NET : Changing RMA_IB_PROXY dev index from 2 to 3",
                       "NET/RMA_IB_PROXY : GPU Direct RDMA Enabled for HCA 3 'mlx5_2'",
                       "NET/Railwise : GPU Direct RDMA Enabled for HCA 1 'mlx5_1'",
                       "TOPO/NET : Changing Railwise dev index from 3 to 2",
                       "NET/Railwise : GPU Direct RDMA Enabled for HCA 2 'mlx5_2'",
                       "NET/Railwise : GPU Direct RDMA Enabled for HCA 3 'mlx5_2:2'"};
  EXPECT_EQ(checksOf(judged(job(kNobodyElse + ports))), "");
}

TEST(OneSided, TheNicsThatAreInUse) {
  const Lines made = {
      "NET/IB: ncclIbSenderQpsCreate: QP created: port=1 dev=0 devName=mlx5_0 ndevs=8 nmdevs=8 qp_num=59 "
      "pkey=0 pd=0x560e71ef59e0 oooRq=0",
      "NET/IB: ncclIbReceiverQpsCreateToRts: Flush QP created: port=2 dev=1 devName=mlx5_1 ndevs=8 nmdevs=8 "
      "qp_num=58 pkey=0 pd=0x560e71ef59e0"};
  const std::string looked =
      lookedAt(job(kNobodyElse + kDevicesOfNccl + made, kNobodyElse + kDevicesOfNccl + Lines{made[0]}));
  EXPECT_HAS(looked, "\nNICs of its connections, with their ranks: mlx5_0 (0, 1), mlx5_1:2 (0)\n");
  const Job own = readJob(saidBy(0, Lines{"Using network IB"} + kNobodyElse + made));
  for (const std::string& line : logStyle(own, Ranks(own, 0)).looked)
    EXPECT_FALSE(line.starts_with("NICs of its connections")) << "they may be those of collectives: " << line;
}

TEST(OneSided, TheWordsOf2_31) {
  const Finding finding = found(
      judged(job(
          kNobodyElse + kDevicesOfNccl +
          Lines{"TOPO/NET : Changing Railwise dev index from 0 to 1. This device is shared by NET GIN RMA "
                "plugin(s). This can be due to outdated plugin or topology xml file. The former may cause "
                "performance degradation. Try setting NCCL_IB_DEVICE_PCI_ORDER=0 or upgrading your net "
                "plugin to resolve this warning."})),
      "one-sided-device");
  EXPECT_EQ(finding.seen[0].value, "a NIC is device 1 with Railwise, and was device 0 before");
}

TEST(OneSided, NumbersOfATopologyFileAreOverwrittenWithoutHarm) {
  const Lines file = {"NCCL_TOPO_FILE set by environment to /opt/topo.xml"};
  EXPECT_EQ(checksOf(judged(job(file + kNobodyElse +
                                Lines{"TOPO/NET : Changing RMA_IB_PROXY dev index from 4 to 0"} +
                                kDevicesOfNccl + kDevices))),
            "");
  EXPECT_EQ(checksOf(judged(
                job(file + kNone + Lines{"TOPO/NET : Changing Railwise dev index from 4 to 0"} + kDevices))),
            "")
      << "nobody serves one-sided communication";
  EXPECT_EQ(checksOf(judged(job(file + kNobodyElse + kDevicesOfNccl +
                                Lines{"TOPO/NET : Changing Railwise dev index from 0 to 1"}))),
            "one-sided-device");
}

TEST(OneSided, RanksThatDiffer) {
  const Findings none = judged(job(kNobodyElse + kDevicesOfNccl + kDevices, kNone + kDevices));
  ASSERT_EQ(checksOf(none), "differ-one-sided");
  EXPECT_EQ(none.all()[0].what, "the table of RMA differs between ranks");
  EXPECT_EQ(none.all()[0].severity, Severity::kWarning);
  EXPECT_EQ(none.all()[0].seen[0].value, "RMA_IB_PROXY");
  EXPECT_EQ(none.all()[0].seen[1].value, "none");
  EXPECT_EQ(checksOf(judged(
                job(kNobodyElse + kDevices, Lines{"RMA/Plugin: Assigned plugin Railwise to comm",
                                                  "GIN/Plugin: Assigned plugin Railwise type 2 to comm"} +
                                                kDevices))),
            "differ-one-sided");
}

TEST(OneSided, SilenceIsNoDifference) {
  // The log of rank 1 ends before the line of GIN.
  const std::string text = saidBy(0, kPlugin + kNobodyElse) +
                           saidBy(1, kPlugin + Lines{"RMA/Plugin: Assigned plugin RMA_IB_PROXY to comm"});
  EXPECT_EQ(findingOf(judged(text), "differ-one-sided"), nullptr);
  EXPECT_LACKS(lookedAt(text), "does not name");
}

// 2.31 names no table of GIN, and says where there is none.
TEST(OneSided, GinOf2_31) {
  const Lines some = {"RMA/Plugin: Assigned plugin RMA_IB_PROXY to comm",
                      "GIN/Plugin: Could not find: libnccl-gin.so"};
  EXPECT_EQ(lookedAt(job(some + kDevicesOfNccl + kDevices)),
            "one-sided communication: GIN: a table that this NCCL does not name; RMA: NCCL's own IB network "
            "over 2 NICs (mlx5_0, mlx5_1), not Railwise, which serves collectives, send and receive\n");
  EXPECT_EQ(checksOf(judged(job(some))), "");
  const Findings differ = judged(job(some, some + Lines{kNone[1]}));
  ASSERT_EQ(checksOf(differ), "differ-one-sided");
  EXPECT_EQ(differ.all()[0].what, "the table of GIN differs between ranks");
  EXPECT_EQ(differ.all()[0].seen[0].value, "none");
  EXPECT_EQ(differ.all()[0].seen[1].value, "unnamed");
}

TEST(OneSided, OneRankIsNoRanks) {
  const std::string looked = lookedAt(job(kNobodyElse, kNone));
  EXPECT_HAS(looked, "one-sided communication of rank 1: GIN and RMA: none\n");
}

constexpr char kNoHostRma[] = "One sided RMA: host RMA is not supported in this communicator.";

TEST(OneSided, ACallThatFailsSaysWhy) {
  const std::tuple<Lines, const char*, const char*> kCases[] = {
      {{"NCCL_CROSS_NIC set by environment to 0."},
       "NCCL_CROSS_NIC=0 keeps traffic on its rail",
       "unset NCCL_CROSS_NIC"},
      {{"NCCL_RMA_DISABLE set by environment to 1."},
       "NCCL_RMA_DISABLE=1 turns off",
       "unset NCCL_RMA_DISABLE"},
      {{"Symmetric memory is not supported. cuMemEnable 0, globalGinSupport 0, cuMemGdrSupport 1"},
       "(cuMem) is off",
       "NCCL_CUMEM_ENABLE=1"},
      {{"Symmetric memory is not supported. cuMemEnable 1, globalGinSupport 0, globalNicFused 1 "
        "cuMemGdrSupport 1"},
       "fused of several",
       "NCCL_NET_MERGE_LEVEL=LOC"},
      {{"symmetricSupport 0, cuMemEnable 1, globalGinSupport 0, cuMemGdrSupport 0, contiguousRanksPerHost 1, "
        "crossNicSupport 1"},
       "WITH_CUDA_VMM_SUPPORTED",
       "open kernel modules"},
      {{"Symmetric memory is not supported. cuMemEnable 1, globalGinSupport 2, cuMemGdrSupport 1"},
       "(P2P)",
       "topo -p2p"},
      {{"NCCL_RMA_PLUGIN set by environment to other",
        "Unable to use GIN: Peermem is not supported, nor DMA-BUF.",
        "RMA/Plugin: Failed to initialize any plugin"},
       "There is no table for RMA: \"RMA/Plugin: Failed to initialize any plugin\". NCCL_RMA_PLUGIN=other "
       "brings none. No NIC reaches GPU memory.",
       "modprobe nvidia_peermem"},
  };
  for (const auto& [lines, words, command] : kCases) {
    const Finding finding = found(judged(job(lines) + warnedBy(0, kNoHostRma)), "one-sided-failed");
    EXPECT_EQ(finding.severity, Severity::kError);
    EXPECT_HAS(finding.why, words);
    EXPECT_HAS(finding.fix, command);
  }
}

TEST(OneSided, WhatOneRankLacksNoneHas) {
  const Findings findings =
      judged(job({}, {"NCCL_CROSS_NIC set by environment to 0."}) + warnedBy(0, kNoHostRma));
  EXPECT_HAS(found(findings, "one-sided-failed").why, "every NIC on rank 1 (node1).");
}

TEST(OneSided, AChildThatSharesItsParentsResources) {
  const Findings findings = judged(job({"ncclCommSplit comm 0x81 rank 0 nranks 2 cudaDev 0 nvmlDev 0 "
                                        "busId 1000 parent 0x70 splitCount 1 color 1 "
                                        "key 0 commId 0x2 - Init COMPLETE"}) +
                                   warnedBy(0, kNoHostRma));
  EXPECT_HAS(found(findings, "one-sided-failed").why, "splitShare=1");
}

TEST(OneSided, SettingsThatAreOnAreNoReason) {
  const Findings findings = judged(
      readJob(job({"NCCL_CROSS_NIC set by environment to 2.", "NCCL_RMA_DISABLE set by environment to 0."}) +
              warnedBy(0, kNoHostRma)));
  EXPECT_LACKS(found(findings, "one-sided-failed").why, "NCCL_");
  EXPECT_LACKS(found(findings, "one-sided-failed").why, "splitShare");
}

TEST(OneSided, WarningsOfAllReleases) {
  for (const char* const warning :
       {"One sided RMA: symmetric registration is not supported in this communicator.",
        "One sided RMA: RMA proxy is not supported in this communicator.",
        "One-sided RMA requires CUDA driver 12.5 or later (found 12.4).", "RMA proxy is not connected",
        "Communicator does not support symmetric memory!", "GIN not supported.", "GIN is disabled.",
        "RMA not supported.", "No GIN-capable devices found.", "No RMA-capable devices found.",
        "Rma connect : min local net count is zero", "GIN-capable device type mismatch.",
        "RMA proxy backend type mismatch.",
        "User requested GIN but not all ranks in the communicator support GIN",
        "User requested GIN connection type NCCL_GIN_CONNECTION_FULL but the communicator supports only "
        "NCCL_GIN_CONNECTION_RAIL",
        "GIN: DevComm setup failed on all available backends"})
    EXPECT_NE(findingOf(judged(job(Lines{}) + warnedBy(1, warning)), "one-sided-failed"), nullptr) << warning;
  for (const char* const of_both : {"GIN not supported.", "GIN is disabled."}) {
    const Findings findings = judged(job(Lines{}) + warnedBy(1, of_both));
    EXPECT_HAS(found(findings, "one-sided-failed").what, "one-sided communication fails")
        << "up to 2.30.4 host RMA warns so too";
  }
  EXPECT_EQ(
      findingOf(judged(job(Lines{}) + warnedBy(1, "Send/receive data type mismatch")), "one-sided-failed"),
      nullptr);
  EXPECT_EQ(
      judged(job(Lines{}) + warnedBy(1,
                                     "GIN backend type 3 not supported on all ranks, removing from active "
                                     "backends"))
          .exitStatus(),
      0);
  EXPECT_NE(findingOf(judged(job(Lines{}) +
                             warnedBy(1, "rank 1 - RMA Symmetric register failed: buff 0x7f, size 4096")),
                      "memory-registration"),
            nullptr);
}

TEST(OneSided, AWindowWithoutEffect) {
  const Findings findings = judged(job({"NCCL_CUMEM_ENABLE set by environment to 0.",
                                        "Symmetric registration is not supported in this communicator."}));
  ASSERT_EQ(checksOf(findings), "window-ignored");
  EXPECT_HAS(findings.all()[0].what, "the memory behind a window");
  EXPECT_EQ(findings.exitStatus(), 1);
  EXPECT_HAS(findings.all()[0].why, "NCCL_CUMEM_ENABLE=0");
}

// The reasons of all ranks are looked for once, as the first rank sees them.
TEST(OneSided, AWindowWithoutEffectOnAllRanks) {
  const std::string ignored = "Symmetric registration is not supported in this communicator.";
  const Finding finding = found(judged(job({"NCCL_NUM_RMA_CTX set by environment to 0.", ignored},
                                           {"NCCL_NUM_RMA_CTX set by environment to 0.",
                                            "NCCL_WIN_ENABLE set by environment to 0.", ignored})),
                                "window-ignored");
  ASSERT_EQ(finding.seen.size(), 2U);
  EXPECT_EQ(finding.seen[1].device, "rank 1 (node1)");
  EXPECT_EQ(finding.fix, "unset NCCL_NUM_RMA_CTX\nunset NCCL_WIN_ENABLE");
  EXPECT_HAS(finding.why, "no context. NCCL_WIN_ENABLE=0 turns windows off on rank 1 (node1).");
}

}  // namespace
}  // namespace railwise::doctor
