#include "element.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#if CUDART_VERSION >= 11080
#include <cuda_fp8.h>
#endif

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>
#include <type_traits>

namespace {

template <typename Stored>
void encode(double value, void* to) {
  Stored stored;
  if constexpr (std::is_arithmetic_v<Stored>) {
    stored = static_cast<Stored>(value);
  } else {
    stored = Stored(static_cast<float>(value));
  }
  std::memcpy(to, &stored, sizeof stored);
}

template <typename Stored>
double decode(const void* from) {
  Stored stored;
  std::memcpy(&stored, from, sizeof stored);
  if constexpr (std::is_arithmetic_v<Stored>) {
    return static_cast<double>(stored);
  } else {
    return static_cast<double>(static_cast<float>(stored));
  }
}

template <typename Stored>
constexpr Element element(ncclDataType_t type, const char* name, unsigned values) {
  return {type, name, sizeof(Stored), encode<Stored>, decode<Stored>, values};
}

bool isFloat8(const Element& element) {
  return element.bytes == 1 && element.type != ncclInt8 && element.type != ncclUint8;
}
bool isInteger(const Element& element) {
  return !isFloat8(element) && element.type != ncclFloat16 && element.type != ncclBfloat16 &&
         element.type != ncclFloat32 && element.type != ncclFloat64;
}

bool isUnsigned(const Element& element) {
  return element.type == ncclUint8 || element.type == ncclUint32 || element.type == ncclUint64;
}

// Ranks that put a factor other than 1 into products: more would leave the range of 8 bits.
constexpr int kFactors = 4;
// Ranks that put something into sums of 8-bit floating-point values.
constexpr int kFloat8Terms = 8;

}  // namespace

const Element kElements[] = {
    element<int32_t>(ncclInt32, "int32", 1u << 20),
    element<int8_t>(ncclInt8, "int8", 7),
    element<uint8_t>(ncclUint8, "uint8", 15),
    element<uint32_t>(ncclUint32, "uint32", 1u << 24),
    element<int64_t>(ncclInt64, "int64", 1u << 30),
    element<uint64_t>(ncclUint64, "uint64", 1u << 31),
    element<__half>(ncclFloat16, "float16", 100),
    element<__nv_bfloat16>(ncclBfloat16, "bfloat16", 15),
    element<float>(ncclFloat32, "float32", 1u << 19),
    element<double>(ncclFloat64, "float64", 1u << 30),
#if CUDART_VERSION >= 11080 && NCCL_VERSION_CODE >= NCCL_VERSION(2, 24, 0)
    element<__nv_fp8_e4m3>(ncclFloat8e4m3, "float8e4m3", 2),
    element<__nv_fp8_e5m2>(ncclFloat8e5m2, "float8e5m2", 2),
#endif
};
const std::size_t kElementCount = std::size(kElements);

const Reduction kReductions[] = {
    {ncclSum, "sum"}, {ncclProd, "prod"}, {ncclMin, "min"}, {ncclMax, "max"}, {ncclAvg, "avg"}};
const std::size_t kReductionCount = std::size(kReductions);

double inputOf(const Element& element, ncclRedOp_t operation, int rank, std::size_t index, uint32_t salt) {
  uint64_t mixed = index * 0x9e3779b97f4a7c15ULL + static_cast<uint64_t>(rank) * 0xbf58476d1ce4e5b9ULL + salt;
  mixed ^= mixed >> 29;
  mixed *= 0x94d049bb133111ebULL;
  mixed >>= 33;
  if (operation == ncclProd) return rank < kFactors ? static_cast<double>(1 + mixed % 2) : 1;
  // More terms than that would not be exact in a float8e5m2.
  const bool adds = operation == ncclSum || operation == ncclAvg;
  if (isFloat8(element) && adds && rank >= kFloat8Terms) return 0;
  const auto value = static_cast<double>(mixed % element.values);
  return isUnsigned(element) ? value : value - element.values / 2;
}

double reducedOf(const Element& element, ncclRedOp_t operation, int ranks, std::size_t index, uint32_t salt) {
  double result = inputOf(element, operation, 0, index, salt);
  for (int rank = 1; rank < ranks; ++rank) {
    const double value = inputOf(element, operation, rank, index, salt);
    switch (operation) {
      case ncclProd:
        result *= value;
        break;
      case ncclMin:
        result = std::min(result, value);
        break;
      case ncclMax:
        result = std::max(result, value);
        break;
      default:
        result += value;
        break;
    }
  }
  if (operation != ncclAvg) return result;
  result /= ranks;
  return isInteger(element) ? std::trunc(result) : result;
}

bool isRight(const Element& element, ncclRedOp_t operation, double expected, double found) {
  if (operation != ncclAvg || isInteger(element)) return expected == found;
  if (isFloat8(element)) return std::fabs(expected - found) <= 0.25 * std::max(1.0, std::fabs(expected));
  // Products and sums round by the size of the inputs, whose signs may leave a result that is small beside
  // them.
  const double rounding = element.type == ncclFloat16    ? 0x1p-11
                          : element.type == ncclBfloat16 ? 0x1p-9
                          : element.type == ncclFloat32  ? 0x1p-24
                                                         : 0x1p-53;
  constexpr double kRoundings = 8;  // enough for 16 ranks
  return std::fabs(expected - found) <= kRoundings * rounding * element.values;
}
