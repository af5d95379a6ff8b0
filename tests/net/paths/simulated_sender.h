// A sender as NCCL's proxy thread is one, over lanes in simulated time.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <random>
#include <utility>
#include <vector>

#include "net/paths/stripe.h"
#include "net/paths/stripe_plan.h"

namespace railwise::net {

inline constexpr uint64_t kMessage = 16 << 20;

// Up to kWindow messages are under way. It looks at irregular times, some of them late. Lanes deliver in
// order, each message a little faster or slower than they do on average.
class SimulatedSender {
 public:
  explicit SimulatedSender(std::vector<double> bytes_per_ns, std::size_t bytes = kMessage)
      : bytes_(bytes), speeds_(std::move(bytes_per_ns)) {
    for (const double speed : speeds_) {
      lanes_.emplace_back(static_cast<int>(8000 * speed));
      ends_.emplace_back();
    }
  }

  void becomes(std::size_t lane, double bytes_per_ns) { speeds_[lane] = bytes_per_ns; }
  void pauses(std::size_t lane, double ns) { free_at_[lane] = std::max(free_at_[lane], now_) + ns; }

  // Messages take a plan from now on, as far as it carries them.
  void plan() {
    planned_ = true;
    plan_.begin(lanes_);
    makePlan();
  }
  // How many messages were cut by the rates.
  int cutByRates() const { return cut_by_rates_; }

  // Bytes per nanosecond over `messages` more.
  double send(int messages, bool even = false) {
    const double begin = now_;
    for (const int last = completed_ + messages; completed_ < last; look()) {
      if (posted_ - completed_ < kWindow) post(even);
    }
    return static_cast<double>(messages) * static_cast<double>(bytes_) / (now_ - begin);
  }

 private:
  static constexpr int kWindow = 8;
  static constexpr double kLookNs = 2000;
  static constexpr double kLatestLookNs = 300000;  // every 20th comes up to so much too late
  static constexpr double kUnsteadiness = 0.2;

  void makePlan() {
    std::vector<Lane> lanes(lanes_.size());
    for (std::size_t i = 0; i < lanes.size(); ++i) lanes[i] = {0, 1, {static_cast<uint8_t>(i)}};
    plan_.make(lanes, false, UINT32_MAX);
  }

  void post(bool even) {
    const StripePlan::Row* const row =
        planned_ ? plan_.take(static_cast<uint64_t>(posted_), bytes_, lanes_) : nullptr;
    if (row != nullptr) {
      uint32_t begin = 0;
      unfinished_[posted_ % kWindow] = row->parts;
      for (uint32_t part = 0; part < row->parts; ++part) {
        const uint32_t end = row->endOf(part, static_cast<uint32_t>(bytes_));
        postPart(row->lane[part], end - begin, 0);
        begin = end;
      }
    } else {
      const Shares shares = cutShares(lanes_, bytes_, static_cast<std::size_t>(posted_), even);
      for (LaneLoad& lane : lanes_) lane.skipped();
      unfinished_[posted_ % kWindow] = shares.count;
      for (int i = 0; i < shares.count; ++i) {
        const Share& share = shares.share[static_cast<std::size_t>(i)];
        postPart(share.lane, share.bytes, static_cast<uint64_t>(now_));
      }
      ++cut_by_rates_;
      if (planned_ && plan_.noteMeasured(lanes_)) makePlan();
    }
    ++posted_;
  }

  // `measured_since`: 0 if it is not measured.
  void postPart(std::size_t lane, uint64_t bytes, uint64_t measured_since) {
    lanes_[lane].posted(bytes, measured_since);
    const double time = static_cast<double>(bytes) / speeds_[lane];
    double& free_at = free_at_[lane];
    free_at = std::max(free_at, now_) + time * (1 + kUnsteadiness * (2 * uniform_(random_) - 1));
    ends_[lane].push_back({posted_, bytes, free_at, measured_since != 0});
  }

  void look() {
    now_ += 2 * kLookNs * uniform_(random_) + (random_() % 20 == 0 ? kLatestLookNs * uniform_(random_) : 0);
    bool measures = planned_ && plan_.measures();
    for (std::size_t lane = 0; lane < lanes_.size(); ++lane) {
      for (; !ends_[lane].empty() && ends_[lane].front().at <= now_; ends_[lane].pop_front()) {
        lanes_[lane].completed(ends_[lane].front().bytes);
        measures = measures || ends_[lane].front().measured;
        --unfinished_[ends_[lane].front().message % kWindow];
      }
    }
    for (LaneLoad& lane : lanes_) {
      if (measures) lane.measure(static_cast<uint64_t>(now_));
    }
    while (completed_ < posted_ && unfinished_[completed_ % kWindow] == 0) ++completed_;
  }

  struct End {
    int message;
    uint64_t bytes;
    double at;
    bool measured;
  };
  const std::size_t bytes_;  // of each message
  std::vector<double> speeds_;
  std::vector<LaneLoad> lanes_;
  std::vector<std::deque<End>> ends_;
  std::array<double, kMaxLanes> free_at_ = {};
  std::array<int, kWindow> unfinished_ = {};
  StripePlan plan_;
  bool planned_ = false;
  int cut_by_rates_ = 0;
  int posted_ = 0;
  int completed_ = 0;
  double now_ = 1000;
  std::mt19937_64 random_{1};
  std::uniform_real_distribution<double> uniform_{0, 1};
};

}  // namespace railwise::net
