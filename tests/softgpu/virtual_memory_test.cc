#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <optional>
#include <string>

#include "softgpu/checks.h"

namespace softgpu {
namespace {

using Handle = CUmemGenericAllocationHandle;

constexpr size_t kBytes = 2 << 20;  // the granularity
constexpr int kHostLocation = 2;    // CU_MEM_LOCATION_TYPE_HOST, CUDA 12.2
constexpr int kHostNumaLocation = 3;

// The driver's functions, as a program gets them.
struct Driver {
  decltype(&cuMemAddressFree) free = driver<decltype(&cuMemAddressFree)>("cuMemAddressFree");
  decltype(&cuMemAddressReserve) reserve = driver<decltype(&cuMemAddressReserve)>("cuMemAddressReserve");
  decltype(&cuMemCreate) create = driver<decltype(&cuMemCreate)>("cuMemCreate");
  decltype(&cuMemExportToShareableHandle) share =
      driver<decltype(&cuMemExportToShareableHandle)>("cuMemExportToShareableHandle");
  decltype(&cuMemGetAddressRange) range = driver<decltype(&cuMemGetAddressRange)>("cuMemGetAddressRange");
  decltype(&cuMemGetAllocationPropertiesFromHandle) properties =
      driver<decltype(&cuMemGetAllocationPropertiesFromHandle)>("cuMemGetAllocationPropertiesFromHandle");
  decltype(&cuMemGetHandleForAddressRange) dmabuf =
      driver<decltype(&cuMemGetHandleForAddressRange)>("cuMemGetHandleForAddressRange");
  decltype(&cuMemImportFromShareableHandle) import =
      driver<decltype(&cuMemImportFromShareableHandle)>("cuMemImportFromShareableHandle");
  decltype(&cuMemMap) map = driver<decltype(&cuMemMap)>("cuMemMap");
  decltype(&cuMemRelease) release = driver<decltype(&cuMemRelease)>("cuMemRelease");
  decltype(&cuMemRetainAllocationHandle) retain =
      driver<decltype(&cuMemRetainAllocationHandle)>("cuMemRetainAllocationHandle");
  decltype(&cuMemSetAccess) access = driver<decltype(&cuMemSetAccess)>("cuMemSetAccess");
  decltype(&cuMemUnmap) unmap = driver<decltype(&cuMemUnmap)>("cuMemUnmap");
  decltype(&cuPointerGetAttribute) attribute =
      driver<decltype(&cuPointerGetAttribute)>("cuPointerGetAttribute");
};

CUmemAllocationProp propertiesAt(int location, int id) {
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  properties.location.type = static_cast<CUmemLocationType>(location);
  properties.location.id = id;
  return properties;
}

class SoftgpuVirtualMemory : public testing::Test {
 protected:
  Handle create(size_t bytes = kBytes) {
    const CUmemAllocationProp properties = propertiesAt(CU_MEM_LOCATION_TYPE_DEVICE, 0);
    Handle handle = 0;
    EXPECT_EQ(CUDA_SUCCESS, cu.create(&handle, bytes, &properties, 0));
    return handle;
  }
  CUdeviceptr reserve(size_t bytes = kBytes) {
    CUdeviceptr at = 0;
    EXPECT_EQ(CUDA_SUCCESS, cu.reserve(&at, bytes, 0, 0, 0));
    return at;
  }
  CUresult allow(CUdeviceptr at, size_t bytes, CUmemAccess_flags flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
                 int location = CU_MEM_LOCATION_TYPE_DEVICE) {
    CUmemAccessDesc wanted = {};
    wanted.location.type = static_cast<CUmemLocationType>(location);
    wanted.flags = flags;
    return cu.access(at, bytes, &wanted, 1);
  }
  // Mapped, with access for device 0.
  int* mapped(Handle handle, size_t bytes = kBytes) {
    const CUdeviceptr at = reserve(bytes);
    EXPECT_EQ(CUDA_SUCCESS, cu.map(at, bytes, 0, handle, 0));
    EXPECT_EQ(CUDA_SUCCESS, allow(at, bytes));
    return reinterpret_cast<int*>(at);
  }
  int share(Handle handle) {
    int fd = -1;
    EXPECT_EQ(CUDA_SUCCESS, cu.share(&fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    return fd;
  }
  Handle import(int fd) {
    Handle handle = 0;
    EXPECT_EQ(CUDA_SUCCESS, cu.import(&handle, reinterpret_cast<void*>(static_cast<uintptr_t>(fd)),
                                      CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
    return handle;
  }
  static size_t used() {
    size_t free_bytes = 0;
    size_t total = 0;
    EXPECT_CUDA(cudaMemGetInfo(&free_bytes, &total));
    return total - free_bytes;
  }

  const Driver cu = {};
};

CUdeviceptr pointerTo(const void* address) { return reinterpret_cast<CUdeviceptr>(address); }

// Whether the kernel may read or write there: a system call fails where the process would die.
bool readable(CUdeviceptr at) {
  int ends[2];
  EXPECT_EQ(0, pipe(ends));
  const bool read_it = write(ends[1], reinterpret_cast<void*>(at), 1) == 1;
  EXPECT_TRUE(read_it || errno == EFAULT);
  close(ends[0]);
  close(ends[1]);
  return read_it;
}

bool writable(CUdeviceptr at) {
  int ends[2];
  EXPECT_EQ(0, pipe(ends));
  EXPECT_EQ(1, write(ends[1], "x", 1));
  const bool wrote = read(ends[0], reinterpret_cast<void*>(at), 1) == 1;
  EXPECT_TRUE(wrote || errno == EFAULT);
  close(ends[0]);
  close(ends[1]);
  return wrote;
}

TEST_F(SoftgpuVirtualMemory, IsUsedAsNcclDoes) {
  int supported = 0;
  ASSERT_CUDA(cudaDeviceGetAttribute(
      &supported, static_cast<cudaDeviceAttr>(CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED), 0));
  EXPECT_EQ(1, supported);
  const size_t before = used();
  int* const at = mapped(create());
  EXPECT_EQ(before + kBytes, used());
  at[100] = 7;
  int copied = 0;
  ASSERT_CUDA(cudaMemcpy(&copied, at + 100, sizeof copied, cudaMemcpyDeviceToHost));
  EXPECT_EQ(7, copied);
  // ncclMemFree
  Handle handle = 0;
  ASSERT_EQ(CUDA_SUCCESS, cu.retain(&handle, at + 100));
  ASSERT_EQ(CUDA_SUCCESS, cu.release(handle));
  size_t bytes = 0;
  ASSERT_EQ(CUDA_SUCCESS, cu.range(nullptr, &bytes, pointerTo(at)));
  EXPECT_EQ(kBytes, bytes);
  ASSERT_EQ(CUDA_SUCCESS, cu.unmap(pointerTo(at), bytes));
  EXPECT_EQ(before + kBytes, used());
  ASSERT_EQ(CUDA_SUCCESS, cu.release(handle));
  EXPECT_EQ(before, used());
  EXPECT_EQ(CUDA_SUCCESS, cu.free(pointerTo(at), kBytes));
}

TEST_F(SoftgpuVirtualMemory, ReleasedMemoryLivesWhileItIsMapped) {
  const size_t before = used();
  const Handle handle = create();
  int* const first = mapped(handle);
  int* const second = mapped(handle);
  *first = 5;
  ASSERT_EQ(CUDA_SUCCESS, cu.release(handle));
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cu.release(handle));
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cu.map(reserve(), kBytes, 0, handle, 0));
  ASSERT_EQ(CUDA_SUCCESS, cu.unmap(pointerTo(first), kBytes));
  EXPECT_EQ(5, *second);
  Handle again = 0;
  ASSERT_EQ(CUDA_SUCCESS, cu.retain(&again, second));
  EXPECT_EQ(handle, again);
  ASSERT_EQ(CUDA_SUCCESS, cu.unmap(pointerTo(second), kBytes));
  EXPECT_EQ(before + kBytes, used());
  ASSERT_EQ(CUDA_SUCCESS, cu.release(again));
  EXPECT_EQ(before, used());
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cu.retain(&again, second));
}

TEST_F(SoftgpuVirtualMemory, HasTheAccessThatWasSet) {
  const CUdeviceptr at = reserve();
  EXPECT_FALSE(readable(at));
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, allow(at, kBytes));  // nothing is mapped
  ASSERT_EQ(CUDA_SUCCESS, cu.map(at, kBytes, 0, create(), 0));
  EXPECT_FALSE(readable(at));
  ASSERT_EQ(CUDA_SUCCESS, allow(at, kBytes, CU_MEM_ACCESS_FLAGS_PROT_READ));
  EXPECT_TRUE(readable(at));
  EXPECT_FALSE(writable(at));
  ASSERT_EQ(CUDA_SUCCESS, allow(at, kBytes));
  EXPECT_TRUE(writable(at));
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, allow(at, kBytes / 2));
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE,
            allow(at, kBytes, CU_MEM_ACCESS_FLAGS_PROT_READWRITE, kHostNumaLocation));  // a device's memory
  ASSERT_EQ(CUDA_SUCCESS, allow(at, kBytes, CU_MEM_ACCESS_FLAGS_PROT_NONE));
  EXPECT_FALSE(readable(at));
  CUmemAccessDesc nowhere = {};
  nowhere.location = {CU_MEM_LOCATION_TYPE_DEVICE, 999};
  EXPECT_EQ(CUDA_ERROR_INVALID_DEVICE, cu.access(at, kBytes, &nowhere, 1));
  ASSERT_EQ(CUDA_SUCCESS, allow(at, kBytes));
  ASSERT_EQ(CUDA_SUCCESS, cu.unmap(at, kBytes));
  EXPECT_FALSE(readable(at));
  ASSERT_EQ(CUDA_SUCCESS, cu.map(at, kBytes, 0, create(), 0));
  EXPECT_FALSE(readable(at));  // a new mapping has no access, whatever the last had
}

