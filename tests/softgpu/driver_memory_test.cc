#include <sys/mman.h>
#include <unistd.h>

#include "softgpu/checks.h"

namespace softgpu {
namespace {

constexpr size_t kDmabufBytes = 3 << 12;

CUdeviceptr pointerTo(const void* address) { return reinterpret_cast<CUdeviceptr>(address); }

TEST(SoftgpuDriverMemory, ExportsAnAllocationAsDmabuf) {
  const auto export_range = driver<decltype(&cuMemGetHandleForAddressRange)>("cuMemGetHandleForAddressRange");
  ASSERT_NE(nullptr, export_range);
  char* const at = onDevice<char>(kDmabufBytes);
  at[kDmabufBytes - 1] = 7;
  int fd = -1;
  ASSERT_EQ(CUDA_SUCCESS,
            export_range(&fd, pointerTo(at), kDmabufBytes, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0));
  auto* const mapped =
      static_cast<char*>(mmap(nullptr, kDmabufBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
  ASSERT_NE(MAP_FAILED, static_cast<void*>(mapped));
  EXPECT_EQ(7, mapped[kDmabufBytes - 1]);
  mapped[0] = 9;
  EXPECT_EQ(9, at[0]);
  ASSERT_CUDA(cudaFree(at));
  EXPECT_EQ(9, mapped[0]);  // lives as long as the descriptor
  munmap(mapped, kDmabufBytes);
  EXPECT_EQ(0, close(fd));
}

// The exported file's position is where the part begins: the software verbs device reads it there.
TEST(SoftgpuDriverMemory, ExportsAPartOfAnAllocationByTheFilesPosition) {
  const auto export_range = driver<decltype(&cuMemGetHandleForAddressRange)>("cuMemGetHandleForAddressRange");
  char* const at = onDevice<char>(kDmabufBytes);
  at[kDmabufBytes / 3] = 5;
  int whole = -1;
  int part = -1;
  ASSERT_EQ(CUDA_SUCCESS,
            export_range(&whole, pointerTo(at), kDmabufBytes, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0));
  ASSERT_EQ(CUDA_SUCCESS, export_range(&part, pointerTo(at + kDmabufBytes / 3), kDmabufBytes / 3,
                                       CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0));
  EXPECT_EQ(0, lseek(whole, 0, SEEK_CUR));
  char byte = 0;
  EXPECT_EQ(1, read(part, &byte, 1));
  EXPECT_EQ(5, byte);
  close(whole);
  close(part);
}

TEST(SoftgpuDriverMemory, RefusesARangeThatItCannotExport) {
  const auto export_range = driver<decltype(&cuMemGetHandleForAddressRange)>("cuMemGetHandleForAddressRange");
  char* const at = onDevice<char>(kDmabufBytes);
  int fd = -1;
  const auto attempt = [&](const void* from, size_t bytes) {
    return export_range(&fd, pointerTo(from), bytes, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0);
  };
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, attempt(at, 2 * kDmabufBytes));
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, attempt(at, 100));
  void* pinned = nullptr;
  ASSERT_CUDA(cudaHostAlloc(&pinned, kDmabufBytes, 0));
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, attempt(pinned, kDmabufBytes));
  EXPECT_EQ(-1, fd);
}

TEST(SoftgpuDriverMemory, KnowsTheRangeOfAPointer) {
  const auto range = driver<decltype(&cuMemGetAddressRange)>("cuMemGetAddressRange");
  const char* const at = onDevice<char>(1000);
  CUdeviceptr begin = 0;
  size_t bytes = 0;
  ASSERT_EQ(CUDA_SUCCESS, range(&begin, &bytes, pointerTo(at + 500)));
  EXPECT_EQ(pointerTo(at), begin);
  EXPECT_EQ(1000U, bytes);
  EXPECT_EQ(CUDA_ERROR_NOT_FOUND, range(&begin, &bytes, pointerTo(&bytes)));
}

TEST(SoftgpuDriverMemory, KnowsWhatAPointerIs) {
  const auto attribute = driver<decltype(&cuPointerGetAttribute)>("cuPointerGetAttribute");
  void* pinned = nullptr;
  ASSERT_CUDA(cudaHostAlloc(&pinned, 10, 0));
  const void* const device = onDevice<char>(10);
  CUmemorytype type = CU_MEMORYTYPE_UNIFIED;
  ASSERT_EQ(CUDA_SUCCESS, attribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, pointerTo(device)));
  EXPECT_EQ(CU_MEMORYTYPE_DEVICE, type);
  ASSERT_EQ(CUDA_SUCCESS, attribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, pointerTo(pinned)));
  EXPECT_EQ(CU_MEMORYTYPE_HOST, type);
  int capable = -1;
  ASSERT_EQ(CUDA_SUCCESS,
            attribute(&capable, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, pointerTo(device)));
  EXPECT_EQ(1, capable);
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, attribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, pointerTo(&type)));
}

}  // namespace
}  // namespace softgpu
