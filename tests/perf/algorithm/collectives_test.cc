#include <gtest/gtest.h>

#include "perf/algorithm/contents.h"

namespace railwise::cli {
namespace {

// PERFORMANCE.md of nccl-tests, and the function GetBw of each of its programs.
TEST(Collectives, BandwidthsAreThoseOfNcclTests) {
  for (const Collective collective : {Collective::kAllGather, Collective::kReduceScatter,
                                      Collective::kAllToAll, Collective::kGather, Collective::kScatter})
    EXPECT_DOUBLE_EQ(busFactor(collective, 4), 0.75) << collectiveName(collective);
  for (const Collective collective :
       {Collective::kSendRecv, Collective::kBroadcast, Collective::kReduce, Collective::kHypercube})
    EXPECT_DOUBLE_EQ(busFactor(collective, 4), 1) << collectiveName(collective);
  // A collective of puts has the factor of the collective of messages that moves the same bytes.
  EXPECT_DOUBLE_EQ(busFactor(Collective::kPutAllGather, 4), 0.75);
  EXPECT_DOUBLE_EQ(busFactor(Collective::kPutSignal, 4), 1);
  EXPECT_DOUBLE_EQ(busFactor(Collective::kAllReduce, 4), 1.5);
  EXPECT_DOUBLE_EQ(busFactor(Collective::kAllReduce, 1), 0);
  EXPECT_DOUBLE_EQ(algorithmBandwidth(Collective::kAllGather, 4, 8'000'000'000, 2), 4);
  EXPECT_DOUBLE_EQ(algorithmBandwidth(Collective::kHypercube, 4, 8'000'000'000, 2), 3);
  EXPECT_DOUBLE_EQ(algorithmBandwidth(Collective::kHypercube, 4, 8, 0), 0);
}

TEST(Collectives, BlocksOfRanksAreMultiplesOf16BytesAsInNcclTests) {
  EXPECT_EQ(blockElements(Collective::kAllGather, 3, 1 << 20, 4), 87'380u);
  EXPECT_EQ(blockElements(Collective::kAllGather, 4, 1 << 20, 4), 65'536u);
  EXPECT_EQ(blockElements(Collective::kAllToAll, 3, 100, 1), 32u);
  EXPECT_EQ(blockElements(Collective::kGather, 4, 32, 4), 2u) << "less than 16 bytes";
  EXPECT_EQ(blockElements(Collective::kBroadcast, 3, 100, 8), 12u) << "one block is all";
  EXPECT_EQ(blockElements(Collective::kAllReduce, 3, 7, 8), 0u);
}

TEST(Collectives, HypercubeTakesPowersOfTwo) {
  EXPECT_EQ(impossibleWith(Collective::kHypercube, 1), nullptr);
  EXPECT_EQ(impossibleWith(Collective::kHypercube, 8), nullptr);
  EXPECT_NE(impossibleWith(Collective::kHypercube, 6), nullptr);
  EXPECT_EQ(impossibleWith(Collective::kAllGather, 6), nullptr);
}

TEST(Collectives, ThoseThatWouldWriteOverTheInputOfOthersAreMeasuredOutOfPlaceOnly) {
  EXPECT_EQ(placesOf(Collective::kPutAllGather).size(), 2u);
  EXPECT_EQ(placesOf(Collective::kPutAllToAll).size(), 1u);
  EXPECT_FALSE(placesOf(Collective::kGet).front());
}

}  // namespace
}  // namespace railwise::cli
