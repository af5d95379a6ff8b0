// NCCL's element types and reductions on the CPU.
#pragma once

#include <cstddef>
#include <cstdint>

#include "device.h"  // NCCL's

namespace kernels {

// One reduction on one element type. The functions work on arrays of `count` elements that need not be
// aligned.
struct Reduction {
  size_t element_bytes = 1;
  uint64_t argument =
      0;  // NCCL's scalarArg: a factor, a divisor, or the mask that turns a minimum into a maximum

  // into[i] = into[i] op with[i]
  void (*combine)(void* into, const void* with, size_t count, uint64_t argument) = nullptr;
  // What happens to a rank's own input first (a multiplication). Null: nothing.
  void (*prepare)(void* values, size_t count, uint64_t argument) = nullptr;
  // What happens to the result last (a division). Null: nothing.
  void (*finish)(void* values, size_t count, uint64_t argument) = nullptr;
};

// The reduction for NCCL's operation and type. Aborts the process with a message if the type is not known.
Reduction reductionOf(int device_operation, int type, uint64_t argument);

// Reads an argument that NCCL passes by its address in device memory (ncclRedOpCreatePreMulSum with
// ncclScalarDevice).
uint64_t loadArgument(const void* address, size_t element_bytes);

// Bytes that are only moved.
inline Reduction noReduction(size_t element_bytes) {
  Reduction none;
  none.element_bytes = element_bytes;
  return none;
}

}  // namespace kernels
