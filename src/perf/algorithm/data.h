// The numbers that perf moves: element types, reductions, and test values. The expected result of a test
// value is exact in its type. It depends on rank, position and row (`salt`), so that swapped, stale, lost or
// duplicated data is detected. Pure functions; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace railwise::cli {

enum class DataType {
  kInt8,
  kUint8,
  kInt32,
  kUint32,
  kInt64,
  kUint64,
  kHalf,
  kFloat,
  kDouble,
  kBFloat16,
};
// kAvg adds like kSum; divide() ends it.
enum class ReduceOp { kSum, kProd, kMax, kMin, kAvg };
const char* dataTypeName(DataType type);
const char* reduceOpName(ReduceOp op);
std::size_t elementBytes(DataType type);

// out[i] = a[i] op b[i] for `count` elements. `out` may be `a` or `b`. Integers wrap around.
void reduce(DataType type, ReduceOp op, const std::byte* a, const std::byte* b, std::byte* out,
            std::size_t count);
// Divides `count` elements by `divisor`. Integers are rounded towards 0.
void divide(DataType type, std::byte* values, std::size_t count, int divisor);

// The input values of each rank, and the values of the reduction over all ranks.
struct ReduceValues {
  DataType type = DataType::kFloat;
  ReduceOp op = ReduceOp::kSum;
  int ranks = 1;
  uint64_t salt = 0;
};
// fillInput() writes the input of `rank`, fillReduced() the expected result. Both begin at element `first`.
void fillInput(const ReduceValues& values, int rank, uint64_t first, std::span<std::byte> out);
void fillReduced(const ReduceValues& values, uint64_t first, std::span<std::byte> out);

// Writes the values that `source` sends to `target`, from element `first` of the block on.
void fillMessage(DataType type, uint64_t salt, int source, int target, uint64_t first,
                 std::span<std::byte> out);

struct Wrong {
  uint64_t count = 0;
  // The next fields describe the first wrong element.
  uint64_t index = 0;
  std::string expected;
  std::string got;
};
// Compares bit by bit, and adds the differences to `wrong`. `first` is the index of the first element.
void compare(DataType type, std::span<const std::byte> expected, std::span<const std::byte> got,
             uint64_t first, Wrong& wrong);
// Changes all bits of every element, so that the bytes differ from the result of any correct run.
void poison(std::span<std::byte> bytes);

}  // namespace railwise::cli
