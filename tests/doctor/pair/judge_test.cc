// Which rail, NIC or host is odd, from results made by hand.

#include "doctor/pair/summary.h"
#include "ends.h"
#include "tests/ok.h"

namespace railwise::doctor::pair {
namespace {

using test::changePairsOf;
using test::find;
using test::found;
using test::makeResults;

void makeSlow(PairResult& pair) {
  for (Half& half : pair.halves) half.alone_gbytes = half.together_gbytes = 4;
}

void makeHole(PairResult& pair) {
  pair.halves[0] = {.reach = Reach::kNone, .error = "a write failed: transport retries exceeded"};
  pair.halves[1].alone_gbytes = pair.halves[1].together_gbytes = pair.halves[0].latency_us = 0;
}

TEST(PairJudge, EqualRailsAreFine) {
  const Judgement judgement = judge(makeResults(2, 8));
  EXPECT_TRUE(judgement.findings.empty());
  EXPECT_EQ(judgement.verdicts[0].health[0], Health::kGood);
  EXPECT_DOUBLE_EQ(judgement.verdicts[0].allowed_gbytes, 50);
}

// What could not be tried is no missing route, and neither is one that loses large packets.
TEST(PairJudge, OnlyARouteThatWasTriedIsMissing) {
  Results results = makeResults(2, 2);
  results.across = {{{.nics = {0, 1}}, {0, 1}, {}}, {{.nics = {1, 0}}, {0, 1}, {}}};
  EXPECT_HAS(acrossText(results), "is not known");
  for (PairResult& pair : results.across)
    for (Half& half : pair.halves) half.reach = Reach::kAll;
  EXPECT_HAS(acrossText(results), "may stay");
  results.across[0].halves[1].reach = Reach::kSmallOnly;
  EXPECT_HAS(acrossText(results), "MTU");
  EXPECT_EQ(find(judge(results), "pair-across-rails"), nullptr);
  results.across[0].halves[1].reach = Reach::kNone;
  EXPECT_HAS(acrossText(results), "Not all rails");
  EXPECT_NE(find(judge(results), "pair-across-rails"), nullptr);
  for (Half& half : results.across[0].halves) half.reach = Reach::kNone;
  results.across[1].halves[0].reach = results.across[1].halves[1].reach = Reach::kNotTried;
  EXPECT_HAS(acrossText(results), "must be 0");
  for (PairResult& pair : results.across) pair.halves = {}, pair.obstacle = Obstacle::kNoGids;
  EXPECT_HAS(acrossText(results), "must be 0");
}

TEST(PairJudge, OnlyNicsThatWorkTellOfRoutes) {
  Results results = makeResults(2, 3);
  results.across = {{{.nics = {0, 1}}, {0, 1}, {}}, {{.nics = {1, 2}}, {0, 1}, {}}};
  for (PairResult& pair : results.across)
    for (Half& half : pair.halves) half.reach = Reach::kAll;
  makeHole(results.pairs[2]);
  EXPECT_HAS(acrossText(results), "(each NIC with the one of the next rail: A mlx5_0 - B mlx5_1)");
  makeHole(results.pairs[0]);
  EXPECT_HAS(acrossText(results), "that work within their own rails");
}

TEST(PairJudge, OfTwoHostsTheSlowPairIsNamedWithBothEnds) {
  Results results = makeResults(2, 8);
  makeSlow(results.pairs[3]);
  const Judgement judgement = judge(results);
  const Finding slow = found(judgement, "pair-slow-rail");
  ASSERT_EQ(slow.seen.size(), 2U);  // both directions
  EXPECT_EQ(slow.seen[0].device, "A mlx5_3 - B mlx5_3");
  EXPECT_EQ(slow.seen[1].where, "B mlx5_3 -> A mlx5_3");
  EXPECT_EQ(slow.seen[0].value, "4 GB/s; median of its peers 48.0 GB/s; port and PCIe allow 50.0 GB/s");
  EXPECT_EQ(judgement.findings.all().size(), 1U);
  EXPECT_EQ(judgement.findings.exitStatus(), 1);
}

TEST(PairJudge, OneSlowDirectionIsEnough) {
  Results results = makeResults(2, 4);
  results.pairs[1].halves[1].alone_gbytes = 10;
  const Judgement judgement = judge(results);
  ASSERT_NE(find(judgement, "pair-slow-rail"), nullptr);
  EXPECT_EQ(judgement.verdicts[1].health[0], Health::kGood);
  EXPECT_EQ(judgement.verdicts[1].health[1], Health::kSlow);
}

TEST(PairJudge, OfThreeHostsTheSlowNicIsNamedAlone) {
  Results results = makeResults(3, 4);
  changePairsOf(results, 1, 2, makeSlow);
  const Finding slow = found(judge(results), "pair-slow-rail");
  ASSERT_EQ(slow.seen.size(), 4U);
  for (const Seen& seen : slow.seen) EXPECT_EQ(seen.device, "B mlx5_2");
}

TEST(PairJudge, AHostOfWhichAllRailsAreSlowIsNamed) {
  Results results = makeResults(4, 4);
  changePairsOf(results, 2, -1, makeSlow);
  const Judgement judgement = judge(results);
  const Finding odd = found(judgement, "pair-odd-host");
  EXPECT_EQ(odd.seen[0].device, "C");
  EXPECT_EQ(odd.seen[0].value, "best rail 4 GB/s; median of all 48.0 GB/s");
  EXPECT_EQ(judgement.findings.all().size(), 1U);  // its rails are not listed one by one
}

TEST(PairJudge, AHostThatNobodyReachesIsAnError) {
  Results results = makeResults(3, 2);
  changePairsOf(results, 0, -1, makeHole);
  const Judgement judgement = judge(results);
  ASSERT_NE(find(judgement, "pair-odd-host"), nullptr);
  EXPECT_EQ(judgement.findings.exitStatus(), 2);
}

TEST(PairJudge, ABlackHoleIsNoReachInItsDirectionOnly) {
  Results results = makeResults(2, 4);
  makeHole(results.pairs[1]);
  const Judgement judgement = judge(results);
  const Finding hole = found(judgement, "pair-no-reach");
  ASSERT_EQ(hole.seen.size(), 1U);
  EXPECT_EQ(hole.seen[0].where, "A mlx5_1 -> B mlx5_1");
  EXPECT_EQ(hole.seen[0].value, "a write failed: transport retries exceeded");
  EXPECT_EQ(judgement.verdicts[1].health[1], Health::kSkipped);
  EXPECT_EQ(judgement.findings.all().size(), 1U);
}

TEST(PairJudge, SaysHowAPairFails) {
  const auto checkOf = [](const Half& half) {
    Results results = makeResults(2, 3);
    results.pairs[1].halves[0] = half;
    const Judgement judgement = judge(results);
    return judgement.findings.all().empty() ? "" : judgement.findings.all()[0].check;
  };
  EXPECT_EQ(checkOf({.reach = Reach::kSmallOnly, .error = "lost"}), "pair-large-packets");
  EXPECT_EQ(checkOf({.reach = Reach::kNotTried, .error = "to RTR failed"}), "pair-queue-pair");
  EXPECT_EQ(checkOf({.reach = Reach::kAll, .error = "no write completed for 1 s"}), "pair-stopped");
}

TEST(PairJudge, WrongDataAreTheSendersError) {
  Results results = makeResults(2, 3);
  results.pairs[1].halves[1].wrong_data = true;  // seen by B
  const Finding wrong = found(judge(results), "pair-wrong-data");
  EXPECT_EQ(wrong.seen[0].where, "A mlx5_1 -> B mlx5_1");
}

TEST(PairJudge, RailsThatAreAllBelowTheirPortAreNamed) {
  Results results = makeResults(2, 2);  // "link says 400G, gives 13 Gb/s"
  for (PairResult& pair : results.pairs) {
    for (Half& half : pair.halves) half.alone_gbytes = half.together_gbytes = 1.6;
  }
  EXPECT_EQ(found(judge(results), "pair-below-port").seen.size(), 4U);
}

TEST(PairJudge, ThePcieLinkCountsAsWell) {
  Results results = makeResults(2, 2);
  for (EndFacts& end : results.ends) end.nics[0].pcie_mbps = 126'030;  // 8 GT/s x16
  for (Half& half : results.pairs[0].halves) half.alone_gbytes = half.together_gbytes = 13.5;
  EXPECT_TRUE(judge(results).findings.empty());  // it has peers of its own
  EXPECT_NEAR(judge(results).verdicts[0].allowed_gbytes, 15.75, 0.01);
}

TEST(PairJudge, OnSoftwareDevicesOnlyPeersCount) {
  Results results = makeResults(2, 4);
  for (EndFacts& end : results.ends) {
    for (NicFacts& nic : end.nics) nic.software = true;
  }
  for (PairResult& pair : results.pairs) {
    for (Half& half : pair.halves) half = test::makeHalf(3);
  }
  results.pairs[0].halves[0].alone_gbytes = 1.2;  // noise
  results.pairs[1].halves[0].together_gbytes = 0.3;
  EXPECT_TRUE(judge(results).findings.empty());
  results.pairs[0].halves[0].alone_gbytes = 0.9;
  EXPECT_NE(find(judge(results), "pair-slow-rail"), nullptr);
}

TEST(PairJudge, RailsThatHinderEachOtherAreNamed) {
  Results results = makeResults(2, 4);
  for (const std::size_t pair : {0, 1}) results.pairs[pair].halves[0].together_gbytes = 24;
  const Finding together = found(judge(results), "pair-together");
  EXPECT_EQ(together.seen.size(), 2U);
  EXPECT_EQ(together.seen[0].value, "24.0 GB/s with all rails, 48.0 GB/s alone");
}

TEST(PairJudge, ALateRailIsAdvice) {
  Results results = makeResults(2, 4);
  results.pairs[2].halves[0].latency_us = 9;
  const Judgement judgement = judge(results);
  ASSERT_NE(find(judgement, "pair-latency"), nullptr);
  EXPECT_EQ(judgement.findings.exitStatus(), 0);
}

TEST(PairJudge, TheMtuThatMostHaveIsTheUsualOne) {
  Results results = makeResults(2, 4);
  results.ends[1].nics[2].mtu_bytes = 1024;
  const Finding mtu = found(judge(results), "pair-mtu");
  ASSERT_EQ(mtu.seen.size(), 1U);
  EXPECT_EQ(mtu.seen[0].device, "B mlx5_2");
  EXPECT_EQ(mtu.seen[0].value, "1024, not 4096");
}

TEST(PairJudge, EqualMtusThatAreSmallAreNoFinding) {
  Results results = makeResults(2, 4);
  for (EndFacts& end : results.ends) end.nics[1].mtu_bytes = 1024;
  EXPECT_TRUE(judge(results).findings.empty());
}

TEST(PairJudge, TheFactsOfThePortsAreFindings) {
  Results results = makeResults(2, 4);
  results.ends[0].nics[0].active = false;
  results.pairs[0].obstacle = Obstacle::kPortDown;
  results.pairs[1].obstacle = Obstacle::kLinkKind;
  results.ends[1].nics[2].speed_mbps = 200'000;
  results.pairs[3].obstacle = Obstacle::kNoGids;
  const Judgement judgement = judge(results);
  EXPECT_EQ(found(judgement, "pair-port-down").seen[0].device, "A mlx5_0");
  EXPECT_NE(find(judgement, "pair-link"), nullptr);
  EXPECT_EQ(found(judgement, "pair-speed").seen[0].value, "200 Gb/s, not 400 as A mlx5_2");
  EXPECT_NE(find(judgement, "pair-no-address"), nullptr);
}

TEST(PairJudge, PortsThatAreDownAtBothEndsAreUnused) {
  Results results = makeResults(2, 2);
  results.pairs[1].obstacle = Obstacle::kBothDown;
  results.ends[0].nics[1].active = results.ends[1].nics[1].active = false;
  EXPECT_TRUE(judge(results).findings.empty());
}

TEST(PairJudge, GidTypesAreLookedAt) {
  Results results = makeResults(2, 2);
  results.ends[0].nics[0] = test::makeRoceNic("mlx5_0", 1, 1);
  results.ends[1].nics[0] = test::makeRoceNic("mlx5_0", 2, 1);
  results.ends[0].nics[1] = test::makeRoceNic("mlx5_1", 3, 2, 3);
  results.ends[1].nics[1] = test::makeRoceNic("mlx5_1", 4, 2, 5);
  const Judgement judgement = judge(results);
  EXPECT_NE(find(judgement, "pair-gid-types"), nullptr);
  EXPECT_EQ(found(judgement, "pair-gid-index").seen[0].value,
            "index 3 RoCE v2 IPv4 and index 5 RoCE v2 IPv4");
}

TEST(PairJudge, EnhancedConnectionsThatOneEndLacksAreNamed) {
  Results results = makeResults(2, 3);
  for (EndFacts& end : results.ends) {
    for (NicFacts& nic : end.nics) nic.ece_vendor = 0x15b3;
  }
  results.ends[1].nics[0].ece_options = 3;
  EXPECT_EQ(find(judge(results), "pair-ece"), nullptr) << "one vendor";
  results.ends[1].nics[0].ece_vendor = 0;
  results.ends[1].nics[2].ece_vendor = 0x14e4;
  const Judgement judgement = judge(results);
  EXPECT_EQ(found(judgement, "pair-ece").seen[0].value, "vendor 0x15b3, options 0x0 and none");
  EXPECT_EQ(found(judgement, "pair-ece").seen.size(), 2U);
}

TEST(PairJudge, AHostWithoutDevicesOrWithFewerIsNamed) {
  Results results = makeResults(3, 2);
  results.ends.push_back(test::makeEnd("D", 1));
  EndFacts none;
  none.host = "E";
  none.failure = "no RDMA device";
  results.ends.push_back(none);
  const Judgement judgement = judge(results);
  EXPECT_EQ(found(judgement, "pair-nic-count").seen[0].device, "D");
  const std::string fix = found(judgement, "pair-nic-count").fix;
  EXPECT_HAS(fix, "railwise fingerprint --json > ") << "what --compare reads: ";
  EXPECT_HAS(fix, "railwise fingerprint --compare *.json");
  EXPECT_EQ(found(judgement, "pair-no-device").seen[0].device, "E");
}

TEST(PairJudge, PingIsAsLargeAsThePacketsThatAreLost) {
  Results results = makeResults(2, 2);
  results.pairs[0].halves[0].reach = Reach::kSmallOnly;
  const auto fix = [&] { return found(judge(results), "pair-large-packets").fix; };
  EXPECT_LACKS(fix(), "ping") << "InfiniBand";
  results.ends[0].nics[0] = test::makeRoceNic("mlx5_0", 1);
  results.ends[1].nics[0] = test::makeRoceNic("mlx5_0", 2);
  results.ends[1].nics[0].mtu_bytes = 1024;
  EXPECT_EQ(fix().find("ping -M do -I NETDEV -s 1056 "), 0U) << fix();
}

TEST(PairJudge, OtherLinksAreAWarningBesideARailThatWorks) {
  Results results = makeResults(2, 2);
  results.pairs[1].obstacle = Obstacle::kLinkKind;
  EXPECT_EQ(judge(results).findings.exitStatus(), 1);
  EXPECT_EQ(found(judge(results), "pair-link").fix.find("railwise doctor"), 0U);
  results.pairs[0].obstacle = Obstacle::kLinkKind;
  EXPECT_EQ(judge(results).findings.exitStatus(), 2);
}

TEST(PairJudge, NicsInNoPairAreHiddenLines) {
  Results results = makeResults(2, 2);
  results.ends[0].nics.push_back(test::makeRoceNic("storage", 1));
  results.ends[1].nics.push_back(test::makeNic("efa_0"));
  results.ends[1].nics[2].link = LinkKind::kOther;
  EXPECT_TRUE(judge(results).findings.empty());
  const auto hidden = reportStyle(results, {}).hidden;
  ASSERT_EQ(hidden.size(), 2U);
  EXPECT_EQ(hidden[0],
            "A storage: no NIC of another host has its link (RoCE) and an address that it reaches");
  EXPECT_EQ(hidden[1],
            "B efa_0: no reliable connections (EFA and others): the pair test does not measure it");
}

TEST(PairJudge, ATestThatMeasuredNothingIsNotFine) {
  Results results = makeResults(2, 1);
  results.pairs.clear();
  EXPECT_EQ(judge(results).findings.exitStatus(), 1);
}

TEST(PairJudge, PairsThatShareANicAreSlowerTogetherOfCourse) {
  Results results = makeResults(2, 2);
  results.pairs[1].nics[1] = 0;
  for (PairResult& pair : results.pairs) pair.halves[0].together_gbytes = 24;
  EXPECT_TRUE(judge(results).findings.empty());
}

TEST(HostMatrix, SumsTheRailsAndKeepsTheWorst) {
  Results results = makeResults(2, 2);
  makeSlow(results.pairs[1]);
  const auto matrix = hostMatrix(results, judge(results).verdicts);
  EXPECT_DOUBLE_EQ(matrix[0][1].gbytes, 52);
  EXPECT_DOUBLE_EQ(matrix[0][1].slowest_alone, 4);
  EXPECT_EQ(matrix[1][0].worst, Health::kSlow);
  EXPECT_FALSE(matrix[0][0].measured);
}

TEST(AllReduce, TheWeakestHostDecides) {
  Results results = makeResults(2, 2);
  results.ends[0].all_reduce = {370, "rule A"};
  results.ends[1].all_reduce = {192, "rule B"};
  results.pairs[0].halves[1].together_gbytes = 10;
  const AllReduceCheck check = checkAllReduce(results);
  EXPECT_DOUBLE_EQ(check.expected_gbytes, 192);
  EXPECT_EQ(check.rule, "rule B");
  EXPECT_DOUBLE_EQ(check.measured_gbytes, 58);
}

// NCCL's model replaces the sum of the NICs: there is one limit. The third NIC is none of NCCL's rings.
TEST(AllReduce, NcclsModelIsTheOneLimit) {
  Results results = makeResults(2, 3);
  for (EndFacts& end : results.ends) end.all_reduce = {192, "the sum of the NICs"};
  EXPECT_HAS(allReduceText(results), "192 GB/s (the sum of the NICs)");
  results.nccl = {.gbytes = 150,
                  .ring_gbytes = 96,
                  .ring_nics = {"mlx5_0+mlx5_1"},
                  .text = "NCCL 2.30.7's model of 2 hosts with 8 GPUs each",
                  .algorithm = "Tree",
                  .limit = "The limit is the network."};
  results.pairs[0].halves[1].together_gbytes = 30;
  results.pairs[1].halves[1].together_gbytes = 42;
  EXPECT_DOUBLE_EQ(ringNicsGbytes(results), 72);
  EXPECT_DOUBLE_EQ(checkAllReduce(results).expected_gbytes, 150);
  const std::string text = allReduceText(results);
  EXPECT_HAS(text, "150 GB/s (NCCL 2.30.7's model of 2 hosts with 8 GPUs each, Tree");
  EXPECT_HAS(text, "96.0 GB/s of their NICs, and get 72.0 (75 %)");
  EXPECT_LACKS(text, "192");
  results.ends[0].nics[0].software = true;
  EXPECT_LACKS(allReduceText(results), "72.0");
}

}  // namespace
}  // namespace railwise::doctor::pair
