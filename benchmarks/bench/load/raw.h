// Bare RDMA writes on the same libibverbs and device as the plugins: what a message cannot cost less than. As
// ib_write_bw and ib_write_lat of perftest do it, but in the same run as the plugins.
#pragma once

#include "benchmarks/bench/load/two_ends.h"

namespace railwise::tools {

// A window of signalled writes, both ends in one thread.
std::unique_ptr<BenchLoad> makeRawWrites(const BenchTask& task);
// The near end writes, the far one does nothing; in a ping-pong each waits for the last byte of a write in
// its memory.
std::unique_ptr<BenchOneEnd> makeRawEnd(const BenchTask& task, const BenchChannel& channel);

}  // namespace railwise::tools
