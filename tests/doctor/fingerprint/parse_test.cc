#include <gtest/gtest.h>

#include "doctor/fingerprint/fingerprint.h"
#include "tests/doctor/fingerprint/nodes.h"
#include "tests/ok.h"

namespace railwise::doctor::fingerprint {
namespace {

using test::makeNode;

std::string errorOf(const std::string& text) {
  const auto nodes = parseFingerprints(text, "a.json");
  return nodes.ok() ? "no error" : nodes.error();
}

TEST(ParseFingerprints, ReadsWhatWasWritten) {
  const auto nodes = parseFingerprints(jsonOf(makeNode()) + jsonOf({}), "a.json");
  ASSERT_OK(nodes);
  ASSERT_EQ(nodes->size(), 2U);
  EXPECT_EQ((*nodes)[0].node, makeNode());
  EXPECT_EQ((*nodes)[0].line, 1);
  EXPECT_EQ((*nodes)[1].node, Fingerprint());
  EXPECT_EQ((*nodes)[1].line, 2);
}

TEST(ParseFingerprints, ReadsArraysAndSeveralLines) {
  const std::string one = jsonOf(makeNode());
  const auto nodes = parseFingerprints("\n[" + one + "," + one + "]\n\n{\n" + one.substr(1), "a.json");
  ASSERT_OK(nodes);
  ASSERT_EQ(nodes->size(), 3U);
  EXPECT_EQ((*nodes)[1].node, makeNode());
  EXPECT_EQ((*nodes)[1].line, 2);
  EXPECT_EQ((*nodes)[2].line, 6);
}

TEST(ParseFingerprints, WhatIsMissingIsNotKnown) {
  const auto nodes = parseFingerprints(R"({"schema": "railwise-fingerprint", "schema_version": 1,
    "host": "node1", "later": {"more": [1]}})",
                                       "a.json");
  ASSERT_OK(nodes);
  Fingerprint expected;
  expected.host = "node1";
  EXPECT_EQ((*nodes)[0].node, expected);
}

TEST(ParseFingerprints, TextsOfOthersDoNotReachTheTerminal) {
  Fingerprint node = makeNode();
  node.host = "node\x1b[2J1";
  const auto nodes = parseFingerprints(jsonOf(node), "a.json");
  ASSERT_OK(nodes);
  EXPECT_EQ((*nodes)[0].node.host, "node?[2J1");
  const auto module = parseFingerprints(
      R"({"schema": "railwise-fingerprint", "schema_version": 1, "modules": {"a\u001b": "1"}})", "a.json");
  ASSERT_OK(module);
  EXPECT_EQ((*module)[0].node.modules.begin()->first, "a?");
}

TEST(ParseFingerprints, SaysWhatIsWrongAndWhere) {
  const std::string good = jsonOf(makeNode());
  const auto with = [](const std::string& fields) {
    return R"({"schema": "railwise-fingerprint", "schema_version": 1, )" + fields + "}";
  };
  const std::pair<std::string, std::string> cases[] = {
      {"", "a.json: no fingerprint in it; write it with: railwise fingerprint --json > FILE"},
      {"[]", "a.json: no fingerprint in it"},
      {good + "0: " + good, "a.json:2: '0: {\"schema\": \"railw' is not JSON; write it with"},
      {good + good.substr(0, good.size() - 3),
       "a.json:2: the JSON that begins here has no end: was it cut off?"},
      {"{\"a\": \"}", "a.json:1: the JSON that begins here has no end"},
      {"{\"a\" 1}", "a.json:1: not JSON"},
      {"[1]", "a.json:1: not a JSON object"},
      {"[[" + good + "]]", "a.json:1: not a JSON object"},
      {"{}", "a.json:1: not a fingerprint of a node"},
      {R"({"schema": 7})", "a.json:1: not a fingerprint of a node"},
      {R"({"schema": "railwise-fingerprint"})", "a.json:1: schema_version is missing"},
      {R"({"schema": "railwise-fingerprint", "schema_version": 2})",
       "a.json:1: written by a newer Railwise (schema_version 2); compare with that one"},
      {with(R"("host": 7)"), "a.json:1: host is not a text; write it with"},
      {with(R"("gpu": [])"), "a.json:1: gpu is not an object"},
      {with(R"("gpu": {"driver": {}})"), "a.json:1: gpu.driver is not a text"},
      {with(R"("gpu": {"models": {}})"), "a.json:1: gpu.models is not a list"},
      {with(R"("gpu": {"models": [1]})"), "a.json:1: gpu.models[0] is not an object"},
      {with(R"("gpu": {"models": [{"model": "x"}]})"), "a.json:1: gpu.models[0].count is missing"},
      {with(R"("nics": [{"count": -1}])"), "a.json:1: nics[0].count is no number from 1 to 1048576"},
      {with(R"("nics": [{"count": 1e99}])"), "a.json:1: nics[0].count is no whole number of its size"},
      {with(R"("nics": [{"count": 18446744073709551615}])"),
       "a.json:1: nics[0].count is no whole number of its size"},
      {with(R"("modules": {"nvidia": 550})"), "a.json:1: modules.nvidia is not a text"},
      {std::string(100000, '['), "a.json:1: the JSON that begins here has no end"},
      {std::string(100000, '[') + std::string(100000, ']'), "a.json:1: not a JSON object"},
  };
  for (const auto& [text, message] : cases) {
    EXPECT_TRUE(errorOf(text).starts_with(message)) << message << "\n" << errorOf(text);
  }
}

}  // namespace
}  // namespace railwise::doctor::fingerprint
