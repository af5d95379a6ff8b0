// A plan of integers for large messages over several lanes: no clock, no division and no look at the rates
// for each message. Most messages take the plan. The others are cut by the rates (cutShares() in stripe.h)
// and measured: some now and then, and those that come while one lane has fallen behind. When the rates have
// moved, the plan is made anew. Plain values; one thread at a time.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "net/paths/lane.h"
#include "net/paths/stripe.h"

namespace railwise::net {

class StripePlan {
 public:
  static constexpr std::size_t kMostParts = 8;

  // How a message is cut. One cache line.
  struct alignas(64) Row {
    uint8_t parts = 0;
    std::array<uint8_t, kMostParts> lane = {};
    std::array<uint8_t, kMostParts> queue_pair = {};
    std::array<uint32_t, kMostParts> end = {};  // of each part, in 1/65536 of the message

    // Where part `i` of a message of `bytes` ends: on a cache line of the message, or at its end.
    uint32_t endOf(uint32_t i, uint32_t bytes) const {
      const auto at = static_cast<uint32_t>(uint64_t{bytes} * end[i] >> 16);
      return i + 1 < parts ? at & ~(kCutAlignment - 1) : bytes;
    }
  };

  // Messages from least() up to largest() can take the plan. largest() is 0: there is none.
  uint64_t least() const { return even_ ? kStripeBytes : kMinSegmentBytes; }
  uint64_t largest() const { return largest_; }

  // The row of message `number`, which can take the plan. Null: it is to be cut by the rates.
  [[gnu::always_inline]] const Row* take(uint64_t number, uint64_t bytes, std::span<LaneLoad> loads) {
    if (left_ == 0) return nullptr;
    const Row& row = bytes < kStripeBytes ? rows_->alone[number % kTurns][quickest(bytes, loads)]
                                          : rows_->row[classOf(bytes)][number % kRows];
    const bool lags = looks(number, bytes) && lagging(row, bytes, loads);
    if (!lags && --left_ != 0) [[likely]]
      return &row;
    left_ = 0;
    for (LaneLoad& load : loads) load.restart();
    return nullptr;
  }
  // The lanes are being measured, also by messages that took the plan before.
  bool measures() const { return left_ == 0; }
  // A message of at least kMinSegmentBytes was cut by the rates. True: enough of them were, and the shares
  // have moved since the plan was made, so make() is due.
  bool noteMeasured(std::span<const LaneLoad> loads);
  // An epoch begins: the shares are what the rates of its lanes say. Allocates what make() fills.
  void begin(std::span<const LaneLoad> loads);
  // Makes the plan. There is none for less than two lanes or more than kMostParts, and none before the lanes
  // have loads. No part has more than `largest_part` bytes.
  void make(std::span<Lane> lanes, bool even, uint64_t largest_part);

 private:
  // One class for each size from kStripeBytes on, doubled; the last one has no end.
  static constexpr std::size_t kClasses = 5;
  // So many messages of a class in a row are planned together: what one of them leaves out, because it would
  // be too small a part, another one has.
  static constexpr std::size_t kRows = 8;
  // A message of one part has a row for each lane, and so many in a row take the lane's queue pairs in turns.
  static constexpr std::size_t kTurns = 4;
  // So many messages take the first plan of an epoch. A short-lived connection measures nothing.
  static constexpr uint32_t kFirstPlanned = 64;
  // Then so many in a row are measured, and so many take the plan.
  static constexpr uint32_t kMeasured = 8;
  static constexpr uint32_t kPlanned = 1016;
  // A lane lags behind if it owes more than two messages, and more than some time, and so many times what
  // another lane owes: that one has soon nothing to do. NCCL has 4 or 8 messages under way.
  static constexpr uint64_t kMostMessages = 2;
  static constexpr uint64_t kMostBytes = 256 << 10;
  static constexpr uint64_t kMostLag = 4;
  // One message in so many looks for lanes that lag, each row in its turn: a row may have only some lanes. A
  // message from kLookAlways on always looks, since beside its bytes a look is nothing.
  static constexpr uint64_t kLagEvery = 4;
  static constexpr uint64_t kLookAlways = 1 << 20;
  static bool looks(uint64_t number, uint64_t bytes) {
    return (number + number / kRows) % kLagEvery == 0 || bytes >= kLookAlways;
  }
  static constexpr int kWeightShift = 8;
  static constexpr uint64_t kMostWeight = uint64_t{1} << 24;

  // Plans the messages of one class, which begins at `bytes`. Returns the largest share of a part, in
  // 1/65536.
  uint32_t planClass(std::array<Row, kRows>& rows, uint64_t bytes, std::span<Lane> lanes,
                     std::array<LaneLoad, kMostParts> loads) const;
  // What a lane's bytes stand for, in bytes of a whole message.
  uint64_t standsFor(std::size_t lane, uint64_t bytes) const {
    return bytes * weights_[lane] >> kWeightShift;
  }
  // The lane that will be the first to deliver `bytes` more. Equal lanes take turns.
  [[gnu::noinline]] std::size_t quickest(uint64_t bytes, std::span<const LaneLoad> loads) {
    std::size_t lane = turn_;
    turn_ = turn_ + 1 < lanes_ ? turn_ + 1 : 0;
    std::size_t best = lane;
    uint64_t best_end = UINT64_MAX;
    for (std::size_t tries = 0; tries < lanes_; ++tries) {
      const uint64_t end = standsFor(lane, loads[lane].queued() + bytes);
      best = end < best_end ? lane : best;
      best_end = std::min(end, best_end);
      lane = lane + 1 < lanes_ ? lane + 1 : 0;
    }
    return best;
  }
  // One lane of a row has fallen behind.
  bool lagging(const Row& row, uint64_t bytes, std::span<const LaneLoad> loads) const {
    uint64_t least = UINT64_MAX;
    uint64_t most = 0;
    for (std::size_t i = 0; i < row.parts; ++i) {
      const std::size_t lane = row.lane[i];
      const uint64_t owed = standsFor(lane, loads[lane].queued());
      least = std::min(least, owed);
      most = std::max(most, owed);
    }
    return most > std::max(kMostMessages * bytes, kMostBytes) + kMostLag * least;
  }
  static std::size_t classOf(uint64_t bytes) {
    const auto doubled = static_cast<std::size_t>(std::bit_width(bytes / kStripeBytes)) - 1;
    return std::min(doubled, kClasses - 1);
  }
  using PerLane = std::array<double, kMaxLanes>;
  static PerLane sharesOf(std::span<const LaneLoad> loads);

  uint32_t left_ = 0;      // so many messages more may take the plan
  uint32_t measured_ = 0;  // in a row
  uint64_t largest_ = 0;
  // By lane: the bytes of a whole message that the lane's own bytes stand for, in 1 << kWeightShift. 0 for
  // even parts, which do not follow the rates: the slowest lane would always lag behind.
  std::array<uint64_t, kMaxLanes> weights_ = {};
  std::size_t lanes_ = 0;
  PerLane shares_ = {};   // what the lanes deliver of all, as far as it is known; 1 in all
  PerLane planned_ = {};  // these shares when the plan was made
  bool even_ = false;
  std::size_t turn_ = 0;  // the lane that quickest() looks at first
  struct Rows {
    std::array<std::array<Row, kRows>, kClasses> row;
    std::array<std::array<Row, kMostParts>, kTurns> alone;
  };
  std::unique_ptr<Rows> rows_;  // most connections have one lane, and no rows
};

}  // namespace railwise::net
