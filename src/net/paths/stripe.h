// How a message is spread over the lanes of a connection: by what each lane delivers and what it still has to
// deliver, so that all lanes finish at the same time. Pure functions and plain values; one thread at a time
// per LaneLoad.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>

#include "net/limits.h"

namespace railwise::net {

// The smallest segment. Less is not worth a second lane, which costs a work request, an immediate and two
// completions.
inline constexpr uint64_t kMinSegmentBytes = 16 << 10;
// A group from this size on is spread over lanes. With RAILWISE_SPLIT=even every group is, as far as each
// segment has kMinSegmentBytes.
inline constexpr uint64_t kStripeBytes = 4 * kMinSegmentBytes;
// Only segments from this size on are measured: below it latency, not bytes, takes the time.
inline constexpr uint64_t kMeasuredSegmentBytes =
    kMinSegmentBytes - kCutAlignment;  // cutShares() rounds down

// One lane's load as the sender sees it. Times are in nanoseconds of one clock.
class LaneLoad {
 public:
  // `bandwidth_mbps`: the bandwidth before anything was measured; at least 1.
  explicit LaneLoad(int bandwidth_mbps = 1);

  // Estimated bytes per nanosecond: the mean of the measured bytes over the mean of the measured times. A
  // mean of rates would be wrong: when one completion is found late, the next one seems to have taken no
  // time, and its enormous rate outweighs all others.
  double rate() const { return bytes_ / time_ns_; }
  // What was measured, Mb/s; 0: nothing yet.
  uint32_t measuredMbps() const {
    return measured_ ? static_cast<uint32_t>(std::min(rate() * 8000, double{UINT32_MAX})) : 0;
  }
  // Bytes posted and not yet completed.
  uint64_t queued() const { return queued_; }
  // Number of groups that were spread since this lane was last measured.
  uint64_t unmeasured() const { return unmeasured_; }

  // `now_ns`: when the posting of the whole message began; 0 for a message that is too small to measure.
  void posted(uint64_t bytes, uint64_t now_ns) {
    if (queued_ == 0) {
      busy_since_ns_ = now_ns;
      finished_ = 0;
    }
    queued_ += bytes;
  }
  void completed(uint64_t bytes) {
    queued_ -= bytes;
    if (bytes >= kMeasuredSegmentBytes) finished_ += bytes;
  }
  bool measurable() const { return finished_ >= kMeasuredSegmentBytes; }
  // Call it after all completions of one poll. Does nothing unless measurable(). `now_ns` is the same for all
  // lanes: a caller that polls late then finds all lanes equally fast for their shares, and does not favour
  // the lane that it polled first.
  void measure(uint64_t now_ns);
  void skipped() { ++unmeasured_; }
  // Measurement begins with the next call of measure(). What has completed before does not count.
  void restart() { busy_since_ns_ = finished_ = 0; }

 private:
  double bytes_;  // mean of the measured bytes
  double time_ns_ = 1;
  uint64_t queued_ = 0;
  uint64_t busy_since_ns_ = 0;  // begin of the next measurement's time
  uint64_t finished_ = 0;       // bytes completed since busy_since_ns_
  uint64_t unmeasured_ = 0;
  bool measured_ = false;
};

// The lane that would be the first to finish `bytes` more. `turn` decides among equals.
std::size_t fastestLane(std::span<const LaneLoad> lanes, uint64_t bytes, std::size_t turn);

struct Share {
  uint8_t lane;
  uint64_t bytes;
};

struct Shares {
  std::array<Share, kMaxLanes> share;
  int count = 0;
};

// Cuts `bytes` into shares so that all lanes finish at the same time as far as possible. All shares but the
// last are multiples of kCutAlignment, and each has at least kMinSegmentBytes if there is that much. `even`:
// equal shares for all lanes instead, as net_ib cuts.
Shares cutShares(std::span<const LaneLoad> lanes, uint64_t bytes, std::size_t turn, bool even);

}  // namespace railwise::net
