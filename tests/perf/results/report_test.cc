#include "perf/results/report.h"

#include <limits>
#include <sstream>

#include "base/text/json.h"
#include "base/text/words.h"
#include "tests/ok.h"

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
  report.options.check = 0;
  const std::string text = rowText(report, {8, 1, {1e-6, 0}, {1e-6, 0}});
  EXPECT_HAS(text, "    none      -1     1.00    0.01    0.00     N/A     1.00    0.01    0.00     N/A\n");
}

TEST(PerfReport, WhatIsNotMeasuredIsNotApplicableAndCountsForNothing) {
  auto report = makeReport(Collective::kPutSignal, 2);
  report.rows = {{1'000'000'000, 1, {1, 0}, {}}};
  EXPECT_HAS(rowText(report, report.rows[0]), "      0      N/A     N/A     N/A     N/A\n");
  EXPECT_DOUBLE_EQ(report.averageBusBandwidth(), 1);
  report.late_signals = 1;
  EXPECT_EQ(report.wrong(), 1u);
}

TEST(PerfReport, FooterSumsUp) {
  auto report = makeReport(Collective::kSendRecv, 2);
  report.rows = {{1'000'000'000, 1, {1, 0}, {0.5, 0}}};
  EXPECT_EQ(footerText(report),
            "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 1.5 \n#\n"
            "# Collective test concluded: sendrecv_perf\n");
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
  EXPECT_HAS(jsonText(report), "\"others_cpu\": 0.3");
}

// Two hosts of one rank, with two NICs of 100 Gb/s and a channel for each.
Report makeTwoHosts() {
  Report report = makeReport(Collective::kAllReduce, 2);
  const std::vector<PortUse> ports = {{"mlx5_0", 100'000, PortSpeed::kBetweenHosts},
                                      {"mlx5_1", 100'000, PortSpeed::kBetweenHosts}};
  report.rank_lines = {{0, 123, "a", "mlx5_0,mlx5_1", ports}, {1, 124, "b", "mlx5_0,mlx5_1", ports}};
  report.rows = {{1'000'000, 1, {1e-3, 0}, {1e-3, 0}}, {1'000'000'000, 1, {0.05, 0}, {0.0625, 0}}};
  return report;
}

ModelAnswer modelOf(int hosts) {
  return {.release = "2.30.7",
          .hosts = hosts,
          .gpus = 8,
          .gbytes = 46.5,
          .algorithm = "Tree",
          .limit = "The limit is the network.",
          .ring_network = 24,
          .ring_nics = {"mlx5_0", "mlx5_1"}};
}

TEST(PerfReport, WhatYouGetOfWhatThePortsAllow) {
  Report report = makeTwoHosts();
  report.reached = reachedBy(report, {});
  ASSERT_TRUE(report.reached);
  EXPECT_DOUBLE_EQ(report.reached->gbytes, 20);
  const std::string text = footerText(report);
  EXPECT_TRUE(text.ends_with(
      "# You get              : 20 of 25 GB/s (80 %) that the ports allow, at 1000000000 bytes\n"
      "#                        mlx5_0 of a fills first: 12.5 GB/s\n#\n"
      "# Collective test concluded: all_reduce_perf\n"))
      << text;
}

TEST(PerfReport, WhatYouGetOfWhatNcclsRingsTake) {
  Report report = makeTwoHosts();
  report.reached = reachedBy(report, modelOf);
  const std::string text = footerText(report);
  EXPECT_TRUE(text.ends_with(
      "# NCCL's model         : 20 of 24 GB/s (83 %) that its rings take of these NICs\n"
      "#                        46.5 GB/s with 8 GPUs on each of 2 hosts like this (2.30.7, Tree)\n"
      "#\n# Collective test concluded: all_reduce_perf\n"))
      << text;
  EXPECT_HAS(jsonText(report), "\"model_share\": 0.8333");
}

TEST(PerfReport, OtherNicsOrSeveralRanksAreNotComparedWithTheModel) {
  Report fewer = makeTwoHosts();
  for (RankLine& line : fewer.rank_lines) line.ports.pop_back();
  Report more = makeTwoHosts();
  more.ranks = 3;
  more.rank_lines.push_back(more.rank_lines.back());
  for (Report* report : {&fewer, &more}) {
    report->reached = reachedBy(*report, modelOf);
    const std::string text = footerText(*report);
    EXPECT_HAS(text, "# NCCL's model         : 46.5 GB/s with 8 GPUs on each of 2 hosts like this");
    EXPECT_HAS(text, "not compared: that takes one rank on each host, and --channels 2\n");
    EXPECT_HAS(jsonText(*report), "\"model_share\": null");
  }
}

TEST(PerfReport, AFusedDeviceIsItsNics) {
  Report report = makeTwoHosts();
  for (RankLine& line : report.rank_lines)
    line.ports = {{"mlx5_0+mlx5_1", 200'000, PortSpeed::kBetweenHosts}};
  report.reached = reachedBy(report, modelOf);
  EXPECT_HAS(footerText(report), "20 of 24 GB/s");
}

TEST(PerfReport, OtherCollectivesAreNotAskedOfTheModel) {
  Report report = makeTwoHosts();
  report.options.collective = Collective::kSendRecv;
  EXPECT_FALSE(reachedBy(report, modelOf)->model);
}

TEST(PerfReport, WhereThePortsTellNothingNothingIsSaid) {
  Report report = makeTwoHosts();
  for (RankLine& line : report.rank_lines) line.host = "a";
  EXPECT_FALSE(reachedBy(report, modelOf));
  report.rows.clear();
  EXPECT_FALSE(reachedBy(report, modelOf));
}

TEST(PerfReport, RowsNameTypeOperationAndRoot) {
  auto report = makeReport(Collective::kReduce, 4);
  const Row row = {8, 2, {1e-6, 0}, {1e-6, 0}, {DataType::kBFloat16, ReduceOp::kAvg, 3}};
  EXPECT_TRUE(rowText(report, row).starts_with("           8             2  bfloat16     avg       3"))
      << rowText(report, row);
  report.options.collective = Collective::kHypercube;
  EXPECT_HAS(rowText(report, {4'000'000, 2, {1e-3, 0}, {1e-3, 0}}), "1000.00    3.00    3.00")
      << "the block that stays does not count";
}

// Parsers of nccl-tests find the line of names by "time" and "busbw", and count its columns from the end,
// between the line with "out-of-place" and the one with "Out of bounds values".
TEST(PerfReport, ParsersFindTheColumnsByTheirNames) {
  const auto report = makeReport(Collective::kBroadcast, 4);
  std::istringstream header(headerText(report));
  std::vector<std::string> names;
  bool halves = false;
  for (std::string line; std::getline(header, line);) {
    halves = halves || line.find("out-of-place") != std::string::npos;
    if (halves && line.find("busbw") != std::string::npos) names = wordsOf(line.substr(1));
  }
  const std::vector<std::string> words =
      wordsOf(rowText(report, {4096, 1024, {4e-6, 0}, {2e-6, 7}, {DataType::kFloat, ReduceOp::kSum, 2}}));
  EXPECT_EQ(names, (std::vector<std::string>{"size", "count", "type", "redop", "root", "time", "algbw",
                                             "busbw", "#wrong", "time", "algbw", "busbw", "#wrong"}));
  EXPECT_EQ(words, (std::vector<std::string>{"4096", "1024", "float", "none", "2", "4.00", "1.02", "1.02",
                                             "0", "2.00", "2.05", "2.05", "7"}));
  EXPECT_TRUE(footerText(report).find("# Out of bounds values : 0 OK\n# Avg bus bandwidth    : ") !=
              std::string::npos);
}

// Who takes a port down needs the name.
TEST(PerfReport, NamesTheFabricOfSoftwareDevices) {
  auto report = makeReport(Collective::kAllReduce, 2);
  EXPECT_LACKS(headerText(report), "fabric");
  report.fabric = "perf77";
  report.rank_lines.front().devices = "mlx5_2,mlx5_3";
  EXPECT_HAS(headerText(report),
             "# fabric perf77: to take a port down meanwhile: railwise device port "
             "mlx5_2:1 down --fabric perf77\n");
}

TEST(PerfReport, ColumnsOfSingleIterationsStandUnderTheirHeads) {
  auto report = makeReport(Collective::kAllReduce, 4);
  report.options.iteration_columns = true;
  report.options.timestamps = true;
  const std::string header = headerText(report);
  const auto line_begin = header.rfind('\n', header.size() - 2) + 1;
  const Row row = {8, 2, {2e-6, 0, 0, {1e-6, 2e-6, 3e-6}}, {1e-6, 0}};
  const std::string text = rowText(report, row);
  EXPECT_EQ(text.size(), header.size() - line_begin) << header << text;
  EXPECT_HAS(text, "     2.00    0.00    0.01       0     1.00     3.00     3.00    40.82");
  EXPECT_HAS(header, "  i_min    i_max    i_p99    i_cv%");
}

TEST(PerfReport, MeasurementsOfASizeAreCombined) {
  auto report = makeReport(Collective::kSendRecv, 2);
  report.combine({8, 2, {1e-6, 1, 0, {1e-6}}, {2e-6, 0}});
  report.combine({16, 4, {1e-6, 0}, {1e-6, 0}});
  report.combine({8, 2, {3e-6, 2, 0, {3e-6}}, {2e-6, 0}});
  report.combine({8, 2, {5e-6, 0, 0, {5e-6}}, {2e-6, 0}});
  ASSERT_EQ(report.rows.size(), 2u);
  EXPECT_DOUBLE_EQ(report.rows[0].out_of_place.seconds, 3e-6);
  EXPECT_EQ(report.rows[0].out_of_place.samples.size(), 3u);
  EXPECT_EQ(report.wrong(), 3u);
  EXPECT_HAS(jsonText(report), "\"passes\": 3");
}

TEST(PerfReport, CsvHasALineForEachMeasurement) {
  auto report = makeReport(Collective::kReduce, 2);
  report.rows = {
      {1'000'000, 250'000, {1e-3, 0, 2e-3, {1e-3, 1e-3}}, {2e-3, 4}, {DataType::kFloat, ReduceOp::kSum, 1}}};
  EXPECT_EQ(
      csvText(report),
      "collective,ranks,size_b,count,type,redop,root,place,time_us,algbw_gb_per_s,busbw_gb_per_s,wrong,"
      "warmup_us,samples,min_us,p25_us,median_us,p75_us,p99_us,max_us\n"
      "reduce,2,1000000,250000,float,sum,1,out_of_place,1000,1,1,0,2000,2,1000,1000,1000,1000,1000,1000\n"
      "reduce,2,1000000,250000,float,sum,1,in_place,2000,0.5,0.5,4,0,0,,,,,,\n");
}

TEST(PerfReport, FooterSaysWhereFiguresMeanLittle) {
  auto report = makeReport(Collective::kSendRecv, 2);
  const std::string before = footerText(report);
  report.software_device = true;
  EXPECT_EQ(footerText(report), "# software device: these figures say nothing about a NIC\n" + before);
  report.software_device = false;
  report.surroundings = {.cores = 2, .ranks_on_host = 2, .naps = 0, .others = {}, .load = 7.5};
  EXPECT_EQ(footerText(report),
            "# this machine was busy: its load was 7.5 on 2 cores when the run began\n" + before);
  report.surroundings.reset();
  report.rows = {{0, 0, {0, 0, 0, {1, 1, 1, 1, 1, 1, 1, 1, 1, 31}}, {}}};
  EXPECT_HAS(footerText(report), "averages are up to 4 times the median\n");
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
