#include "net/paths/stripe_plan.h"

#include <algorithm>
#include <cmath>

namespace railwise::net {
namespace {

// A few measured messages say little, because lanes are unsteady: they count a quarter, unless some lane's
// share has changed by more than that.
constexpr double kShareGain = 0.25;
// A lane's share that has moved by this part of itself since the last plan leads to a new plan.
constexpr double kShareMoved = 1.0 / 64;

}  // namespace

StripePlan::PerLane StripePlan::sharesOf(std::span<const LaneLoad> loads) {
  double all = 0;
  for (const LaneLoad& load : loads) all += load.rate();
  PerLane shares = {};
  for (std::size_t lane = 0; lane < loads.size(); ++lane) shares[lane] = loads[lane].rate() / all;
  return shares;
}

bool StripePlan::noteMeasured(std::span<const LaneLoad> loads) {
  if (++measured_ < kMeasured) return false;
  measured_ = 0;
  if (left_ == 0) left_ = kPlanned + 1;
  const PerLane now = sharesOf(loads);
  double most = 0;  // of what a lane's share has changed by
  for (std::size_t lane = 0; lane < lanes_; ++lane)
    most = std::max(most, std::abs(now[lane] / shares_[lane] - 1));
  const double gain = most > kShareGain ? 1 : kShareGain;
  bool moved = false;
  for (std::size_t lane = 0; lane < lanes_; ++lane) {
    shares_[lane] += (now[lane] - shares_[lane]) * gain;
    moved = moved || std::abs(shares_[lane] / planned_[lane] - 1) > kShareMoved;
  }
  return moved && !even_;
}

void StripePlan::begin(std::span<const LaneLoad> loads) {
  lanes_ = loads.size();
  shares_ = sharesOf(loads);
  left_ = kFirstPlanned + 1;
  measured_ = 0;
  if (lanes_ > 1 && lanes_ <= kMostParts && rows_ == nullptr) rows_ = std::make_unique<Rows>();
}

void StripePlan::make(std::span<Lane> lanes, bool even, uint64_t largest_part) {
  largest_ = turn_ = 0;
  even_ = even;
  planned_ = shares_;
  if (lanes.size() < 2 || lanes.size() > kMostParts || lanes_ != lanes.size()) return;
  if (largest_part < kStripeBytes) return;  // a smaller message is one part
  std::array<LaneLoad, kMostParts> idle;
  for (std::size_t lane = 0; lane < lanes_; ++lane) {
    constexpr double kAll = 1 << 30;
    idle[lane] = LaneLoad(static_cast<int>(shares_[lane] * kAll));
    const double weight = (1 << kWeightShift) / shares_[lane];
    weights_[lane] = even ? 0 : static_cast<uint64_t>(std::min(weight, static_cast<double>(kMostWeight)));
  }
  for (std::size_t size = 0; size < kClasses; ++size) {
    const uint64_t bytes = kStripeBytes << size;
    const uint32_t widest = planClass(rows_->row[size], bytes, lanes, idle);
    // A part may be larger than its share by what the cut before it is rounded down.
    largest_ = ((largest_part - kCutAlignment) << 16) / widest;
    if (largest_ < 2 * bytes) break;  // larger classes have no smaller parts
  }
  for (auto& turn : rows_->alone) {
    for (uint8_t lane = 0; lane < lanes_; ++lane)
      turn[lane] = {.parts = 1, .lane = {lane}, .queue_pair = {lanes[lane].takeTurn()}};
  }
}

uint32_t StripePlan::planClass(std::array<Row, kRows>& rows, uint64_t bytes, std::span<Lane> lanes,
                               std::array<LaneLoad, kMostParts> loads) const {
  uint32_t widest = 1;
  for (std::size_t turn = 0; turn < kRows; ++turn) {
    const Shares shares = cutShares(std::span(loads).first(lanes_), bytes, turn, even_);
    Row& row = rows[turn];
    row.parts = static_cast<uint8_t>(shares.count);
    uint64_t sum = 0;
    for (std::size_t i = 0; i < row.parts; ++i) {
      const Share& share = shares.share[i];
      const auto begin = static_cast<uint32_t>((sum << 16) / bytes);
      sum += share.bytes;
      row.lane[i] = share.lane;
      row.queue_pair[i] = lanes[share.lane].takeTurn();
      row.end[i] = static_cast<uint32_t>((sum << 16) / bytes);
      widest = std::max(widest, row.end[i] - begin);
      loads[share.lane].posted(share.bytes, 0);  // the rows behind give it less
    }
  }
  return widest;
}

}  // namespace railwise::net
