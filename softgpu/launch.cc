#include "launch.h"

#include <dlfcn.h>

#include <cstdio>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "device.h"
#include "errors.h"

namespace softgpu {

struct Kernel {
  std::mutex mutex;  // guards what follows
  std::string name;
  std::vector<size_t> parameter_bytes;
  KernelBody body = nullptr;
};

namespace {

// Kernels live as long as the process: programs keep their handles.
struct Kernels {
  std::mutex mutex;
  std::unordered_map<const void*, std::unique_ptr<Kernel>> by_symbol;
};

Kernels& kernels() {
  static auto& all = *new Kernels;
  return all;
}

Kernel* lookUp(const void* symbol) {
  Kernels& all = kernels();
  const std::lock_guard lock(all.mutex);
  const auto found = all.by_symbol.find(symbol);
  return found != all.by_symbol.end() ? found->second.get() : nullptr;
}

// The parameters of a launch, copied.
struct Arguments {
  std::vector<std::unique_ptr<std::byte[]>> values;  // operator new aligns them for every type of a parameter
  std::vector<const void*> pointers;
  size_t buffer_bytes = 0;

  void add(const void* from, size_t bytes) {
    values.push_back(std::make_unique<std::byte[]>(bytes));
    std::memcpy(values.back().get(), from, bytes);
    pointers.push_back(values.back().get());
  }
};

cudaError_t readBuffer(void** extra, const void** buffer, size_t* bytes) {
  for (; *extra != CU_LAUNCH_PARAM_END; extra += 2) {
    if (extra[0] == CU_LAUNCH_PARAM_BUFFER_POINTER) {
      *buffer = extra[1];
    } else if (extra[0] == CU_LAUNCH_PARAM_BUFFER_SIZE) {
      *bytes = *static_cast<size_t*>(extra[1]);
    } else {
      return cudaErrorInvalidValue;
    }
  }
  return *buffer != nullptr ? cudaSuccess : cudaErrorInvalidValue;
}

unsigned product(dim3 size) { return size.x * size.y * size.z; }

cudaError_t launch(const void* symbol, dim3 grid, dim3 block, void** parameters, cudaStream_t handle) {
  cudaError_t error;
  const auto stream = resolveStream(handle, &error);
  if (stream == nullptr) return error;
  Work work;
  error = prepareLaunch(findKernel(symbol), product(grid), product(block), parameters, nullptr,
                        stream->device().number, &work);
  return error == cudaSuccess ? submit(*stream, cudaGraphNodeTypeKernel, std::move(work)) : error;
}

}  // namespace

Kernel* findKernel(const void* symbol) {
  Kernel* const kernel = lookUp(symbol);
  if (kernel != nullptr) return kernel;
  Dl_info info = {};
  const bool named = dladdr(symbol, &info) != 0 && info.dli_sname != nullptr && info.dli_saddr == symbol;
  char address[32];
  std::snprintf(address, sizeof address, "%p", symbol);
  sayOnce((std::string("no body is defined for the kernel ") + (named ? info.dli_sname : address)).c_str());
  return nullptr;
}

cudaError_t prepareLaunch(Kernel* kernel, unsigned blocks, unsigned threads, void** pointers, void** extra,
                          int device, Work* work) {
  if (kernel == nullptr) return cudaErrorInvalidDeviceFunction;
  if (blocks == 0 || threads == 0) return cudaErrorInvalidConfiguration;
  auto arguments = std::make_shared<Arguments>();
  KernelBody body;
  {
    const std::lock_guard lock(kernel->mutex);
    body = kernel->body;
    if (extra != nullptr) {
      const void* buffer = nullptr;
      const cudaError_t error = readBuffer(extra, &buffer, &arguments->buffer_bytes);
      if (error != cudaSuccess) return error;
      arguments->add(buffer, arguments->buffer_bytes);
    } else {
      if (pointers == nullptr && !kernel->parameter_bytes.empty()) return cudaErrorInvalidValue;
      for (size_t i = 0; i < kernel->parameter_bytes.size(); ++i)
        arguments->add(pointers[i], kernel->parameter_bytes[i]);
    }
  }
  *work = [body, arguments, blocks, threads, device] {
    body({.parameters = arguments->pointers.data(),
          .buffer_bytes = arguments->buffer_bytes,
          .blocks = blocks,
          .threads = threads,
          .device = device});
  };
  return cudaSuccess;
}

}  // namespace softgpu

using namespace softgpu;

extern "C" __attribute__((visibility("default"))) void softgpuDefineKernel(
    const void* symbol, const char* name, const size_t* parameter_bytes, size_t parameters, KernelBody body) {
  Kernels& all = kernels();
  Kernel* kernel;
  {
    const std::lock_guard lock(all.mutex);
    auto& entry = all.by_symbol[symbol];
    if (entry == nullptr) entry = std::make_unique<Kernel>();
    kernel = entry.get();
  }
  const std::lock_guard lock(kernel->mutex);
  kernel->name = name;
  kernel->parameter_bytes.assign(parameter_bytes, parameter_bytes + parameters);
  kernel->body = body;
}

cudaError_t cudaLaunchKernel(const void* symbol, dim3 grid, dim3 block, void** parameters, size_t,
                             cudaStream_t stream) {
  return answer(launch(symbol, grid, block, parameters, stream));
}

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* symbol, void** parameters) {
  if (config == nullptr) return answer(cudaErrorInvalidValue);
  return answer(launch(symbol, config->gridDim, config->blockDim, parameters, config->stream));
}

cudaError_t cudaGetFuncBySymbol(cudaFunction_t* function, const void* symbol) {
  if (function == nullptr) return answer(cudaErrorInvalidValue);
  Kernel* const kernel = findKernel(symbol);
  *function = reinterpret_cast<cudaFunction_t>(kernel);
  return answer(kernel != nullptr ? cudaSuccess : cudaErrorInvalidDeviceFunction);
}

// Without a word for a symbol that is not defined: NCCL asks about all of its kernels.
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* symbol) {
  if (attributes == nullptr) return answer(cudaErrorInvalidValue);
  if (lookUp(symbol) == nullptr) return answer(cudaErrorInvalidDeviceFunction);
  *attributes = {};
  attributes->maxThreadsPerBlock = 1024;
  attributes->numRegs = 64;
  attributes->maxDynamicSharedSizeBytes = 48 << 10;
  return cudaSuccess;
}

cudaError_t cudaFuncSetAttribute(const void* symbol, cudaFuncAttribute, int) {
  return answer(lookUp(symbol) != nullptr ? cudaSuccess : cudaErrorInvalidDeviceFunction);
}
