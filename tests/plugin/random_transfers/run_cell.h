// One cell of the matrix, run in a process of its own.
#pragma once

#include <cstdint>

#include "plugin/random_transfers/cell.h"
#include "plugin/random_transfers/flow.h"

namespace railwise::test {

// Sends and checks `messages` over two or three connections in both directions. What was wrong is printed
// with what shows it again. `counts`: what was done.
bool runCell(const Cell& cell, uint64_t seed, uint64_t messages, Counts& counts);

}  // namespace railwise::test
