// railwise conform: Railwise keeps everything, and a plugin that does not is found out.

#include <filesystem>
#include <nlohmann/json.hpp>

#include "process.h"
#include "tests/ok.h"

namespace railwise::cli {
namespace {

using Words = std::vector<std::string>;

nlohmann::json conform(const Words& words, int status, const Words& environment = {}) {
  Words all = {"conform", "--json"};
  all.insert(all.end(), words.begin(), words.end());
  const auto result = runProcess(RAILWISE_CLI, all, environment);
  EXPECT_EQ(result.status, status) << result.out << result.err;
  return nlohmann::json::parse(result.out);
}

std::string verdictOf(const nlohmann::json& answer, const std::string& check) {
  for (const auto& row : answer.at("checks"))
    if (row.at("check") == check) return row.at("verdict");
  return "missing";
}

std::string textOf(const nlohmann::json& answer, const std::string& check) {
  for (const auto& row : answer.at("checks"))
    if (row.at("check") == check) return row.at("text").is_null() ? "" : row.at("text");
  return "missing";
}

class Own : public testing::TestWithParam<const char*> {};
TEST_P(Own, KeepsAll) {
  const auto answer = conform({"--api", "v12", "--only", GetParam()}, 0);
  EXPECT_GE(answer.at("checks").size(), 3U);
  for (const auto& row : answer.at("checks")) EXPECT_EQ(row.at("verdict"), "held") << row;
}
INSTANTIATE_TEST_SUITE_P(Net, Own, testing::Values("life", "data", "end"));

TEST(Conform, OneSidedInTheOldestAndTheNewestVersion) {
  for (const char* const version : {"v13", "v16"}) {
    const auto answer = conform({"--api", version}, 0);
    EXPECT_EQ(verdictOf(answer, "one-sided.signals"), "held") << answer;
  }
}

// It gives a connection that nobody asked for, and says that data have arrived which it never sent.
TEST(Conform, APluginThatBreaksTheContractIsFoundOut) {
  const auto data = conform({BAD_PLUGIN, "--only", "data."}, 1);
  for (const char* const check : {"data.sizes", "data.order", "data.groups", "data.registered-twice"})
    EXPECT_EQ(verdictOf(data, check), "broken") << check;
  EXPECT_EQ(verdictOf(data, "data.fused"), "does not apply") << "it has one device";
  const auto life = conform({BAD_PLUGIN, "--only", "life.at-once"}, 1);
  EXPECT_EQ(verdictOf(life, "life.at-once"), "broken");
}

TEST(Conform, NamesTheSizeWhereOnlyTheSizeIsWrong) {
  const auto answer = conform({BAD_PLUGIN, "--only", "data.order", "--api", "v12"}, 1);
  EXPECT_EQ(textOf(answer, "data.order"), "receive 0 is done and is said to have 4 of 64 bytes");
}

TEST(Conform, AProcessThatThePluginEndsHasNotHeld) {
  const auto answer = conform({BAD_PLUGIN, "--only", "life.handle"}, 1, {"BAD_PLUGIN=exit"});
  EXPECT_EQ(verdictOf(answer, "life.handle"), "broken");
  EXPECT_EQ(textOf(answer, "life.handle"), "ends the process in listen with status 0");
}

TEST(Conform, SaysOnceThatThePluginDoesNotStart) {
  const auto answer = conform({BAD_PLUGIN, "--only", "life."}, 1, {"BAD_PLUGIN=no-device"});
  EXPECT_HAS(textOf(answer, "life.table"), "it has no device");
  EXPECT_EQ(verdictOf(answer, "life.threads"), "not tried");
  EXPECT_EQ(textOf(answer, "life.threads"), "not tried: the plugin does not start (life.table)");
}

TEST(Conform, GivesUpAPluginThatHangsInInit) {
  const auto answer =
      conform({BAD_PLUGIN, "--only", "life.", "--api", "v12", "-T", "4"}, 1, {"BAD_PLUGIN=hang"});
  EXPECT_EQ(textOf(answer, "life.table"), "init does not return");
  EXPECT_EQ(verdictOf(answer, "life.properties"), "broken") << "the machine may have been busy at the first";
  EXPECT_EQ(textOf(answer, "life.threads"), "not tried: the plugin hangs in init");
}

// A plugin with few places takes no receive as long as an earlier one is not tested.
TEST(Conform, GoesOnToTestWhatIsUnderWayWhenThePeerIsKilled) {
  const auto answer =
      conform({BAD_PLUGIN, "--only", "end.sender-killed", "--api", "v12"}, 0, {"BAD_PLUGIN=fifo"});
  EXPECT_EQ(verdictOf(answer, "end.sender-killed"), "held");
}

TEST(Conform, WhatOnlyCareAsksForIsNoFailure) {
  const auto answer = conform({BAD_PLUGIN, "--only", "life.device-range"}, 0);
  EXPECT_EQ(verdictOf(answer, "life.device-range"), "broken");
}

TEST(Conform, MistakesHaveClearErrors) {
  const auto error = [](const Words& words, int status) {
    const auto result = runProcess(RAILWISE_CLI, words);
    EXPECT_EQ(result.status, status);
    return result.err;
  };
  EXPECT_HAS(error({"conform", "--only", "dta"}, 2), "no check begins with 'dta' (railwise conform --list)");
  EXPECT_HAS(error({"conform", "/no/such.so"}, 1), "cannot load plugin /no/such.so");
  EXPECT_HAS(error({"conform", NO_PLUGIN, "--device", "software"}, 1),
             "does not export any ncclNetPlugin_v6 .. ncclNetPlugin_v12");
  if (!std::filesystem::exists("/sys/class/infiniband")) {
    EXPECT_HAS(error({"conform", "--device", "verbs"}, 1), "nothing is tried: no RDMA device");
  }
}

}  // namespace
}  // namespace railwise::cli
