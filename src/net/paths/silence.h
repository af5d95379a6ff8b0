// For how long nothing has completed on a connection that waits. Time counts only while the process polls.
// Plain values; one thread at a time.
#pragma once

#include <algorithm>
#include <optional>
#include <utility>

#include "base/clock.h"
#include "net/patience.h"

namespace railwise::net {

class Silence {
 public:
  // Returns the time since the last look, if it is time to look again; nothing: it is not time yet.
  std::optional<Clock::duration> look(Clock::time_point now) {
    if (now - last_look_ < Patience::kCheck) return std::nullopt;
    return now - std::exchange(last_look_, now);
  }
  // The time until `now` does not count.
  void restart(Clock::time_point now) { last_look_ = now; }

  // Something has completed, or an epoch has begun: the silence ends. `proven`: something has come back in
  // this epoch. So its path works, and the next stall is the first one in a row.
  void end(bool proven) {
    owed_ = idle_ = {};
    hurried_ = false;
    if (proven) forgetStalls();
  }
  void count(Clock::duration since_last_look) { owed_ += std::min(since_last_look, Patience::kLongestStep); }
  // Nothing is under way that the peer's device would answer, so the silence so far is no sign of a failure.
  // True once for each Patience::kAskAfter of such silence: the connection should then ask the peer's device.
  bool idle() {
    idle_ += std::exchange(owed_, {});
    if (idle_ < Patience::kAskAfter) return false;
    idle_ = {};
    return true;
  }
  // For how long the peer's device has owed an answer.
  Clock::duration owed() const { return owed_; }

  // How long an answer may be owed by a path that another path can replace. `transfer`: what the largest
  // message under way may take. `round_trip`: the longest of late, where it is known. A silent path may only
  // have paused, and leaving it costs time, so each stall in a row doubles the limit, up to 16 times the
  // first one. Apart from the transfer the limit is never above patience.longestStall().
  Clock::duration stallLimit(const Patience& patience, Clock::duration transfer,
                             std::optional<Clock::duration> round_trip) const {
    Clock::duration once = Patience::kStall;
    if (round_trip)
      once = std::clamp(*round_trip * Patience::kRoundTrips, Patience::kLeastStall, Patience::kStall);
    if (hurried_) once = std::min(once, Patience::kHurriedStall);
    return doubled(patience, once, transfer);
  }
  // The same limit where neither round trips nor other connections shorten it.
  Clock::duration patientLimit(const Patience& patience, Clock::duration transfer) const {
    return doubled(patience, Patience::kStall, transfer);
  }
  // Another connection over this path has had no answer: this one has been asked, too, and waits less.
  void hurry() { hurried_ = true; }
  void noteStall() { ++stalls_; }
  void forgetStalls() { stalls_ = 0; }

 private:
  Clock::duration doubled(const Patience& patience, Clock::duration once, Clock::duration transfer) const {
    return std::min((once + transfer) * (1 << std::min(stalls_, kMostDoublings)),
                    patience.longestStall() + transfer);
  }

  static constexpr int kMostDoublings = 4;

  Clock::time_point last_look_ = {};
  Clock::duration owed_ = {};
  Clock::duration idle_ = {};
  int stalls_ = 0;  // stalls in a row
  bool hurried_ = false;
};

}  // namespace railwise::net
