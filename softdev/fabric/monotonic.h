// The clocks of the device, in nanoseconds of CLOCK_MONOTONIC, which all processes of a machine share.
// Thread-safe.
#pragma once

#include <cstdint>

namespace railwise::softdev {

uint64_t monotonicNs();
// Takes about 5 ns to read and is right to a few milliseconds. For checks that need no exact time.
int64_t coarseNs();

}  // namespace railwise::softdev
