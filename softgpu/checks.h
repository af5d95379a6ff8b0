// What the tests of the software GPU have in common.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <thread>

#include "api.h"
#include "kernel.h"

#define ASSERT_CUDA(call) ASSERT_EQ(cudaSuccess, call)
#define EXPECT_CUDA(call) EXPECT_EQ(cudaSuccess, call)

namespace softgpu {

constexpr auto kDeadline = std::chrono::seconds(30);

// Waits until `holds`; false: the deadline has passed.
inline bool eventually(const std::function<bool()>& holds) {
  const auto until = std::chrono::steady_clock::now() + kDeadline;
  while (!holds()) {
    if (std::chrono::steady_clock::now() > until) return false;
    std::this_thread::yield();
  }
  return true;
}

// All work of the stream is done.
inline bool finished(cudaStream_t stream) {
  return eventually([stream] { return cudaStreamQuery(stream) == cudaSuccess; });
}

// Work that holds a stream up until the test opens the gate. Destroy it only after the stream has passed.
class Gate {
 public:
  void close(cudaStream_t stream) {
    EXPECT_CUDA(cudaLaunchHostFunc(
        stream,
        [](void* self) {
          auto& gate = *static_cast<Gate*>(self);
          gate.reached_ = true;
          gate.passed_ = eventually([&gate] { return gate.open_.load(); });
        },
        this));
  }
  void open() { open_ = true; }
  bool reached() const { return reached_; }
  bool passed() const { return passed_; }

 private:
  std::atomic<bool> open_ = false;
  std::atomic<bool> reached_ = false;
  std::atomic<bool> passed_ = false;
};

template <typename T>
T* onDevice(size_t count) {
  void* at = nullptr;
  EXPECT_CUDA(cudaMalloc(&at, count * sizeof(T)));
  return static_cast<T*>(at);
}

// A driver function as a program gets it.
template <typename Function>
Function driver(const char* name) {
  void* pointer = nullptr;
#if CUDART_VERSION >= 12050
  EXPECT_CUDA(cudaGetDriverEntryPointByVersion(name, &pointer, CUDART_VERSION, cudaEnableDefault));
#elif CUDART_VERSION >= 12000
  EXPECT_CUDA(cudaGetDriverEntryPoint(name, &pointer, cudaEnableDefault, nullptr));
#else
  EXPECT_CUDA(cudaGetDriverEntryPoint(name, &pointer, cudaEnableDefault));
#endif
  return reinterpret_cast<Function>(pointer);
}

// A kernel that adds `step` to `*at`.
inline char add_kernel;
inline void defineAdd() {
  constexpr size_t kBytes[] = {sizeof(int*), sizeof(int)};
  softgpuDefineKernel(&add_kernel, "add", kBytes, 2, [](const Launch& launch) {
    int* const at = *static_cast<int* const*>(launch.parameters[0]);
    *at += *static_cast<const int*>(launch.parameters[1]);
  });
}
inline cudaError_t launchAdd(int* at, int step, cudaStream_t stream) {
  void* parameters[] = {&at, &step};
  return cudaLaunchKernel(&add_kernel, dim3(1), dim3(32), parameters, 0, stream);
}

}  // namespace softgpu
