#include "reduction.h"

#include <cuda_fp16.h>
#include <gtest/gtest.h>

#include <cstring>

namespace kernels {
namespace {

template <typename T>
T combined(int operation, int type, T a, T b, uint64_t argument = 0) {
  const Reduction reduction = reductionOf(operation, type, argument);
  EXPECT_EQ(reduction.element_bytes, sizeof(T));
  reduction.combine(&a, &b, 1, reduction.argument);
  return a;
}

TEST(Reduction, IntegersWrapAsOnAGpu) {
  EXPECT_EQ(combined<int8_t>(ncclDevSum, ncclInt8, 100, 100), static_cast<int8_t>(200));
  EXPECT_EQ(combined<int32_t>(ncclDevProd, ncclInt32, -3, 5), -15);
}

// NCCL's masks: the sign bit for signed types, all bits for a maximum.
TEST(Reduction, AMaskMakesAMinimumOfUnsignedIntegersAnyMinimumOrMaximum) {
  constexpr uint64_t kSign = 0x80000000u;
  constexpr uint64_t kAll = 0xffffffffu;
  EXPECT_EQ(combined<int32_t>(ncclDevMinMax, ncclInt32, -3, 5, kSign), -3);
  EXPECT_EQ(combined<int32_t>(ncclDevMinMax, ncclInt32, -3, 5, kSign ^ kAll), 5);
  EXPECT_EQ(combined<uint32_t>(ncclDevMinMax, ncclUint32, 7, 5, 0), 5u);
  EXPECT_EQ(combined<uint32_t>(ncclDevMinMax, ncclUint32, 7, 5, kAll), 7u);
  EXPECT_EQ(combined<float>(ncclDevMinMax, ncclFloat32, -3, 5, 0), -3.0f);
  EXPECT_EQ(combined<float>(ncclDevMinMax, ncclFloat32, -3, 5, kAll), 5.0f);
}

// A half has 11 bits: the sum of 2048 and 1 rounds to even.
TEST(Reduction, HalvesRoundAfterEachOperation) {
  EXPECT_EQ(__half2float(combined<__half>(ncclDevSum, ncclFloat16, __float2half(2048), __float2half(1))),
            2048.0f);
  EXPECT_EQ(__half2float(combined<__half>(ncclDevSum, ncclFloat16, __float2half(2048), __float2half(3))),
            2052.0f);
}

TEST(Reduction, AnAverageOfIntegersIsCutTowardsZero) {
  int32_t values[] = {7, -7, 8};
  const Reduction reduction = reductionOf(ncclDevSumPostDiv, ncclInt32, 2u << 1 | 1);
  reduction.finish(values, 3, reduction.argument);
  EXPECT_EQ(values[0], 3);
  EXPECT_EQ(values[1], -3);
  EXPECT_EQ(values[2], 4);
}

TEST(Reduction, AFactorIsAppliedBeforeASum) {
  const float factor = 0.5f;
  uint64_t argument = 0;
  std::memcpy(&argument, &factor, sizeof factor);
  float value = 6;
  const Reduction reduction = reductionOf(ncclDevPreMulSum, ncclFloat32, argument);
  reduction.prepare(&value, 1, reduction.argument);
  EXPECT_EQ(value, 3.0f);
  EXPECT_EQ(reduction.finish, nullptr);
}

}  // namespace
}  // namespace kernels
