// `railwise perf` end to end, over the loopback plugin: data, wrong data, errors, and the death of any
// process.
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fstream>

#include "base/text/words.h"
#include "process.h"
#include "scratch.h"
#include "tests/ok.h"

namespace railwise::cli {
namespace {

using Words = std::vector<std::string>;

Words perfArgs(const Words& more) {
  Words args = {"perf"};
  args.insert(args.end(), more.begin(), more.end());
  args.insert(args.end(), {"--plugin", LOOPBACK_PLUGIN});
  return args;
}

// `line`: words with blanks between them.
Words perfArgs(const char* line) { return perfArgs(wordsOf(line)); }

ProcessResult perf(const Words& more, const Words& environment = {}) {
  return runProcess(RAILWISE_CLI, perfArgs(more), environment);
}
ProcessResult perf(const char* line, const Words& environment = {}) {
  return perf(wordsOf(line), environment);
}

int rowsOf(const std::string& out) {
  int rows = 0;
  for (std::size_t at = 0; at < out.size(); at = out.find('\n', at) + 1) rows += out[at] == ' ' ? 1 : 0;
  return rows;
}

class Perf : public testing::TestWithParam<std::tuple<const char*, int>> {};

TEST_P(Perf, VerifiesEverySizeInEveryApiVersion) {
  const auto [collective, api] = GetParam();
  const auto result = succeeded(perf({collective, "-b", "1", "-e", "600K", "-f", "9", "-n", "1", "--ranks",
                                      "3", "--api", "v" + std::to_string(api)}));
  EXPECT_EQ(result.err, "");
  EXPECT_EQ(rowsOf(result.out), 7) << result.out;
  EXPECT_HAS(result.out, "(Loopback, API v" + std::to_string(api) + ")");
  EXPECT_HAS(result.out, "loop0v" + std::to_string(api));
  EXPECT_HAS(result.out, "# Out of bounds values : 0 OK\n");
}
INSTANTIATE_TEST_SUITE_P(
    All, Perf, testing::Combine(testing::Values("all_reduce", "sendrecv", "alltoall"), testing::Range(6, 13)),
    [](const auto& test) {
      return std::string(std::get<0>(test.param)) + "_v" + std::to_string(std::get<1>(test.param));
    });

constexpr const char* kAllCollectives[] = {"all_reduce", "all_gather", "reduce_scatter", "broadcast",
                                           "reduce",     "sendrecv",   "alltoall",       "gather",
                                           "scatter",    "hypercube"};

TEST(PerfRanks, AnyNumberWorks) {
  for (const char* collective : kAllCollectives) {
    for (const char* ranks : {"1", "2", "5"}) {
      if (std::string(collective) == "hypercube" && std::string(ranks) == "5") continue;
      const auto result = perf({collective, "-b", "0", "-e", "40", "-i", "10", "-n", "2", "--ranks", ranks,
                                "-d", "int8", "--channels", "3"});
      EXPECT_EQ(result.status, 0) << collective << " " << ranks << " " << result.err;
      EXPECT_EQ(rowsOf(result.out), 5);
    }
  }
}

// perf | head: as other tools, and without a word of the ranks.
TEST(PerfOutput, AReaderThatLeavesEndsTheRunQuietly) {
  const test::Scratch scratch;
  const std::string command = std::string(RAILWISE_CLI) +
                              " perf all_reduce -b 8 -e 1M -n 20 -N 0 --ranks 3 " +
                              "--plugin " LOOPBACK_PLUGIN " | head -n 6; echo ${PIPESTATUS[0]}";
  const auto result = runProcess("/bin/bash", {"-c", command});
  EXPECT_EQ(result.err, "");
  EXPECT_TRUE(result.out.ends_with("\n141\n")) << result.out;
}

TEST(PerfRanks, TwoIsTheDefault) { EXPECT_HAS(perf("sendrecv -b 8 -e 8 -n 1").out, "# ranks 2 channels 2 "); }

TEST(PerfTypes, EveryReductionIsExact) {
  for (const char* type : {"int8", "int32", "int64", "float", "double"}) {
    for (const char* op : {"sum", "prod", "max", "min"}) {
      const auto result = perf(
          {"all_reduce", "-b", "4K", "-e", "4K", "-n", "1", "-w", "0", "--ranks", "3", "-d", type, "-o", op});
      EXPECT_EQ(result.status, 0) << type << " " << op << " " << result.err;
    }
  }
}

class PerfWrong : public testing::TestWithParam<const char*> {};

TEST_P(PerfWrong, OneWrongByteIsCountedReportedAndFails) {
  // Rank 1 is the root: in reduce and gather, no other rank has a result.
  const auto result =
      perf({GetParam(), "-b", "4K", "-e", "4K", "-n", "1", "--ranks", "4", "-d", "int32", "-r",
            std::string(GetParam()) == "reduce" || std::string(GetParam()) == "gather" ? "1" : "0"},
           {"LOOPBACK_CORRUPT=0", "LOOPBACK_RANK=1"});
  EXPECT_EQ(result.status, 1);
  EXPECT_HAS(result.out, " FAILED\n");
  EXPECT_LACKS(result.out, "# Out of bounds values : 0 ");
  EXPECT_HAS(result.err, std::string("wrong data: ") + GetParam() + " of ");
  EXPECT_HAS(result.err, " expected ");
}
INSTANTIATE_TEST_SUITE_P(All, PerfWrong, testing::ValuesIn(kAllCollectives));

TEST(PerfWrongUnchecked, WithoutCheckNobodyLooks) {
  const auto result = succeeded(perf("sendrecv -b 4K -e 4K -n 1 -c 0", {"LOOPBACK_CORRUPT=0"}));
  EXPECT_HAS(result.out, "     N/A");
}

TEST(PerfVariants, EveryTypeOperationAndRootIsARow) {
  const auto result =
      succeeded(perf("reduce -b 1K -e 1K -n 1 -w 0 --ranks 3 -d all -o all -r all --channels 1"));
  EXPECT_EQ(rowsOf(result.out), 10 * 5 * 3);
  EXPECT_HAS(result.out, "  bfloat16     avg       2  ");
  const auto roots = succeeded(perf("scatter -b 1K -e 1K -n 1 --ranks 3 -r all"));
  EXPECT_EQ(rowsOf(roots.out), 3);
}

TEST(PerfVariants, EveryWayToTakeTheTimeWorks) {
  for (const char* blocking : {"0", "1", "2", "3"}) {
    for (const char* average : {"0", "1", "2", "3"}) {
      const auto result =
          succeeded(perf({"broadcast", "-b",     "64", "-e",    "64", "-n", "9",  "-m", "2",  "-N", "2",
                          "-z",        blocking, "-a", average, "-I", "1",  "-S", "1",  "-K", "2"}));
      EXPECT_EQ(rowsOf(result.out), 2) << result.out;
    }
  }
}

TEST(PerfVariants, WhatHasNoEffectIsSaidInTheHeader) {
  const auto result = succeeded(perf("sendrecv_perf -b 8 -e 8 -n 1 -p 1"));
  EXPECT_HAS(result.out, "# option -p/--parallel_init has no effect: ");
}

TEST(PerfVerdict, TooLittleBandwidthFails) {
  const Words run = {"sendrecv", "-b", "8", "-e", "8", "-n", "1", "--min-busbw"};
  Words high = run, low = run;
  high.emplace_back("1e6");
  low.emplace_back("1e-9");
  expectFailure(perf(high), 1, " GB/s, is below --min-busbw 1e+06\n");
  EXPECT_EQ(perf(low).status, 0);
}

TEST(PerfVerdict, ComparesWithASavedRun) {
  const test::Scratch scratch;
  const std::string old_file = scratch.file("old.json", "");
  const Words run = {"all_gather", "-b", "64", "-e", "128", "-f", "2", "-n", "10"};
  Words first = run, second = run, other = run;
  first.push_back("--json=" + old_file);
  second.insert(second.end(), {"--against", old_file});
  other.insert(other.end(), {"--against", old_file, "--ranks", "3"});
  ASSERT_EQ(perf(first).status, 0);
  const auto result = succeeded(perf(second));
  EXPECT_HAS(result.out, "# against " + old_file + " (plugin Loopback): medians");
  EXPECT_HAS(result.out, "#           128  in-place ");
  expectFailure(perf(other), 2, "is a run of 2 ranks, this has 3");
}

TEST(PerfOutputs, WhatCannotBeWrittenIsFoundBeforeTheRun) {
  for (const char* output :
       {"--json=/nowhere/a", "--csv=/nowhere/a", "--timeline=/nowhere/a", "--against=/nowhere/a"}) {
    const auto result = perf({"sendrecv", "-n", "100000000", output});
    EXPECT_EQ(result.status, 2) << output;
    EXPECT_EQ(result.out, "") << output;
    EXPECT_HAS(result.err, "/nowhere/a");
  }
}

TEST(PerfOutputs, MistakesAreFoundBeforeTheRun) {
  const std::vector<std::vector<std::string>> mistakes = {{"--against=/"},
                                                          {"--json=/tmp/x", "--csv=/tmp/x"},
                                                          {"--csv", "--against=/tmp/x"},
                                                          {"-N", "0", "--json"},
                                                          {"--min-busbw", "inf"},
                                                          {"-r", "5"}};
  for (const auto& mistake : mistakes) {
    std::vector<std::string> args = {"broadcast", "-n", "100000000"};
    args.insert(args.end(), mistake.begin(), mistake.end());
    const auto result = perf(args);
    EXPECT_EQ(result.status, 2) << mistake[0] << ": " << result.err;
    EXPECT_EQ(result.out, "") << mistake[0];
  }
}

TEST(PerfOutputs, ALinkStaysALink) {
  const test::Scratch scratch;
  const std::string link = scratch.path("latest.json");
  std::filesystem::create_symlink(scratch.path("run.json"), link);
  EXPECT_EQ(perf({"sendrecv", "-b", "1K", "-e", "1K", "-n", "1", "--json=" + link}).status, 0);
  EXPECT_TRUE(std::filesystem::is_symlink(link));
  EXPECT_GT(std::filesystem::file_size(link), 100U);
}

// Iterations that are skipped, and those between two barriers.
TEST(PerfOutputs, ASampleIsAMeanOfSeveralIterations) {
  for (const char* line : {"sendrecv -b 8 -e 8 -n 2000 -K 1000 -w 0 -c 0 --json",
                           "sendrecv -b 8 -e 8 -n 1001 -z 1 -w 0 -c 0 --json"})
    EXPECT_HAS(succeeded(perf(line)).out, "\"samples\": 500");
}

TEST(PerfCsv, HasALineForEachMeasurement) {
  const auto result = succeeded(perf("gather -b 1K -e 2K -f 2 -n 3 --csv"));
  EXPECT_TRUE(result.out.starts_with("collective,ranks,size_b,")) << result.out;
  EXPECT_EQ(std::count(result.out.begin(), result.out.end(), '\n'), 5) << result.out;
  EXPECT_HAS(result.out, "\ngather,2,2048,256,float,none,0,in_place,");
}

TEST(PerfDuration, PrintsEveryMeasurementIfAsked) {
  const auto result = succeeded(perf("all_reduce -b 8 -e 16 -f 2 -n 1 --duration 1 --rows"));
  EXPECT_GT(rowsOf(result.out), 2) << result.out;
}

TEST(PerfDuration, MeasuresAllSizesAgain) {
  const auto begin = std::chrono::steady_clock::now();
  const auto result = succeeded(perf("all_reduce -b 8 -e 16 -f 2 -n 1 --duration 1"));
  EXPECT_GE(std::chrono::steady_clock::now() - begin, std::chrono::seconds(1));
  EXPECT_EQ(rowsOf(result.out), 2) << "one for each size\n" << result.out;
}

TEST(PerfJson, IsAWholeDocument) {
  const auto result = succeeded(perf("alltoall -b 1K -e 2K -f 2 -n 1 --json"));
  EXPECT_EQ(result.out.substr(0, 2), "{\n");
  EXPECT_EQ(result.out.substr(result.out.size() - 3), "\n}\n");
  for (const char* key : {"version", "command", "plugin", "api", "ranks", "results", "average_bus_bandwidth"})
    EXPECT_HAS(result.out, "\"" + std::string(key) + "\": ") << key;
}

TEST(PerfJson, AFileLeavesTheTableOnStdout) {
  char path[] = "/tmp/railwise-json-XXXXXX";
  close(mkstemp(path));
  const auto result =
      succeeded(perf({"sendrecv", "-b", "1K", "-e", "1K", "-n", "1", "--json=" + std::string(path)}));
  EXPECT_EQ(rowsOf(result.out), 1);
  std::ifstream file(path);
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  EXPECT_HAS(text, "\"size\": 1024");
  unlink(path);
  EXPECT_EQ(perf("sendrecv -b 8 -e 8 -n 1 --json=/nowhere/file").status, 2);
}

TEST(PerfErrors, APluginErrorNamesCallPeerAndRank) {
  const auto result =
      perf("all_reduce -b 64K -e 64K --ranks 3", {"LOOPBACK_FAIL=isend:5", "LOOPBACK_RANK=1"});
  EXPECT_EQ(result.status, 1);
  EXPECT_HAS(result.err, "railwise: rank 1: isend to rank 2 failed: ncclInternalError");
  EXPECT_HAS(result.err, "railwise: rank 0: rank 1 (pid ");
  EXPECT_HAS(result.err, ") failed: isend to rank 2 failed: ");
}

TEST(PerfErrors, AnErrorWhileConnectingEndsTheJob) {
  for (const char* call : {"connect", "regMr"}) {
    const auto result = perf("alltoall -b 64K -e 64K --ranks 3",
                             {"LOOPBACK_FAIL=" + std::string(call) + ":2", "LOOPBACK_RANK=0"});
    EXPECT_EQ(result.status, 1);
    EXPECT_HAS(result.err, "railwise: rank 0: " + std::string(call));
    EXPECT_HAS(result.err, "railwise: rank 2: rank 0 (pid ");
  }
}

TEST(PerfErrors, AJobThatHangsEndsAndSaysWhoWaitsForWhom) {
  const auto result =
      perf("sendrecv -b 64K -e 64K --ranks 3 --timeout 1", {"LOOPBACK_STALL=40", "LOOPBACK_RANK=2"});
  EXPECT_EQ(result.status, 1);
  EXPECT_HAS(result.err, "no progress for 1 s: in sendrecv of 65536 bytes");
  EXPECT_HAS(result.err, "receive(s) from rank ");
  EXPECT_HAS(result.err, "railwise stuck says why");
}

TEST(PerfErrors, NoDeviceEndsWith1) {
  expectFailure(perf("sendrecv --device verbs", {"LOOPBACK_NEEDS_SOFTWARE=1"}), 1,
                "init failed: ncclSystemError");
}

TEST(PerfErrors, APluginThatHangsInInitIsTriedOnce) {
  const auto result = perf("sendrecv -T 1", {"LOOPBACK_HANGS=1"});
  EXPECT_EQ(result.status, 1);
  EXPECT_EQ(result.err, "railwise: plugin " LOOPBACK_PLUGIN " hangs: init does not return within 1 s\n");
}

// It knows libibverbs only, so perf runs again behind the drop-in library.
TEST(PerfDevice, APluginOfOthersGetsSoftwareDevicesFromTheDropIn) {
  const auto result = succeeded(perf("sendrecv -b 8 -e 8 -n 1 --device software:link=ib"));
  EXPECT_HAS(result.err, " runs on software devices behind Railwise's libibverbs.so.1 ");
  EXPECT_EQ(rowsOf(result.out), 1) << result.out;
}

// Also of a machine that describes no PCI places, on InfiniBand: some plugins crash without.
TEST(PerfDevice, APluginOfOthersSeesItsDevicesInSys) {
  const auto result =
      succeeded(perf("sendrecv -b 8 -e 8 -n 1 --device software:link=ib", {"LOOPBACK_NEEDS_SYS=1"}));
}

TEST(PerfDevice, AMissingDropInIsSaid) {
  const auto result = perf("sendrecv --device software", {"RAILWISE_VERBS_DIR=/nowhere"});
  EXPECT_EQ(result.status, 125);
  EXPECT_HAS(result.err, "no railwise-verbs/libibverbs.so.1 beside this program");
}

TEST(PerfDevice, TheFallbackIsInTheHeader) {
  const auto result = succeeded(perf("sendrecv -b 8 -e 8 -n 1", {"LOOPBACK_NEEDS_SOFTWARE=1"}));
  EXPECT_EQ(result.err, "");
  EXPECT_HAS(result.out, "# no RDMA device on this machine: using the software device ");
}

// ---- the death of a process in the middle of a run ----

struct LongRun {
  LongRun() : process(RAILWISE_CLI, perfArgs("alltoall -b 64K -e 64K -n 100000000 --ranks 4")) {
    EXPECT_TRUE(process.waitForOut("#wrong")) << process.err();
  }
  pid_t rank(int rank) const {
    const std::string out = process.out();
    const std::string line = "#  Rank  " + std::to_string(rank) + " Pid ";
    const auto at = out.find(line);
    return at == std::string::npos ? -1 : std::atoi(out.c_str() + at + line.size());
  }
  bool anyRankLives(const std::vector<pid_t>& pids) const {
    for (const pid_t pid : pids) {
      if (kill(pid, 0) == 0) return true;
    }
    return false;
  }
  std::vector<pid_t> ranks() const { return {rank(0), rank(1), rank(2), rank(3)}; }

