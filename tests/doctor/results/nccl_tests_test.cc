#include "doctor/results/nccl_tests.h"

#include <gtest/gtest.h>

namespace railwise::doctor {
namespace {

std::vector<TestRun> readRuns(std::string_view text) {
  NcclTestsReader reader;
  reader.beginFile("out.txt");
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    reader.line(text.substr(0, end));
    text.remove_prefix(std::min(text.size(), end + 1));
  }
  return reader.take();
}

// As 2.17 and newer print it.
constexpr const char* kNew =
    "# nccl-tests version 2.17.6 nccl-headers=22809 nccl-library=22907\n"
    "# Collective test starting: all_gather_perf\n"
    "# nThread 1 nGpus 1 minBytes 8 maxBytes 1073741824 step: 2(factor) warmup iters: 1 iters: 20 agg iters: "
    "1 validation: 1 graph: 0\n"
    "#\n# Using devices\n"
    "#  Rank  0 Group  0 Pid  13919 on       pt01 device  0 [0000:04:00] NVIDIA H100 80GB HBM3\n"
    "#  Rank  1 Group  0 Pid  13920 on       pt02 device  0 [0000:04:00] NVIDIA H100 80GB HBM3\n"
    "#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw  "
    " busbw  #wrong \n"
    "  1073741824     134217728     float    none      -1  22000.0   48.81   24.40       0  21800.0   49.25  "
    " 24.63       0\n"
    "# Out of bounds values : 0 OK\n"
    "# Avg bus bandwidth    : 24.5 \n"
    "# Collective test concluded: all_gather_perf\n";

TEST(NcclTests, ATableOfToday) {
  const auto runs = readRuns(kNew);
  ASSERT_EQ(runs.size(), 1U);
  const TestRun& run = runs.front();
  EXPECT_EQ(run.file, "out.txt");
  EXPECT_EQ(run.collective, "all_gather");
  EXPECT_EQ(run.nccl, "2.29.7");
  EXPECT_EQ(run.ranks, 2);
  EXPECT_EQ(run.ranks_on_host, (std::map<std::string, int>{{"pt01", 1}, {"pt02", 1}}));
  EXPECT_EQ(run.gpu, "NVIDIA H100 80GB HBM3");
  ASSERT_EQ(run.rows.size(), 1U);
  EXPECT_EQ(run.rows[0].bytes, 1U << 30);
  EXPECT_EQ(run.rows[0].line, 9U);
  EXPECT_DOUBLE_EQ(run.rows[0].out_of_place, 24.40);
  EXPECT_DOUBLE_EQ(run.rows[0].best(), 24.63);
  EXPECT_EQ(run.wrong(), 0U);
}

// What mpirun --tag-output and Kubernetes make of it: a mark before every piece that was written.
TEST(NcclTests, MarksWithinALine) {
  for (const char* row :
       {"[1,0]<stdout>:     8388608       2097152     float     sum      -1[1,0]<stdout>:    992.6    8.45   "
        "16.20      0[1,0]<stdout>:    986.0    8.51   16.31      0\n",
        "[0]      8388608       2097152     float     sum      -1[0]     992.6    8.45   16.20      0[0]     "
        "986.0    8.51   16.31      0\n",
        "0:      8388608       2097152     float     sum      -1    992.6    8.45   16.20      0    986.0    "
        "8.51   16.31      0\n",
        "2026-01-02T03:04:05.123Z stdout F      8388608       2097152     float     sum      -1    992.6    "
        "8.45   16.20      0    986.0    8.51   16.31      0   2026-01-02 03:04:05\n"}) {
    const auto runs = readRuns(row);
    ASSERT_EQ(runs.size(), 1U) << row;
    EXPECT_EQ(runs[0].collective, "all_reduce") << "only there the bus has more than the algorithm";
    EXPECT_DOUBLE_EQ(runs[0].rows[0].best(), 16.31) << row;
  }
}

// Up to 2.10: without a root, with the largest error.
TEST(NcclTests, ATableOfOldReleases) {
  const auto runs = readRuns(
      " nThread 1 nGpus 1 minBytes 32 maxBytes 8589934592 step: 2(factor) warmup iters: 5 iters: 20\n"
      "   Rank  0 Pid 1821213 on node-01 device  0 [0x00] NVIDIA A100-SXM4-40GB\n"
      "   Rank  1 Pid 1821214 on node-01 device  1 [0x00] NVIDIA A100-SXM4-40GB\n"
      "   134217728      33554432     float     sum   2560.7   52.41   52.41  1e-06   2556.2   52.51   52.51 "
      " 1e-06\n");
  ASSERT_EQ(runs.size(), 1U);
  EXPECT_EQ(runs[0].ranks, 2);
  EXPECT_EQ(runs[0].wrong(), 0U);
  EXPECT_EQ(runs[0].collective, "") << "of two ranks it can be all_reduce or sendrecv";
}

TEST(NcclTests, TheReportOfIterationsHasMoreColumns) {
  const auto runs = readRuns(
      "    8388608       2097152     float     sum      -1    992.6    8.45   16.20      0  990.1  995.2  "
      "994.0  0.1    986.0    8.51   16.31      0  985.0  987.0  986.5  0.1\n");
  ASSERT_EQ(runs.size(), 1U);
  EXPECT_DOUBLE_EQ(runs[0].rows[0].in_place, 16.31);
}

TEST(NcclTests, WrongElements) {
  const auto runs = readRuns(
      "    8388608       2097152     float     sum      -1    992.6    8.45   16.20     12    986.0    8.51  "
      " 16.31    N/A\n");
  ASSERT_EQ(runs.size(), 1U);
  EXPECT_EQ(runs[0].wrong(), 12U);
}

// Rows of old releases do not tell; the line below them does.
TEST(NcclTests, TheVerdictBelowTheRows) {
  std::string text = kNew;
  const std::string good = "values : 0 OK";
  EXPECT_EQ(readRuns(text)[0].wrong(), 0U);
  text.replace(text.find(good), good.size(), "values : 12 FAILED");
  EXPECT_EQ(readRuns(text)[0].wrong(), 12U);
}

TEST(NcclTests, TheProgramNamesTheCollective) {
  const std::string row =
      "    8388608       1048576     float    none      -1    992.6    8.45    4.23      0    986.0    8.51  "
      "  4.25      0\n";
  EXPECT_EQ(readRuns(row).front().collective, "") << "all_gather or alltoall";
  const auto runs = readRuns("+ mpirun -np 2 /opt/nccl-tests/build/alltoall_perf_mpi -b 8M\n" + row +
                             "# nThread 1 nGpus 1 minBytes 8\n" + row);
  ASSERT_EQ(runs.size(), 2U);
  EXPECT_EQ(runs[0].collective, "alltoall");
  EXPECT_EQ(runs[1].collective, "") << "the name is that of the first table";
}

TEST(NcclTests, ColumnsThatOneCollectiveHas) {
  const char* const ranks =
      "# nThread 1 nGpus 2 minBytes 8\n"
      "#  Rank  0 Group  0 Pid  1 on a device  0 [0x04] G\n#  Rank  1 Group  0 Pid  1 on a device  1 [0x05] "
      "G\n";
  const auto collectiveOf = [&](const std::string& row) {
    const auto runs = readRuns(ranks + row);
    return runs.empty() ? "none" : runs.front().collective;
  };
  EXPECT_EQ(collectiveOf("8388608 2097152 float none 0 992.6 8.45 8.45 0 986.0 8.51 8.51 0\n"), "broadcast");
  EXPECT_EQ(collectiveOf("8388608 2097152 float sum 0 992.6 8.45 8.45 0 986.0 8.51 8.51 0\n"), "reduce");
  EXPECT_EQ(collectiveOf("8388608 1048576 float sum -1 992.6 8.45 4.23 0 986.0 8.51 4.25 0\n"),
            "reduce_scatter");
}

TEST(NcclTests, RowsThatAreNone) {
  for (const char* row :
       {"8388608 2097152 float sum -1 992.6 9.99 16.20 0 986.0 8.51 16.31 0",  // size, time and bandwidth
        "8388608 2097152 float sum -1 992.6 8.45 99.0 0 986.0 8.51 16.31 0",   // twice is the most
        "8388608 2097152 float sum -1 0 8.45 16.2 0 0 8.51 16.31 0",
        "8388608 2097152 float sum -1 nan 8.45 16.2 0 986.0 8.51 16.31 0",
        "8388608 2097152 float sum -1 992.6 8.45 16.20 0 986.0 8.51",  // cut off
        "8388608 2097152 float sum -7 992.6 8.45 16.20 0 986.0 8.51 16.31 0",
        "-8 2097152 float sum -1 992.6 8.45 16.20 0 986.0 8.51 16.31 0",
        "8388608 2097152 floats sum -1 992.6 8.45 16.20 0 986.0 8.51 16.31 0",
        "99999999999999999999 1 float sum -1 992.6 8.45 16.20 0 986.0 8.51 16.31 0",
        "float sum -1 992.6 8.45 16.20 0 986.0 8.51 16.31 0"})
    EXPECT_TRUE(readRuns(std::string(row) + "\n").empty()) << row;
}

// Without MPI every process is rank 0 of its own test.
TEST(NcclTests, ProcessesThatKnowNothingOfEachOther) {
  const std::string header = "# nThread 1 nGpus 1 minBytes 8\n";
  const std::string rank = "#  Rank  0 Group  0 Pid  1 on a device  0 [0x04] G\n";
  const std::string row = "8388608 2097152 float sum -1 992.6 8.45 0.00 0 986.0 8.51 0.00 0\n";
  const auto runs = readRuns(header + header + rank + rank + row + row);
  ASSERT_EQ(runs.size(), 1U);
  EXPECT_EQ(runs[0].ranks, 1);
}

TEST(NcclTests, RanksThatAreCutOffAreNotCounted) {
  const auto runs = readRuns(
      "# nThread 1 nGpus 1 minBytes 8\n"
      "#  Rank  0 Group  0 Pid  1 on a device  0 [0x04] G\n"
      "#  Rank  5 Group  0 Pid  1 on b device  0 [0x04] G\n"
      "#  Rank  6 Group  0 Pid  1 on b device  0 [0x04] G\n"
      "8388608 2097152 float sum -1 992.6 8.45 16.20 0 986.0 8.51 16.31 0\n");
  ASSERT_EQ(runs.size(), 1U);
  EXPECT_EQ(runs[0].ranks, 0);
  EXPECT_TRUE(runs[0].ranks_on_host.empty());
}

// railwise perf prints the columns of nccl-tests, and moves the memory of the host.
TEST(NcclTests, NotTheTableOfRailwisePerf) {
  const std::string row = "8388608 2097152 float sum -1 992.6 8.45 16.20 0 986.0 8.51 16.31 0\n";
  EXPECT_TRUE(readRuns("# railwise 0.1 perf all_reduce\n" + row).empty());
  EXPECT_EQ(
      readRuns("# railwise 0.1 perf all_reduce\n" + row + "# nThread 1 nGpus 1 minBytes 8\n" + row).size(),
      1U);
}

}  // namespace
}  // namespace railwise::doctor
