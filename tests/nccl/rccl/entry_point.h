// The driver's functions of the software GPU. They return a CUresult, which is a number of cudaError_t, too.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstdint>

namespace rccl {

template <typename Function>
Function* driverFunction(const char* name) {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult result{};
  cudaGetDriverEntryPointByVersion(name, &function, 12000, cudaEnableDefault, &result);
  return reinterpret_cast<Function*>(function);
}

// Where the allocation that holds `pointer` begins, and its size.
inline cudaError_t addressRange(void** begin, size_t* bytes, const void* pointer) {
  unsigned long long address = 0;
  const auto range =
      driverFunction<int(unsigned long long*, size_t*, unsigned long long)>("cuMemGetAddressRange");
  if (range == nullptr) return cudaErrorNotSupported;
  const int result = range(&address, bytes, reinterpret_cast<uintptr_t>(pointer));
  *begin = reinterpret_cast<void*>(address);
  return static_cast<cudaError_t>(result);
}

}  // namespace rccl
