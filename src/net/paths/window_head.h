// The begin of a window that the other end reads, to see whether a path works: in a trial, and on iWARP as
// the proof that something has arrived. Nobody writes there while the window is used.
#pragma once

#include <cstdint>

namespace railwise::net {

struct alignas(64) WindowHead {
  uint64_t mark;
};
inline constexpr uint64_t kWindowMark = 0x4b52414d;  // any value except 0

}  // namespace railwise::net
