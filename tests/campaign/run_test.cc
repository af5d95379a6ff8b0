// railwise-campaign with railwise's own plugin, for seeds whose faults hurt nobody: the document says
// what was done, and nothing is left behind.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <sstream>

#include "process.h"
#include "tests/campaign/schedule.h"
#include "tests/ok.h"

namespace railwise::cli {
namespace {

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
  const auto result = succeeded(perf({seed, "--json"}));
  EXPECT_HAS(result.out, "\"command\": \"perf sendrecv\"");
  EXPECT_HAS(result.out, "\"outcome\": \"completed\"") << result.err;
  EXPECT_HAS(result.out, "\"seed\": " + seed + ",");
  EXPECT_HAS(result.out, "\"left_behind\": false");
  EXPECT_HAS(result.out, "\"ended\": \"completed\"");
  EXPECT_HAS(result.out, "\"record_agrees\": true") << result.err;
  EXPECT_HAS(result.out, "\"records_compared\": 2,");
  for (const char* key :
       {"stalls", "faults_fired", "pairs_left", "pairs_left_min", "schedule", "results", "rank_ends"})
    EXPECT_HAS(result.out, "\"" + std::string(key) + "\": ") << key;
  EXPECT_LACKS(result.out, "\"faults_fired\": 0,");
  EXPECT_LACKS(result.out, "\"pairs_left_min\": 0,");
  EXPECT_HAS(result.out, "\"host\": \"h1\"");
}

TEST(CampaignRun, TheTimelineHasTheFaults) {
  const std::string file = testing::TempDir() + "timeline" + std::to_string(getpid()) + ".svg";
  const auto result = succeeded(perf({std::to_string(harmlessSeed()), "--timeline", file}));
  EXPECT_HAS(result.out, "# outcome completed: ");
  std::ostringstream svg;
  svg << std::ifstream(file).rdbuf();
  EXPECT_TRUE(svg.str().starts_with("<svg ")) << svg.str();
  EXPECT_HAS(svg.str(), "<title>h");
  std::remove(file.c_str());
}

// What another program's ranks need stands in the first line, and what came of it in the last; between them
// this input, which ends at once, has no word.
TEST(CampaignRun, ConductingStartsNothing) {
  const auto result =
      succeeded(perf({"5", "--ranks", "3", "--conduct", "conduct" + std::to_string(getpid())}));
  EXPECT_HAS(result.out, "\"device\": \"software:fabric=conduct" + std::to_string(getpid()) + ",");
  EXPECT_HAS(result.out, "\"hosts\": [\"h0\", \"h1\", \"h2\"]");
  EXPECT_HAS(result.out, "\"steps_done\": 0, ");
  EXPECT_HAS(result.out, "\"unreachable\": false, \"left_behind\": false}");
  EXPECT_EQ(std::count(result.out.begin(), result.out.end(), '\n'), 2) << result.out;
}

TEST(CampaignRun, ADryRunStartsNothing) {
  const auto once = perf({"5", "--dry-run", "--plugin", "/no/such.so"});
  const auto again = perf({"5", "--dry-run"});
  EXPECT_EQ(once.status, 0) << once.err;
  EXPECT_EQ(once.out, again.out);
  EXPECT_HAS(once.out, " ms: ");
}

TEST(CampaignRun, AWrongElementIsWrong) {
  const auto result = runProcess(
      CAMPAIGN,
      {"perf", "sendrecv", "--faults", std::to_string(harmlessSeed()), "--plugin", LOOPBACK_PLUGIN, "--json"},
      {"LOOPBACK_CORRUPT=0"});
  EXPECT_EQ(result.status, 1) << result.out;
  EXPECT_HAS(result.out, "\"outcome\": \"wrong\"") << result.err;
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
  const auto result = succeeded(runProcess(
      CAMPAIGN,
      {"perf", "sendrecv", "--plugin", RAILWISE_PLUGIN_PATH, "--faults", std::to_string(seed), "--json"},
      {"RAILWISE_FAILOVER_TIMEOUT=1"}));
  EXPECT_HAS(result.out, "\"outcome\": \"unreachable\"") << result.err;
  EXPECT_HAS(result.out, "\"pairs_left\": 0,");
  EXPECT_HAS(result.out, "\"record_agrees\": true");
  EXPECT_HAS(result.out, "\"records_compared\": 2,");
}

// The record counts what the plugin posts; the loopback plugin has none.
TEST(CampaignRun, APluginWithoutARecordIsNotCompared) {
  const auto result =
      succeeded(runProcess(CAMPAIGN, {"perf", "sendrecv", "--faults", std::to_string(harmlessSeed()),
                                      "--plugin", LOOPBACK_PLUGIN, "--json"}));
  EXPECT_LACKS(result.out, "\"record_agrees\"");
  EXPECT_HAS(result.out, "\"records_compared\": 0,");
  EXPECT_HAS(result.out, "it uses no software device");
}

// The ranks play hosts of a software machine, and the plugin's messages name these.
TEST(CampaignRun, MessagesNameTheHostsOfTheSoftwareMachine) {
  const auto result = succeeded(runProcess(
      CAMPAIGN, {"perf", "broadcast", "--faults", "3", "-v", "--plugin", RAILWISE_PLUGIN_PATH}, {}, 110));
  EXPECT_HAS(result.err, " h1:");
}

}  // namespace
}  // namespace railwise::cli
