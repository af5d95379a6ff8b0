// One message at a time, to and fro, as ib_write_lat sends it. One thread at each end.
#pragma once

#include <vector>

#include "benchmarks/bench/load/load.h"

namespace railwise::tools {

// Half of each time to and fro.
BenchRan::Latency latencyOf(std::vector<uint64_t> round_trips_ns);

// `rounds` messages each way. `round_trips_ns`: at the end that sends first; null: this is the other one,
// which answers. Receives are posted ahead, and anew only behind the send, so that no clear-to-send is waited
// for. False: failed; an end says why, or nothing moved.
bool pingPong(BenchSender& sender, BenchReceiver& receiver, uint64_t rounds,
              std::vector<uint64_t>* round_trips_ns);

}  // namespace railwise::tools
