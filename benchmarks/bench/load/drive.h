// Moves messages over connections in the order that a pattern defines. One thread.
#pragma once

#include <deque>
#include <string>

#include "benchmarks/bench/load/traffic.h"

namespace railwise::cli {

// Both ends of each connection, or only one end of each; then the deque of the other end is empty.
struct BenchConnections {
  std::deque<BenchSender> senders;
  std::deque<BenchReceiver> receivers;

  void verify(bool on);
  // The error of the first end that has one; empty: no end has failed.
  std::string error() const;
};

// Moves `messages` messages on each connection.
Outcome<void> moveMessages(BenchConnections& connections, const BenchShape& shape, uint64_t messages);

}  // namespace railwise::cli
