#include "net/paths/stripe.h"

#include <algorithm>

namespace railwise::net {
namespace {

constexpr double kMbpsPerBytePerNs = 8000;
// Weight of a new measurement against all before it.
constexpr double kGain = 0.25;
// A measurement counts for at least the last estimate divided by this factor.
constexpr double kMostSlowdown = 4;
// A lane that carried nothing of so many striped messages gets a small segment, to see whether it has
// recovered.
constexpr uint64_t kProbeInterval = 64;

uint64_t alignDown(uint64_t bytes) { return bytes & ~uint64_t{kCutAlignment - 1}; }

}  // namespace

LaneLoad::LaneLoad(int bandwidth_mbps) : bytes_(std::max(bandwidth_mbps, 1) / kMbpsPerBytePerNs) {}

void LaneLoad::measure(uint64_t now_ns) {
  if (!measurable()) return;
  if (busy_since_ns_ != 0 && now_ns > busy_since_ns_) {
    // One pause says little about the future: a lane that paused once would carry nothing for long.
    const double longest_ns = kMostSlowdown * static_cast<double>(finished_) / rate();
    const double time_ns = std::min(static_cast<double>(now_ns - busy_since_ns_), longest_ns);
    if (!measured_) {  // what was known before weighs as much as a measurement of this length
      bytes_ = rate() * time_ns;
      time_ns_ = time_ns;
      measured_ = true;
    }
    bytes_ += (static_cast<double>(finished_) - bytes_) * kGain;
    time_ns_ += (time_ns - time_ns_) * kGain;
    unmeasured_ = 0;
  }
  busy_since_ns_ = now_ns;
  finished_ = 0;
}

std::size_t fastestLane(std::span<const LaneLoad> lanes, uint64_t bytes, std::size_t turn) {
  std::size_t best = turn % lanes.size();
  double best_time = 0;
  for (std::size_t i = 0; i < lanes.size(); ++i) {
    const std::size_t lane = (turn + i) % lanes.size();
    const double time = static_cast<double>(lanes[lane].queued() + bytes) / lanes[lane].rate();
    if (i == 0 || time < best_time) {
      best = lane;
      best_time = time;
    }
  }
  return best;
}

// All lanes are filled so that they finish at the same time T. A lane whose queue alone takes longer than T
// gets nothing, and the others share without it.
Shares cutShares(std::span<const LaneLoad> lanes, uint64_t bytes, std::size_t turn, bool even) {
  const std::size_t count = lanes.size();
  std::array<bool, kMaxLanes> used = {};
  std::array<double, kMaxLanes> share = {};
  std::fill_n(used.begin(), count, true);
  const auto total = static_cast<double>(bytes);
  for (bool settled = false; !settled;) {
    settled = true;
    double queued = 0;
    double rate = 0;
    std::size_t left = 0;
    for (std::size_t i = 0; i < count; ++i) {
      if (!used[i]) continue;
      ++left;
      queued += static_cast<double>(lanes[i].queued());
      rate += lanes[i].rate();
    }
    const double finish = (total + queued) / rate;
    std::size_t smallest = count;
    for (std::size_t i = 0; i < count; ++i) {
      if (!used[i]) continue;
      share[i] = even ? total / static_cast<double>(left)
                      : lanes[i].rate() * finish - static_cast<double>(lanes[i].queued());
      if (smallest == count || share[i] < share[smallest]) smallest = i;
    }
    if (left > 1 && share[smallest] < static_cast<double>(kMinSegmentBytes)) {
      used[smallest] = false;
      share[smallest] = 0;
      settled = false;
    }
  }
  for (std::size_t i = 0; i < count && !even; ++i) {
    if (used[i] || lanes[i].unmeasured() < kProbeInterval || lanes[i].queued() > 0) continue;
    share[i] = static_cast<double>(kMinSegmentBytes);
  }

  Shares shares;
  uint64_t rest = bytes;
  for (std::size_t i = 0; i < count && rest > 0; ++i) {
    const std::size_t lane = (turn + i) % count;
    if (share[lane] < 1) continue;
    const uint64_t segment =
        std::min(alignDown(static_cast<uint64_t>(share[lane]) + kCutAlignment - 1), rest);
    shares.share[static_cast<std::size_t>(shares.count++)] = {static_cast<uint8_t>(lane), segment};
    rest -= segment;
  }
  if (shares.count == 0) {
    shares.share[0] = {static_cast<uint8_t>(fastestLane(lanes, bytes, turn)), 0};
    shares.count = 1;
  }
  shares.share[static_cast<std::size_t>(shares.count - 1)].bytes += rest;
  return shares;
}

}  // namespace railwise::net
