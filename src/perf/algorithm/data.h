// The numbers that perf moves: element types, reductions, and test values. The expected result of a test
// value is exact in its type. It depends on rank, position and row (`salt`), so that swapped, stale, lost or
// duplicated data is detected. Pure functions; any thread.
#pragma once

#include <bit>
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

// Floating-point numbers of 16 bits: IEEE half precision and bfloat16. They calculate in float, and round to
// the nearest, to even in the middle. Plain values.

class Half {
 public:
  constexpr Half() = default;
  constexpr Half(float value) : bits_(rounded(value)) {}  // NOLINT: implicit, like the built-in types
  constexpr operator float() const {                      // NOLINT
    constexpr uint32_t kExponent = 0x7c00;
    const uint32_t sign = uint32_t{bits_} << 16 & kSign;
    const uint32_t exponent = bits_ & kExponent;
    const uint32_t fraction = bits_ & 0x3ff;
    if (exponent == 0) {
      const float subnormal = static_cast<float>(fraction) * 0x1p-24F;
      return sign != 0 ? -subnormal : subnormal;
    }
    const uint32_t rebased = exponent == kExponent ? 0xff : (exponent >> 10) + kRebase;
    return std::bit_cast<float>(sign | rebased << 23 | fraction << 13);
  }

 private:
  static constexpr uint32_t kSign = 0x8000'0000;
  static constexpr uint32_t kRebase = 127 - 15;

  static constexpr uint16_t rounded(float value) {
    const auto bits = std::bit_cast<uint32_t>(value);
    const uint32_t sign = (bits & kSign) >> 16;
    const uint32_t size = bits & ~kSign;
    if (size > 0x7f80'0000) return static_cast<uint16_t>(sign | 0x7e00);  // NaN
    if (size >= std::bit_cast<uint32_t>(0x1p16F)) return static_cast<uint16_t>(sign | 0x7c00);
    if (size < std::bit_cast<uint32_t>(0x1p-14F)) {
      // The last bit of 0.5 as a float is the last bit of a subnormal half.
      const float shifted = std::bit_cast<float>(size) + 0.5F;
      return static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(shifted) - std::bit_cast<uint32_t>(0.5F)));
    }
    const uint32_t up = 0xfff + (size >> 13 & 1);
    return static_cast<uint16_t>(sign | (size - (kRebase << 23) + up) >> 13);
  }

  uint16_t bits_ = 0;
};

class BFloat16 {
 public:
  constexpr BFloat16() = default;
  constexpr BFloat16(float value) : bits_(rounded(value)) {}                                // NOLINT
  constexpr operator float() const { return std::bit_cast<float>(uint32_t{bits_} << 16); }  // NOLINT

 private:
  static constexpr uint16_t rounded(float value) {
    const auto bits = std::bit_cast<uint32_t>(value);
    if ((bits & 0x7fff'ffff) > 0x7f80'0000) return static_cast<uint16_t>(bits >> 16 | 0x40);  // NaN
    return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
  }

  uint16_t bits_ = 0;
};

}  // namespace railwise::cli
