// Numbers of 64 bits that stand for states of a search.
#pragma once

#include <cstdint>

namespace railwise::topo {

// Mixes a value into a number: each bit of both changes about half of all bits.
constexpr uint64_t mixed(uint64_t number, uint64_t value) {
  uint64_t bits = (number ^ value) * 0x9E3779B97F4A7C15U;
  bits ^= bits >> 32U;
  bits *= 0xD6E8FEB86659FD93U;
  return bits ^ bits >> 32U;
}

}  // namespace railwise::topo
