// NCCL's device code of GIN, compiled for the CPU: it writes operations down, and reads signals and counters,
// exactly as the release's kernels do. The memory of a software GPU is memory of the process.
//
// First comes what that code finds in a CUDA compiler. What is only declared is never called.
#pragma once

#include <cooperative_groups.h>
#include <cuda_runtime.h>
#include <nccl.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <cuda/atomic>

using std::min;
template <typename T>
T __ldg(const T* from) {
  return *from;
}
// Word by word, as the proxy reads. Releases before 2.30.7 do not align `from`.
inline void __stwt(uint4* to, const uint4& from) {
  uint64_t words[2];
  std::memcpy(words, static_cast<const void*>(&from), sizeof words);
  for (int i = 0; i < 2; ++i)
    __atomic_store_n(reinterpret_cast<uint64_t*>(to) + i, words[i], __ATOMIC_RELEASE);
}
inline int __popc(unsigned word) { return __builtin_popcount(word); }
inline long long clock64() { return std::chrono::steady_clock::now().time_since_epoch().count(); }
extern const uint3 threadIdx;
extern const dim3 blockDim;
int __ffs(int);
unsigned __fns(unsigned, unsigned, int);
unsigned __activemask();
void __syncwarp(unsigned);
void __syncthreads();
void __barrier_sync_count(unsigned, unsigned);

// CUDA's own headers, above, have been read without it.
#define __CUDACC__ 1
#include "nccl_device/impl/comm__funcs.h"  // NCCL's
#include "nccl_device/impl/core__funcs.h"  // NCCL's
#include "nccl_device/impl/gin__funcs.h"   // NCCL's
#include "nccl_device/impl/ptr__funcs.h"   // NCCL's
#undef __CUDACC__
