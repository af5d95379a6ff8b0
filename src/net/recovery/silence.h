// For how long nothing has completed on a connection that waits. Time counts only while the process polls.
// Plain values; one thread at a time.
#pragma once

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "base/clock.h"

namespace railwise::net {

// One step of time counts as at most this, because a process that was stopped for a while did not poll
// meanwhile.
inline constexpr Clock::duration kLongestStep = std::chrono::milliseconds(100);

class Silence {
 public:
  // The pause between two checks of the peer.
  static constexpr Clock::duration kInterval = std::chrono::milliseconds(20);
  // Silence after which the connection asks the peer's device. It is far longer than a pause between
  // messages, so it costs little.
  static constexpr Clock::duration kAskAfter = std::chrono::seconds(1);

  // Returns the time since the last look, if it is time to look again; nothing: it is not time yet.
  std::optional<Clock::duration> look(Clock::time_point now) {
    if (now - last_look_ < kInterval) return std::nullopt;
    return now - std::exchange(last_look_, now);
  }
  // The time until `now` does not count.
  void restart(Clock::time_point now) { last_look_ = now; }

  // Something has completed: the silence ends.
  void end() {
    owed_ = idle_ = {};
    hurried_ = false;
  }
  void count(Clock::duration since_last_look) { owed_ += std::min(since_last_look, kLongestStep); }
  // Nothing is under way that the peer's device would answer, so the silence so far is no sign of a failure.
  // True once for each kAskAfter of such silence: the connection should then ask the peer's device.
  bool idle() {
    idle_ += std::exchange(owed_, {});
    if (idle_ < kAskAfter) return false;
    idle_ = {};
    return true;
  }
  // For how long the peer's device has owed an answer.
  Clock::duration owed() const { return owed_; }

  // How long an answer may be owed by a path that another path can replace. `transfer`: what the largest
  // message under way may take. `round_trip`: the longest of late, where it is known. A healthy path answers
  // in microseconds. But a silent path may only have paused, and leaving it costs time, so each stall in a
  // row doubles the limit, up to 16 times the first one.
  Clock::duration stallLimit(Clock::duration transfer, std::optional<Clock::duration> round_trip) const {
    Clock::duration patience = kStall;
    if (round_trip) patience = std::clamp(*round_trip * kRoundTrips, kLeastStall, kStall);
    if (hurried_) patience = std::min(patience, kHurriedStall);
    return doubled(patience + transfer);
  }
  // The same where nothing shortens it.
  Clock::duration patientLimit(Clock::duration transfer) const { return doubled(kStall + transfer); }
  // Another connection over this path has had no answer: this one has been asked, too, and waits less.
  void hurry() { hurried_ = true; }
  void noteStall() { ++stalls_; }
  void forgetStalls() { stalls_ = 0; }

 private:
  Clock::duration doubled(Clock::duration once) const {
    return once * (1 << std::min(stalls_, kMostDoublings));
  }

  static constexpr Clock::duration kStall = std::chrono::seconds(1);
  // Where the longest round trip is known: so many of them, but no pause of a switch (PFC) or of this
  // process.
  static constexpr int kRoundTrips = 64;
  static constexpr Clock::duration kLeastStall = std::chrono::milliseconds(200);
  static constexpr Clock::duration kHurriedStall = std::chrono::milliseconds(100);
  static constexpr int kMostDoublings = 4;

  Clock::time_point last_look_ = {};
  Clock::duration owed_ = {};
  Clock::duration idle_ = {};
  int stalls_ = 0;  // stalls in a row
  bool hurried_ = false;
};

}  // namespace railwise::net
