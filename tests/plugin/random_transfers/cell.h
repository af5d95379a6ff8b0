// The matrix of the random transfers: a cell is one combination of API version, link, rails and modes.
// Versions 6 to 10 share a context that lives as long as the process, so each cell is run by a process of its
// own. On real devices (test_device.h) the matrix is what they are: their link, as many rails as there are,
// none of the software device's modes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace railwise::test {

struct Cell {
  int version = 12;         // 6 to 12
  std::string link = "ib";  // ib, roce, iwarp
  int rails = 1;            // of the device; more than one through makeVDevice
  bool unequal = false;     // the speeds of the rails differ
  bool engine = false;
  bool adversarial = false;
  int queue_pairs = 1;  // NCCL_IB_QPS_PER_CONNECTION
  bool split = false;   // NCCL_IB_SPLIT_DATA_ON_QPS
};

// All cells: versions 6 to 8 have one rail, 9 to 11 up to four, 12 up to eight. On real devices those of them
// that the machine can be.
std::vector<Cell> matrix();
// The matrix in an order in which any first part has every value of every property about equally often.
std::vector<Cell> balanced(uint64_t seed);

// "v12/roce/8/unequal/engine/adversarial/qps3/split"; parseCell() reads it again.
std::string cellName(const Cell& cell);
std::optional<Cell> parseCell(const std::string& name);

// What a cell's process sets before init: the device, the cell's settings, and by chance others that change
// the way of a message (pacing, limits of the device, how queue pairs are connected ...). Answers it as text,
// "NAME=value NAME=value", for the report of a failure.
std::string setEnvironment(const Cell& cell, uint64_t seed);

}  // namespace railwise::test
