
#include "doctor/finding.h"
#include "tests/ok.h"

namespace railwise::doctor {
namespace {

Finding downPort(const std::string& device) {
  return {.check = "port-state",
          .severity = Severity::kError,
          .what = "the port is down",
          .seen = {{.device = device + " port 1", .where = "/sys/" + device, .value = "1: DOWN"}},
          .why = "NCCL leaves it out.",
          .fix = "ip link set up\nibstat"};
}

Finding slowPort() {
  return {.check = "port-speed",
          .severity = Severity::kWarning,
          .what = "the port is slow",
          .seen = {{.device = "", .where = "/sys/x", .value = "1"}},
          .why = "It costs half.",
          .fix = ""};
}

TEST(Findings, JoinsTheSameFaultOfSeveralDevices) {
  Findings findings;
  findings.add(downPort("mlx5_0"));
  findings.add(slowPort());
  findings.add(downPort("mlx5_1"));
  ASSERT_EQ(findings.all().size(), 2U);
  EXPECT_EQ(findings.all()[0].seen.size(), 2U);
}

TEST(Findings, TheExitStatusIsThatOfTheWorst) {
  Findings findings;
  EXPECT_EQ(findings.exitStatus(), 0);
  findings.add({.check = "a", .severity = Severity::kAdvice});
  EXPECT_EQ(findings.exitStatus(), 0);
  findings.add(slowPort());
  EXPECT_EQ(findings.exitStatus(), 1);
  findings.add(downPort("mlx5_0"));
  EXPECT_EQ(findings.exitStatus(), 2);
}

TEST(Report, TheWorstComesFirstWithWhatToType) {
  Findings findings;
  findings.add(slowPort());
  findings.add(downPort("mlx5_0"));
  findings.add(downPort("mlx5_1"));
  EXPECT_EQ(reportText(findings, {.subject = "node1", .looked = {"2 ports"}, .hidden = {"as root: ACS"}}),
            "node1: 1 error, 1 warning\n"
            "worst: mlx5_0 port 1, mlx5_1 port 1: the port is down\n"
            "type:  ip link set up\n"
            "\n"
            "ERROR port-state: mlx5_0 port 1, mlx5_1 port 1: the port is down\n"
            "  seen  /sys/mlx5_0: 1: DOWN\n"
            "        /sys/mlx5_1: 1: DOWN\n"
            "  why   NCCL leaves it out.\n"
            "  fix   ip link set up\n"
            "        ibstat\n"
            "  more  docs/doctor.md#port-state\n"
            "\n"
            "WARNING port-speed: the port is slow\n"
            "  seen  /sys/x: 1\n"
            "  why   It costs half.\n"
            "  more  docs/doctor.md#port-speed\n"
            "\nLooked at:\n  2 ports\n"
            "\nNot looked at:\n  as root: ACS\n");
}

TEST(Report, NothingWrongIsFine) { EXPECT_EQ(reportText({}, {.subject = "node1"}), "node1: fine\n"); }

// Neither form says "fine" of what nobody looked at. A warning is one all the same.
TEST(Report, WhatWasNotJudgedIsNotFine) {
  const auto verdict = [](const Findings& findings, const std::string& unjudged) {
    JsonWriter json;
    json.beginObject();
    writeReportJson(json, findings, {.subject = "node1", .unjudged = unjudged});
    json.endObject();
    const std::string begin = json.text().substr(0, json.text().find(",\n"));
    return begin.substr(begin.find("\"verdict\""));
  };
  EXPECT_EQ(reportText({}, {.subject = "node1", .unjudged = "no check could look"}),
            "node1: nothing found; no check could look\n");
  Findings advice, warning;
  advice.add(
      {.check = "firmware", .severity = Severity::kAdvice, .what = "old", .seen = {{"mlx5_0", "", ""}}});
  warning.add(
      {.check = "mtu", .severity = Severity::kWarning, .what = "small", .seen = {{"mlx5_0", "", ""}}});
  EXPECT_EQ(verdict({}, ""), R"("verdict": "fine")");
  EXPECT_EQ(verdict({}, "no check could look"), R"("verdict": "not judged")");
  EXPECT_EQ(verdict(advice, "no check could look"), R"("verdict": "not judged")");
  EXPECT_EQ(verdict(warning, "no check could look"), R"("verdict": "warnings")");
}

TEST(Report, NamesTheFirstOfManyDevices) {
  Findings findings;
  for (int i = 0; i < 10; ++i) findings.add(downPort("mlx5_" + std::to_string(i)));
  const std::string text = reportText(findings, {.subject = "node1"});
  EXPECT_HAS(text, "mlx5_7 port 1 and 2 more: the port is down");
  EXPECT_HAS(text, "and 6 more (--json has all)");
}

TEST(Report, TheJsonHasEverything) {
  Findings findings;
  findings.add(downPort("mlx5_0"));
  JsonWriter json;
  json.beginObject();
  writeReportJson(json, findings, {.subject = "node1"});
  json.endObject();
  for (const char* part : {"\"verdict\": \"errors\"", "\"check\": \"port-state\"", "\"severity\": \"error\"",
                           "\"device\": \"mlx5_0 port 1\"", "\"page\": \"docs/doctor.md#port-state\""})
    EXPECT_HAS(json.text(), part);
}

}  // namespace
}  // namespace railwise::doctor
