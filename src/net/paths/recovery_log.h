// What a connection has tried since messages last arrived, and for how long it has had no path to its peer. A
// connection that gives up logs both. And what the log is told while it looks for another path. Plain values,
// one thread at a time, where nothing else is said.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
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

// What the log is told while connections look for another path. A port can take a thousand connections with
// it: so only few lines in a period are warnings, the others are information. This logs a warning, or
// information when this process has logged many such warnings recently. True: a warning. Any thread.
bool logLimited(const std::string& line);

// The search of one connection. One thread at a time. `title`: the connection in words.
class SearchLog {
 public:
  // The connection has lost a path: `what`.
  void lost(const std::string& title, const std::string& what);
  // Ends the search, with a line as loud as the one with which it began. False: nobody was told of a search.
  bool end(const std::string& title, std::string_view how);
  // Another line has told of its end.
  void forget() { told_ = Told::kNothing; }

 private:
  enum class Told : uint8_t { kNothing, kWarning, kInformation };
  Told told_ = Told::kNothing;
};

}  // namespace railwise::net
