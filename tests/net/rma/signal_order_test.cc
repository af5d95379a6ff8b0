#include "net/rma/signal_order.h"

#include <gtest/gtest.h>

#include <vector>

namespace railwise::net {
namespace {

Report signalOf(uint64_t number, uint32_t owed = 0) {
  return {.number = number, .value = number, .owed = owed, .kind = Report::Kind::kSignal};
}
Report markOf(uint64_t number) { return {.number = number, .kind = Report::Kind::kMark}; }

// The numbers of the signals that can be applied now.
std::vector<uint64_t> applied(SignalOrder& order) {
  std::vector<uint64_t> numbers;
  const auto one = [&](const Report& report, uint8_t, uint32_t) {
    numbers.push_back(report.number);
    return true;
  };
  while (order.applyNext(one)) {
  }
  return numbers;
}

using Numbers = std::vector<uint64_t>;

TEST(SignalOrder, SignalsComeInTheirOrder) {
  SignalOrder order;
  EXPECT_EQ(order.take(signalOf(2), 0), "");
  EXPECT_EQ(applied(order), Numbers());
  EXPECT_EQ(order.take(signalOf(1), 0), "");
  EXPECT_EQ(applied(order), (Numbers{1, 2}));
}

TEST(SignalOrder, ASignalWaitsForTheMarksThatAreOwed) {
  SignalOrder order;
  EXPECT_EQ(order.take(signalOf(1, 0b110), 0), "");
  EXPECT_EQ(order.take(markOf(1), 2), "");
  EXPECT_EQ(applied(order), Numbers());
  EXPECT_EQ(order.take(markOf(1), 1), "");
  EXPECT_EQ(applied(order), Numbers{1});
}

// Its data come again over other queue pairs, and the mark behind them.
TEST(SignalOrder, MarksOfAnOldEpochDoNotCount) {
  SignalOrder order;
  EXPECT_EQ(order.take(markOf(1), 1), "");
  order.forget();
  EXPECT_EQ(order.take(signalOf(1, 0b10), 0), "");
  EXPECT_EQ(applied(order), Numbers());
  EXPECT_EQ(order.take(markOf(1), 1), "");
  EXPECT_EQ(applied(order), Numbers{1});
}

TEST(SignalOrder, WhatIsAppliedStaysApplied) {
  SignalOrder order;
  EXPECT_EQ(order.take(signalOf(1), 0), "");
  EXPECT_EQ(order.take(signalOf(3), 0), "");
  EXPECT_EQ(applied(order), Numbers{1});
  order.forget();
  EXPECT_EQ(order.applied(), 1U);
  EXPECT_EQ(order.latest(), 1U);
  EXPECT_NE(order.take(signalOf(1), 0), "");
}

TEST(SignalOrder, NothingComesTwiceOrFromTooFar) {
  SignalOrder order;
  EXPECT_EQ(order.take(signalOf(1, 2), 0), "");
  EXPECT_NE(order.take(signalOf(1, 2), 0), "");
  EXPECT_EQ(order.take(markOf(2), 1), "");
  EXPECT_NE(order.take(markOf(2), 1), "");
  EXPECT_NE(order.take(signalOf(0), 0), "");
  EXPECT_EQ(order.take(signalOf(kOpenSignals), 0), "");
  EXPECT_NE(order.take(signalOf(kOpenSignals + 1), 0), "");
}

}  // namespace
}  // namespace railwise::net
