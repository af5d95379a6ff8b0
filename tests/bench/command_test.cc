// `railwise bench` on the software device, with railwise's own plugin and others.
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "../plugin/sanitizers.h"
#include "benchmarks/bench/callgrind.h"
#include "process.h"
#include "record/reader.h"
#include "scratch.h"
#include "tests/ok.h"
#include "wait.h"

namespace railwise::cli {
namespace {

using Words = std::vector<std::string>;

ProcessResult bench(const Words& more) {
  Words args = {"bench", "--plugin", RAILWISE_PLUGIN_PATH, "--messages", "512", "--repeats", "3"};
  args.insert(args.end(), more.begin(), more.end());
  return runProcess(RAILWISE_CLI, args);
}

// The number behind the `nth` "key"; -1: there is none.
double number(const std::string& json, const std::string& key, int nth = 0) {
  std::size_t at = 0;
  for (int i = 0; i <= nth; ++i) {
    at = json.find("\"" + key + "\": ", i == 0 ? 0 : at + 1);
    if (at == std::string::npos) return -1;
  }
  return std::stod(json.substr(at + key.size() + 4));
}

TEST(BenchCommand, CountsAndTimesAMessage) {
  const auto result = bench({"--json"});
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(result.out.front(), '{') << result.out;
  EXPECT_HAS(result.out, "\"plugin\": \"Railwise\"");
  EXPECT_EQ(number(result.out, "size"), 8);
  EXPECT_EQ(number(result.out, "window"), 8);
  EXPECT_EQ(number(result.out, "messages"), 3 * 512);
  EXPECT_GT(number(result.out, "cpu_ns_min"), 0);
  EXPECT_GE(number(result.out, "cpu_ns_median"), number(result.out, "cpu_ns_min"));
  EXPECT_HAS(result.out, "\"instructions_plugin\": null");
  EXPECT_GE(number(result.out, "work_requests"), 1) << result.out;
  EXPECT_NEAR(number(result.out, "receive_work_requests"), 1, 0.05) << result.out;
  EXPECT_GE(number(result.out, "completions"), 1) << result.out;
}

// A plugin that crashes, ends its process, or hangs.
TEST(BenchCommand, SaysHowAPluginHasFailed) {
  const auto failed = [](const char* defect) {
    const auto result = runProcess(RAILWISE_CLI, {"bench", "--plugin", BAD_PLUGIN, "--timeout", "2"},
                                   {std::string("BAD_PLUGIN=") + defect}, 60);
    EXPECT_EQ(result.status, 1) << result.out;
    return result.err;
  };
  EXPECT_HAS(failed("crash"), "the process that had it crashed (Segmentation fault)");
  EXPECT_HAS(failed("exit"), "the process that had it ended with status 0");
  EXPECT_HAS(failed("hang"), "no answer for 2 s: a call of the plugin hangs");
}

// Our own plugin by its name, and a fabric of the user's that the workers do not take.
TEST(BenchCommand, FindsOurOwnPluginByName) {
  const auto result = succeeded(
      runProcess(RAILWISE_CLI, {"bench", "--json", "--messages", "512", "--repeats", "1", "--vs", "railwise"},
                 {"RAILWISE_DEVICE=software:count=2,fabric=mine"}));
  const std::size_t first = result.out.find("\"plugin\": \"Railwise\"");
  EXPECT_NE(first, std::string::npos) << result.out;
  EXPECT_NE(result.out.find("\"plugin\": \"Railwise\"", first + 1), std::string::npos) << result.out;
}

TEST(BenchCommand, GroupsAreOneReceive) {
  const auto result = bench({"--json", "--grouped", "8"});
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_NEAR(number(result.out, "receive_work_requests"), 1.0 / 8, 0.01) << result.out;
}

// Two work requests and two completions a message in every order in which NCCL calls, however many
// connections there are.
TEST(BenchCommand, HasThePatternsOfNccl) {
  const std::vector<Words> patterns = {
      {"--pattern", "proxy", "--connections", "16"},
      {"--pattern", "proxy", "--gpu-delay", "3"},
      {"--pattern", "ops", "--steps", "2"},
      {"--pattern", "ops", "--connections", "4"},
      {"--pattern", "lone"},
      {"--pattern", "alltoall", "--connections", "16"},
      {"--pattern", "proxy", "--ends", "two-processes", "--connections", "4"}};
  for (const Words& pattern : patterns) {
    Words words = {"--json"};
    words.insert(words.end(), pattern.begin(), pattern.end());
    const auto result = bench(words);
    ASSERT_EQ(result.status, 0) << testing::PrintToString(pattern) << result.err;
    EXPECT_NEAR(number(result.out, "work_requests"), 2, 0.02) << result.out;
    EXPECT_NEAR(number(result.out, "doorbells_send"), 2, 0.02) << result.out;
    EXPECT_NEAR(number(result.out, "completions"), 2, 0.05) << result.out;
  }
}

// A put with a signal is two work requests and one completion at the sender, whatever the pattern.
TEST(BenchCommand, HasThePatternsOfOneSidedCommunication) {
  const std::vector<Words> patterns = {{"--pattern", "put-signal"},
                                       {"--pattern", "put-signal", "--connections", "4"},
                                       {"--pattern", "put-signal", "--window", "1", "--api", "v13"},
                                       {"--pattern", "group", "--size", "64K", "--connections", "2"},
                                       {"--pattern", "group", "--steps", "1", "--api", "v14"}};
  for (const Words& pattern : patterns) {
    Words words = {"--json"};
    words.insert(words.end(), pattern.begin(), pattern.end());
    const auto result = bench(words);
    ASSERT_EQ(result.status, 0) << testing::PrintToString(pattern) << result.err;
    const double sent = number(result.out, "work_requests") - number(result.out, "target_work_requests");
    const double completed = number(result.out, "completions") - number(result.out, "target_completions");
    EXPECT_NEAR(sent, 2, 0.05) << result.out;
    EXPECT_NEAR(completed, 1, 0.05) << result.out;
  }
}

TEST(BenchCommand, CountsKernelsThatPutOrGet) {
  const auto gin = bench({"--json", "--pattern", "gin", "--steps", "4"});
  ASSERT_EQ(gin.status, 0) << gin.err;
  EXPECT_EQ(number(gin.out, "steps"), 4);
  EXPECT_NEAR(number(gin.out, "work_requests"), 1.25, 0.05) << "a signal for four puts: " << gin.out;
  const auto get = bench({"--json", "--pattern", "get", "--size", "4K"});
  ASSERT_EQ(get.status, 0) << get.err;
  EXPECT_NEAR(number(get.out, "work_requests"), 1, 0.05) << get.out;
  EXPECT_EQ(number(get.out, "target_work_requests"), 0) << get.out;
}

TEST(BenchCommand, SaysThatAPluginHasNoOneSidedTable) {
  const auto result = bench({"--vs", LOOPBACK_PLUGIN, "--pattern", "put-signal"});
  EXPECT_EQ(result.status, 1);
  EXPECT_HAS(result.err, "does not export any ncclRmaPlugin_v13 .. ncclRmaPlugin_v16");
}

TEST(BenchCommand, RefusesWhatOneSidedPatternsDoNotHave) {
  for (const Words& words : std::vector<Words>{{"--pattern", "get", "--latency"},
                                               {"--pattern", "gin", "--ends", "two-threads"},
                                               {"--pattern", "gin", "--steps", "9", "--window", "8"},
                                               {"--all", "--one-sided"}})
    EXPECT_EQ(bench(words).status, 2) << testing::PrintToString(words);
}

TEST(BenchCommand, CountsThePassesOfAGpu) {
  const auto soon = bench({"--json", "--window", "2"});
  const auto late = bench({"--json", "--window", "2", "--gpu-delay", "50"});
  ASSERT_EQ(late.status, 0) << late.err;
  EXPECT_EQ(number(late.out, "gpu_delay"), 50);
  EXPECT_GT(number(late.out, "cpu_ns_min"), number(soon.out, "cpu_ns_min")) << "50 passes for two messages";
}

TEST(BenchCommand, IdleCallsMoveNothing) {
  // So few calls end long before a waiting end looks, by the clock, whether its peer is there.
  const auto result =
      bench({"--json", "--pattern", "idle", "--connections", "3", "--messages", "1000", "--repeats", "3"});
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(number(result.out, "connections"), 4) << "a receive is open on every other one";
  EXPECT_EQ(number(result.out, "work_requests"), 0) << result.out;
  EXPECT_GT(number(result.out, "poll_calls"), 0) << result.out;
}

TEST(BenchCommand, SaysWhyAPluginCannotIdle) {
  const auto result = bench({"--plugin", LOOPBACK_PLUGIN, "--pattern", "idle"});
  EXPECT_EQ(result.status, 1);
  EXPECT_HAS(result.err, "irecv made no request before anything was sent");
}

TEST(BenchCommand, HintsThatReceivesNeedNoCompletion) {
  const auto result = bench({"--json", "--hint", "ll"});
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_HAS(result.out, "\"hint\": \"ll\"");
}

TEST(BenchCommand, RefusesOptionsThatDoNotGoTogether) {
  for (const Words& words :
       {Words{"--pattern", "ring", "--connections", "2"}, Words{"--pattern", "ring", "--instructions"},
        Words{"--pattern", "idle", "--ends", "two-threads"}, Words{"--hint", "ll", "--ends", "two-processes"},
        Words{"--hint", "ll", "--pattern", "batch"}, Words{"--all", "--all-sizes"}}) {
    const auto result = bench(words);
    EXPECT_EQ(result.status, 2) << testing::PrintToString(words);
    EXPECT_HAS(result.err, "railwise: bench: --");
  }
}

TEST(BenchCommand, PrintsTheTableOfPatterns) {
  const auto result = bench({"--all", "--vs", RAILWISE_PLUGIN_PATH, "--messages", "256", "--repeats", "1"});
  ASSERT_EQ(result.status, 0) << result.err;
  for (const char* line :
       {"\nproxy ", "\nproxy x256 ", "\nops of 2 ", "\nlone ", "\nring ", "\nalltoall x64 ", "\nbatch ",
        "\ngrouped by 8 ", "\ngrouped by 2 ", "\nidle x2 ", "\nproxy, 2 rails ", "\nproxy, 4 queue pairs ",
        "; ratios to Railwise (libnccl-net-railwise.so) in the same run"})
    EXPECT_HAS(result.out, line);
  EXPECT_HAS(result.err, "bench: 1 of 30: proxy, 8 bytes\n");
  std::istringstream lines(result.out);
  double last = 0;
  std::string line;
  std::getline(lines, line);
  std::getline(lines, line);
  while (std::getline(lines, line) && !line.starts_with("# ")) {
    const double ratio = std::stod(line.substr(line.rfind(' ')));
    EXPECT_GE(ratio, last) << "the worst is last: " << result.out;
    last = ratio;
  }
  EXPECT_GT(last, 0) << result.out;
}

TEST(BenchCommand, MeasuresPluginsSideBySide) {
  const auto result = bench({"--json", "--vs", RAILWISE_PLUGIN_PATH, "--vs", LOOPBACK_PLUGIN});
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(result.out.front(), '[') << result.out;
  EXPECT_GT(number(result.out, "cpu_ratio"), 0);
  EXPECT_EQ(number(result.out, "work_requests"), number(result.out, "work_requests", 1));
  EXPECT_EQ(number(result.out, "work_requests", 2), -1) << "it has no device to count";
}

TEST(BenchCommand, PrintsATable) {
  const auto result = bench({"--size", "4K", "--api", "v8"});
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_HAS(result.out, "# railwise bench: proxy, 1 connection(s), 4096 bytes, window 8");
  EXPECT_HAS(result.out, "\nRailwise");
  EXPECT_HAS(result.out, " v8 ");
  EXPECT_LACKS(result.out, "# -:");
  const auto beside = bench({"--vs", LOOPBACK_PLUGIN});
  ASSERT_EQ(beside.status, 0) << beside.err;
  EXPECT_HAS(
      beside.out,
      "        -        -        -        -        -\n# -: not counted: this plugin uses no software device");
}

TEST(BenchCommand, SaysWhichPluginFailed) {
  const auto result = bench({"--vs", "/nowhere/libnccl-net-none.so"});
  EXPECT_EQ(result.status, 1);
  EXPECT_HAS(result.err, "railwise: bench: /nowhere/libnccl-net-none.so: cannot load plugin");
  EXPECT_EQ(result.out, "");
}

TEST(BenchCommand, SaysThatAGroupIsTooLarge) {
  const auto result = bench({"--vs", LOOPBACK_PLUGIN, "--grouped", "8"});
  EXPECT_EQ(result.status, 1);
  EXPECT_HAS(result.err, "the plugin takes 1 buffers in a receive");
}

TEST(BenchCommand, HasEndsInTwoThreadsOrProcesses) {
  for (const char* ends : {"two-threads", "two-processes"}) {
    const auto result = bench({"--json", "--ends", ends, "--grouped", "2"});
    ASSERT_EQ(result.status, 0) << result.err;
    EXPECT_HAS(result.out, std::string("\"ends\": \"") + ends);
    EXPECT_GT(number(result.out, "cpu_ns_min"), 0) << result.out;
    // At the least CPU time: bits per nanosecond.
    const double bits = number(result.out, "bandwidth_gbps") * number(result.out, "cpu_ns_min");
    EXPECT_NEAR(bits, 8 * number(result.out, "size"), 1) << result.out;
    EXPECT_NEAR(number(result.out, "receive_work_requests"), 0.5, 0.05) << "of both ends: " << result.out;
  }
}

TEST(BenchCommand, MeasuresLatency) {
  const auto result =
      bench({"--json", "--latency", "--vs", LOOPBACK_PLUGIN, "--messages", "64", "--repeats", "2"});
  ASSERT_EQ(result.status, 0) << result.err;
  for (const int plugin : {0, 1}) {
    EXPECT_GT(number(result.out, "latency_ns_min", plugin), 0) << result.out;
    EXPECT_GE(number(result.out, "latency_ns_p50", plugin), number(result.out, "latency_ns_min", plugin));
    EXPECT_GE(number(result.out, "latency_ns_p99", plugin), number(result.out, "latency_ns_p50", plugin));
  }
}

TEST(BenchCommand, MeasuresBareWritesSideBySide) {
  for (const char* ends : {"one-thread", "two-processes"}) {
    const auto result =
        bench({"--json", "--raw", "--latency", "--ends", ends, "--messages", "64", "--repeats", "2"});
    ASSERT_EQ(result.status, 0) << result.err;
    EXPECT_HAS(result.out, "\"plugin\": \"raw WRITE\"");
    EXPECT_NEAR(number(result.out, "work_requests", 1), 1, 0.01) << result.out;
    EXPECT_NEAR(number(result.out, "completions", 1), 1, 0.01) << result.out;
    EXPECT_GT(number(result.out, "latency_ns_p50", 1), 0) << result.out;
  }
}

TEST(BenchCommand, MeasuresConnections) {
  const auto result = bench({"--json", "--raw", "--set-up", "32"});
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(number(result.out, "set_up_connections"), 32);
  EXPECT_GT(number(result.out, "set_up_cpu_us"), 1) << result.out;
  EXPECT_GE(number(result.out, "set_up_wall_us"), 1) << result.out;
  EXPECT_GT(number(result.out, "close_cpu_us"), 0) << result.out;
  EXPECT_GT(number(result.out, "register_cpu_us"), 0) << result.out;
  EXPECT_GT(number(result.out, "bytes_per_connection"), 1024) << result.out;
  EXPECT_EQ(number(result.out, "set_up_connections", 1), -1) << "bare writes have none: " << result.out;
}

TEST(BenchCommand, MeasuresAllSizes) {
  const auto result = bench({"--json", "--raw", "--all-sizes", "--messages", "32", "--repeats", "1"});
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(result.out.front(), '[');
  EXPECT_EQ(number(result.out, "size", 0), 8);
  EXPECT_EQ(number(result.out, "size", 17), 1 << 20) << "two lines of nine sizes";
}

TEST(BenchCommand, HasRailsAndQueuePairs) {
  const auto one = bench({"--json", "--size", "64K", "--messages", "64"});
  const auto more =
      bench({"--json", "--size", "64K", "--messages", "64", "--rails", "2", "--queue-pairs", "2"});
  ASSERT_EQ(more.status, 0) << more.err;
  EXPECT_EQ(number(more.out, "rails"), 2);
  EXPECT_EQ(number(more.out, "queue_pairs"), 2);
  EXPECT_GT(number(more.out, "work_requests"), number(one.out, "work_requests") + 0.5)
      << "a large message is parts: " << more.out;
}

TEST(BenchCommand, SaysThatThePluginHasNoVirtualDevices) {
  const auto result = bench({"--vs", LOOPBACK_PLUGIN, "--rails", "2"});
  EXPECT_EQ(result.status, 1);
  EXPECT_HAS(result.err, "the plugin cannot make one device of 2");
}

TEST(BenchCommand, SaysThatThereIsNoSuchDevice) {
  const auto result = bench({"--ends", "two-processes", "--index", "99"});
  EXPECT_EQ(result.status, 1);
  EXPECT_HAS(result.err, "no 1 from device 99 on");
}

// Names are given once; what a callee costs is counted where it is spent.
constexpr const char* kProfile = R"(version: 1
positions: line
events: Ir

ob=(1) /lib/plugin.so
fl=(1) a.cc
fn=(1) isend
0 40
cob=(2) /lib/libibverbs.so.1
cfn=(2) post
calls=3 0
0 900
0 2

ob=(2)
fn=(2)
+3 100
ob=(1)
fn=(3) test
* 8
)";

TEST(BenchCallgrind, AddsUpByObject) {
  const auto costs = readCallgrind(kProfile);
  ASSERT_TRUE(costs.has_value());
  ASSERT_EQ(costs->size(), 2U);
  EXPECT_EQ((*costs)[0].object, "/lib/libibverbs.so.1");
  EXPECT_EQ((*costs)[0].instructions, 100U);
  EXPECT_EQ((*costs)[1].object, "/lib/plugin.so");
  EXPECT_EQ((*costs)[1].instructions, 50U);
  EXPECT_EQ((*costs)[1].calls, (std::map<std::string, uint64_t>{{"/lib/libibverbs.so.1", 900}}));
}

TEST(BenchCallgrind, KnowsWhatIsNoProfile) { EXPECT_FALSE(readCallgrind("nothing\n").has_value()); }

TEST(BenchCommand, CountsInstructions) {
  if (test::kAddressSanitizer || test::kThreadSanitizer)
    GTEST_SKIP() << "valgrind and sanitizers exclude each other";
  if (runProcess("/usr/bin/env", {"valgrind", "--version"}).status != 0) GTEST_SKIP() << "no valgrind";
  const auto result = bench({"--json", "--instructions", "--repeats", "1"});
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_GT(number(result.out, "instructions_plugin"), 50) << result.out;
  EXPECT_GT(number(result.out, "instructions_device"), 50) << result.out;
  EXPECT_GT(number(result.out, "instructions_bench"), 10) << result.out;
  EXPECT_GE(number(result.out, "instructions_libc"), 0) << result.out;
}

// What the ranks that are put to spend is a part of the whole.
TEST(BenchCommand, CountsInstructionsOfRanksThatArePutTo) {
  if (test::kAddressSanitizer || test::kThreadSanitizer)
    GTEST_SKIP() << "valgrind and sanitizers exclude each other";
  if (runProcess("/usr/bin/env", {"valgrind", "--version"}).status != 0) GTEST_SKIP() << "no valgrind";
  const auto result =
      bench({"--json", "--instructions", "--repeats", "1", "--pattern", "put-signal", "--connections", "4"});
  ASSERT_EQ(result.status, 0) << result.err;
  const double targets = number(result.out, "target_instructions_plugin");
  EXPECT_GT(targets, 50) << result.out;
  EXPECT_LT(targets, number(result.out, "instructions_plugin")) << result.out;
}

// Instructions are those of one compiler.
bool instructionsCompare() {
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && __GNUC__ == 12 && defined(NDEBUG)
  return !test::kAddressSanitizer && !test::kThreadSanitizer &&
         runProcess("/usr/bin/env", {"valgrind", "--version"}).status == 0;
#else
  return false;
#endif
}

TEST(BenchFigures, NoMessageCostsMoreThanWrittenDown) {
  constexpr double kTolerance = 1.02;
  const bool comparable = instructionsCompare();
  std::ifstream figures(BENCH_FIGURES);
  int compared = 0;
  for (std::string line; std::getline(figures, line);) {
    if (line.starts_with('#')) continue;
    const std::size_t colon = line.find(" : ");
    ASSERT_NE(colon, std::string::npos) << line;
    std::istringstream options(line.substr(0, colon));
    Words words = {"--json", "--messages", "1024", "--repeats", "2"};
    const bool instructions = comparable && line.find("instructions") != std::string::npos;
    for (std::string word; options >> word;) words.push_back(word);
    if (instructions) words.push_back("--instructions");
    const auto result = bench(words);
    ASSERT_EQ(result.status, 0) << line << ": " << result.err;
    std::istringstream expected(line.substr(colon + 3));
    for (std::string figure; expected >> figure;) {
      const std::size_t equals = figure.find('=');
      ASSERT_NE(equals, std::string::npos) << figure;
      const std::string key = figure.substr(0, equals);
      if (key.starts_with("instructions") && !instructions) continue;
      const double value = number(result.out, key);
      EXPECT_GE(value, 0) << key << " is not there";
      EXPECT_LE(value, std::stod(figure.substr(equals + 1)) * kTolerance) << line << "\n" << key;
      ++compared;
    }
  }
  EXPECT_GE(compared, 7 * 4) << "figures are missing in " << BENCH_FIGURES;
}

// A process that reads all records of a folder again and again, as `railwise top` does, without a pause.
class AttachedReader {
 public:
  explicit AttachedReader(const std::string& folder)
      : reads_(static_cast<std::atomic<uint64_t>*>(
            mmap(nullptr, sizeof *reads_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0))) {
    child_ = fork();
    if (child_ != 0) return;
    test::endInTwoMinutes();
    for (;;) {
      for (const record::RecordFile& file : record::listRecords(folder, geteuid())) {
        const auto snapshot = record::readRecord(file.path);
        if (snapshot.ok() && !snapshot->connections.empty()) ++*reads_;
      }
    }
  }
  ~AttachedReader() {
    kill(child_, SIGKILL);
    (void)waitpid(child_, nullptr, 0);
    munmap(reads_, sizeof *reads_);
  }
  AttachedReader(const AttachedReader&) = delete;
  AttachedReader& operator=(const AttachedReader&) = delete;