TEST_F(SoftgpuVirtualMemory, MappingsLieSideBySideInOneReservation) {
  const CUdeviceptr at = reserve(4 * kBytes);
  ASSERT_EQ(CUDA_SUCCESS, cu.map(at, kBytes, 0, create(), 0));
  ASSERT_EQ(CUDA_SUCCESS, cu.map(at + kBytes, 2 * kBytes, 0, create(2 * kBytes), 0));
  ASSERT_EQ(CUDA_SUCCESS, allow(at, 3 * kBytes));
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, allow(at, 4 * kBytes));  // the end is not mapped
  CUdeviceptr begin = 0;
  size_t bytes = 0;
  ASSERT_EQ(CUDA_SUCCESS, cu.range(&begin, &bytes, at + 2 * kBytes));
  EXPECT_EQ(at + kBytes, begin);
  EXPECT_EQ(2 * kBytes, bytes);
  ASSERT_CUDA(cudaMemset(reinterpret_cast<void*>(at), 3, 3 * kBytes));  // over both
  EXPECT_EQ(3, reinterpret_cast<const char*>(at)[3 * kBytes - 1]);
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cu.map(at + 2 * kBytes, kBytes, 0, create(), 0));  // taken
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cu.map(at + 3 * kBytes, 2 * kBytes, 0, create(2 * kBytes), 0));
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cu.unmap(at + kBytes, kBytes));
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cu.unmap(at, 2 * kBytes));
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cu.unmap(at + 3 * kBytes, kBytes));
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cu.free(at, 4 * kBytes));  // something is mapped
  EXPECT_EQ(CUDA_SUCCESS, cu.unmap(at, 3 * kBytes));
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cu.free(at, kBytes));
  EXPECT_EQ(CUDA_SUCCESS, cu.free(at, 4 * kBytes));
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cu.map(at, kBytes, 0, create(), 0));
}

