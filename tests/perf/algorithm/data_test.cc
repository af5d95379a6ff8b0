#include "perf/algorithm/data.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace railwise::cli {
namespace {

constexpr DataType kTypes[] = {DataType::kInt8,   DataType::kUint8,   DataType::kInt32, DataType::kUint32,
                               DataType::kInt64,  DataType::kUint64,  DataType::kHalf,  DataType::kFloat,
                               DataType::kDouble, DataType::kBFloat16};
constexpr ReduceOp kOps[] = {ReduceOp::kSum, ReduceOp::kProd, ReduceOp::kMax, ReduceOp::kMin, ReduceOp::kAvg};

using Bytes = std::vector<std::byte>;

Bytes inputOf(const ReduceValues& values, int rank, std::size_t count) {
  Bytes bytes(count * elementBytes(values.type));
  fillInput(values, rank, 0, bytes);
  return bytes;
}
Bytes reducedOf(const ReduceValues& values, std::size_t count) {
  Bytes bytes(count * elementBytes(values.type));
  fillReduced(values, 0, bytes);
  return bytes;
}
Wrong compared(DataType type, const Bytes& expected, const Bytes& got) {
  Wrong wrong;
  compare(type, expected, got, 0, wrong);
  return wrong;
}

// Reduces the ranks' inputs in the order that a ring would, beginning at `start`.
Bytes ringReduced(const ReduceValues& values, int start, std::size_t count) {
  Bytes sum = inputOf(values, start, count);
  for (int i = 1; i < values.ranks; ++i) {
    const Bytes next = inputOf(values, (start + i) % values.ranks, count);
    reduce(values.type, values.op, sum.data(), next.data(), sum.data(), count);
  }
  if (values.op == ReduceOp::kAvg) divide(values.type, sum.data(), count, values.ranks);
  return sum;
}

TEST(PerfData, ExpectedReductionIsExactInEveryOrder) {
  constexpr std::size_t kCount = 257;
  for (const DataType type : kTypes) {
    for (const ReduceOp op : kOps) {
      for (const int ranks : {1, 2, 7, 130}) {
        const ReduceValues values{type, op, ranks, 42};
        const Bytes expected = reducedOf(values, kCount);
        for (const int start : {0, ranks / 2, ranks - 1})
          EXPECT_EQ(ringReduced(values, start, kCount), expected)
              << "type " << static_cast<int>(type) << " op " << static_cast<int>(op) << " " << ranks
              << " from " << start;
      }
    }
  }
}

TEST(PerfData, FloatSumOf1024RanksIsExact) {
  const ReduceValues values{DataType::kFloat, ReduceOp::kSum, 1024, 7};
  EXPECT_EQ(ringReduced(values, 511, 64), reducedOf(values, 64));
}

TEST(PerfData, SmallFloatsRoundToTheNearest) {
  EXPECT_EQ(static_cast<float>(Half(1.0F)), 1.0F);
  EXPECT_EQ(static_cast<float>(Half(-65504.0F)), -65504.0F);
  EXPECT_EQ(static_cast<float>(Half(2049.0F)), 2048.0F) << "to even";
  EXPECT_EQ(static_cast<float>(Half(2051.0F)), 2052.0F);
  EXPECT_EQ(static_cast<float>(Half(0x1p-24F)), 0x1p-24F);
  EXPECT_EQ(static_cast<float>(Half(0x1.8p-15F)), 0x1.8p-15F);
  EXPECT_TRUE(std::isinf(static_cast<float>(Half(65520.0F))));
  EXPECT_TRUE(std::isnan(static_cast<float>(Half(NAN))));
  EXPECT_EQ(static_cast<float>(BFloat16(257.0F)), 256.0F) << "to even";
  EXPECT_EQ(static_cast<float>(BFloat16(-3.0F)), -3.0F);
  EXPECT_TRUE(std::isnan(static_cast<float>(BFloat16(NAN))));
}

TEST(PerfData, FloatProductStaysFinite) {
  const ReduceValues values{DataType::kFloat, ReduceOp::kProd, 1024, 7};
  const Bytes product = reducedOf(values, 64);
  for (std::size_t i = 0; i < 64; ++i)
    EXPECT_TRUE(std::isnormal(reinterpret_cast<const float*>(product.data())[i]));
}

TEST(PerfData, PositionOfTheFirstElementCounts) {
  const ReduceValues values{DataType::kInt32, ReduceOp::kSum, 3, 1};
  const Bytes whole = inputOf(values, 1, 100);
  Bytes tail(40 * 4);
  fillInput(values, 1, 60, tail);
  EXPECT_TRUE(std::equal(tail.begin(), tail.end(), whole.begin() + 60 * 4));
}

TEST(PerfData, CompareSeesOneWrongBit) {
  for (const DataType type : kTypes) {
    const ReduceValues values{type, ReduceOp::kSum, 4, 9};
    const Bytes expected = reducedOf(values, 100);
    for (const std::size_t byte : {std::size_t{0}, 37 * elementBytes(type), expected.size() - 1}) {
      Bytes got = expected;
      got[byte] ^= std::byte{1};
      const Wrong wrong = compared(type, expected, got);
      EXPECT_EQ(wrong.count, 1u);
      EXPECT_EQ(wrong.index, byte / elementBytes(type));
      EXPECT_NE(wrong.expected, "");
    }
    EXPECT_EQ(compared(type, expected, expected).count, 0u);
  }
}

TEST(PerfData, SwappedChunksAreCaught) {
  for (const DataType type : kTypes) {
    const ReduceValues values{type, ReduceOp::kSum, 4, 9};
    const Bytes expected = reducedOf(values, 64);
    Bytes got = expected;
    const auto chunk = static_cast<std::ptrdiff_t>(16 * elementBytes(type));
    std::swap_ranges(got.begin(), got.begin() + chunk, got.begin() + chunk);
    EXPECT_GT(compared(type, expected, got).count, 20u) << static_cast<int>(type);
  }
}

TEST(PerfData, StaleLostAndDoubledContributionsAreCaught) {
  for (const DataType type : kTypes) {
    const ReduceValues values{type, ReduceOp::kSum, 3, 9};
    const ReduceValues before{type, ReduceOp::kSum, 3, 8};
    const Bytes expected = reducedOf(values, 64);
    EXPECT_GT(compared(type, expected, reducedOf(before, 64)).count, 32u);
    Bytes lost = inputOf(values, 0, 64);
    reduce(type, ReduceOp::kSum, lost.data(), inputOf(values, 1, 64).data(), lost.data(), 64);
    EXPECT_GT(compared(type, expected, lost).count, 32u);
    Bytes doubled = expected;
    reduce(type, ReduceOp::kSum, doubled.data(), inputOf(values, 1, 64).data(), doubled.data(), 64);
    EXPECT_GT(compared(type, expected, doubled).count, 32u);
  }
}

TEST(PerfData, MessagesDifferByEnds) {
  const auto message = [](int source, int target, uint64_t salt) {
    Bytes bytes(64 * 4);
    fillMessage(DataType::kInt32, salt, source, target, 0, bytes);
    return bytes;
  };
  EXPECT_NE(message(1, 2, 5), message(2, 1, 5));
  EXPECT_NE(message(1, 2, 5), message(1, 3, 5));
  EXPECT_NE(message(1, 2, 5), message(1, 2, 6));
  EXPECT_EQ(message(1, 2, 5), message(1, 2, 5));
}

TEST(PerfData, PoisonChangesEveryElement) {
  for (const DataType type : kTypes) {
    const Bytes expected = reducedOf({type, ReduceOp::kMax, 3, 9}, 50);
    Bytes poisoned = expected;
    poison(poisoned);
    EXPECT_EQ(compared(type, expected, poisoned).count, 50u);
  }
}

}  // namespace
}  // namespace railwise::cli
