#include "perf/collective/data.h"

#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstring>
#include <type_traits>

namespace railwise::cli {
namespace {

// SplitMix64's finaliser: every bit of the result depends on every bit of the argument.
constexpr uint64_t mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

template <typename Visitor>
void visitType(DataType type, Visitor&& visitor) {
  switch (type) {
    case DataType::kInt8:
      return visitor(int8_t{});
    case DataType::kInt32:
      return visitor(int32_t{});
    case DataType::kInt64:
      return visitor(int64_t{});
    case DataType::kFloat:
      return visitor(float{});
    case DataType::kDouble:
      return visitor(double{});
  }
}

template <typename T>
T wrapping(uint64_t value) {
  return static_cast<T>(static_cast<std::make_unsigned_t<T>>(value));
}

template <ReduceOp kOp, typename T>
T combine(T a, T b) {
  if constexpr (kOp == ReduceOp::kMax) return std::max(a, b);
  if constexpr (kOp == ReduceOp::kMin) return std::min(a, b);
  if constexpr (std::is_integral_v<T>) {
    const uint64_t wide_a = static_cast<std::make_unsigned_t<T>>(a);
    const uint64_t wide_b = static_cast<std::make_unsigned_t<T>>(b);
    return wrapping<T>(kOp == ReduceOp::kSum ? wide_a + wide_b : wide_a * wide_b);
  } else {
    return kOp == ReduceOp::kSum ? a + b : a * b;
  }
}

template <ReduceOp kOp, typename T>
void reduceLoop(const std::byte* a, const std::byte* b, std::byte* out, std::size_t count) {
  const T* const from_a = reinterpret_cast<const T*>(a);
  const T* const from_b = reinterpret_cast<const T*>(b);
  T* const to = reinterpret_cast<T*>(out);
  for (std::size_t i = 0; i < count; ++i) to[i] = combine<kOp, T>(from_a[i], from_b[i]);
}

template <typename T>
T combineAny(ReduceOp op, T a, T b) {
  switch (op) {
    case ReduceOp::kSum:
      return combine<ReduceOp::kSum>(a, b);
    case ReduceOp::kProd:
      return combine<ReduceOp::kProd>(a, b);
    case ReduceOp::kMax:
      return combine<ReduceOp::kMax>(a, b);
    case ReduceOp::kMin:
      return combine<ReduceOp::kMin>(a, b);
  }
  return a;
}

// With more ranks than this, a product of factors from 1/2 to 2 could exceed the exponent range of float.
constexpr int kMaxRanksOfPowers = 100;

// The value of one rank. For a sum it is base + rank * slope, small enough that float adds 1024 such values
// exactly, so that the expected sum needs no loop over the ranks. Integers wrap around. For a product it is
// odd (integers) or a power of two.
template <typename T>
T inputValue(const ReduceValues& values, int rank, uint64_t index) {
  const uint64_t position = mix(values.salt ^ mix(index));
  const uint64_t own = mix(position + static_cast<uint64_t>(rank) + 1);
  if (values.op == ReduceOp::kSum) {
    const auto r = static_cast<uint64_t>(rank);
    if constexpr (std::is_integral_v<T>) return wrapping<T>(position + r * (position >> 32 | 1));
    return static_cast<T>((position & 0x7ff) + r * (1 + (position >> 32 & 3)));
  }
  if (values.op == ReduceOp::kProd) {
    if constexpr (std::is_integral_v<T>) {
      return wrapping<T>(own | 1);
    } else {
      const T sign = (own & 4) != 0 ? T{-1} : T{1};
      if (values.ranks > kMaxRanksOfPowers) return sign;
      constexpr T kFactors[] = {T{1}, T{2}, T{0.5}, T{1}};
      return sign * kFactors[own & 3];
    }
  }
  if constexpr (std::is_integral_v<T>) return wrapping<T>(own);
  return static_cast<T>(static_cast<int32_t>(own & 0xffffff) - 0x800000);
}

template <typename T>
T reducedValue(const ReduceValues& values, uint64_t index) {
  if (values.op == ReduceOp::kSum) {
    const uint64_t position = mix(values.salt ^ mix(index));
    const auto n = static_cast<uint64_t>(values.ranks);
    const uint64_t pairs = n * (n - 1) / 2;
    if constexpr (std::is_integral_v<T>) return wrapping<T>(n * position + pairs * (position >> 32 | 1));
    return static_cast<T>(n * (position & 0x7ff) + pairs * (1 + (position >> 32 & 3)));
  }
  T value = inputValue<T>(values, 0, index);
  for (int rank = 1; rank < values.ranks; ++rank)
    value = combineAny(values.op, value, inputValue<T>(values, rank, index));
  return value;
}

template <typename T>
T messageValue(uint64_t key, uint64_t index) {
  const uint64_t hash = mix(key ^ mix(index));
  if constexpr (std::is_integral_v<T>) return wrapping<T>(hash);
  return static_cast<T>(static_cast<int32_t>(hash & 0xffffff) - 0x800000);
}

template <typename T, typename Generator>
void generate(std::span<std::byte> out, uint64_t first, Generator&& generator) {
  const std::size_t count = out.size() / sizeof(T);
  T* const to = reinterpret_cast<T*>(out.data());
  for (std::size_t i = 0; i < count; ++i) to[i] = generator(first + i);
}

// Floats are compared by their bits, so that neither a NaN of poison() nor -0 instead of 0 counts as correct.
template <typename T>
auto bitsOf(T value) {
  if constexpr (std::is_integral_v<T>) {
    return value;
  } else {
    return std::bit_cast<std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>>(value);
  }
}

template <typename T>
std::string valueText(T value) {
  char text[64];
  if constexpr (std::is_integral_v<T>) {
    std::snprintf(text, sizeof text, "%lld", static_cast<long long>(value));
  } else {
    std::snprintf(text, sizeof text, "%.17g", static_cast<double>(value));
  }
  return text;
}

}  // namespace

std::size_t elementBytes(DataType type) {
  std::size_t bytes = 0;
  visitType(type, [&](auto value) { bytes = sizeof value; });
  return bytes;
}

void reduce(DataType type, ReduceOp op, const std::byte* a, const std::byte* b, std::byte* out,
            std::size_t count) {
  visitType(type, [&](auto value) {
    using T = decltype(value);
    switch (op) {
      case ReduceOp::kSum:
        return reduceLoop<ReduceOp::kSum, T>(a, b, out, count);
      case ReduceOp::kProd:
        return reduceLoop<ReduceOp::kProd, T>(a, b, out, count);
      case ReduceOp::kMax:
        return reduceLoop<ReduceOp::kMax, T>(a, b, out, count);
      case ReduceOp::kMin:
        return reduceLoop<ReduceOp::kMin, T>(a, b, out, count);
    }
  });
}

void fillInput(const ReduceValues& values, int rank, uint64_t first, std::span<std::byte> out) {
  visitType(values.type, [&](auto value) {
    using T = decltype(value);
    generate<T>(out, first, [&](uint64_t index) { return inputValue<T>(values, rank, index); });
  });
}

void fillReduced(const ReduceValues& values, uint64_t first, std::span<std::byte> out) {
  visitType(values.type, [&](auto value) {
    using T = decltype(value);
    generate<T>(out, first, [&](uint64_t index) { return reducedValue<T>(values, index); });
  });
}

void fillMessage(DataType type, uint64_t salt, int source, int target, uint64_t first,
                 std::span<std::byte> out) {
  const uint64_t key = mix(salt + (static_cast<uint64_t>(source) << 32 | static_cast<uint32_t>(target)));
  visitType(type, [&](auto value) {
    using T = decltype(value);
    generate<T>(out, first, [&](uint64_t index) { return messageValue<T>(key, index); });
  });
}

void compare(DataType type, std::span<const std::byte> expected, std::span<const std::byte> got,
             uint64_t first, Wrong& wrong) {
  if (std::memcmp(expected.data(), got.data(), expected.size()) == 0) return;
  visitType(type, [&](auto value) {
    using T = decltype(value);
    for (std::size_t i = 0; i < expected.size() / sizeof(T); ++i) {
      T expected_value;
      T got_value;
      std::memcpy(&expected_value, expected.data() + i * sizeof(T), sizeof(T));
      std::memcpy(&got_value, got.data() + i * sizeof(T), sizeof(T));
      if (bitsOf(expected_value) == bitsOf(got_value)) continue;
      if (wrong.count++ > 0) continue;
      wrong.index = first + i;
      wrong.expected = valueText(expected_value);
      wrong.got = valueText(got_value);
    }
  });
}

void poison(std::span<std::byte> bytes) {
  for (std::byte& byte : bytes) byte = ~byte;
}

}  // namespace railwise::cli
