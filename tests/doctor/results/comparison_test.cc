#include "doctor/results/comparison.h"

#include "tests/ok.h"
#include "tests/topo/output_machines.h"
#include "topo/tuning/expect.h"

namespace railwise::doctor {
namespace {

using namespace topo::test;

constexpr uint64_t kLarge = uint64_t{8} << 30;
constexpr uint64_t kSmall = 1024;

// A run on `hosts` hosts with two ranks each.
TestRun makeRun(int hosts, double gbytes, const std::string& collective = "all_reduce") {
  TestRun run;
  run.file = "out.txt";
  run.collective = collective;
  run.ranks = 2 * hosts;
  for (int host = 0; host < hosts; ++host) run.ranks_on_host["node" + std::to_string(host)] = 2;
  for (const uint64_t bytes : {kSmall, kLarge}) {
    ResultRow row;
    row.bytes = bytes;
    row.out_of_place = bytes == kSmall ? 0.05 : gbytes;
    row.line = run.rows.size() + 10;
    run.rows.push_back(row);
  }
  return run;
}

class Compared : public testing::Test {
 protected:
  Comparison compareRun(const TestRun& run) { return compare(run, model_); }
  Findings judged(const TestRun& run) {
    const Comparison its = compareRun(run);
    Findings findings;
    judgeResults({&its, 1}, findings);
    return findings;
  }

