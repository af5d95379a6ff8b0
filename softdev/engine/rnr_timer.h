// How long a sender waits if the receiver is not ready.
#pragma once

#include <cstdint>

#include "base/clock.h"

namespace railwise::softdev {

// The value of rnr_retry that means: retry for ever.
constexpr int kForeverRnr = 7;

// Indexed by the code of min_rnr_timer; in units of 10 us (InfiniBand specification, table 45).
constexpr uint32_t kRnrTimer10us[32] = {65536, 1,    2,    3,    4,    6,     8,     12,    16,    24,   32,
                                        48,    64,   96,   128,  192,  256,   384,   512,   768,   1024, 1536,
                                        2048,  3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152};

inline Clock::duration rnrTimer(uint32_t code) {
  return std::chrono::microseconds(10) * kRnrTimer10us[code & 31];
}

}  // namespace railwise::softdev
