// What it costs to read and judge the logs of a large job, in basic blocks that are run: an exact number.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "doctor/log/read_job.h"

namespace {
uint64_t g_blocks = 0;
}
// The compiler calls it from each basic block of the doctor's files (-fsanitize-coverage=trace-pc).
extern "C" void __sanitizer_cov_trace_pc() { ++g_blocks; }

namespace railwise::doctor {
namespace {

std::string addressOf(int rank) {
  return "10.0." + std::to_string(rank / 256) + "." + std::to_string(rank % 256);
}

// Each rank on its own host says the lines that `lines_of` gives, and one more that has no words before it.
template <typename LinesOf>
uint64_t costOf(int ranks, const LinesOf& lines_of) {
  std::string text;
  for (int rank = 0; rank < ranks; ++rank) {
    const std::string before = "node" + std::to_string(rank) + ":100:100 [0] ";
    text += before + "NCCL INFO Bootstrap : Using eth0:" + addressOf(rank) + "<0>\n" + before + "NCCL INFO " +
            initLine(rank, ranks, "START") + "\n";
    for (const std::string& line : lines_of(rank)) text += before + line + "\n";
    text += "NET/Railwise : the moon is in the way\n";
  }
  g_blocks = 0;
  const Findings findings = judged(text);
  (void)reportText(findings, {.subject = "job"});
  return g_blocks;
}

template <typename LinesOf>
void expectLinear(const char* what, const LinesOf& lines_of) {
  constexpr int kRanks = 2000, kTimes = 4;
  const uint64_t few = costOf(kRanks, lines_of), many = costOf(kRanks * kTimes, lines_of);
  ASSERT_GT(few, 100U * kRanks) << what << ": the doctor's files are not counted";
  // Maps add a logarithm; quadratic work would be 16 times as much.
  EXPECT_LT(many, few * kTimes * 5 / 4) << what << ": " << few << " and " << many;
}

TEST(Cost, TheWorkGrowsAsTheRanks) {
  using Lines = std::vector<std::string>;
  expectLinear("the network is Socket", [](int) {
    return Lines{"NCCL WARN NET/IB : Unable to open device mlx5_0", "NCCL INFO Using network Socket",
                 "NCCL INFO Channel 00/0 : 0[0] -> 1[0] [send] via NET/Socket/0"};
  });
  expectLinear("each rank has lost its peer", [](int rank) {
    return Lines{"NCCL INFO Using network IB",
                 "NCCL WARN socketProgress: Connection closed by remote peer " + addressOf(rank / 2) + "<4>"};
  });
  expectLinear("each rank has its own cause", [](int rank) {
    return Lines{"NCCL INFO Using network IB", "NCCL WARN NET/IB : Got completion from peer " +
                                                   addressOf(rank / 2) + "<4> with status=12 opcode=0"};
  });
  expectLinear("RCCL with other levels",
               [](int) { return Lines{"NCCL WARN NET/Railwise : Railwise 0.1.0, libibverbs: mlx5_0/RoCE"}; });
}

}  // namespace
}  // namespace railwise::doctor