  Process process;
};

class PerfKilled : public testing::TestWithParam<int> {};

TEST_P(PerfKilled, TheOthersNameTheDeadRankAndEnd) {
  LongRun run;
  const int victim = GetParam();
  const auto pids = run.ranks();
  const std::string pid = std::to_string(pids[static_cast<std::size_t>(victim)]);
  ASSERT_EQ(kill(std::atoi(pid.c_str()), SIGKILL), 0);
  const auto result = run.process.wait(30);
  EXPECT_EQ(result.status, 1);
  EXPECT_HAS(result.err, "railwise: rank " + std::to_string(victim) + " (pid " + pid +
                             ") was killed by signal 9 (Killed)\n");
  for (int other = 0; other < 4; ++other) {
    if (other == victim) continue;
    EXPECT_HAS(result.err, "railwise: rank " + std::to_string(other) + ": rank " + std::to_string(victim) +
                               " (pid " + pid + " on host ")
        << other << ": ";
  }
  EXPECT_FALSE(run.anyRankLives(pids));
}
INSTANTIATE_TEST_SUITE_P(Rank, PerfKilled, testing::Values(0, 1, 3));

TEST(PerfKilledLauncher, TheRanksEndWithIt) {
  LongRun run;
  const auto pids = run.ranks();
  ASSERT_EQ(kill(run.process.pid(), SIGKILL), 0);
  EXPECT_EQ(run.process.wait(30).status, 128 + SIGKILL);
  const auto ended = [&] { return !run.anyRankLives(pids); };
  for (int i = 0; i < 10'000 && !ended(); ++i) usleep(1'000);
  EXPECT_TRUE(ended());
  const std::string expected =
      "the launcher (pid " + std::to_string(run.process.pid()) + " on this host) is gone";
  EXPECT_HAS(run.process.err(), expected);
}

TEST(PerfInterrupted, ASignalEndsEverything) {
  LongRun run;
  const auto pids = run.ranks();
  ASSERT_EQ(kill(run.process.pid(), SIGINT), 0);
  const auto result = run.process.wait(30);
  EXPECT_EQ(result.status, 128 + SIGINT);
  EXPECT_HAS(result.err, "railwise: ended by signal 2 (Interrupt)\n");
  EXPECT_FALSE(run.anyRankLives(pids));
}

TEST(PerfStopped, AStoppedRankIsKilledInTheEnd) {
  Process process(RAILWISE_CLI, perfArgs("alltoall -b 64K -e 64K -n 100000000 --timeout 1"));
  ASSERT_TRUE(process.waitForOut("#wrong"));
  const std::string out = process.out();
  const auto at = out.find("#  Rank  1 Pid ");
  ASSERT_NE(at, std::string::npos);
  const int pid = std::atoi(out.c_str() + at + 15);
  ASSERT_EQ(kill(pid, SIGSTOP), 0);
  const auto result = process.wait(60);
  EXPECT_EQ(result.status, 1);
  const auto line = result.err.find("railwise: rank 0: no progress for 1 s: ");
  ASSERT_NE(line, std::string::npos) << result.err;
  const std::string text = result.err.substr(line, result.err.find('\n', line) - line);
  EXPECT_HAS(text, "; rank 1 (pid " + std::to_string(pid) + " on ");
  EXPECT_HAS(text, ") is stopped");
  EXPECT_NE(kill(pid, 0), 0);
}

// ---- ranks that others have started ----

Words mpirun(int rank, int ranks) {
  return {"OMPI_COMM_WORLD_RANK=" + std::to_string(rank), "OMPI_COMM_WORLD_SIZE=" + std::to_string(ranks),
          "OMPI_COMM_WORLD_LOCAL_SIZE=" + std::to_string(ranks),
          "PMIX_NAMESPACE=test-" + std::to_string(getpid())};
}

TEST(PerfMpi, RanksOfMpirunMeetByThemselves) {
  const auto args = perfArgs("all_reduce -b 8 -e 64K -f 8 -n 2");
  Process two(RAILWISE_CLI, args, mpirun(2, 3));
  Process one(RAILWISE_CLI, args, mpirun(1, 3));
  Process zero(RAILWISE_CLI, args, mpirun(0, 3));
  EXPECT_HAS(succeeded(zero.wait()).out, "# ranks 3 ");
  for (Process* other : {&one, &two}) {
    EXPECT_EQ(succeeded(other->wait()).out, "") << "only rank 0 prints";
  }
}

TEST(PerfMpi, APluginOfOthersGetsSoftwareDevicesFromTheDropIn) {
  const auto args = perfArgs("sendrecv -b 8 -e 8 -n 1 --device software:link=ib");
  Process one(RAILWISE_CLI, args, mpirun(1, 2));
  Process zero(RAILWISE_CLI, args, mpirun(0, 2));
  for (Process* process : {&zero, &one}) {
    const auto result = succeeded(process->wait());
    EXPECT_HAS(result.err, " runs on software devices behind Railwise's libibverbs.so.1 ");
  }
}

TEST(PerfMpi, OtherOptionsAreRefused) {
  const auto environment = [](int rank) {
    return Words{"PMI_RANK=" + std::to_string(rank), "PMI_SIZE=2", "MPI_LOCALNRANKS=2",
                 "PMI_JOBID=test-" + std::to_string(getpid())};
  };
  Process one(RAILWISE_CLI, perfArgs("all_reduce -b 8 -e 8"), environment(1));
  Process zero(RAILWISE_CLI, perfArgs("all_reduce -b 16 -e 16"), environment(0));
  for (Process* process : {&zero, &one}) {
    expectFailure(process->wait(), 1, "was started with other options than rank 0");
  }
}

TEST(PerfMpi, NoAddressIsAMistake) {
  expectFailure(perf("sendrecv", {"PMI_RANK=0", "PMI_SIZE=2"}), 2, "give --address HOST:PORT");
}

}  // namespace
}  // namespace railwise::cli
