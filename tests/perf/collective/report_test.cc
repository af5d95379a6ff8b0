#include "perf/collective/report.h"

#include <gtest/gtest.h>

#include <limits>

#include "base/json.h"

namespace railwise::cli {
namespace {

Report makeReport(Collective collective, int ranks) {
  Report report;
  report.options.collective = collective;
  report.ranks = ranks;
  report.plugin_path = "/lib/libnccl-net-x.so";
  report.plugin_name = "X";
  report.api = 12;
  report.rank_lines = {{0, 123, "host", "mlx5_0"}};
  return report;
}

TEST(PerfReport, BusBandwidthFactorsAreThoseOfNcclTests) {
  EXPECT_DOUBLE_EQ(busFactor(Collective::kAllReduce, 4), 1.5);
  EXPECT_DOUBLE_EQ(busFactor(Collective::kAllToAll, 4), 0.75);
  EXPECT_DOUBLE_EQ(busFactor(Collective::kSendRecv, 4), 1);
  EXPECT_DOUBLE_EQ(busFactor(Collective::kAllReduce, 1), 0);
}

TEST(PerfReport, RowHasNcclTestsColumns) {
  const auto report = makeReport(Collective::kAllReduce, 4);
  const Row row = {1 << 20, 1 << 18, {1e-3, 0}, {123456.789e-6, 2}};
  EXPECT_EQ(
      rowText(report, row),
      "     1048576        262144     float     sum      -1  1000.00    1.05    1.57       0   123457    0.01"
      "    0.01       2\n");
}

TEST(PerfReport, RowsStandUnderTheirHeader) {
  const auto report = makeReport(Collective::kSendRecv, 2);
  const std::string header = headerText(report);
  const auto line_begin = header.rfind('\n', header.size() - 2) + 1;
  const Row row = {8, 2, {1e-6, 0}, {1e-6, 0}};
  EXPECT_EQ(rowText(report, row).size(), header.size() - line_begin);
}

TEST(PerfReport, WithoutCheckWrongIsNotApplicable) {
  auto report = makeReport(Collective::kAllToAll, 2);
  report.options.check = false;
  const std::string text = rowText(report, {8, 1, {1e-6, 0}, {1e-6, 0}});
  EXPECT_NE(text.find("    none      -1     1.00    0.01    0.00     N/A     1.00    0.01    0.00     N/A\n"),
            std::string::npos)
      << text;
}

TEST(PerfReport, FooterSumsUp) {
  auto report = makeReport(Collective::kSendRecv, 2);
  report.rows = {{1'000'000'000, 1, {1, 0}, {0.5, 0}}};
  EXPECT_EQ(footerText(report), "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 1.5 \n#\n");
  report.rows[0].in_place.wrong = 3;
  EXPECT_EQ(footerText(report).substr(0, 36), "# Out of bounds values : 3 FAILED\n# ");
}

TEST(PerfReport, FooterNamesWhatDisturbed) {
  auto report = makeReport(Collective::kSendRecv, 4);
  const std::string undisturbed = footerText(report);
  report.surroundings = {
      .cores = 4, .ranks_on_host = 4, .naps = 0, .others = OthersUse{.processes = 0.02, .hypervisor = 0}};
  EXPECT_EQ(footerText(report), undisturbed);
  report.surroundings = {
      .cores = 2, .ranks_on_host = 4, .naps = 17, .others = OthersUse{.processes = 0.3, .hypervisor = 0}};
  EXPECT_EQ(footerText(report),
            "# 4 ranks share 2 cores: those that wait give theirs away, and slept 17 times\n"
            "# this machine was busy: other processes had 30 % of its CPU time, the hypervisor 0 %\n" +
                undisturbed);
  EXPECT_NE(jsonText(report).find("\"others_cpu\": 0.3"), std::string::npos);
}

TEST(PerfReport, AnEmptyRowHasNoBandwidth) {
  const auto report = makeReport(Collective::kAllReduce, 4);
  EXPECT_EQ(
      rowText(report, {0, 0, {0, 0}, {0, 0}}),
      "           0             0     float     sum      -1     0.00    0.00    0.00       0     0.00    0.00"
      "    0.00       0\n");
}

TEST(JsonWriter, NestsAndEscapes) {
  JsonWriter json;
  json.beginObject().key("a").beginArray().value(1).value("x\"\\\n").endArray();
  json.key("b").beginObject().endObject().key("c").value(std::numeric_limits<double>::infinity()).endObject();
  EXPECT_EQ(json.text(),
            "{\n  \"a\": [\n    1,\n    \"x\\\"\\\\\\u000a\"\n  ],\n  \"b\": {},\n  \"c\": null\n}\n");
}

}  // namespace
}  // namespace railwise::cli
