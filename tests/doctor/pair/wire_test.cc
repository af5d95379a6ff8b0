// What the ends send each other, and what is refused.
#include "doctor/pair/measuring/wire.h"

#include <gtest/gtest.h>

#include <limits>

#include "ends.h"

namespace railwise::doctor::pair {
namespace {

EndFacts makeFacts() {
  EndFacts facts = test::makeEnd("node1", 3);
  facts.nics[1] = test::makeRoceNic("mlx5_9", 7);
  facts.nics[2].numa = -1;
  facts.nics[1].ece_vendor = 0x15b3;
  facts.nics[1].ece_options = UINT32_MAX;
  facts.nics[2].error = "cannot be opened";
  facts.takes_part = false;
  facts.failure = "none";
  facts.all_reduce = {370.5, "8 NICs"};
  facts.hidden = {"as root: this", "that"};
  return facts;
}

TEST(PairWire, FactsArriveAsTheyWere) {
  const auto read = decodeFacts(encodeFacts(makeFacts()));
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(*read, makeFacts());
}

TEST(PairWire, AddressesArriveAsTheyWere) {
  const std::vector<QueueAddress> addresses = {{}, {true, 0xffffff, 1, 2, UINT64_MAX, 4, {1, 2, 3}, 65535}};
  const auto read = decodeAddresses(encodeAddresses(addresses));
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(*read, addresses);
}

TEST(PairWire, ResultsArriveAsTheyWere) {
  const std::vector<Half> halves = {test::makeHalf(48.25),
                                    {.reach = Reach::kSmallOnly, .wrong_data = true, .error = "lost"}};
  const auto read = decodeHalves(encodeHalves(halves));
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(*read, halves);
}

TEST(PairWire, NcclsModelArrivesAsItWas) {
  const NcclModel model = {461.6, 400.5, {"mlx5_0", "mlx5_1+mlx5_2"}, "2 hosts", "NVLSTree", "The NICs."};
  const auto read = decodeNcclModel(encodeNcclModel(model));
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(*read, model);
}

TEST(PairWire, EveryShorterOrLongerMessageIsRefused) {
  Bytes bytes = encodeFacts(makeFacts());
  for (std::size_t size = 0; size < bytes.size(); ++size)
    EXPECT_FALSE(decodeFacts(std::span(bytes).first(size)).has_value()) << size;
  bytes.push_back(bytes.back());
  EXPECT_FALSE(decodeFacts(bytes).has_value());
}

TEST(PairWire, AnotherMessageIsRefused) {
  const Bytes halves = encodeHalves(std::vector<Half>{test::makeHalf(1)});
  EXPECT_FALSE(decodeFacts(halves).has_value());
  EXPECT_FALSE(decodeAddresses(halves).has_value());
}

TEST(PairWire, NumbersThatAreNoneAreRefused) {
  for (const double number : {-1.0, std::numeric_limits<double>::quiet_NaN(), 1e300}) {
    std::vector<Half> halves = {test::makeHalf(1)};
    halves[0].latency_us = number;
    EXPECT_FALSE(decodeHalves(encodeHalves(halves)).has_value()) << number;
  }
}

TEST(PairWire, TextsArePrintableAndNotTooLong) {
  EndFacts facts = makeFacts();
  facts.host = std::string(1000, 'x');
  facts.failure = "two\nlines \x1b[31m";
  const auto read = decodeFacts(encodeFacts(facts));
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(read->host.size(), kMaxText);
  EXPECT_EQ(read->failure, "two?lines ?[31m");
}

}  // namespace
}  // namespace railwise::doctor::pair
