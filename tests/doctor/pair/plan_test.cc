// Who meets whom, and which NICs.
#include "doctor/pair/measuring/plan.h"

#include <gtest/gtest.h>

#include <set>
#include <utility>

#include "ends.h"

namespace railwise::doctor::pair {
namespace {

constexpr int kSubnetBits = 24;

TEST(Tournament, EveryHostMeetsEveryOtherOnceAndNobodyTwiceInARound) {
  for (std::size_t hosts = 2; hosts <= 9; ++hosts) {
    std::vector<std::size_t> ends;
    for (std::size_t i = 0; i < hosts; ++i) ends.push_back(i * 3);
    const auto rounds = tournament(ends);
    EXPECT_EQ(rounds.size(), hosts % 2 == 0 ? hosts - 1 : hosts);
    std::set<std::pair<std::size_t, std::size_t>> met;
    for (const auto& round : rounds) {
      std::set<std::size_t> busy;
      for (const Match& match : round) {
        EXPECT_LT(match[0], match[1]);
        EXPECT_TRUE(met.insert({match[0], match[1]}).second);
        EXPECT_TRUE(busy.insert(match[0]).second && busy.insert(match[1]).second);
      }
    }
    EXPECT_EQ(met.size(), hosts * (hosts - 1) / 2);
  }
}

TEST(Tournament, OneHostMeetsNobody) {
  EXPECT_TRUE(tournament({}).empty());
  for (const auto& round : tournament({4})) EXPECT_TRUE(round.empty());
}

TEST(PairNics, RailsAtEqualPlacesArePairs) {
  const auto pairs = pairNics(test::makeEnd("A", 3), test::makeEnd("B", 3), false, kSubnetBits);
  ASSERT_EQ(pairs.size(), 3U);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(pairs[i].nics[0], i);
    EXPECT_EQ(pairs[i].nics[1], i);
    EXPECT_EQ(pairs[i].obstacle, Obstacle::kNone);
  }
}

TEST(PairNics, FullIsEveryNicWithEveryNic) {
  EXPECT_EQ(pairNics(test::makeEnd("A", 3), test::makeEnd("B", 2), true, kSubnetBits).size(), 6U);
}

TEST(PairNics, NicsThatAreTooManyShareAPartner) {
  const auto pairs = pairNics(test::makeEnd("A", 3), test::makeEnd("B", 1), false, kSubnetBits);
  ASSERT_EQ(pairs.size(), 3U);
  EXPECT_EQ(pairs[2].nics[1], 0U);
  EXPECT_TRUE(pairNics(test::makeEnd("A", 3), test::makeEnd("B", 0), false, kSubnetBits).empty());
}

TEST(PairNics, ANicOfAnotherLinkGetsThePartnerThatItReaches) {
  EndFacts a = test::makeEnd("A", 2);
  EndFacts b = test::makeEnd("B", 2);
  a.nics[0] = test::makeRoceNic("roce", 1);  // A: RoCE, InfiniBand; B: InfiniBand, RoCE
  b.nics[1] = test::makeRoceNic("roce", 2);
  const auto pairs = pairNics(a, b, false, kSubnetBits);
  ASSERT_EQ(pairs.size(), 2U);
  EXPECT_EQ(pairs[0].nics[1], 1U);
  EXPECT_EQ(pairs[1].nics[1], 0U);
  EXPECT_EQ(pairs[0].obstacle, Obstacle::kNone);
}

TEST(PairNics, SpareNicsGoToTheLeastUsedPartners) {
  const auto pairs = pairNics(test::makeEnd("A", 4), test::makeEnd("B", 2), false, kSubnetBits);
  ASSERT_EQ(pairs.size(), 4U);
  EXPECT_EQ(pairs[2].nics[1], 0U);
  EXPECT_EQ(pairs[3].nics[1], 1U);
}

TEST(PairNics, TheSameNameComesBeforeTheSamePlace) {
  EndFacts b = test::makeEnd("B", 3);
  std::swap(b.nics[0], b.nics[2]);
  const auto pairs = pairNics(test::makeEnd("A", 3), b, false, kSubnetBits);
  ASSERT_EQ(pairs.size(), 3U);
  EXPECT_EQ(pairs[0].nics[1], 2U);
  EXPECT_EQ(pairs[2].nics[1], 0U);
}

TEST(PairNics, TheSameSubnetComesBeforeTheSamePlace) {
  EndFacts a = test::makeEnd("A", 2);
  EndFacts b = test::makeEnd("B", 2);
  a.nics = {test::makeRoceNic("a0", 1), test::makeRoceNic("a1", 2)};
  b.nics = {test::makeRoceNic("b0", 3), test::makeRoceNic("b1", 4)};
  a.nics[0].gids[0].value.raw[14] = b.nics[1].gids[0].value.raw[14] = 7;  // 10.0.7.x
  const auto pairs = pairNics(a, b, false, kSubnetBits);
  ASSERT_EQ(pairs.size(), 2U);
  EXPECT_EQ(pairs[0].nics[1], 1U);
  EXPECT_EQ(pairs[1].nics[1], 0U);
}

TEST(PairNics, AnExtraNicOfAnotherLinkOrOneThatIsDownIsInNoPair) {
  EndFacts a = test::makeEnd("A", 1);
  a.nics.push_back(test::makeRoceNic("storage", 1));
  EXPECT_EQ(pairNics(a, test::makeEnd("B", 1), false, kSubnetBits).size(), 1U);
  EXPECT_EQ(pairNics(test::makeEnd("B", 1), a, true, kSubnetBits).size(), 1U);
  a.nics[1] = test::makeNic("unplugged");
  a.nics[1].active = false;
  EXPECT_EQ(pairNics(a, test::makeEnd("B", 1), false, kSubnetBits).size(), 1U);
}

TEST(PairNics, APortThatIsDownKeepsThePartnerOfItsName) {
  EndFacts a = test::makeEnd("A", 3);
  a.nics[0].active = false;
  const auto pairs = pairNics(a, test::makeEnd("B", 2), false, kSubnetBits);
  ASSERT_EQ(pairs.size(), 3U);
  EXPECT_EQ(pairs[0].nics[1], 0U);
  EXPECT_EQ(pairs[0].obstacle, Obstacle::kPortDown);
}

TEST(PairNics, HostsThatShareNoLinkHaveAnObstacleNotNothing) {
  EndFacts b = test::makeEnd("B", 2);
  b.nics = {test::makeRoceNic("a", 1), test::makeRoceNic("b", 2)};
  const auto pairs = pairNics(test::makeEnd("A", 1), b, false, kSubnetBits);
  ASSERT_EQ(pairs.size(), 1U);
  EXPECT_EQ(pairs[0].obstacle, Obstacle::kLinkKind);
}

TEST(PairNics, NicsWithoutReliableConnectionsAreInNoPair) {
  EndFacts a = test::makeEnd("A", 2);
  EndFacts b = test::makeEnd("B", 2);
  a.nics[1].link = b.nics[1].link = LinkKind::kOther;  // EFA
  for (const bool full : {false, true}) EXPECT_EQ(pairNics(a, b, full, kSubnetBits).size(), 1U);
}

Obstacle obstacleBetween(const NicFacts& first, const NicFacts& second) {
  EndFacts a;
  EndFacts b;
  a.nics.push_back(first);
  b.nics.push_back(second);
  return pairNics(a, b, false, kSubnetBits).at(0).obstacle;
}

TEST(PairNics, SaysWhyAPairIsNotMeasured) {
  const NicFacts good = test::makeNic("mlx5_0");
  NicFacts down = good;
  down.active = false;
  NicFacts closed = good;
  closed.error = "cannot be opened";
  NicFacts iwarp = good;
  iwarp.link = LinkKind::kIwarp;
  EXPECT_EQ(obstacleBetween(good, down), Obstacle::kPortDown);
  EXPECT_EQ(obstacleBetween(down, down), Obstacle::kBothDown);
  EXPECT_EQ(obstacleBetween(closed, good), Obstacle::kNotOpened);
  EXPECT_EQ(obstacleBetween(iwarp, iwarp), Obstacle::kNone);
  EXPECT_EQ(obstacleBetween(iwarp, good), Obstacle::kLinkKind);
  EXPECT_EQ(obstacleBetween(good, test::makeRoceNic("roce", 1)), Obstacle::kLinkKind);
  EXPECT_EQ(obstacleBetween(test::makeRoceNic("a", 1, 1), test::makeRoceNic("b", 2, 2)), Obstacle::kNoGids);
}

TEST(PairNics, ChoosesTheGidsThatReachEachOther) {
  EndFacts a = test::makeEnd("A", 1);
  EndFacts b = test::makeEnd("B", 1);
  a.nics[0] = test::makeRoceNic("a", 1, 1, 2);
  a.nics[0].gids.push_back(test::makeRoceNic("a", 1, 2, 3).gids[0]);
  b.nics[0] = test::makeRoceNic("b", 2, 2, 3);
  const NicPair pair = pairNics(a, b, false, kSubnetBits).at(0);
  EXPECT_EQ(pair.obstacle, Obstacle::kNone);
  EXPECT_EQ(pair.gids[0], 1U);
  EXPECT_EQ(pair.gids[1], 0U);
}

TEST(AcrossRails, EachNicMeetsTheNextRailOfItsLinkOnce) {
  EndFacts a = test::makeEnd("A", 3);
  a.nics.push_back(test::makeRoceNic("storage", 1));
  EndFacts b = a;
  b.host = "B";
  const auto across = acrossRails(a, b, pairNics(a, b, false, 24), 24);
  std::vector<std::array<std::size_t, 2>> nics;
  for (const NicPair& pair : across) nics.push_back(pair.nics);
  EXPECT_EQ(nics, (std::vector<std::array<std::size_t, 2>>{{0, 1}, {1, 2}, {2, 0}}));
}

TEST(AcrossRails, OneRailHasNoOther) {
  const EndFacts a = test::makeEnd("A", 1);
  EXPECT_TRUE(acrossRails(a, a, pairNics(a, a, false, 24), 24).empty());
}

TEST(AcrossRails, AddressesThatNeverReachEachOtherAreAResult) {
  EndFacts a = test::makeEnd("A", 0);
  a.nics = {test::makeRoceNic("mlx5_0", 1), test::makeRoceNic("mlx5_1", 2)};
  a.nics[1].gids[0].value.raw[0] = 0x20;  // IPv6 on this rail alone
  const auto across = acrossRails(a, a, pairNics(a, a, false, 24), 24);
  ASSERT_EQ(across.size(), 2U);
  EXPECT_EQ(across[0].obstacle, Obstacle::kNoGids);
}

}  // namespace
}  // namespace railwise::doctor::pair
