// The clocks of the device, in nanoseconds of CLOCK_MONOTONIC, which all processes of a machine share.
// Thread-safe.
#pragma once

#include <cstdint>

namespace railwise::softdev {

uint64_t monotonicNs();
// Some 5 ns to read, and right to some milliseconds: for looks that need not be exact.
int64_t coarseNs();

}  // namespace railwise::softdev
