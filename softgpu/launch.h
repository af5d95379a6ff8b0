// Kernels: which symbol is which, and how a launch becomes work of a stream.
#pragma once

#include <cstddef>

#include "api.h"
#include "kernel.h"
#include "stream.h"

namespace softgpu {

struct Kernel;

// The kernel of a symbol; null when no library has defined the symbol, which is logged once for each symbol.
Kernel* findKernel(const void* symbol);

// Copies what the launch needs. `pointers`: one for each parameter of the kernel. `extra`: the buffer, as
// cuLaunchKernel takes it. `device`: CUDA's number.
cudaError_t prepareLaunch(Kernel* kernel, unsigned blocks, unsigned threads, void** pointers, void** extra,
                          int device, Work* work);

}  // namespace softgpu
