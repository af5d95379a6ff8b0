#include <vector>

#include "softgpu/checks.h"

namespace softgpu {
namespace {

cudaPointerAttributes attributesOf(const void* address) {
  cudaPointerAttributes attributes = {};
  EXPECT_CUDA(cudaPointerGetAttributes(&attributes, address));
  return attributes;
}

TEST(SoftgpuMemory, DeviceMemoryIsZeroAndItsOwn) {
  constexpr size_t kBytes = 100'000;
  char* const at = onDevice<char>(kBytes);
  for (size_t i = 0; i < kBytes; i += 997) EXPECT_EQ(0, at[i]);
  for (const size_t offset : {size_t{0}, kBytes / 2, kBytes - 1}) {
    const cudaPointerAttributes attributes = attributesOf(at + offset);
    EXPECT_EQ(cudaMemoryTypeDevice, attributes.type);
    EXPECT_EQ(at + offset, attributes.devicePointer);
    EXPECT_EQ(nullptr, attributes.hostPointer);
    EXPECT_EQ(0, attributes.device);
  }
  EXPECT_EQ(cudaMemoryTypeUnregistered, attributesOf(at + kBytes).type);
  ASSERT_CUDA(cudaFree(at));
  EXPECT_EQ(cudaMemoryTypeUnregistered, attributesOf(at).type);
  EXPECT_EQ(cudaErrorInvalidValue, cudaFree(at));
  EXPECT_CUDA(cudaFree(nullptr));
}

TEST(SoftgpuMemory, TellsPinnedAndOtherMemoryApart) {
  void* pinned = nullptr;
  ASSERT_CUDA(cudaHostAlloc(&pinned, 100, cudaHostAllocMapped));
  EXPECT_EQ(cudaMemoryTypeHost, attributesOf(pinned).type);
  EXPECT_EQ(pinned, attributesOf(pinned).hostPointer);
  void* seen_by_device = nullptr;
  ASSERT_CUDA(cudaHostGetDevicePointer(&seen_by_device, pinned, 0));
  EXPECT_EQ(pinned, seen_by_device);
  EXPECT_EQ(cudaErrorInvalidValue, cudaFree(pinned));
  ASSERT_CUDA(cudaFreeHost(pinned));

  std::vector<char> own(10'000);
  EXPECT_EQ(cudaMemoryTypeUnregistered, attributesOf(own.data()).type);
  EXPECT_EQ(cudaErrorInvalidValue, cudaHostGetDevicePointer(&seen_by_device, own.data(), 0));
  ASSERT_CUDA(cudaHostRegister(own.data(), own.size(), cudaHostRegisterMapped));
  EXPECT_EQ(cudaErrorHostMemoryAlreadyRegistered,
            cudaHostRegister(own.data() + 5, 10, cudaHostRegisterMapped));
  EXPECT_EQ(cudaMemoryTypeHost, attributesOf(own.data() + own.size() - 1).type);
  ASSERT_CUDA(cudaHostUnregister(own.data()));
  EXPECT_EQ(cudaErrorHostMemoryNotRegistered, cudaHostUnregister(own.data()));

  void* managed = nullptr;
  ASSERT_CUDA(cudaMallocManaged(&managed, 100, cudaMemAttachGlobal));
  EXPECT_EQ(cudaMemoryTypeManaged, attributesOf(managed).type);
  EXPECT_CUDA(cudaFree(managed));
}

TEST(SoftgpuMemory, IsCountedAndEnds) {
  size_t free_before = 0;
  size_t free_after = 0;
  size_t total = 0;
  ASSERT_CUDA(cudaMemGetInfo(&free_before, &total));
  EXPECT_EQ(free_before, total);
  void* const at = onDevice<char>(1 << 20);
  ASSERT_CUDA(cudaMemGetInfo(&free_after, nullptr));
  EXPECT_EQ(free_before - (1 << 20), free_after);
  void* too_much = nullptr;
  EXPECT_EQ(cudaErrorMemoryAllocation, cudaMalloc(&too_much, total));
  EXPECT_EQ(cudaErrorMemoryAllocation, cudaMalloc(&too_much, ~size_t{0}));
  EXPECT_EQ(nullptr, too_much);
  ASSERT_CUDA(cudaFree(at));
  ASSERT_CUDA(cudaMemGetInfo(&free_after, nullptr));
  EXPECT_EQ(free_before, free_after);
}

TEST(SoftgpuMemory, FreeWaitsForTheWorkOfItsDevice) {
  defineAdd();
  cudaStream_t stream = nullptr;
  ASSERT_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  int* const at = onDevice<int>(1);
  Gate gate;
  gate.close(stream);
  ASSERT_CUDA(launchAdd(at, 1, stream));  // would crash without the memory
  std::atomic<bool> freed = false;
  std::thread other([&] {
    EXPECT_CUDA(cudaFree(at));
    freed = true;
  });
  ASSERT_TRUE(eventually([&gate] { return gate.reached(); }));
  EXPECT_FALSE(freed);
  gate.open();
  other.join();
  EXPECT_TRUE(gate.passed());
}

TEST(SoftgpuMemory, ThousandsOfAllocationsHaveRoom) {
  std::vector<char*> all;
  for (int i = 0; i < 3000; ++i) all.push_back(onDevice<char>(100));
  for (char* const at : all) EXPECT_CUDA(cudaFree(at));
}

TEST(SoftgpuMemory, InStreamOrder) {
  defineAdd();
  cudaStream_t stream = nullptr;
  ASSERT_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  Gate gate;
  gate.close(stream);
  void* at = nullptr;
  ASSERT_CUDA(cudaMallocAsync(&at, 4096, stream));
  ASSERT_CUDA(launchAdd(static_cast<int*>(at), 1, stream));
  ASSERT_CUDA(cudaFreeAsync(at, stream));
  gate.open();
  EXPECT_TRUE(finished(stream));
}

}  // namespace
}  // namespace softgpu
