#include "perf/results/comparison.h"

#include "tests/ok.h"

namespace railwise::cli {
namespace {

std::vector<double> around(double us, double spread) {
  std::vector<double> samples;
  for (int i = -10; i <= 10; ++i) samples.push_back((us + spread * i) * 1e-6);
  return samples;
}

Report makeReport(std::vector<Row> rows) {
  Report report;
  report.options.collective = Collective::kReduce;
  report.ranks = 2;
  report.rank_lines = {{0, 1, "a", "x", {}}, {1, 2, "b", "x", {}}};
  report.rows = std::move(rows);
  return report;
}

Row makeRow(uint64_t bytes, double us, double spread = 0.1, int root = 0) {
  return {bytes,
          bytes / 4,
          {us * 1e-6, 0, 0, around(us, spread)},
          {us * 1e-6, 0, 0, around(us, spread)},
          {DataType::kFloat, ReduceOp::kSum, root}};
}

Comparison against(const Report& before, const Report& now) {
  const auto saved = parseSavedRun(jsonText(before), "old.json");
  EXPECT_TRUE(saved.ok()) << saved.error();
  return compareRuns(*saved, now);
}

TEST(Comparison, RangesThatDoNotTouchGiveAVerdict) {
  const Quartiles before{20, 9, 10, 11};
  EXPECT_EQ(compareQuartiles(before, {20, 14, 15, 16}), Verdict::kSlower);
  EXPECT_EQ(compareQuartiles(before, {20, 5, 6, 7}), Verdict::kFaster);
  EXPECT_EQ(compareQuartiles(before, {20, 10, 12, 14}), Verdict::kNoise);
  EXPECT_EQ(compareQuartiles(before, {20, 8, 10.4, 30}), Verdict::kEqual);
  EXPECT_EQ(compareQuartiles({20, 10, 10, 10}, {20, 10.3, 10.3, 10.3}), Verdict::kEqual)
      << "too little to matter";
  EXPECT_EQ(compareQuartiles(before, {7, 14, 15, 16}), Verdict::kTooFew);
  EXPECT_EQ(compareQuartiles({}, before), Verdict::kTooFew);
}

TEST(Comparison, FindsEachRowOfTheSavedRun) {
  const Report before = makeReport({makeRow(1024, 10), makeRow(2048, 20), makeRow(2048, 40, 0.1, 1)});
  const Report now =
      makeReport({makeRow(1024, 20), makeRow(2048, 20), makeRow(2048, 20, 0.1, 1), makeRow(4096, 40)});
  const Comparison comparison = against(before, now);
  EXPECT_EQ(comparison.count(Verdict::kSlower), 2);
  EXPECT_EQ(comparison.count(Verdict::kEqual), 2);
  EXPECT_EQ(comparison.count(Verdict::kFaster), 2);
  EXPECT_EQ(comparison.only_now, 2);
  EXPECT_EQ(comparison.differs, "");
  const std::string text = comparisonText(comparison);
  EXPECT_HAS(text, "#          1024  out-of-place      10.00 us      20.00 us  +100.0 %  slower\n");
  EXPECT_HAS(text, "#  2 slower, 2 faster, 2 equal, 0 without a verdict");
  JsonWriter json;
  json.beginObject();
  addComparison(json, comparison);
  json.endObject();
  EXPECT_HAS(json.text(), "\"slower\": 2");
}

TEST(Comparison, WhatHasNoInPlaceHalfIsComparedWithoutIt) {
  Report before = makeReport({makeRow(1024, 10)});
  Report now = makeReport({makeRow(1024, 20), makeRow(2048, 20)});
  before.options.collective = now.options.collective = Collective::kPut;
  const Comparison comparison = against(before, now);
  EXPECT_EQ(comparison.count(Verdict::kSlower), 1);
  EXPECT_EQ(comparison.changes.size(), 1u);
  EXPECT_EQ(comparison.only_now, 1);
}

TEST(Comparison, NoiseForbidsAVerdict) {
  const Comparison comparison =
      against(makeReport({makeRow(1024, 10, 0.9)}), makeReport({makeRow(1024, 13, 1.2)}));
  EXPECT_EQ(comparison.count(Verdict::kNoise), 2) << comparisonText(comparison);
}

TEST(Comparison, ABusyMachineForbidsAVerdict) {
  Report now = makeReport({makeRow(1024, 20)});
  now.surroundings = Surroundings{.cores = 2, .others = OthersUse{.processes = 0.3, .hypervisor = 0}};
  const Report quiet = makeReport({makeRow(1024, 10)});
  EXPECT_EQ(against(quiet, now).count(Verdict::kNoise), 2);
  EXPECT_EQ(against(quiet, now).busy, "this run");
  EXPECT_EQ(against(now, quiet).busy, "the saved run");
  now.surroundings = Surroundings{.cores = 2, .load = 5};
  EXPECT_EQ(against(now, now).busy, "both runs");
  EXPECT_EQ(against(now, now).count(Verdict::kEqual), 2);
}

TEST(Comparison, AnotherSetupIsSaid) {
  Report now = makeReport({makeRow(1024, 10)});
  now.options.channels = 7;
  EXPECT_HAS(against(makeReport({makeRow(1024, 10)}), now).differs, "7 channels");
}

TEST(Comparison, OtherRunsAreRefused) {
  const auto saved = parseSavedRun(jsonText(makeReport({makeRow(1024, 10)})), "old.json");
  ASSERT_TRUE(saved.ok());
  PerfOptions options;
  options.collective = Collective::kReduce;
  EXPECT_EQ(notComparable(*saved, options, 2), "");
  EXPECT_EQ(notComparable(*saved, options, 3), "old.json is a run of 2 ranks, this has 3");
  options.collective = Collective::kScatter;
  EXPECT_EQ(notComparable(*saved, options, 2), "old.json is a run of perf reduce, this is perf scatter");
}

TEST(Comparison, AFileThatIsNoRunIsSaid) {
  EXPECT_EQ(readSavedRun("/nowhere/old.json").error(), "cannot read /nowhere/old.json");
  EXPECT_EQ(parseSavedRun("{", "f").error(), "f is no JSON document");
  for (const char* text :
       {"{}", "[]", "7", R"({"command": 3})", R"({"command": "perf reduce", "ranks": [], "config": []})"})
    EXPECT_EQ(parseSavedRun(text, "f").error(), "f is no result of railwise perf --json=FILE") << text;
}

}  // namespace
}  // namespace railwise::cli
