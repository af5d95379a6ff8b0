// Moves messages over connections in the order that a pattern asks for. One thread.
#pragma once

#include <deque>
#include <string>

#include "benchmarks/bench/load/traffic.h"

namespace railwise::tools {

// Both ends of each connection, or one end of each: the other deque is empty then.
struct BenchConnections {
  std::deque<BenchSender> senders;
  std::deque<BenchReceiver> receivers;

  void verify(bool on);
  // What an end says; empty: none has failed.
  std::string error() const;
};

// `messages` on each connection. False: `error` says why.
bool moveMessages(BenchConnections& connections, const BenchShape& shape, uint64_t messages,
                  std::string* error);

}  // namespace railwise::tools
