#include "net/paths/stripe_plan.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace railwise::net {
namespace {

// A few measured messages say little, because lanes are unsteady: they count a quarter, unless some lane's
// share has changed by more than that.
constexpr double kShareGain = 0.25;
// The plan is made anew when a share has moved by so much of itself.
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
  left_ = kPlanned;
  const PerLane now = sharesOf(loads);
  double most = 0;  // of what a lane's share has changed by
  for (std::size_t lane = 0; lane < lanes_; ++lane)
    most = std::max(most, std::abs(now[lane] / shares_[lane] - 1));
  const double gain = most > kShareGain ? 1 : kShareGain;
  for (std::size_t lane = 0; lane < lanes_; ++lane) shares_[lane] += (now[lane] - shares_[lane]) * gain;
  return most * gain > kShareMoved;
}

void StripePlan::begin(std::span<const LaneLoad> loads) {
  lanes_ = loads.size();
  shares_ = sharesOf(loads);
  left_ = kFirstPlanned;
  measured_ = 0;
}

void StripePlan::make(std::span<Lane> lanes, bool even, uint64_t largest_part) {
  largest_ = turn_ = 0;
  even_ = even;
  if (lanes.size() < 2 || lanes.size() > kMostParts || lanes_ != lanes.size()) return;
  if (rows_ == nullptr) rows_ = std::make_unique<Rows>();
  std::vector<LaneLoad> idle;
  for (std::size_t lane = 0; lane < lanes_; ++lane) {
    constexpr double kAll = 1 << 30;
    idle.emplace_back(static_cast<int>(shares_[lane] * kAll));
    const double weight = (1 << kWeightShift) / shares_[lane];
    weights_[lane] = static_cast<uint64_t>(std::min(weight, static_cast<double>(kMostWeight)));
  }
  uint32_t widest = 1;  // of the last class
  for (std::size_t size = 0; size < kClasses; ++size) {
    const uint64_t bytes = kStripeBytes << size;
    std::vector<LaneLoad> planned = idle;  // with what the rows before have given to the lanes
    widest = 1;
    for (std::size_t turn = 0; turn < kRows; ++turn) {
      const Shares shares = cutShares(planned, bytes, turn, even);
      Row& row = rows_->row[size][turn];
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
        planned[share.lane].posted(share.bytes, 0);
      }
    }
  }
  for (auto& turn : rows_->alone) {
    for (uint8_t lane = 0; lane < lanes_; ++lane)
      turn[lane] = {.parts = 1, .lane = {lane}, .queue_pair = {lanes[lane].takeTurn()}};
  }
  // A part may be larger than its share by what the cuts of its neighbours are rounded.
  if (largest_part > kStripeBytes) largest_ = ((largest_part - kCutAlignment) << 16) / widest;
}

}  // namespace railwise::net