TEST_F(SoftgpuVirtualMemory, RefusesWhatCudaRefuses) {
  const Handle memory = create();
  const CUdeviceptr at = reserve();
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cu.map(at, kBytes / 2, 0, memory, 0));
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cu.map(at, kBytes, kBytes, memory, 0));
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cu.map(reserve(2 * kBytes), 2 * kBytes, 0, memory, 0));
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cu.map(at, kBytes, 0, 12345, 0));
  CUdeviceptr wanted = 0;
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cu.reserve(&wanted, 100, 0, 0, 0));
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cu.reserve(&wanted, kBytes, 3, 0, 0));
  Handle handle = 0;
  CUmemAllocationProp properties = propertiesAt(CU_MEM_LOCATION_TYPE_DEVICE, 0);
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cu.create(&handle, kBytes + 1, &properties, 0));
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cu.create(&handle, kBytes, &properties, 1));
  properties.location.id = 999;
  EXPECT_EQ(CUDA_ERROR_INVALID_DEVICE, cu.create(&handle, kBytes, &properties, 0));
  properties = propertiesAt(CU_MEM_LOCATION_TYPE_DEVICE, 0);
  properties.requestedHandleTypes = static_cast<CUmemAllocationHandleType>(9);  // with a fabric handle
  EXPECT_EQ(CUDA_ERROR_NOT_SUPPORTED, cu.create(&handle, kBytes, &properties, 0));
  properties = propertiesAt(kHostLocation, 0);  // not to be shared
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cu.create(&handle, kBytes, &properties, 0));
  properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_NONE;
  ASSERT_EQ(CUDA_SUCCESS, cu.create(&handle, kBytes, &properties, 0));
  int fd = -1;
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cu.share(&fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cu.import(&handle, reinterpret_cast<void*>(uintptr_t{2}),
                                                CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
}

TEST_F(SoftgpuVirtualMemory, EndsWithTheDevicesMemory) {
  const size_t before = used();
  size_t free_bytes = 0;
  size_t total = 0;
  ASSERT_CUDA(cudaMemGetInfo(&free_bytes, &total));
  const size_t most = free_bytes / kBytes * kBytes;
  const Handle all = create(most);
  const CUmemAllocationProp properties = propertiesAt(CU_MEM_LOCATION_TYPE_DEVICE, 0);
  Handle more = 0;
  EXPECT_EQ(CUDA_ERROR_OUT_OF_MEMORY, cu.create(&more, kBytes, &properties, 0));
  void* malloced = nullptr;
  EXPECT_EQ(cudaErrorMemoryAllocation, cudaMalloc(&malloced, kBytes));
  EXPECT_EQ(before + most, used());
  ASSERT_EQ(CUDA_SUCCESS, cu.release(all));
  ASSERT_EQ(CUDA_SUCCESS, cu.create(&more, kBytes, &properties, 0));
  EXPECT_EQ(CUDA_SUCCESS, cu.release(more));
}

TEST_F(SoftgpuVirtualMemory, KnowsWhatItsPointersAre) {
  const CUdeviceptr begin = reserve(2 * kBytes);
  ASSERT_EQ(CUDA_SUCCESS, cu.map(begin, kBytes, 0, create(), 0));
  ASSERT_EQ(CUDA_SUCCESS, allow(begin, kBytes));
  const CUdeviceptr at = begin + 8;
  CUmemorytype type = CU_MEMORYTYPE_UNIFIED;
  ASSERT_EQ(CUDA_SUCCESS, cu.attribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, at));
  EXPECT_EQ(CU_MEMORYTYPE_DEVICE, type);
  int capable = -1;
  ASSERT_EQ(CUDA_SUCCESS, cu.attribute(&capable, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, at));
  EXPECT_EQ(0, capable);
  unsigned long long handle_types = 0;
  ASSERT_EQ(CUDA_SUCCESS, cu.attribute(&handle_types, CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES, at));
  EXPECT_EQ(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, handle_types);
  size_t bytes = 0;
  ASSERT_EQ(CUDA_SUCCESS, cu.attribute(&bytes, CU_POINTER_ATTRIBUTE_RANGE_SIZE, at));
  EXPECT_EQ(2 * kBytes, bytes);
  int is_mapped = -1;
  ASSERT_EQ(CUDA_SUCCESS, cu.attribute(&is_mapped, CU_POINTER_ATTRIBUTE_MAPPED, at));
  EXPECT_EQ(1, is_mapped);
  ASSERT_EQ(CUDA_SUCCESS, cu.attribute(&is_mapped, CU_POINTER_ATTRIBUTE_MAPPED, begin + kBytes));
  EXPECT_EQ(0, is_mapped);
  cudaPointerAttributes attributes = {};
  ASSERT_CUDA(cudaPointerGetAttributes(&attributes, reinterpret_cast<void*>(at)));
  EXPECT_EQ(cudaMemoryTypeDevice, attributes.type);
  EXPECT_EQ(cudaErrorInvalidValue, cudaFree(reinterpret_cast<void*>(begin)));
  cudaIpcMemHandle_t ipc;
  EXPECT_EQ(cudaErrorInvalidValue, cudaIpcGetMemHandle(&ipc, reinterpret_cast<void*>(begin)));
}

