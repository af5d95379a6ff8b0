#include "perf/algorithm/data.h"

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
    case DataType::kUint8:
      return visitor(uint8_t{});
    case DataType::kInt32:
      return visitor(int32_t{});
    case DataType::kUint32:
      return visitor(uint32_t{});
    case DataType::kInt64:
      return visitor(int64_t{});
    case DataType::kUint64:
      return visitor(uint64_t{});
    case DataType::kHalf:
      return visitor(Half{});
    case DataType::kFloat:
      return visitor(float{});
    case DataType::kDouble:
      return visitor(double{});
    case DataType::kBFloat16:
      return visitor(BFloat16{});
  }
}

template <typename T>
T wrapping(uint64_t value) {
  return static_cast<T>(static_cast<std::make_unsigned_t<T>>(value));
}

// T has every integer of so many bits exactly. Test values need at most 24.
template <typename T>
constexpr int kExactBits = std::is_same_v<T, Half>       ? 11
                           : std::is_same_v<T, BFloat16> ? 8
                                                         : 24;

template <ReduceOp kOp, typename T>
T combine(T a, T b) {
  if constexpr (kOp == ReduceOp::kMax) return std::max(a, b);
  if constexpr (kOp == ReduceOp::kMin) return std::min(a, b);
  if constexpr (std::is_integral_v<T>) {
    const uint64_t wide_a = static_cast<std::make_unsigned_t<T>>(a);
    const uint64_t wide_b = static_cast<std::make_unsigned_t<T>>(b);
    return wrapping<T>(kOp == ReduceOp::kProd ? wide_a * wide_b : wide_a + wide_b);
  } else {
    return kOp == ReduceOp::kProd ? a * b : a + b;
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
    case ReduceOp::kAvg:
      return combine<ReduceOp::kAvg>(a, b);
  }
  return a;
}

template <typename T>
T quotient(T value, int divisor) {
  if constexpr (std::is_signed_v<T> && std::is_integral_v<T>) {
    return static_cast<T>(static_cast<int64_t>(value) / divisor);
  } else if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(static_cast<uint64_t>(value) / static_cast<uint64_t>(divisor));
  } else {
    return value / static_cast<T>(static_cast<float>(divisor));
  }
}

// With more ranks than this, a product of factors from 1/2 to 2 could exceed the exponent range.
template <typename T>
constexpr int kMaxRanksOfPowers = std::is_same_v<T, Half> ? 14 : 100;

// An integer that T holds exactly.
template <typename T>
T exactValue(uint64_t hash) {
  if constexpr (std::is_integral_v<T>) {
    return wrapping<T>(hash);
  } else {
    constexpr int kValues = 1 << kExactBits<T>;
    return static_cast<T>(static_cast<float>(static_cast<int>(hash % kValues) - kValues / 2));
  }
}

// Numbers with few exact bits: a value so small that the sum over the ranks is exact. With many ranks, most
// of them add 0.
template <typename T>
T smallSummand(const ReduceValues& values, uint64_t position, uint64_t own, int rank) {
  constexpr int kMostSummands = 128;
  constexpr int kLargestSum = 1 << kExactBits<T>;
  const int stride = (values.ranks + kMostSummands - 1) / kMostSummands;
  const int summands = (values.ranks + stride - 1) / stride;
  if ((position % static_cast<uint64_t>(stride) + static_cast<uint64_t>(rank)) %
          static_cast<uint64_t>(stride) !=
      0)
    return static_cast<T>(0.0F);
  return static_cast<T>(static_cast<float>(own % static_cast<uint64_t>(kLargestSum / summands + 1)));
}

bool sums(ReduceOp op) { return op == ReduceOp::kSum || op == ReduceOp::kAvg; }

// The value of one rank. For a sum it is base + rank * slope, small enough that float adds 1024 such values
// exactly, so that the expected sum needs no loop over the ranks. Integers wrap around. For a product it is
// odd (integers) or a power of two.
template <typename T>
T inputValue(const ReduceValues& values, int rank, uint64_t index) {
  const uint64_t position = mix(values.salt ^ mix(index));
  const uint64_t own = mix(position + static_cast<uint64_t>(rank) + 1);
  if (sums(values.op)) {
    const auto r = static_cast<uint64_t>(rank);
    if constexpr (std::is_integral_v<T>) return wrapping<T>(position + r * (position >> 32 | 1));
    if constexpr (kExactBits<T> < 24) return smallSummand<T>(values, position, own, rank);
    return static_cast<T>(static_cast<float>((position & 0x7ff) + r * (1 + (position >> 32 & 3))));
  }
  if (values.op == ReduceOp::kProd) {
    if constexpr (std::is_integral_v<T>) {
      return wrapping<T>(own | 1);
    } else {
      const float sign = (own & 4) != 0 ? -1.0F : 1.0F;
      if (values.ranks > kMaxRanksOfPowers<T>) return static_cast<T>(sign);
      constexpr float kFactors[] = {1, 2, 0.5, 1};
      return static_cast<T>(sign * kFactors[own & 3]);
    }
  }
  return exactValue<T>(own);
}

template <typename T>
T combinedValue(const ReduceValues& values, uint64_t index) {
  if constexpr (std::is_integral_v<T> || kExactBits<T> == 24) {
    if (sums(values.op)) {
      const uint64_t position = mix(values.salt ^ mix(index));
      const auto n = static_cast<uint64_t>(values.ranks);
      const uint64_t pairs = n * (n - 1) / 2;
      if constexpr (std::is_integral_v<T>) return wrapping<T>(n * position + pairs * (position >> 32 | 1));
      return static_cast<T>(static_cast<float>(n * (position & 0x7ff) + pairs * (1 + (position >> 32 & 3))));
    }
  }
  T value = inputValue<T>(values, 0, index);
  for (int rank = 1; rank < values.ranks; ++rank)
    value = combineAny(values.op, value, inputValue<T>(values, rank, index));
  return value;
}

template <typename T>
T reducedValue(const ReduceValues& values, uint64_t index) {
  const T value = combinedValue<T>(values, index);
  return values.op == ReduceOp::kAvg ? quotient(value, values.ranks) : value;
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
    using Wide = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
    return std::bit_cast<std::conditional_t<sizeof(T) == 2, uint16_t, Wide>>(value);
  }
}

template <typename T>
std::string valueText(T value) {
  char text[64];
  if constexpr (std::is_unsigned_v<T>) {
    std::snprintf(text, sizeof text, "%llu", static_cast<unsigned long long>(value));
  } else if constexpr (std::is_integral_v<T>) {
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
      case ReduceOp::kAvg:
        return reduceLoop<ReduceOp::kAvg, T>(a, b, out, count);
    }
  });
}

void divide(DataType type, std::byte* values, std::size_t count, int divisor) {
  visitType(type, [&](auto value) {
    using T = decltype(value);
    T* const all = reinterpret_cast<T*>(values);
    for (std::size_t i = 0; i < count; ++i) all[i] = quotient(all[i], divisor);
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
    generate<T>(out, first, [&](uint64_t index) { return exactValue<T>(mix(key ^ mix(index))); });
  });
}

void compare(DataType type, std::span<const std::byte> expected, std::span<const std::byte> got,
             uint64_t first, Wrong& wrong) {
  if (expected.empty() || std::memcmp(expected.data(), got.data(), expected.size()) == 0) return;
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
