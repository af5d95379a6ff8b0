// The one-sided commands of `railwise perf`, over Railwise's own RMA tables on the software device: right
// data and signals in every version, with a failure in the middle too; mistakes that must be found.
#include <unistd.h>

#include <fstream>
#include <iterator>

#include "process.h"
#include "scratch.h"
#include "tests/ok.h"

namespace railwise::cli {
namespace {

using Options = std::vector<std::string>;

// Tests run beside each other.
std::string ownDevice(const std::string& more = "") {
  return "software:fabric=onesided" + std::to_string(getpid()) + more;
}

ProcessResult perf(const Options& options, const std::string& plugin, const Options& environment = {}) {
  Options args = {"perf"};
  args.insert(args.end(), options.begin(), options.end());
  args.insert(args.end(), {"--plugin", plugin});
  return runProcess(RAILWISE_CLI, args, environment);
}

void expectGood(const ProcessResult& result, const std::string& what) {
  EXPECT_EQ(result.status, 0) << what << "\n" << result.err << result.out;
  EXPECT_HAS(result.out, "# Out of bounds values : 0 OK\n") << what << "\n";
}

constexpr const char* kCommands[] = {"put",         "put_signal", "get", "signal_pingpong", "put_all_gather",
                                     "put_alltoall"};

class PerfOneSided : public testing::TestWithParam<const char*> {};

TEST_P(PerfOneSided, IsRightWithAnyNumberOfRanks) {
  for (const char* ranks : {"1", "2", "4"}) {
    if (std::string(GetParam()) == "signal_pingpong" && std::string(ranks) == "1") continue;
    // From nothing over what fills no block to what is spread over the lanes.
    const auto result = perf({GetParam(), "-b", "0", "-e", "200K", "-i", "66667", "-n", "3", "--ranks", ranks,
                              "-d", "int8", "--channels", "3", "--device", ownDevice(",count=2")},
                             RAILWISE_PLUGIN_PATH);
    expectGood(result, ranks);
    EXPECT_HAS(result.out, "(Railwise, API v16)\n");
  }
}

TEST_P(PerfOneSided, IsRightInEveryVersion) {
  for (const char* api : {"v13", "v14", "v15", "v16"})
    expectGood(perf({GetParam(), "-b", "8", "-e", "32K", "-f", "64", "-n", "2", "--api", api, "--device",
                     ownDevice()},
                    RAILWISE_PLUGIN_PATH),
               api);
}

// The port is down from the 30th write on: operations are under way, and more follow. Other processes do not
// remove records in a folder of the test's own.
TEST_P(PerfOneSided, IsRightWhenAPortFailsInTheMiddle) {
  const test::Scratch scratch;
  const std::string opcode = std::string(GetParam()) == "get" ? "read" : "write";
  const std::string timeline = scratch.path("timeline.svg");
  const auto result =
      perf({GetParam(), "-b", "128K", "-e", "128K", "-n", "20", "-c", "5", "--timeline", timeline, "--device",
            ownDevice(",count=2,fault=device=soft0 opcode=" + opcode + " nth=30 port=down")},
           RAILWISE_PLUGIN_PATH, {"RAILWISE_METRICS_DIR=" + scratch.path()});
  expectGood(result, "");
  EXPECT_HAS(result.out, "\n# soft0 port 1 failed: ");
  std::ifstream file(timeline);
  const std::string drawn(std::istreambuf_iterator<char>(file), {});
  EXPECT_HAS(drawn, std::string("railwise perf ") + GetParam());
  EXPECT_HAS(drawn, "soft0 port=down (rule 1)");
  EXPECT_HAS(drawn, ">Longest time that a connection was without a path: ");
}

INSTANTIATE_TEST_SUITE_P(All, PerfOneSided, testing::ValuesIn(kCommands));

TEST(PerfOneSidedTable, OnlyWhatIsMeasuredHasFigures) {
  const Options run = {"-b", "1K", "-e", "1K", "-n", "1", "--device", ownDevice()};
  Options put = run, gather = run;
  put.insert(put.begin(), "signal_pingpong");
  gather.insert(gather.begin(), "put_all_gather");
  const auto result = perf(put, RAILWISE_PLUGIN_PATH);
  EXPECT_HAS(result.out, "; half of a round trip\n");
  EXPECT_HAS(result.out, "       0      N/A     N/A     N/A     N/A\n");
  EXPECT_LACKS(perf(gather, RAILWISE_PLUGIN_PATH).out, "N/A");
  put.push_back("--csv");
  EXPECT_LACKS(perf(put, RAILWISE_PLUGIN_PATH).out, "in_place");
  put.back() = "--json";
  EXPECT_LACKS(perf(put, RAILWISE_PLUGIN_PATH).out, "in_place");
}

// Rank 1 makes a mistake, and rank 0 finds it. Each of the two channels has half of the data.
ProcessResult withMistake(const std::string& command, const std::string& mistake,
                          const std::string& timeout_s = "60") {
  return perf(
      {command, "-b", "8K", "-e", "8K", "-n", "1", "-d", "int8", "-T", timeout_s, "--device", ownDevice()},
      RMA_MISTAKES_PLUGIN, {"RMA_MISTAKE=" + mistake});
}

TEST(PerfOneSidedMistake, NoneIsFoundWhereNoneIs) {
  for (const char* command : {"put", "put_signal", "get"}) expectGood(withMistake(command, "none"), command);
}

TEST(PerfOneSidedMistake, AWrongByteIsFound) {
  for (const char* command : {"put", "put_signal", "signal_pingpong"}) {
    const auto result = withMistake(command, "byte");
    EXPECT_EQ(result.status, 1) << result.out;
    EXPECT_HAS(result.out, "# Out of bounds values : 2 FAILED\n");
    EXPECT_HAS(result.err, std::string("wrong data: ") + command +
                               " of 8192 bytes out of place, rank 0: element 4095 (offset 4095) is ");
    EXPECT_HAS(result.err, ", expected ");
  }
}

// A warm-up, a timed run and one that is checked make 3. Rank 0 passes its waits early, so its data may be
// wrong too, and the signal may still grow.
TEST(PerfOneSidedMistake, AWrongValueIsFound) {
  const auto result = withMistake("put_signal", "value");
  EXPECT_EQ(result.status, 1) << result.out;
  EXPECT_HAS(result.err,
             "wrong signal: put_signal of 8192 bytes out of place, rank 0: the signal at offset 8 is ");
  EXPECT_HAS(result.err, " (rank 1 adds to it, channel 0), expected 3 (2 wrong in this rank)");
}

// Whether the last one is found at once or a while after the end, is chance.
TEST(PerfOneSidedMistake, ASignalThatIsAddedTwiceIsFound) {
  for (const char* command : {"put_signal", "signal_pingpong", "put_all_gather", "put_alltoall"}) {
    const auto result = withMistake(command, "twice");
    EXPECT_EQ(result.status, 1) << command << result.out;
    EXPECT_HAS(result.err, std::string("wrong signal: ") + command);
    EXPECT_HAS(result.out, " FAILED\n");
  }
}

TEST(PerfOneSidedMistake, ASignalThatIsMissingIsNamed) {
  const auto result = withMistake("put_signal", "lost", "5");  // joining must take less
  EXPECT_EQ(result.status, 1) << result.out;
  EXPECT_HAS(result.err, "no progress for 5 ");
  EXPECT_HAS(result.err, "waiting for 2 signal(s) of rank 1");
}

TEST(PerfOneSidedPlugin, WhatATableLacksIsNamed) {
  expectFailure(withMistake("get", "no_iget"), 1,
                "plugin Railwise: ncclRmaPlugin_v14 has no iget, which perf get needs");
  expectGood(withMistake("put", "no_iget"), "put needs no iget");
}

TEST(PerfOneSidedPlugin, WithoutTheTableLibraryAndTableAreNamed) {
  const auto result = perf({"put"}, LOOPBACK_PLUGIN);
  EXPECT_EQ(result.status, 1);
  EXPECT_EQ(result.err, std::string("railwise: plugin ") + LOOPBACK_PLUGIN +
                            " does not export any ncclRmaPlugin_v13 .. ncclRmaPlugin_v16\n");
  expectFailure(perf({"put", "--api", "v9"}, RAILWISE_PLUGIN_PATH), 2,
                " does not export ncclRmaPlugin_v9; it exports v16, v15, v14, v13\n");
}

TEST(PerfOneSidedPlugin, ATableThatIsSwitchedOffIsAnError) {
  expectFailure(perf({"put", "--device", ownDevice()}, RAILWISE_PLUGIN_PATH, {"RAILWISE_RMA=0"}), 1,
                "plugin Railwise (v16): init failed: ");
}

}  // namespace
}  // namespace railwise::cli