TEST_F(SoftgpuVirtualMemory, ExportsOneMappingAsDmabuf) {
  const CUdeviceptr at = reserve(2 * kBytes);
  ASSERT_EQ(CUDA_SUCCESS, cu.map(at, kBytes, 0, create(), 0));
  ASSERT_EQ(CUDA_SUCCESS, cu.map(at + kBytes, kBytes, 0, create(), 0));
  ASSERT_EQ(CUDA_SUCCESS, allow(at, 2 * kBytes));
  reinterpret_cast<char*>(at)[kBytes + 4096] = 9;
  int fd = -1;
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cu.dmabuf(&fd, at, 2 * kBytes, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0));
  ASSERT_EQ(CUDA_SUCCESS, cu.dmabuf(&fd, at + kBytes + 4096, 8192, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0));
  char byte = 0;
  EXPECT_EQ(1, read(fd, &byte, 1));  // from the file's position
  EXPECT_EQ(9, byte);
  close(fd);
}

TEST_F(SoftgpuVirtualMemory, HostMemoryIsTheHosts) {
  const CUmemAllocationProp properties = propertiesAt(kHostNumaLocation, 0);
  const size_t before = used();
  Handle handle = 0;
  ASSERT_EQ(CUDA_SUCCESS, cu.create(&handle, kBytes, &properties, 0));
  EXPECT_EQ(before, used());
  int* const at = mapped(handle);
  ASSERT_EQ(CUDA_SUCCESS,
            allow(pointerTo(at), kBytes, CU_MEM_ACCESS_FLAGS_PROT_READWRITE, kHostNumaLocation));
  // The device loses its access, the host keeps its own.
  ASSERT_EQ(CUDA_SUCCESS, allow(pointerTo(at), kBytes, CU_MEM_ACCESS_FLAGS_PROT_NONE));
  *at = 3;
  cudaPointerAttributes attributes = {};
  ASSERT_CUDA(cudaPointerGetAttributes(&attributes, at));
  EXPECT_EQ(cudaMemoryTypeHost, attributes.type);
  int fd = -1;
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE,
            cu.dmabuf(&fd, pointerTo(at), kBytes, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0));
  const Handle shared = import(share(handle));
  EXPECT_EQ(3, *mapped(shared));
  CUmemAllocationProp known = {};
  ASSERT_EQ(CUDA_SUCCESS, cu.properties(&known, shared));
  EXPECT_EQ(kHostNumaLocation, static_cast<int>(known.location.type));
}

