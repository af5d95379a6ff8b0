// One cell of the matrix, run in a process of its own.
#pragma once

#include <cstdint>

#include "plugin/random_transfers/cell.h"
#include "plugin/random_transfers/flow.h"

namespace railwise::test {

// Of what: messages in all, over two or three connections in both directions, and bytes of one at most.
struct Load {
  uint64_t messages = 0;
  uint64_t largest = kMaxMessage;
};

// Sends and checks. What was wrong is printed with what shows it again. `counts`: what was done. On real
// devices what remains in the kernel afterwards counts too.
bool runCell(const Cell& cell, uint64_t seed, const Load& load, Counts& counts);

}  // namespace railwise::test
