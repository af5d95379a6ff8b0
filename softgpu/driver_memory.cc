// What the driver says of memory, and dma-buf export.
#include <fcntl.h>
#include <unistd.h>

#include <string>

#include "errors.h"
#include "memory.h"
#include "virtual_memory.h"

namespace softgpu {
namespace {

const void* fromDevicePointer(CUdeviceptr pointer) { return reinterpret_cast<const void*>(pointer); }

template <typename T>
CUresult give(void* out, T value) {
  *static_cast<T*>(out) = value;
  return CUDA_SUCCESS;
}

CUmemorytype driverType(const Allocation& allocation) {
  if (allocation.onDevice() || allocation.kind == MemoryKind::kManaged) return CU_MEMORYTYPE_DEVICE;
  return CU_MEMORYTYPE_HOST;
}

// What is known of reserved addresses, mapped or not. CUDA's range of a pointer is then the reserved one;
// that of the mapping is cuMemGetAddressRange's.
std::optional<CUresult> attributeOfReservation(void* out, CUpointer_attribute attribute,
                                               CUdeviceptr pointer) {
  const std::optional<AddressRange> reserved = findReservation(fromDevicePointer(pointer));
  if (!reserved) return std::nullopt;
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
      return give(out, static_cast<CUdeviceptr>(reserved->begin));
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
      return give(out, reserved->bytes);
    case CU_POINTER_ATTRIBUTE_MAPPED:
      return give(out, static_cast<int>(findAllocation(fromDevicePointer(pointer)).has_value()));
    default:
      return std::nullopt;
  }
}

}  // namespace
}  // namespace softgpu

using namespace softgpu;

CUresult cuMemGetAddressRange(CUdeviceptr* begin, size_t* bytes, CUdeviceptr pointer) {
  const std::optional<Allocation> found = findAllocation(fromDevicePointer(pointer));
  if (!found) return CUDA_ERROR_NOT_FOUND;
  if (begin != nullptr) *begin = found->begin;
  if (bytes != nullptr) *bytes = found->bytes;
  return CUDA_SUCCESS;
}

CUresult cuPointerGetAttribute(void* out, CUpointer_attribute attribute, CUdeviceptr pointer) {
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (const auto result = attributeOfReservation(out, attribute, pointer); result) return *result;
  const std::optional<Allocation> found = findAllocation(fromDevicePointer(pointer));
  if (!found) return CUDA_ERROR_INVALID_VALUE;
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      return give(out, driverType(*found));
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
      return give(out, pointer);
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
      if (found->onDevice()) return CUDA_ERROR_INVALID_VALUE;
      return give(out, reinterpret_cast<void*>(pointer));
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
      return give(out, found->id);
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
      return give(out, static_cast<unsigned>(found->kind == MemoryKind::kManaged));
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      return give(out, found->device);
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
      return give(out, static_cast<int>(found->kind == MemoryKind::kDevice));
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
      return give(out, static_cast<CUdeviceptr>(found->begin));
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
      return give(out, found->bytes);
    case CU_POINTER_ATTRIBUTE_MAPPED:
      return give(out, 1);
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
      return give(out, static_cast<unsigned long long>(found->physical != nullptr
                                                           ? found->physical->properties.requestedHandleTypes
                                                           : 0));
    default:
      return driverCode(notSupported("cuPointerGetAttribute of this attribute"));
  }
}

// The descriptor is one of its own for the memfd of the whole allocation, of cuMem: of one mapping. Its
// position is where the range begins in it: the software verbs device takes it so.
CUresult cuMemGetHandleForAddressRange(void* handle, CUdeviceptr pointer, size_t bytes,
                                       CUmemRangeHandleType type, unsigned long long) {
  if (handle == nullptr || type != CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD) return CUDA_ERROR_INVALID_VALUE;
  const std::optional<Allocation> found = findAllocation(fromDevicePointer(pointer));
  if (!found || found->fd < 0 || found->kind == MemoryKind::kMappedHost) return CUDA_ERROR_INVALID_VALUE;
  if (bytes == 0 || bytes % wholePages(1) != 0 || found->begin + found->mapped_bytes < pointer + bytes)
    return CUDA_ERROR_INVALID_VALUE;
  const std::string file = "/proc/self/fd/" + std::to_string(found->fd);
  const int fd = open(file.c_str(), O_RDWR | O_CLOEXEC);
  if (fd < 0) return CUDA_ERROR_OPERATING_SYSTEM;
  if (lseek(fd, static_cast<off_t>(pointer - found->begin), SEEK_SET) < 0) {
    close(fd);
    return CUDA_ERROR_OPERATING_SYSTEM;
  }
  *static_cast<int*>(handle) = fd;
  return CUDA_SUCCESS;
}
