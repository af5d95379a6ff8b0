// CUDA's own headers, so that the compiler checks our signatures. The runtime's functions are exported from
// libcudart where we define them. The driver's functions stay hidden: a program gets them through
// cudaGetDriverEntryPoint.
#pragma once

#pragma GCC visibility push(default)
#include <cuda_runtime_api.h>
#pragma GCC visibility pop

#include <cuda.h>

#if CUDART_VERSION < 12030
struct cudaGraphEdgeData {};  // edges have data since CUDA 12.3
#endif
