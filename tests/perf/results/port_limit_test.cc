#include <gtest/gtest.h>

#include "perf/results/report.h"

namespace railwise::cli {
namespace {

// A rank on a host, with its devices of 100 Gb/s.
struct Seat {
  std::string host;
  std::vector<PortUse> ports;
};
Seat makeSeat(const std::string& host, const std::vector<std::string>& devices, PortSpeed holds,
              int speed_mbps = 100'000) {
  Seat seat{host, {}};
  for (const std::string& device : devices) seat.ports.push_back({device, speed_mbps, holds});
  return seat;
}

std::optional<PortLimit> limitOf(Collective collective, const std::vector<Seat>& seats, int channels,
                                 int root = 0) {
  std::vector<RankPorts> ranks;
  for (const Seat& seat : seats) ranks.push_back({&seat.host, &seat.ports});
  return portLimit(collective, root, ranks, channels);
}

constexpr auto kHardware = PortSpeed::kBetweenHosts;

TEST(PortLimit, ChannelsShareTheBusBandwidth) {
  const std::vector<Seat> seats = {makeSeat("a", {"n0", "n1"}, kHardware),
                                   makeSeat("b", {"n0", "n1"}, kHardware)};
  const auto two = limitOf(Collective::kAllReduce, seats, 2);
  ASSERT_TRUE(two);
  EXPECT_DOUBLE_EQ(two->gbytes, 25);
  EXPECT_DOUBLE_EQ(two->port_gbytes, 12.5);
  EXPECT_EQ(two->port, "n0 of a");
  EXPECT_DOUBLE_EQ(limitOf(Collective::kSendRecv, seats, 3)->gbytes, 12.5 * 3 / 2) << "n0 has two of three";
}

TEST(PortLimit, TheSlowestPortFillsFirst) {
  const auto limit = limitOf(Collective::kAllReduce,
                             {makeSeat("a", {"n0"}, kHardware), makeSeat("b", {"n0"}, kHardware, 40'000)}, 1);
  ASSERT_TRUE(limit);
  EXPECT_DOUBLE_EQ(limit->gbytes, 5);
  EXPECT_EQ(limit->port, "n0 of b");
}

// Of the ring a0 a1 b0 b1 only a1 and b1 send to another host, and only b0 and a0 receive from one.
TEST(PortLimit, HardwareCountsWhatLeavesTheHost) {
  const std::vector<Seat> seats = {makeSeat("a", {"n0"}, kHardware), makeSeat("a", {"n0"}, kHardware),
                                   makeSeat("b", {"n0"}, kHardware), makeSeat("b", {"n0"}, kHardware)};
  EXPECT_DOUBLE_EQ(limitOf(Collective::kAllReduce, seats, 1)->gbytes, 12.5);
  // Two of three peers are elsewhere, and two ranks share a port.
  EXPECT_DOUBLE_EQ(limitOf(Collective::kAllToAll, seats, 1)->gbytes, 12.5 * 3 / 4);
}

TEST(PortLimit, TheRootsPortFillsFirstInPointToPoint) {
  const std::vector<Seat> seats = {makeSeat("a", {"n0"}, kHardware), makeSeat("b", {"n0"}, kHardware),
                                   makeSeat("c", {"n0"}, kHardware)};
  for (const Collective collective :
       {Collective::kGather, Collective::kScatter, Collective::kBroadcast, Collective::kReduce,
        Collective::kAllGather, Collective::kReduceScatter})
    EXPECT_DOUBLE_EQ(limitOf(collective, seats, 1)->gbytes, 12.5) << collectiveName(collective);
  EXPECT_EQ(limitOf(Collective::kGather, seats, 1, 2)->port, "n0 of c");
}

TEST(PortLimit, OnOneHostOnlyPacedPortsLimit) {
  const auto on = [](PortSpeed holds) {
    return limitOf(Collective::kAllReduce, {makeSeat("a", {"n0"}, holds), makeSeat("a", {"n0"}, holds)}, 1);
  };
  EXPECT_FALSE(on(PortSpeed::kBetweenHosts));
  EXPECT_FALSE(on(PortSpeed::kClaimed));
  EXPECT_DOUBLE_EQ(on(PortSpeed::kAlways)->gbytes, 12.5 / 2) << "both ranks send through the port";
}

TEST(PortLimit, APortThatOnlyClaimsASpeedTellsNothing) {
  EXPECT_FALSE(limitOf(Collective::kAllReduce,
                       {makeSeat("a", {"n0"}, kHardware), makeSeat("b", {"n0"}, PortSpeed::kClaimed)}, 1));
  EXPECT_FALSE(limitOf(Collective::kAllReduce,
                       {makeSeat("a", {"n0"}, kHardware, 0), makeSeat("b", {"n0"}, kHardware, 0)}, 1));
}

TEST(PortLimit, NothingWithoutAPeer) {
  EXPECT_FALSE(limitOf(Collective::kAllReduce, {makeSeat("a", {"n0"}, PortSpeed::kAlways)}, 1));
  EXPECT_FALSE(
      limitOf(Collective::kAllToAll, {makeSeat("a", {}, kHardware), makeSeat("b", {}, kHardware)}, 1));
}

}  // namespace
}  // namespace railwise::cli