TEST_F(SoftgpuVirtualMemory, ADescriptorImportedTwiceIsOneMemory) {
  const size_t before = used();
  const Handle handle = create();
  const int fd = share(handle);
  int* const own = mapped(handle);
  int* const first = mapped(import(fd));
  int* const second = mapped(import(fd));
  close(fd);
  EXPECT_EQ(before + kBytes, used());  // counted once, for the process that created it
  *own = 1;
  EXPECT_EQ(1, *first);
  *second = 2;
  EXPECT_EQ(2, *own);
  // What is imported outlives the handle that it came from.
  ASSERT_EQ(CUDA_SUCCESS, cu.release(handle));
  ASSERT_EQ(CUDA_SUCCESS, cu.unmap(pointerTo(own), kBytes));
  EXPECT_EQ(before, used());
  EXPECT_EQ(2, *first);
}

// The child imports the descriptor that it reads the number of, checks and changes the memory, and tells by
// its exit status how far it came.
int importInChild(int from) {
  int number = -1;
  if (read(from, &number, sizeof number) != sizeof number) return 1;
  const std::string path = "/proc/" + std::to_string(getppid()) + "/fd/" + std::to_string(number);
  const int fd = open(path.c_str(), O_RDWR | O_CLOEXEC);
  const Driver cu = {};
  Handle handle = 0;
  if (cu.import(&handle, reinterpret_cast<void*>(static_cast<uintptr_t>(fd)),
                CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) != CUDA_SUCCESS)
    return 2;
  close(fd);
  CUmemAllocationProp properties = {};
  if (cu.properties(&properties, handle) != CUDA_SUCCESS) return 3;
  if (properties.location.type != CU_MEM_LOCATION_TYPE_DEVICE || properties.location.id != 0 ||
      properties.allocFlags.gpuDirectRDMACapable != 1)
    return 4;
  CUdeviceptr at = 0;
  if (cu.reserve(&at, 2 * kBytes, 0, 0, 0) != CUDA_SUCCESS) return 5;
  if (cu.map(at, 2 * kBytes, 0, handle, 0) == CUDA_SUCCESS) return 6;  // more than there is
  if (cu.map(at, kBytes, 0, handle, 0) != CUDA_SUCCESS) return 7;
  CUmemAccessDesc wanted = {};
  wanted.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  wanted.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  if (cu.access(at, kBytes, &wanted, 1) != CUDA_SUCCESS) return 8;
  if (cu.release(handle) != CUDA_SUCCESS) return 9;
  int value = 0;
  if (cudaMemcpy(&value, reinterpret_cast<void*>(at), sizeof value, cudaMemcpyDeviceToHost) != cudaSuccess ||
      value != 41)
    return 10;
  ++value;
  if (cudaMemcpy(reinterpret_cast<void*>(at), &value, sizeof value, cudaMemcpyHostToDevice) != cudaSuccess)
    return 11;
  return cu.unmap(at, kBytes) == CUDA_SUCCESS && cu.free(at, 2 * kBytes) == CUDA_SUCCESS ? 0 : 12;
}

