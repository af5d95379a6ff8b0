#include "reduction.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <type_traits>
#if __has_include(<cuda_fp8.h>)
#include <cuda_fp8.h>
#endif

namespace kernels {

namespace {

// ---- element types: what is stored, and what is computed with

template <typename T>
struct Plain {
  using Stored = T;
  using Value = T;
  static Value load(Stored stored) { return stored; }
  static Stored store(Value value) { return value; }
};

// Types that a CPU has no arithmetic for: each operation is done in float and rounded, as GPUs round.
struct Half {
  using Stored = __half;
  using Value = float;
  static Value load(Stored stored) { return __half2float(stored); }
  static Stored store(Value value) { return __float2half(value); }
};

struct BFloat16 {
  using Stored = __nv_bfloat16;
  using Value = float;
  static Value load(Stored stored) { return __bfloat162float(stored); }
  static Stored store(Value value) { return __float2bfloat16(value); }
};

#ifdef __CUDA_FP8_TYPES_EXIST__
template <typename Fp8>
struct Float8 {
  using Stored = Fp8;
  using Value = float;
  static Value load(Stored stored) { return static_cast<float>(stored); }
  static Stored store(Value value) { return Stored(value); }
};
#endif

template <typename Element>
typename Element::Value valueAt(const void* values, size_t index) {
  typename Element::Stored stored;
  std::memcpy(&stored, static_cast<const char*>(values) + index * sizeof stored, sizeof stored);
  return Element::load(stored);
}

template <typename Element>
void setValueAt(void* values, size_t index, typename Element::Value value) {
  const typename Element::Stored stored = Element::store(value);
  std::memcpy(static_cast<char*>(values) + index * sizeof stored, &stored, sizeof stored);
}

// The argument's low bytes as an element.
template <typename Element>
typename Element::Value argumentValue(uint64_t argument) {
  return valueAt<Element>(&argument, 0);
}

// ---- reductions

template <typename Element, typename Operation>
void combineAll(void* into, const void* with, size_t count, Operation operation) {
  for (size_t i = 0; i < count; ++i)
    setValueAt<Element>(into, i, operation(valueAt<Element>(into, i), valueAt<Element>(with, i)));
}

template <typename Element>
void sum(void* into, const void* with, size_t count, uint64_t) {
  using Value = typename Element::Value;
  combineAll<Element>(into, with, count, [](Value a, Value b) { return static_cast<Value>(a + b); });
}

template <typename Element>
void product(void* into, const void* with, size_t count, uint64_t) {
  using Value = typename Element::Value;
  combineAll<Element>(into, with, count, [](Value a, Value b) { return static_cast<Value>(a * b); });
}

// NCCL turns signed integers and maxima into minima of unsigned integers by a mask; of floats the argument's
// low bit says maximum.
template <typename Element>
void minimumOrMaximum(void* into, const void* with, size_t count, uint64_t argument) {
  using Value = typename Element::Value;
  if constexpr (std::is_integral_v<Value>) {
    const auto mask = static_cast<Value>(argument);
    combineAll<Element>(into, with, count, [mask](Value a, Value b) {
      return static_cast<Value>(a ^ mask) < static_cast<Value>(b ^ mask) ? a : b;
    });
  } else if ((argument & 1) == 0) {
    combineAll<Element>(into, with, count, [](Value a, Value b) { return std::fmin(a, b); });
  } else {
    combineAll<Element>(into, with, count, [](Value a, Value b) { return std::fmax(a, b); });
  }
}

template <typename Element>
void multiply(void* values, size_t count, uint64_t argument) {
  using Value = typename Element::Value;
  const Value factor = argumentValue<Element>(argument);
  for (size_t i = 0; i < count; ++i)
    setValueAt<Element>(values, i, static_cast<Value>(valueAt<Element>(values, i) * factor));
}

// The argument is twice the divisor, plus one for signed integers (ncclAvg of integers).
template <typename Element>
void divide(void* values, size_t count, uint64_t argument) {
  using Value = typename Element::Value;
  if constexpr (std::is_integral_v<Value>) {
    using Signed = std::make_signed_t<Value>;
    const uint64_t divisor = argument >> 1;
    for (size_t i = 0; i < count; ++i) {
      const Value value = valueAt<Element>(values, i);
      const bool negative = (argument & 1) != 0 && static_cast<Signed>(value) < 0;
      const Value magnitude = negative ? static_cast<Value>(0 - value) : value;
      const auto quotient = static_cast<Value>(magnitude / divisor);
      setValueAt<Element>(values, i, negative ? static_cast<Value>(0 - quotient) : quotient);
    }
  }
}

template <typename Element>
Reduction reductionOfType(int operation, uint64_t argument) {
  Reduction reduction;
  reduction.element_bytes = sizeof(typename Element::Stored);
  reduction.argument = argument;
  switch (operation) {
    case ncclDevSum:
      reduction.combine = sum<Element>;
      break;
    case ncclDevProd:
      reduction.combine = product<Element>;
      break;
    case ncclDevMinMax:
      reduction.combine = minimumOrMaximum<Element>;
      break;
    case ncclDevPreMulSum:
      reduction.combine = sum<Element>;
      reduction.prepare = multiply<Element>;
      break;
    case ncclDevSumPostDiv:
      reduction.combine = sum<Element>;
      reduction.finish = divide<Element>;
      break;
    default:
      std::fprintf(stderr, "software GPU: NCCL asks for reduction %d, which its kernels here do not know\n",
                   operation);
      std::abort();
  }
  return reduction;
}

}  // namespace

Reduction reductionOf(int device_operation, int type, uint64_t argument) {
#if NCCL_VERSION_CODE < NCCL_VERSION(2, 24, 0)
  // NCCL gave the divisor as it is; divide() has it as later releases write it.
  if (device_operation == ncclDevSumPostDiv) {
    const bool is_signed = type == ncclInt8 || type == ncclInt32 || type == ncclInt64;
    argument = argument << 1 | (is_signed ? 1 : 0);
  }
#endif
  // Signed integers add and multiply as unsigned ones do, and NCCL's mask orders them.
  switch (type) {
    case ncclInt8:
    case ncclUint8:
      return reductionOfType<Plain<uint8_t>>(device_operation, argument);
    case ncclInt32:
    case ncclUint32:
      return reductionOfType<Plain<uint32_t>>(device_operation, argument);
    case ncclInt64:
    case ncclUint64:
      return reductionOfType<Plain<uint64_t>>(device_operation, argument);
    case ncclFloat16:
      return reductionOfType<Half>(device_operation, argument);
    case ncclBfloat16:
      return reductionOfType<BFloat16>(device_operation, argument);
    case ncclFloat32:
      return reductionOfType<Plain<float>>(device_operation, argument);
    case ncclFloat64:
      return reductionOfType<Plain<double>>(device_operation, argument);
#if defined(__CUDA_FP8_TYPES_EXIST__) && NCCL_VERSION_CODE >= NCCL_VERSION(2, 24, 0)
    case ncclFloat8e4m3:
      return reductionOfType<Float8<__nv_fp8_e4m3>>(device_operation, argument);
    case ncclFloat8e5m2:
      return reductionOfType<Float8<__nv_fp8_e5m2>>(device_operation, argument);
#endif
    default:
      break;
  }
  std::fprintf(stderr,
               "software GPU: NCCL asks for a reduction of type %d, which its kernels here do not know\n",
               type);
  std::abort();
}

uint64_t loadArgument(const void* address, size_t element_bytes) {
  uint64_t argument = 0;
  std::memcpy(&argument, address, element_bytes);
  return argument;
}

}  // namespace kernels
