// libhsa-runtime64.so, which RCCL loads for its release and for dma-buf.
#include "include/hsa/hsa.h"

#include "entry_point.h"

namespace {

constexpr int kDmaBufSupported = 0x204;  // HSA_AMD_SYSTEM_INFO_DMABUF_SUPPORTED

}  // namespace

extern "C" {

hsa_status_t hsa_init() { return HSA_STATUS_SUCCESS; }

hsa_status_t hsa_system_get_info(hsa_system_info_t attribute, void* value) {
  if (static_cast<int>(attribute) == kDmaBufSupported) {
    *static_cast<bool*>(value) = true;
  } else {
    *static_cast<uint16_t*>(value) = 1;
  }
  return HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_status_string(hsa_status_t status, const char** text) {
  *text = status == HSA_STATUS_SUCCESS ? "success" : "error";
  return HSA_STATUS_SUCCESS;
}

// The descriptor is that of the whole allocation.
hsa_status_t hsa_amd_portable_export_dmabuf(const void* pointer, size_t, int* descriptor, uint64_t* offset) {
  void* begin = nullptr;
  size_t bytes = 0;
  if (rccl::addressRange(&begin, &bytes, pointer) != cudaSuccess) return HSA_STATUS_ERROR;
  const auto export_range =
      rccl::driverFunction<int(void*, unsigned long long, size_t, CUmemRangeHandleType, unsigned long long)>(
          "cuMemGetHandleForAddressRange");
  constexpr size_t kPage = 4096;
  const size_t pages = (bytes + kPage - 1) / kPage * kPage;
  if (export_range(descriptor, reinterpret_cast<uintptr_t>(begin), pages, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD,
                   0) != CUDA_SUCCESS)
    return HSA_STATUS_ERROR;
  *offset = static_cast<uint64_t>(static_cast<const char*>(pointer) - static_cast<const char*>(begin));
  return HSA_STATUS_SUCCESS;
}
}