// No fixture: the child starts before the parent uses CUDA.
TEST(SoftgpuVirtualMemoryIpc, AnotherProcessSeesTheMemory) {
  int pipe_ends[2];
  ASSERT_EQ(0, pipe(pipe_ends));
  const pid_t child = fork();
  if (child == 0) _exit(importInChild(pipe_ends[0]));
  const Driver cu = {};
  CUmemAllocationProp properties = propertiesAt(CU_MEM_LOCATION_TYPE_DEVICE, 0);
  properties.allocFlags.gpuDirectRDMACapable = 1;
  Handle handle = 0;
  ASSERT_EQ(CUDA_SUCCESS, cu.create(&handle, kBytes, &properties, 0));
  CUdeviceptr at = 0;
  ASSERT_EQ(CUDA_SUCCESS, cu.reserve(&at, kBytes, 0, 0, 0));
  ASSERT_EQ(CUDA_SUCCESS, cu.map(at, kBytes, 0, handle, 0));
  CUmemAccessDesc wanted = {};
  wanted.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  wanted.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  ASSERT_EQ(CUDA_SUCCESS, cu.access(at, kBytes, &wanted, 1));
  auto* const value = reinterpret_cast<int*>(at);
  *value = 41;
  int fd = -1;
  ASSERT_EQ(CUDA_SUCCESS, cu.share(&fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
  ASSERT_EQ(static_cast<ssize_t>(sizeof fd), write(pipe_ends[1], &fd, sizeof fd));
  int status = -1;
  ASSERT_TRUE(eventually([&] { return waitpid(child, &status, WNOHANG) == child; }));
  EXPECT_EQ(0, status) << "step " << WEXITSTATUS(status);
  EXPECT_EQ(42, *value);
}

#if CUDA_VERSION >= 12010
TEST(SoftgpuVirtualMemoryStubs, MulticastIsNotThere) {
  const auto create = driver<decltype(&cuMulticastCreate)>("cuMulticastCreate");
  ASSERT_NE(nullptr, create);
  Handle handle = 0;
  const CUmulticastObjectProp properties = {};
  EXPECT_EQ(CUDA_ERROR_NOT_SUPPORTED, create(&handle, &properties));
}
#endif

}  // namespace
}  // namespace softgpu
