// railwise-campaign with railwise's own plugin, for seeds whose faults hurt nobody: the document says
// what was done, and nothing is left behind.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <sstream>

#include "process.h"
#include "tests/campaign/schedule.h"

namespace railwise::cli {
namespace {

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// The first seed that draws nothing but delays and speeds, on two ranks; a speed changes by command, whatever
// flows.
uint64_t harmlessSeed() {
  for (uint64_t seed = 1;; ++seed) {
    const FaultOptions options = drawOptions(Collective::kSendRecv, seed);
    const auto steps = drawSchedule(options).steps;
    const auto harmless = [](const FaultStep& step) {
      return step.kind == FaultKind::kDelay || step.kind == FaultKind::kSpeed;
    };
    const auto speed = [](const FaultStep& step) { return step.kind == FaultKind::kSpeed; };
    if (options.ranks == 2 && std::all_of(steps.begin(), steps.end(), harmless) &&
        std::any_of(steps.begin(), steps.end(), speed))
      return seed;
  }
}

ProcessResult perf(const std::vector<std::string>& more) {
  std::vector<std::string> args = {"perf", "sendrecv", "--plugin", RAILWISE_PLUGIN_PATH, "--faults"};
  args.insert(args.end(), more.begin(), more.end());
  return runProcess(CAMPAIGN, args);
}

TEST(CampaignRun, TheDocumentSaysWhatWasDoneAndHowItEnded) {
  const std::string seed = std::to_string(harmlessSeed());
  const auto result = perf({seed, "--json"});
  EXPECT_EQ(result.status, 0) << result.err << result.out;
  EXPECT_TRUE(contains(result.out, "\"command\": \"perf sendrecv\"")) << result.out;
  EXPECT_TRUE(contains(result.out, "\"outcome\": \"completed\"")) << result.out << result.err;
  EXPECT_TRUE(contains(result.out, "\"seed\": " + seed + ",")) << result.out;
  EXPECT_TRUE(contains(result.out, "\"left_behind\": false")) << result.out;
  EXPECT_TRUE(contains(result.out, "\"ended\": \"completed\"")) << result.out;
  EXPECT_TRUE(contains(result.out, "\"record_agrees\": true")) << result.out << result.err;
  EXPECT_TRUE(contains(result.out, "\"records_compared\": 2,")) << result.out;
  for (const char* key :
       {"stalls", "faults_fired", "pairs_left", "pairs_left_min", "schedule", "results", "rank_ends"})
    EXPECT_TRUE(contains(result.out, "\"" + std::string(key) + "\": ")) << key;
  EXPECT_FALSE(contains(result.out, "\"faults_fired\": 0,")) << result.out;
  EXPECT_FALSE(contains(result.out, "\"pairs_left_min\": 0,")) << result.out;
  EXPECT_TRUE(contains(result.out, "\"host\": \"h1\"")) << result.out;
}

TEST(CampaignRun, TheTimelineHasTheFaults) {
  const std::string file = testing::TempDir() + "timeline" + std::to_string(getpid()) + ".svg";
  const auto result = perf({std::to_string(harmlessSeed()), "--timeline", file});
  EXPECT_EQ(result.status, 0) << result.err << result.out;
  EXPECT_TRUE(contains(result.out, "# outcome completed: ")) << result.out;
  std::ostringstream svg;
  svg << std::ifstream(file).rdbuf();
  EXPECT_TRUE(svg.str().starts_with("<svg ")) << svg.str();
  EXPECT_TRUE(contains(svg.str(), "<title>h")) << svg.str();
  std::remove(file.c_str());
}

// What another program's ranks need stands in the first line, and what came of it in the last; between them
// this input, which ends at once, has no word.
TEST(CampaignRun, ConductingStartsNothing) {
  const auto result = perf({"5", "--ranks", "3", "--conduct", "conduct" + std::to_string(getpid())});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_TRUE(contains(result.out, "\"device\": \"software:fabric=conduct" + std::to_string(getpid()) + ","))
      << result.out;
  EXPECT_TRUE(contains(result.out, "\"hosts\": [\"h0\", \"h1\", \"h2\"]")) << result.out;
  EXPECT_TRUE(contains(result.out, "\"steps_done\": 0, ")) << result.out;
  EXPECT_TRUE(contains(result.out, "\"unreachable\": false, \"left_behind\": false}")) << result.out;
  EXPECT_EQ(std::count(result.out.begin(), result.out.end(), '\n'), 2) << result.out;
}

TEST(CampaignRun, ADryRunStartsNothing) {
  const auto once = perf({"5", "--dry-run", "--plugin", "/no/such.so"});
  const auto again = perf({"5", "--dry-run"});
  EXPECT_EQ(once.status, 0) << once.err;
  EXPECT_EQ(once.out, again.out);
  EXPECT_TRUE(contains(once.out, " ms: ")) << once.out;
}

TEST(CampaignRun, AWrongElementIsWrong) {
  const auto result = runProcess(
      CAMPAIGN,
      {"perf", "sendrecv", "--faults", std::to_string(harmlessSeed()), "--plugin", LOOPBACK_PLUGIN, "--json"},
      {"LOOPBACK_CORRUPT=0"});
  EXPECT_EQ(result.status, 1) << result.out;
  EXPECT_TRUE(contains(result.out, "\"outcome\": \"wrong\"")) << result.out << result.err;
}

TEST(CampaignRun, WhenNothingIsLeftItSaysSo) {
  // One rail each, one of them gone for good.
  uint64_t seed = 1;
  const auto fits = [](uint64_t candidate) {
    const FaultOptions options = drawOptions(Collective::kSendRecv, candidate);
    const Schedule schedule = drawSchedule(options);
    return schedule.machine.rails == std::vector{1, 1} && schedule.steps.size() == 1 &&
           schedule.steps[0].what == FaultStep::kPort && schedule.steps[0].text == "down";
  };
  while (!fits(seed)) ++seed;
  const auto result = runProcess(
      CAMPAIGN,
      {"perf", "sendrecv", "--plugin", RAILWISE_PLUGIN_PATH, "--faults", std::to_string(seed), "--json"},
      {"RAILWISE_FAILOVER_TIMEOUT=1"});
  EXPECT_EQ(result.status, 0) << result.err << result.out;
  EXPECT_TRUE(contains(result.out, "\"outcome\": \"unreachable\"")) << result.out << result.err;
  EXPECT_TRUE(contains(result.out, "\"pairs_left\": 0,")) << result.out;
  EXPECT_TRUE(contains(result.out, "\"record_agrees\": true")) << result.out;
  EXPECT_TRUE(contains(result.out, "\"records_compared\": 2,")) << result.out;
}

// The record counts what the plugin posts; the loopback plugin has none.
TEST(CampaignRun, APluginWithoutARecordIsNotCompared) {
  const auto result = runProcess(CAMPAIGN, {"perf", "sendrecv", "--faults", std::to_string(harmlessSeed()),
                                            "--plugin", LOOPBACK_PLUGIN, "--json"});
  EXPECT_EQ(result.status, 0) << result.out << result.err;
  EXPECT_FALSE(contains(result.out, "\"record_agrees\"")) << result.out;
  EXPECT_TRUE(contains(result.out, "\"records_compared\": 0,")) << result.out;
  EXPECT_TRUE(contains(result.out, "it uses no software device")) << result.out;
}

// The ranks play hosts of a software machine, and the plugin's messages name these.
TEST(CampaignRun, MessagesNameTheHostsOfTheSoftwareMachine) {
  const auto result = runProcess(
      CAMPAIGN, {"perf", "broadcast", "--faults", "3", "-v", "--plugin", RAILWISE_PLUGIN_PATH}, {}, 110);
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_NE(result.err.find(" h1:"), std::string::npos) << result.err;
}

}  // namespace
}  // namespace railwise::cli
