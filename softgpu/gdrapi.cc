// libgdrapi.so.2: GDRCopy, which maps device memory for the CPU. The software GPU's device memory is a file
// in memory, and the mapping is a second one of that file: another address, as with a GPU's BAR.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>

#include "api.h"
#include "gdrapi_api.h"

#define GDRAPI_FUNCTION extern "C" __attribute__((visibility("default")))

namespace softgpu {
namespace {

constexpr int kMajor = 2;
constexpr int kMinor = 5;
constexpr uint32_t kGpuPage = 64 << 10;

struct Pinned {
  int fd = -1;       // CUDA's export of the range
  off_t offset = 0;  // of the range in that file
  uint64_t va = 0;   // whole pages
  size_t bytes = 0;
  void* mapping = nullptr;  // null: not mapped
};

template <typename Function>
Function driverFunction(const char* name) {
  void* function = nullptr;
#if CUDART_VERSION >= 12050
  (void)cudaGetDriverEntryPointByVersion(name, &function, CUDART_VERSION, cudaEnableDefault, nullptr);
#elif CUDART_VERSION >= 12000
  (void)cudaGetDriverEntryPoint(name, &function, cudaEnableDefault, nullptr);
#else
  (void)cudaGetDriverEntryPoint(name, &function, cudaEnableDefault);
#endif
  return reinterpret_cast<Function>(function);
}

bool isDeviceMemory(uint64_t address) {
  static const auto attribute = driverFunction<decltype(&cuPointerGetAttribute)>("cuPointerGetAttribute");
  CUmemorytype type = CU_MEMORYTYPE_HOST;
  return attribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address) == CUDA_SUCCESS &&
         type == CU_MEMORYTYPE_DEVICE;
}

// A descriptor whose position is where the range begins; -1: CUDA exports no such range.
int exportRange(uint64_t begin, size_t bytes) {
  static const auto export_range =
      driverFunction<decltype(&cuMemGetHandleForAddressRange)>("cuMemGetHandleForAddressRange");
  int fd = -1;
  const CUresult error = export_range(&fd, begin, bytes, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0);
  return error == CUDA_SUCCESS ? fd : -1;
}

void release(const Pinned& pinned) {
  if (pinned.mapping != nullptr) munmap(pinned.mapping, pinned.bytes);
  close(pinned.fd);
}

}  // namespace
}  // namespace softgpu

using namespace softgpu;

struct gdr {
  std::mutex mutex;
  std::map<unsigned long, Pinned> pinned;  // by handle
  unsigned long next_handle = 1;

  // Needs the mutex. Null: no such handle.
  Pinned* find(gdr_mh_t handle) {
    const auto found = pinned.find(handle.h);
    return found != pinned.end() ? &found->second : nullptr;
  }
};

GDRAPI_FUNCTION gdr_t gdr_open() { return new gdr; }

GDRAPI_FUNCTION int gdr_close(gdr_t g) {
  if (g == nullptr) return EINVAL;
  for (const auto& [handle, pinned] : g->pinned) release(pinned);
  delete g;
  return 0;
}

// A GPU's memory is all behind PCIe here, so both flags mean the same.
GDRAPI_FUNCTION int gdr_pin_buffer_v2(gdr_t g, unsigned long address, size_t bytes, uint32_t flags,
                                      gdr_mh_t* handle) {
  if (g == nullptr || handle == nullptr || bytes == 0 || flags > GDR_PIN_FLAG_FORCE_PCIE) return EINVAL;
  if (!isDeviceMemory(address)) return EINVAL;
  const auto page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  Pinned pinned;
  pinned.va = address / page * page;
  pinned.bytes = (address + bytes - pinned.va + page - 1) / page * page;
  pinned.fd = exportRange(pinned.va, pinned.bytes);
  if (pinned.fd < 0) return EINVAL;
  pinned.offset = lseek(pinned.fd, 0, SEEK_CUR);
  const std::lock_guard lock(g->mutex);
  handle->h = g->next_handle++;
  g->pinned.emplace(handle->h, pinned);
  return 0;
}

