// RCCL of ROCm 7.2 and newer numbers its log levels otherwise than NCCL: an older Railwise's INFO lines stand
// in its log as warnings, and Railwise's warnings without any words before them.
#include <gtest/gtest.h>

#include "doctor/log/judging/judge.h"
#include "doctor/log/ranks.h"
#include "doctor/log/read_job.h"

namespace railwise::doctor {
namespace {

std::string shown(int rank, const std::string& level, const std::string& text) {
  const std::string host = "node" + std::to_string(rank) + ":100:100 [0] ";
  return level == "WARN" ? "[2026-11-26 06:05:01] " + host +
                               "src/net/device/device.cc:153 NCCL WARN NET/Railwise : " + text + "\n"
                         : host + "NCCL INFO " + text + "\n";
}

const char* const kRemarks[] = {"mlx5_0: GPUDirect: none, because no peer-memory module is loaded",
                                "NICs by the rules of NCCL 2.28.3",
                                "Railwise 0.1.0, libibverbs: mlx5_0/RoCE mlx5_1/RoCE",
                                "mlx5_0 port 1: not active, not used",
                                "mlx5_0: connection to node1:100 (mlx5_0) sends 2 segments",
                                "mlx5_0: the TCP connection of the side channel has broken",
                                "mlx5_0: connection from node1:100 (mlx5_0) ends"};

// A job of RCCL 2.28.3 in which all is well.
std::string rcclJob() {
  std::string text;
  for (int rank = 0; rank < 2; ++rank) {
    if (rank == 0) text += "RCCL version : 2.28.3-develop:1a2b3c\n";
    text += shown(rank, "INFO", "NCCL_NET_PLUGIN set by environment to railwise");
    text += shown(rank, "INFO", "NET/Plugin: Loaded net plugin Railwise (v11)");
    text += shown(rank, "WARN", "NCCL_IB_HCA set to mlx5");
    text += shown(rank, "WARN", "RAILWISE_GPU set to amd");
    for (const char* const remark : kRemarks) text += shown(rank, "WARN", remark);
    for (const char* const line :
         {"Using network Railwise", "NET/Railwise : GPU Direct RDMA Enabled for HCA 0 'mlx5_0'"})
      text += shown(rank, "INFO", line);
    text +=
        shown(rank, "INFO", initLine(rank, 2, "START")) + shown(rank, "INFO", initLine(rank, 2, "COMPLETE"));
  }
  return text;
}

TEST(ShiftedLevels, RemarksAreNoWarnings) {
  const Job job = readJob(rcclJob());
  const Findings findings = judged(job);
  EXPECT_EQ(checksOf(findings), "log-shifted");
  EXPECT_EQ(findings.exitStatus(), 0);
  EXPECT_TRUE(job.events.empty());
  ASSERT_EQ(job.processes.size(), 2U);
  for (const Process& process : job.processes) {
    EXPECT_EQ(process.warnings, 0U);
    EXPECT_EQ(process.railwise.value, "0.1.0");
    EXPECT_EQ(process.nics.size(), 2U);
    EXPECT_EQ(process.no_gpu_direct_reasons.size(), 1U);
    EXPECT_EQ(process.settings.at("NCCL_IB_HCA").value, "mlx5");
    EXPECT_EQ(process.settings.at("RAILWISE_GPU").value, "amd");
  }
}

TEST(ShiftedLevels, AWarningWithoutWordsBeforeItIsOne) {
  JobReader reader;
  for (int rank = 0; rank < 2; ++rank) {
    reader.beginFile("log" + std::to_string(rank));
    std::string text = rcclJob();
    text = text.substr(0, text.find("\nnode1:")) + "\n";
    for (std::size_t at = text.find("node0"); rank == 1 && at != std::string::npos;
         at = text.find("node0", at))
      text.replace(at, 5, "node1");
    if (rank == 0)
      text +=
          "NET/Railwise : mlx5_0: connection to node1:100 (mlx5_0): the peer closed the connection or died "
          "with work outstanding\nNET/Railwise : mlx5_1: nobody knows these words\n";
    while (!text.empty()) {
      const std::size_t end = text.find('\n');
      reader.line(text.substr(0, end));
      text.erase(0, end + 1);
    }
  }
  const Job job = reader.take();
  ASSERT_EQ(job.events.size(), 2U);
  EXPECT_EQ(job.events[0].check, "connection-closed");
  EXPECT_EQ(job.events[0].process, 0);
  EXPECT_EQ(job.events[1].check, "railwise-warning");
}

TEST(ShiftedLevels, ALongSource) {
  const std::string source = "node0:100:100 [0] " + std::string(500, 'x') + ".cc:1 NCCL WARN NET/Railwise : ";
  const Job job = readJob(source + "mlx5_0 port 1: not active, not used\n" + source + kRemarks[2] + "\n");
  EXPECT_TRUE(job.events.empty());
}

// As many as are kept, by the rank before the line.
TEST(ShiftedLevels, RemarksTakeNoRoomFromWarnings) {
  constexpr int kMostEvents = 1 << 16;
  const std::string remark = shown(0, "WARN", kRemarks[0]);
  std::string text;
  for (int rank = 0; rank < kMostEvents; ++rank)
    text += "[1," + std::to_string(rank) + "]<stdout>:" + remark.substr(remark.find("node0"));
  const std::string warning = "node1:100:100 [0] x.cc:1 NCCL WARN Cuda failure 700 'x'\n";
  EXPECT_EQ(readJob(text + warning).lost_events, 1U);
  const Job job = readJob(text + shown(0, "WARN", kRemarks[2]) + warning);
  EXPECT_EQ(job.lost_events, 0U);
  ASSERT_EQ(job.events.size(), 1U);
  EXPECT_EQ(job.events[0].check, "cuda-failure");
}

TEST(ShiftedLevels, OtherLibrariesWarnAsBefore) {
  // Railwise's first line is an INFO here.
  std::string text =
      saidBy(0, {"NET/Railwise : Railwise 0.1.0, libibverbs: mlx5_0/RoCE", "Using network Railwise"}) +
      shown(0, "WARN", "mlx5_0 port 1: it is down");
  EXPECT_NE(findingOf(judged(text), "port-event"), nullptr);
  // RCCL's own warnings keep their level.
  text = rcclJob() + "node0:100:100 [0] x.cc:1 NCCL WARN Cuda failure 700 'x'\n";
  EXPECT_EQ(checksOf(judged(text)), "cuda-failure log-shifted");
}

}  // namespace
}  // namespace railwise::doctor
