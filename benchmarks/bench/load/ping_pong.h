// Sends one message at a time, back and forth, as ib_write_lat does. One thread at each end.
#pragma once

#include <vector>

#include "benchmarks/bench/load/load.h"

namespace railwise::cli {

// The one-way latency: half of each round-trip time.
BenchRan::Latency latencyOf(std::vector<uint64_t> round_trips_ns);

// Moves `rounds` messages in each direction. `round_trips_ns` receives the times at the end that sends first;
// null: this is the other end, which answers. Receives are posted ahead, and new ones are posted only after
// the send, so that no message waits for a clear-to-send. False: an end has failed (see its error()), or
// nothing has moved for too long.
bool pingPong(BenchSender& sender, BenchReceiver& receiver, uint64_t rounds,
              std::vector<uint64_t>* round_trips_ns);

}  // namespace railwise::cli