  // Reads so far that saw connections.
  uint64_t reads() const { return *reads_; }

 private:
  std::atomic<uint64_t>* const reads_;
  pid_t child_ = -1;
};

// What a reader costs the process that it reads: nothing, in counts of instructions, of the plugin and of
// what it calls.
TEST(BenchInstructions, AReaderOfTheRecordCostsNothing) {
  if (test::kAddressSanitizer || test::kThreadSanitizer ||
      runProcess("/usr/bin/env", {"valgrind", "--version"}).status != 0)
    GTEST_SKIP() << "valgrind is missing, or cannot run this build";
  const test::Scratch scratch;
  const auto count = [&](const Words& pattern) {
    Words words = {"bench", "--plugin", RAILWISE_PLUGIN_PATH, "--messages", "4096", "--repeats",
                   "2",     "--json",   "--instructions"};
    words.insert(words.end(), pattern.begin(), pattern.end());
    const auto result =
        succeeded(runProcess(RAILWISE_CLI, words, {"RAILWISE_METRICS_DIR=" + scratch.path()}));
    return number(result.out, "instructions_plugin") + number(result.out, "instructions_libc");
  };
  for (const Words& pattern : std::vector<Words>{{"--pattern", "proxy"}, {"--pattern", "batch"}}) {
    const double alone = count(pattern);
    const AttachedReader reader(scratch.path());
    const double read = count(pattern);
    EXPECT_GT(alone, 100);
    EXPECT_NEAR(read, alone, alone * 0.01) << testing::PrintToString(pattern);
    EXPECT_GT(reader.reads(), 10U) << "nothing was read meanwhile";
  }
}

TEST(BenchCommand, SaysThatValgrindIsMissing) {
  const auto result = runProcess(
      RAILWISE_CLI, {"bench", "--plugin", RAILWISE_PLUGIN_PATH, "-n", "8", "-r", "1", "--instructions"},
      {"PATH=/nowhere"});
  EXPECT_EQ(result.status, 1);
  EXPECT_HAS(result.err, "valgrind, which is not in PATH");
}

}  // namespace
}  // namespace railwise::cli