GDRAPI_FUNCTION int gdr_pin_buffer(gdr_t g, unsigned long address, size_t bytes, uint64_t, uint32_t,
                                   gdr_mh_t* handle) {
  return gdr_pin_buffer_v2(g, address, bytes, GDR_PIN_FLAG_DEFAULT, handle);
}

GDRAPI_FUNCTION int gdr_unpin_buffer(gdr_t g, gdr_mh_t handle) {
  if (g == nullptr) return EINVAL;
  const std::lock_guard lock(g->mutex);
  const Pinned* const pinned = g->find(handle);
  if (pinned == nullptr) return EINVAL;
  release(*pinned);
  g->pinned.erase(handle.h);
  return 0;
}

GDRAPI_FUNCTION int gdr_get_info(gdr_t g, gdr_mh_t handle, gdr_info_t* info) {
  if (g == nullptr || info == nullptr) return EINVAL;
  const std::lock_guard lock(g->mutex);
  const Pinned* const pinned = g->find(handle);
  if (pinned == nullptr) return EINVAL;
  *info = {};
  info->va = pinned->va;
  info->mapped_size = pinned->bytes;
  info->page_size = kGpuPage;
  info->mapped = pinned->mapping != nullptr ? 1 : 0;
  return 0;
}

GDRAPI_FUNCTION int gdr_get_info_v2(gdr_t g, gdr_mh_t handle, gdr_info_v2_t* info) {
  const int error = gdr_get_info(g, handle, info != nullptr ? &info->info : nullptr);
  if (error == 0) info->mapping_type = info->info.mapped ? GDR_MAPPING_TYPE_CACHING : GDR_MAPPING_TYPE_NONE;
  return error;
}

GDRAPI_FUNCTION int gdr_map(gdr_t g, gdr_mh_t handle, void** mapping, size_t bytes) {
  if (g == nullptr || mapping == nullptr) return EINVAL;
  const std::lock_guard lock(g->mutex);
  Pinned* const pinned = g->find(handle);
  if (pinned == nullptr || bytes > pinned->bytes) return EINVAL;
  if (pinned->mapping != nullptr) return EAGAIN;
  void* const at =
      mmap(nullptr, pinned->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, pinned->fd, pinned->offset);
  if (at == MAP_FAILED) return errno;
  *mapping = pinned->mapping = at;
  return 0;
}

GDRAPI_FUNCTION int gdr_unmap(gdr_t g, gdr_mh_t handle, void* mapping, size_t) {
  if (g == nullptr || mapping == nullptr) return EINVAL;
  const std::lock_guard lock(g->mutex);
  Pinned* const pinned = g->find(handle);
  if (pinned == nullptr || pinned->mapping != mapping) return EINVAL;
  munmap(mapping, pinned->bytes);
  pinned->mapping = nullptr;
  return 0;
}

GDRAPI_FUNCTION int gdr_copy_to_mapping(gdr_mh_t, void* mapping, const void* source, size_t bytes) {
  if (mapping == nullptr || source == nullptr) return EINVAL;
  std::memcpy(mapping, source, bytes);
  std::atomic_thread_fence(std::memory_order_seq_cst);  // the data are there before what the CPU writes next
  return 0;
}

GDRAPI_FUNCTION int gdr_copy_from_mapping(gdr_mh_t, void* target, const void* mapping, size_t bytes) {
  if (mapping == nullptr || target == nullptr) return EINVAL;
  std::memcpy(target, mapping, bytes);
  return 0;
}

GDRAPI_FUNCTION void gdr_runtime_get_version(int* major, int* minor) {
  *major = kMajor;
  *minor = kMinor;
}

GDRAPI_FUNCTION int gdr_driver_get_version(gdr_t g, int* major, int* minor) {
  if (g == nullptr || major == nullptr || minor == nullptr) return EINVAL;
  *major = kMajor;
  *minor = kMinor;
  return 0;
}

// A mapping outlives cudaFree (persistent).
GDRAPI_FUNCTION int gdr_get_attribute(gdr_t g, gdr_attr_t attribute, int* value) {
  const bool known =
      attribute == GDR_ATTR_USE_PERSISTENT_MAPPING || attribute == GDR_ATTR_SUPPORT_PIN_FLAG_FORCE_PCIE;
  if (g == nullptr || value == nullptr || !known) return EINVAL;
  *value = 1;
  return 0;
}
