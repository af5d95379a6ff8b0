// What a kernel is to the software GPU: a function of the host that plays all blocks of a launch.
//
// Code that stands in for kernels (NCCL's: ../kernels) defines one for each kernel symbol. A launch of that
// symbol, by the runtime or by the driver entry points, then calls the body on the thread of its stream.
#pragma once

#include <cstddef>

namespace softgpu {

// One launch. Everything it points to lives until the body returns.
struct Launch {
  const void* const* parameters;  // of the kernel, in order; a launch by buffer
                                  // (CU_LAUNCH_PARAM_BUFFER_POINTER) has one: the buffer
  size_t buffer_bytes;            // of a launch by buffer; else 0
  unsigned blocks;                // of the grid, all dimensions multiplied
  unsigned threads;               // of a block
  int device;                     // CUDA's number of the device
};

using KernelBody = void (*)(const Launch&);

}  // namespace softgpu

// Defines the kernel behind `symbol` (what a program gives to cudaLaunchKernel or cudaGetFuncBySymbol).
// `parameter_bytes` has the size of each of its `parameters` parameters, which a launch by pointers copies.
// Thread-safe; a second definition of a symbol replaces the first.
extern "C" void softgpuDefineKernel(const void* symbol, const char* name, const size_t* parameter_bytes,
                                    size_t parameters, softgpu::KernelBody body);
