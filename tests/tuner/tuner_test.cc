// Which override answers, and what the log says of it.
#include "tuner/tuner.h"

#include "tests/ok.h"
#include "tests/said.h"

namespace railwise::tuner {
namespace {

// NCCL offers everything but PAT, and would take ring/simple.
class Everything final : public Offers {
 public:
  bool has(Algorithm algorithm, Protocol) const override { return algorithm != Algorithm::kPat; }
  std::optional<Choice> own() const override { return Choice{Algorithm::kRing, Protocol::kSimple, 41.25F}; }
};

OverrideFile makeFile(const std::string& text) {
  OverrideFile file = parseOverrides(text, "t.csv");
  EXPECT_EQ(file.mistakes, std::vector<std::string>());
  return file;
}

Question allReduce(std::size_t bytes) { return {Collective::kAllReduce, bytes, 1, false}; }

int lineChosen(Tuner& tuner, const Question& question) {
  const Override* const chosen = tuner.choose(question, Everything());
  return chosen != nullptr ? chosen->line : 0;
}

TEST(Tuner, TheFirstRowThatFitsAnswers) {
  const OverrideFile file = makeFile(
      "allreduce,0,1024,tree,ll,-1,-1,-1\n"
      "allreduce,512,4096,ring,ll128,-1,-1,-1\n"
      "allgather,0,4096,ring,simple,-1,-1,-1\n");
  Tuner tuner(file, 16, 2);
  EXPECT_EQ(lineChosen(tuner, allReduce(0)), 1);
  EXPECT_EQ(lineChosen(tuner, allReduce(1024)), 1);
  EXPECT_EQ(lineChosen(tuner, allReduce(1025)), 2);
  EXPECT_EQ(lineChosen(tuner, allReduce(4096)), 2);
  EXPECT_EQ(lineChosen(tuner, allReduce(4097)), 0);
  EXPECT_EQ(lineChosen(tuner, {Collective::kAllGather, 1, 1, false}), 3);
  EXPECT_EQ(lineChosen(tuner, {Collective::kBroadcast, 1, 1, false}), 0);
}

TEST(Tuner, RanksAndNodesMustBeThoseOfTheCommunicator) {
  const OverrideFile file = makeFile(
      "allreduce,0,9,tree,ll,-1,2,16\n"
      "allreduce,0,9,tree,ll,-1,4,-1\n"
      "allreduce,0,9,tree,ll,-1,-1,8\n");
  Tuner both(file, 16, 2), nodes(file, 16, 4), ranks(file, 8, 2), neither(file, 16, 8), alone(file, 1, 1);
  EXPECT_EQ(lineChosen(both, allReduce(1)), 1);
  EXPECT_EQ(lineChosen(nodes, allReduce(1)), 2);
  EXPECT_EQ(lineChosen(ranks, allReduce(1)), 3);
  EXPECT_EQ(lineChosen(neither, allReduce(1)), 0);
  EXPECT_EQ(lineChosen(alone, allReduce(1)), 0);
}

TEST(Tuner, PipeOperationsAndRegistration) {
  const OverrideFile file = makeFile(
      "allreduce,0,9,tree,ll,-1,-1,-1,4\n"
      "allreduce,0,9,tree,ll,-1,-1,-1,-1,1\n"
      "allreduce,0,9,tree,ll,-1,-1,-1,-1,0\n"
      "allreduce,0,9,tree,ll,-1,-1,-1\n");
  Tuner tuner(file, 16, 2);
  EXPECT_EQ(lineChosen(tuner, {Collective::kAllReduce, 1, 4, true}), 1);
  EXPECT_EQ(lineChosen(tuner, {Collective::kAllReduce, 1, 1, true}), 2);
  EXPECT_EQ(lineChosen(tuner, {Collective::kAllReduce, 1, 1, false}), 3);
  EXPECT_EQ(lineChosen(tuner, {Collective::kAllReduce, 1, 1, std::nullopt}), 4)
      << "NCCL before 2.24 does not tell";
}

TEST(Tuner, WhatNcclDoesNotOfferLeavesTheTurnToTheNextRow) {
  const OverrideFile file = makeFile(
      "allgather,0,9,pat,simple,-1,-1,-1\n"
      "allgather,0,9,ring,ll,-1,-1,-1\n");
  const test::Said said;
  Tuner tuner(file, 16, 2);
  EXPECT_EQ(lineChosen(tuner, {Collective::kAllGather, 1, 1, false}), 2);
  EXPECT_HAS(said.all(),
             "tuner: t.csv:1 does not apply to allgather of 1 bytes: NCCL does not offer "
             "pat/simple on this machine\n");
}

TEST(Tuner, TheLogSaysOnceWhatARowChanges) {
  const OverrideFile file = makeFile("allreduce,0,9,tree,ll,4,-1,-1\n");
  test::Said said;
  Tuner tuner(file, 16, 2);
  EXPECT_EQ(said.all(),
            "tuner: 1 of the 1 overrides in t.csv fit this communicator (16 ranks, 2 nodes): line 1\n");
  said.clear();
  EXPECT_EQ(lineChosen(tuner, allReduce(8)), 1);
  EXPECT_EQ(lineChosen(tuner, allReduce(9)), 1);
  EXPECT_EQ(said.all(),
            "tuner: allreduce of 8 bytes takes tree/ll on 4 channels (t.csv:1); NCCL would take ring/simple, "
            "41.2 us by its estimate\n");
}

TEST(Tuner, AnotherCommunicatorSaysItToo) {
  const OverrideFile file = makeFile("allreduce,0,9,tree,ll,-1,-1,-1\n");
  Tuner first(file, 16, 2), second(file, 16, 2);
  EXPECT_EQ(lineChosen(first, allReduce(8)), 1);
  const test::Said said;
  EXPECT_EQ(lineChosen(second, allReduce(8)), 1);
  EXPECT_HAS(said.all(), "takes tree/ll (t.csv:1)");
}

TEST(Tuner, WhatNoReleaseHasIsToldApart) {
  const OverrideFile file = makeFile("allgather,0,9,pat,ll,-1,-1,-1\n");
  const test::Said said;
  Tuner tuner(file, 16, 2);
  EXPECT_EQ(lineChosen(tuner, {Collective::kAllGather, 1, 1, false}), 0);
  EXPECT_HAS(said.all(), "NCCL has no pat/ll for this collective");
}

}  // namespace
}  // namespace railwise::tuner
