// The numbers that perf moves: element types, reductions, and values whose expected result is exact in the
// type and depends on rank, position and row (`salt`), so that a swapped, stale, lost or doubled piece is
// caught. Pure functions; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace railwise::tools {

enum class DataType { kInt8, kInt32, kInt64, kFloat, kDouble };
enum class ReduceOp { kSum, kProd, kMax, kMin };
const char* dataTypeName(DataType type);
const char* reduceOpName(ReduceOp op);
std::size_t elementBytes(DataType type);

// out[i] = a[i] op b[i] for `count` elements; `out` may be `a` or `b`. Integers wrap.
void reduce(DataType type, ReduceOp op, const std::byte* a, const std::byte* b, std::byte* out,
            std::size_t count);

// What rank `rank` of `ranks` puts in, and what the reduction over all ranks is.
struct ReduceValues {
  DataType type = DataType::kFloat;
  ReduceOp op = ReduceOp::kSum;
  int ranks = 1;
  uint64_t salt = 0;
};
// Elements `first`... of the input of `rank`.
void fillInput(const ReduceValues& values, int rank, uint64_t first, std::span<std::byte> out);
void fillReduced(const ReduceValues& values, uint64_t first, std::span<std::byte> out);

// What `source` sends to `target`, elements `first`... of the block.
void fillMessage(DataType type, uint64_t salt, int source, int target, uint64_t first,
                 std::span<std::byte> out);

struct Wrong {
  uint64_t count = 0;
  // Of the first wrong element:
  uint64_t index = 0;
  std::string expected;
  std::string got;
};
// Compares bit by bit and adds to `wrong`; `first` is the index of the first element.
void compare(DataType type, std::span<const std::byte> expected, std::span<const std::byte> got,
             uint64_t first, Wrong& wrong);
// Turns every element into one that differs from it in all bits: what no correct run leaves behind.
void poison(std::span<std::byte> bytes);

}  // namespace railwise::tools
