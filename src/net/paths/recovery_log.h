// What a connection has tried since messages last arrived, and for how long it has had no path to its peer. A
// connection that gives up logs both. Plain values; one thread at a time.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/clock.h"

namespace railwise::net {

class RecoveryLog {
 public:
  // The connection left its queue pairs at `now`, for this reason.
  void leave(const std::string& reason, Clock::time_point now) {
    reason_ = reason;
    last_step_ = now;
  }
  // The next epoch could not begin, for this reason.
  void refuse(const std::string& reason) {
    reason_ = reason;
    noteTried(reason);
  }
  // Queue pairs are in use again.
  void resume() { reason_.clear(); }
  // Why the connection has no queue pairs; "" while it has some.
  const std::string& reason() const { return reason_; }

  // A path that failed, and how. The last eight are kept.
  void noteTried(const std::string& attempt);
  // All messages up to `number` have arrived, so a path works or has worked: earlier failures and lost time
  // do not count any more. `keep_last`: the newest failure came after the arrival.
  void noteArrived(uint64_t number, bool keep_last);
  // "[mlx5_0 port 1 -> mlx5_1 port 1: its port is down] [...]"; "" when nothing was tried.
  std::string attempts() const;

  // Counts the time since the last call, or since leave(), as time without a path, if `counts`.
  void step(Clock::time_point now, bool counts);
  void addLostTime(Clock::duration time);
  Clock::duration lostTime() const { return lost_time_; }

  // The peer's device has refused access to memory, after `arrived` messages. True: that happened too often
  // in a row. Another path does not help: a peer that refuses access to memory refuses it on every path.
  bool refusedTooOften(uint64_t arrived);

 private:
  std::string reason_;
  std::vector<std::string> tried_;
  uint64_t arrived_ = 0;
  Clock::duration lost_time_ = {};
  Clock::time_point last_step_ = {};
  uint64_t refused_at_ = 0;  // number of messages that had arrived at the last refusal
  int refusals_ = 0;         // refusals in a row, without an arrival between them
};

}  // namespace railwise::net