  const topo::Machine machine_ = machineOf(twoSwitches());
  ModelMachine model_ = {.machine = &machine_, .nvls = false, .why_none = "no machine", .unread = {}};
};

// The two NICs have 50 GB/s each, of which NCCL's search takes 48 for a channel.
TEST_F(Compared, TheExpectationIsThatOfTopoExpect) {
  const Comparison its = compareRun(makeRun(4, 90));
  ASSERT_EQ(its.obstacle, "");
  const std::size_t sizes[] = {kSmall, kLarge};
  const auto answers = topo::tuning::expectOn(machine_, {.nodes = 4, .nvls = false}, sizes);
  ASSERT_OK(answers);
  ASSERT_EQ(its.expected.size(), 2U);
  EXPECT_DOUBLE_EQ(its.expected[1], answers->front().sizes[1].bus_bandwidth);
  EXPECT_NEAR(its.expected[1], 96, 1);
  EXPECT_EQ(its.judged, 1U);
  EXPECT_NEAR(its.share(), 90 / its.expected[1], 1e-9);
  EXPECT_EQ(its.limit, answers->front().limit);
}

TEST_F(Compared, TheTextSaysWhatYouGet) {
  const Comparison its = compareRun(makeRun(4, 90));
  EXPECT_EQ(headlineText(its), "all_reduce 90.0 of 95.9 GB/s (94 %, good)");
  const std::string table = tableText(its);
  EXPECT_TRUE(
      table.starts_with("all_reduce, 8 ranks on 4 hosts: you get 90.0 of 95.9 GB/s (94 %, good) at 8 GiB.\n"
                        "NCCL's model (2.31.2) of test.xml. The limit is the network: NET/0 (mlx5_0)"))
      << table;
  EXPECT_HAS(table, "\n     8 GiB          90.00          95.90    94 %\n");
}

TEST_F(Compared, FarBelowIsAFinding) {
  EXPECT_TRUE(judged(makeRun(4, 0.81 * 95.9)).empty());
  const Findings findings = judged(makeRun(4, 0.5 * 95.9));
  ASSERT_EQ(findings.all().size(), 1U);
  const Finding& finding = findings.all().front();
  EXPECT_EQ(finding.check, "below-model");
  EXPECT_EQ(finding.severity, Severity::kWarning);
  EXPECT_EQ(finding.seen.front().device, "all_reduce, 8 ranks on 4 hosts");
  EXPECT_EQ(finding.seen.front().where, "out.txt:11");
  EXPECT_EQ(finding.seen.front().value, "48.0 of 95.9 GB/s (50 %) at 8 GiB");
  EXPECT_HAS(finding.fix, "railwise doctor --pair");
}

TEST_F(Compared, WithoutAMachineOneWithSuchGpusIsNamed) {
  model_.machine = nullptr;
  TestRun run = makeRun(1, 90);
  EXPECT_EQ(compareRun(run).obstacle, "no machine");
  run.ranks = run.ranks_on_host["node0"] = 8;
  run.gpu = "NVIDIA H100 80GB HBM3";
  EXPECT_HAS(compareRun(run).obstacle, "-m dgx");
  run.gpu = "NVIDIA A10";
  EXPECT_EQ(compareRun(run).obstacle, "no machine");
}

TEST_F(Compared, SmallSizesTellNoBandwidth) {
  TestRun run = makeRun(4, 90);
  run.rows.pop_back();
  const Comparison its = compareRun(run);
  EXPECT_EQ(its.judged, std::nullopt);
  EXPECT_HAS(tableText(its), "too small to tell a bandwidth");
  EXPECT_TRUE(judged(run).empty());
}

TEST_F(Compared, WithSettingsThatTheModelDoesNotReadNothingIsFound) {
  model_.unread = {"NCCL_ALGO=Ring"};
  const TestRun run = makeRun(4, 20);
  EXPECT_TRUE(judged(run).empty());
  EXPECT_HAS(tableText(compareRun(run)), "The job sets NCCL_ALGO=Ring, which the model does not read.");
}

TEST_F(Compared, AllToAllIsAnEstimateOfRailwise) {
  const Comparison its = compareRun(makeRun(2, 40, "alltoall"));
  ASSERT_EQ(its.obstacle, "");
  EXPECT_HAS(its.model, "estimate of Railwise");
  EXPECT_EQ(its.judged, 1U);
}

TEST_F(Compared, WrongElementsAreAnErrorAlsoWithoutAMachine) {
  model_.machine = nullptr;
  TestRun run = makeRun(2, 40);
  run.rows[1].wrong = 3;
  const Findings findings = judged(run);
  ASSERT_EQ(findings.all().size(), 1U);
  EXPECT_EQ(findings.all().front().check, "wrong-results");
  EXPECT_EQ(findings.exitStatus(), 2);
}

TEST_F(Compared, WhatIsNotCompared) {
  const auto obstacleOf = [&](const TestRun& run) { return compareRun(run).obstacle; };
  EXPECT_HAS(obstacleOf(makeRun(2, 40, "")), "does not name its program");
  EXPECT_EQ(obstacleOf(makeRun(2, 40, "sendrecv")), "NCCL's model does not have sendrecv");
  TestRun run = makeRun(2, 40);
  run.ranks_on_host["node0"] = 1;
  run.ranks_on_host["node1"] = 3;
  EXPECT_EQ(obstacleOf(run), "the hosts have different numbers of ranks");
  run.ranks = 2;
  run.ranks_on_host = {{"a", 1}, {"b", 1}};
  EXPECT_EQ(obstacleOf(run), "test.xml has 2 GPUs, and the job has 1 rank on each host");
  run.ranks = 1;
  run.ranks_on_host = {{"a", 1}};
  EXPECT_HAS(obstacleOf(run), "MPI=1");
  EXPECT_EQ(tableText(compareRun(run)), "");
  run.ranks = 0;
  run.ranks_on_host.clear();
  EXPECT_HAS(obstacleOf(run), "does not name the ranks");
  model_.ranks = 4;
  model_.hosts = 2;
  EXPECT_EQ(obstacleOf(run), "") << "NCCL's lines tell";
  model_.machine = nullptr;
  EXPECT_EQ(obstacleOf(makeRun(2, 40)), "no machine");
}

TEST_F(Compared, Json) {
  const Comparison its = compareRun(makeRun(4, 90));
  JsonWriter json;
  json.beginObject();
  writeResultsJson(json, {&its, 1});
  json.endObject();
  for (const char* part : {"\"collective\": \"all_reduce\"", "\"judged_bytes\": 8589934592", "\"share\": 0.9",
                           "\"expected_gb_per_s\": 95.", "\"not_compared\": \"\""})
    EXPECT_HAS(json.text(), part);
}

}  // namespace
}  // namespace railwise::doctor
