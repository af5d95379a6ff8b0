// railwise conform: Railwise keeps everything, and a plugin that does not is found out.

#include <nlohmann/json.hpp>

#include "process.h"
#include "tests/ok.h"

namespace railwise::cli {
namespace {

using Words = std::vector<std::string>;

nlohmann::json conform(const Words& words, int status) {
  Words all = {"conform", "--json"};
  all.insert(all.end(), words.begin(), words.end());
  const auto result = runProcess(RAILWISE_CLI, all);
  EXPECT_EQ(result.status, status) << result.out << result.err;
  return nlohmann::json::parse(result.out);
}

std::string verdictOf(const nlohmann::json& answer, const std::string& check) {
  for (const auto& row : answer.at("checks"))
    if (row.at("check") == check) return row.at("verdict");
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
}

}  // namespace
}  // namespace railwise::cli
