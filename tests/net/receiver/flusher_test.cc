// Through which rails a flush goes after its epoch has ended.
#include "net/receiver/flusher.h"

#include <gtest/gtest.h>

namespace railwise::net {
namespace {

Rail railOf(uint8_t port) {
  Rail rail = {};
  rail.port.number = port;
  return rail;
}

std::vector<int> earlierPorts(const FlushRails& rails, uint64_t number, uint16_t of_this_epoch = 0) {
  Receive receive;
  receive.number = number;
  receive.rails = of_this_epoch;
  std::vector<int> ports;
  for (const Rail& rail : rails.earlierOf(&receive)) ports.push_back(rail.port.number);
  return ports;
}

TEST(FlushRails, AnEarlierReceiveIsFlushedThroughTheRailsOfAllEarlierEpochs) {
  FlushRails rails;
  EXPECT_TRUE(earlierPorts(rails, 1).empty());
  rails.keep(std::vector<Rail>{railOf(1), railOf(2)}, 10);
  rails.keep(std::vector<Rail>{railOf(2), railOf(3)}, 12);
  EXPECT_EQ(earlierPorts(rails, 12), (std::vector<int>{1, 2, 3}));
  EXPECT_TRUE(earlierPorts(rails, 13).empty()) << "it came in this epoch";
  EXPECT_TRUE(earlierPorts(rails, 12, 1).empty()) << "its rails are known";
  EXPECT_TRUE(rails.earlierOf(nullptr).empty());
}

TEST(FlushRails, AnEpochWithoutRailsLeavesThoseBefore) {
  FlushRails rails;
  rails.keep(std::vector<Rail>{railOf(1)}, 10);
  rails.keep({}, 10);
  EXPECT_EQ(earlierPorts(rails, 10), std::vector<int>{1});
}

TEST(FlushRails, AreForgottenWithTheLastReceiveThatTheyCanHaveWritten) {
  FlushRails rails;
  rails.keep(std::vector<Rail>{railOf(1)}, 10);
  rails.keep(std::vector<Rail>{railOf(2)}, 10 + kOutstandingReceives);
  EXPECT_EQ(earlierPorts(rails, 11), (std::vector<int>{1, 2}));
  rails.keep(std::vector<Rail>{railOf(3)}, 11 + 2 * kOutstandingReceives);
  EXPECT_EQ(earlierPorts(rails, 50), std::vector<int>{3});
}

}  // namespace
}  // namespace railwise::net
