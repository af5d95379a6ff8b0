// What connections tell each other of the paths that they share: which has fallen silent (PathNews, of one
// device), and how long a round trip takes (RoundTrips). Any thread.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>

#include "base/clock.h"

namespace railwise::net {

class PathNews {
 public:
  // A path has fallen silent. `path` stands for a port of this device and one of a peer.
  void suspect(uint64_t path) {
    const std::lock_guard lock(mutex_);
    const uint64_t number = suspicions_.load(std::memory_order_relaxed);
    latest_[number % latest_.size()] = path;
    suspicions_.store(number + 1, std::memory_order_release);
  }
  // Counts the suspicions. A changed number means: look again. Cheap.
  uint64_t suspicions() const { return suspicions_.load(std::memory_order_acquire); }
  // Has `path` been suspected since the count was `since`? Of more than 16 suspicions all paths may be.
  bool suspectedSince(uint64_t since, uint64_t path) const {
    const std::lock_guard lock(mutex_);
    const uint64_t now = suspicions_.load(std::memory_order_relaxed);
    if (now - since > latest_.size()) return true;
    for (uint64_t number = since; number < now; ++number) {
      if (latest_[number % latest_.size()] == path) return true;
    }
    return false;
  }

 private:
  mutable std::mutex mutex_;  // guards latest_
  std::array<uint64_t, 16> latest_ = {};
  std::atomic<uint64_t> suspicions_{0};
};

// How long round trips take, over all paths of the process.
class RoundTrips {
 public:
  static RoundTrips& ofProcess() {
    static RoundTrips it;
    return it;
  }

  // A message took so long from its post to its completion.
  void note(std::chrono::nanoseconds time) {
    const auto its = static_cast<uint64_t>(std::max<int64_t>(time.count(), 0));
    const uint64_t longest = longest_ns_.load(std::memory_order_relaxed);
    // The longest of some 64: an older one is forgotten little by little. Of two that are noted at once, one
    // may get lost.
    longest_ns_.store(std::max(its, longest - longest / 64), std::memory_order_relaxed);
    known_.fetch_add(1, std::memory_order_relaxed);
  }
  // The longest of late. Nothing: too few are known.
  std::optional<Clock::duration> longest() const {
    if (known_.load(std::memory_order_relaxed) < kEnough) return std::nullopt;
    return std::chrono::nanoseconds(longest_ns_.load(std::memory_order_relaxed));
  }

 private:
  static constexpr uint64_t kEnough = 16;
  std::atomic<uint64_t> longest_ns_{0};
  std::atomic<uint64_t> known_{0};
};

}  // namespace railwise::net
