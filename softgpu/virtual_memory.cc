#include "virtual_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "device.h"
#include "errors.h"
#include "memory.h"

namespace softgpu {
namespace {

// Sizes and addresses are multiples of this number, as on NVIDIA's data centre GPUs.
constexpr size_t kGranularity = 2 << 20;

// Values of CUmemLocationType that CUDA's headers have since 12.2.
constexpr int kHost = 2;
constexpr int kHostNuma = 3;
constexpr int kHandleTypeFabric = 8;  // CU_MEM_HANDLE_TYPE_FABRIC, CUDA 12.3

// A descriptor of exported memory tells in its file's name what the memory was created with, because a
// process that imports it has nothing else: location, GPUDirect, and the GPU's bus id or the NUMA node.
// sscanf reads it.
constexpr char kFileName[] = "softgpu-cumem:%d:%d:%s";
constexpr char kFileLink[] = "/memfd:softgpu-cumem:%d:%d:%63s";

using Location = std::pair<int, int>;  // type and id; all of the host's are one

struct Handle {
  std::shared_ptr<PhysicalMemory> memory;
  unsigned references = 0;
};

struct Mapping {
  size_t bytes;
  CUmemGenericAllocationHandle
      handle;  // may be released; cuMemRetainAllocationHandle gives the same number again
  std::shared_ptr<PhysicalMemory> memory;
  std::map<Location, unsigned> access;  // bits of CUmemAccess_flags
};

struct VirtualMemory {
  std::mutex mutex;  // comes before the lock of the allocations
  std::map<CUmemGenericAllocationHandle, Handle> handles;
  std::map<uintptr_t, size_t> reservations;  // bytes by begin
  std::map<uintptr_t, Mapping> mappings;     // by begin
  CUmemGenericAllocationHandle next_handle = 1;
};

VirtualMemory& virtualMemory() {
  static auto& all = *new VirtualMemory;
  return all;
}

void* pointerTo(CUdeviceptr address) { return reinterpret_cast<void*>(address); }

bool isMultiple(size_t value) { return value % kGranularity == 0; }

bool onHost(const CUmemLocation& location) {
  return static_cast<int>(location.type) == kHost || static_cast<int>(location.type) == kHostNuma;
}

CUresult checkProperties(const CUmemAllocationProp& properties) {
  if (properties.type != CU_MEM_ALLOCATION_TYPE_PINNED) return CUDA_ERROR_INVALID_VALUE;
  const auto handle_types = static_cast<unsigned>(properties.requestedHandleTypes);
  if ((handle_types & kHandleTypeFabric) != 0) return CUDA_ERROR_NOT_SUPPORTED;
  if ((handle_types & ~static_cast<unsigned>(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)) != 0)
    return CUDA_ERROR_INVALID_VALUE;
  switch (static_cast<int>(properties.location.type)) {
    case CU_MEM_LOCATION_TYPE_DEVICE:
      return findDevice(properties.location.id) != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
    case kHost:
      return handle_types == CU_MEM_HANDLE_TYPE_NONE ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    case kHostNuma:
      return properties.location.id >= 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

std::string fileName(const CUmemAllocationProp& properties) {
  const CUmemLocation& location = properties.location;
  const std::string place = location.type == CU_MEM_LOCATION_TYPE_DEVICE ? findDevice(location.id)->gpu.bus_id
                                                                         : std::to_string(location.id);
  char name[128];
  std::snprintf(name, sizeof name, kFileName, static_cast<int>(location.type),
                static_cast<int>(properties.allocFlags.gpuDirectRDMACapable), place.c_str());
  return name;
}

// The number of a GPU that another process names by its bus id. The current device if this process does not
// see it.
int deviceAt(const std::string& bus_id) {
  for (const auto& device : devices()) {
    if (device->gpu.bus_id == bus_id) return device->number;
  }
  return currentDeviceNumber();
}

// What the memory behind a descriptor was created with; nothing: the descriptor is none of cuMem's.
std::optional<CUmemAllocationProp> propertiesOfFile(int fd) {
  char link[128] = {};
  const std::string path = "/proc/self/fd/" + std::to_string(fd);
  if (readlink(path.c_str(), link, sizeof link - 1) < 0) return std::nullopt;
  int location = 0;
  int gpu_direct = 0;
  char place[64] = {};
  if (std::sscanf(link, kFileLink, &location, &gpu_direct, place) != 3) return std::nullopt;
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  properties.allocFlags.gpuDirectRDMACapable = static_cast<unsigned char>(gpu_direct);
  properties.location.type = static_cast<CUmemLocationType>(location);
  properties.location.id = location == CU_MEM_LOCATION_TYPE_DEVICE
                               ? deviceAt(place)
                               : static_cast<int>(std::strtol(place, nullptr, 10));
  return properties;
}

CUmemGenericAllocationHandle addHandle(std::shared_ptr<PhysicalMemory> memory) {
  VirtualMemory& all = virtualMemory();
  const std::lock_guard lock(all.mutex);
  all.handles[all.next_handle] = {std::move(memory), 1};
  return all.next_handle++;
}

// Needs the mutex. Null: no such handle, or it is released.
std::shared_ptr<PhysicalMemory> findHandle(VirtualMemory& all, CUmemGenericAllocationHandle handle) {
  const auto found = all.handles.find(handle);
  return found != all.handles.end() ? found->second.memory : nullptr;
}

// Needs the mutex. The entry whose range `address` lies in, or the end. `bytes` tells the size of an entry.
template <typename Ranges, typename Bytes>
auto entryAt(Ranges& ranges, uintptr_t address, Bytes bytes) {
  auto next = ranges.upper_bound(address);
  if (next == ranges.begin()) return ranges.end();
  const auto found = std::prev(next);
  return address - found->first < bytes(found->second) ? found : ranges.end();
}

auto reservationAt(VirtualMemory& all, uintptr_t address) {
  return entryAt(all.reservations, address, [](size_t bytes) { return bytes; });
}

auto mappingAt(VirtualMemory& all, uintptr_t address) {
  return entryAt(all.mappings, address, [](const Mapping& mapping) { return mapping.bytes; });
}

// Needs the mutex. True: a mapping has an address in [begin, begin + bytes).
bool anyMapped(VirtualMemory& all, uintptr_t begin, size_t bytes) {
  const auto next = all.mappings.lower_bound(begin);
  return mappingAt(all, begin) != all.mappings.end() ||
         (next != all.mappings.end() && next->first < begin + bytes);
}

// Needs the mutex. True: [begin, begin + bytes) is one mapping or several in a row, each of them whole.
bool wholeMappings(VirtualMemory& all, uintptr_t begin, size_t bytes) {
  const uintptr_t end = begin + bytes;
  auto mapping = all.mappings.find(begin);
  while (mapping != all.mappings.end() && mapping->first == begin && begin < end) {
    begin += mapping->second.bytes;
    ++mapping;
  }
  return bytes != 0 && begin == end;
}

// Addresses that nothing can be read from or written to.
void* reserveAddresses(void* wish, size_t bytes, int flags) {
  return mmap(wish, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | flags, -1, 0);
}

int protection(const Mapping& mapping) {
  unsigned access = 0;
  for (const auto& [location, flags] : mapping.access) access |= flags;
  if ((access & CU_MEM_ACCESS_FLAGS_PROT_READWRITE) == CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
    return PROT_READ | PROT_WRITE;
  return access != 0 ? PROT_READ : PROT_NONE;
}

CUresult checkAccess(const CUmemAccessDesc& wanted) {
  if (wanted.flags != CU_MEM_ACCESS_FLAGS_PROT_NONE && wanted.flags != CU_MEM_ACCESS_FLAGS_PROT_READ &&
      wanted.flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
    return CUDA_ERROR_INVALID_VALUE;
  if (onHost(wanted.location)) return CUDA_SUCCESS;
  if (wanted.location.type != CU_MEM_LOCATION_TYPE_DEVICE) return CUDA_ERROR_INVALID_VALUE;
  return findDevice(wanted.location.id) != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

CUresult createMemory(CUmemGenericAllocationHandle* handle, size_t bytes,
                      const CUmemAllocationProp& properties) {
  if (const CUresult error = checkProperties(properties); error != CUDA_SUCCESS) return error;
  if (bytes == 0 || !isMultiple(bytes)) return CUDA_ERROR_INVALID_VALUE;
  Device* const payer =
      properties.location.type == CU_MEM_LOCATION_TYPE_DEVICE ? findDevice(properties.location.id) : nullptr;
  if (payer != nullptr && !payer->takeMemory(bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
  const int fd = createMemoryFile(fileName(properties).c_str(), bytes);
  if (fd < 0) {
    if (payer != nullptr) payer->used_bytes -= bytes;
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  *handle = addHandle(std::make_shared<PhysicalMemory>(fd, bytes, properties, payer));
  return CUDA_SUCCESS;
}

CUresult importMemory(CUmemGenericAllocationHandle* handle, int fd) {
  const std::optional<CUmemAllocationProp> properties = propertiesOfFile(fd);
  struct stat status = {};
  if (!properties || fstat(fd, &status) != 0) return CUDA_ERROR_INVALID_VALUE;
  const int own = fcntl(fd, F_DUPFD_CLOEXEC, 0);
  if (own < 0) return CUDA_ERROR_OPERATING_SYSTEM;
  *handle = addHandle(
      std::make_shared<PhysicalMemory>(own, static_cast<size_t>(status.st_size), *properties, nullptr));
  return CUDA_SUCCESS;
}

CUresult map(CUdeviceptr begin, size_t bytes, CUmemGenericAllocationHandle handle) {
  VirtualMemory& all = virtualMemory();
  const std::lock_guard lock(all.mutex);
  const std::shared_ptr<PhysicalMemory> memory = findHandle(all, handle);
  const auto reserved = reservationAt(all, begin);
  if (memory == nullptr || reserved == all.reservations.end()) return CUDA_ERROR_INVALID_VALUE;
  if (bytes == 0 || bytes > memory->bytes || bytes > reserved->first + reserved->second - begin ||
      anyMapped(all, begin, bytes))
    return CUDA_ERROR_INVALID_VALUE;
  if (mmap(pointerTo(begin), bytes, PROT_NONE, MAP_SHARED | MAP_FIXED, memory->fd, 0) == MAP_FAILED)
    return CUDA_ERROR_OUT_OF_MEMORY;
  all.mappings[begin] = {bytes, handle, memory, {}};
  const bool host = onHost(memory->properties.location);
  addMapping({.begin = begin,
              .bytes = bytes,
              .mapped_bytes = bytes,
              .kind = host ? MemoryKind::kMappedHost : MemoryKind::kMapped,
              .device = host ? currentDeviceNumber() : memory->properties.location.id,
              .fd = memory->fd,
              .physical = memory});
  return CUDA_SUCCESS;
}

CUresult unmap(CUdeviceptr begin, size_t bytes) {
  VirtualMemory& all = virtualMemory();
  const std::lock_guard lock(all.mutex);
  if (!wholeMappings(all, begin, bytes)) return CUDA_ERROR_INVALID_VALUE;
  if (reserveAddresses(pointerTo(begin), bytes, MAP_FIXED) == MAP_FAILED) return CUDA_ERROR_OPERATING_SYSTEM;
  const auto first = all.mappings.find(begin);
  const auto last = all.mappings.lower_bound(begin + bytes);
  for (auto mapping = first; mapping != last; ++mapping)
    takeAllocation(pointerTo(mapping->first),
                   [](const Allocation& allocation) { return allocation.physical != nullptr; });
  all.mappings.erase(first, last);
  return CUDA_SUCCESS;
}

CUresult setAccess(CUdeviceptr begin, size_t bytes, const CUmemAccessDesc* wanted, size_t count) {
  VirtualMemory& all = virtualMemory();
  const std::lock_guard lock(all.mutex);
  if (!wholeMappings(all, begin, bytes)) return CUDA_ERROR_INVALID_VALUE;
  const auto first = all.mappings.find(begin);
  const auto last = all.mappings.lower_bound(begin + bytes);
  for (size_t i = 0; i < count; ++i) {
    if (const CUresult error = checkAccess(wanted[i]); error != CUDA_SUCCESS) return error;
    const bool refused = onHost(wanted[i].location) && std::any_of(first, last, [](const auto& mapping) {
                           return !onHost(mapping.second.memory->properties.location);
                         });
    if (refused) return CUDA_ERROR_INVALID_VALUE;
  }
  for (auto mapping = first; mapping != last; ++mapping) {
    for (size_t i = 0; i < count; ++i) {
      const CUmemLocation& location = wanted[i].location;
      const Location key = onHost(location) ? Location(kHost, 0) : Location(location.type, location.id);
      mapping->second.access[key] = static_cast<unsigned>(wanted[i].flags);
    }
    if (mprotect(pointerTo(mapping->first), mapping->second.bytes, protection(mapping->second)) != 0)
      return CUDA_ERROR_OPERATING_SYSTEM;
  }
  return CUDA_SUCCESS;
}

}  // namespace

PhysicalMemory::~PhysicalMemory() {
  if (payer != nullptr) payer->used_bytes -= bytes;
  close(fd);
}

std::optional<AddressRange> findReservation(const void* address) {
  VirtualMemory& all = virtualMemory();
  const std::lock_guard lock(all.mutex);
  const auto found = reservationAt(all, reinterpret_cast<uintptr_t>(address));
  if (found == all.reservations.end()) return std::nullopt;
  return AddressRange{found->first, found->second};
}

}  // namespace softgpu

using namespace softgpu;

CUresult cuMemGetAllocationGranularity(size_t* bytes, const CUmemAllocationProp* properties,
                                       CUmemAllocationGranularity_flags) {
  if (bytes == nullptr || properties == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *bytes = kGranularity;
  return CUDA_SUCCESS;
}

CUresult cuMemCreate(CUmemGenericAllocationHandle* handle, size_t bytes,
                     const CUmemAllocationProp* properties, unsigned long long flags) {
  cudaError_t error;
  if (currentDevice(&error) == nullptr) return driverCode(error);
  if (handle == nullptr || properties == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  return createMemory(handle, bytes, *properties);
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
  VirtualMemory& all = virtualMemory();
  const std::lock_guard lock(all.mutex);
  const auto found = all.handles.find(handle);
  if (found == all.handles.end()) return CUDA_ERROR_INVALID_VALUE;
  if (--found->second.references == 0) all.handles.erase(found);
  return CUDA_SUCCESS;
}

CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle* handle, void* address) {
  if (handle == nullptr) return CUDA_ERROR_INVALID_VALUE;
  VirtualMemory& all = virtualMemory();
  const std::lock_guard lock(all.mutex);
  const auto mapping = mappingAt(all, reinterpret_cast<uintptr_t>(address));
  if (mapping == all.mappings.end()) return CUDA_ERROR_INVALID_VALUE;
  Handle& retained = all.handles[mapping->second.handle];
  retained.memory = mapping->second.memory;
  ++retained.references;
  *handle = mapping->second.handle;
  return CUDA_SUCCESS;
}

CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp* properties,
                                                CUmemGenericAllocationHandle handle) {
  VirtualMemory& all = virtualMemory();
  const std::lock_guard lock(all.mutex);
  const std::shared_ptr<PhysicalMemory> memory = findHandle(all, handle);
  if (properties == nullptr || memory == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *properties = memory->properties;
  return CUDA_SUCCESS;
}

CUresult cuMemExportToShareableHandle(void* out, CUmemGenericAllocationHandle handle,
                                      CUmemAllocationHandleType type, unsigned long long flags) {
  if (static_cast<int>(type) == kHandleTypeFabric)
    return driverCode(notSupported("a fabric handle of cuMem"));
  VirtualMemory& all = virtualMemory();
  const std::lock_guard lock(all.mutex);
  const std::shared_ptr<PhysicalMemory> memory = findHandle(all, handle);
  if (out == nullptr || memory == nullptr || flags != 0 || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR ||
      memory->properties.requestedHandleTypes != type)
    return CUDA_ERROR_INVALID_VALUE;
  const int fd = fcntl(memory->fd, F_DUPFD_CLOEXEC, 0);
  if (fd < 0) return CUDA_ERROR_OPERATING_SYSTEM;
  *static_cast<int*>(out) = fd;
  return CUDA_SUCCESS;
}

CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle* handle, void* shareable,
                                        CUmemAllocationHandleType type) {
  cudaError_t error;
  if (currentDevice(&error) == nullptr) return driverCode(error);
  if (static_cast<int>(type) == kHandleTypeFabric)
    return driverCode(notSupported("a fabric handle of cuMem"));
  if (handle == nullptr || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) return CUDA_ERROR_INVALID_VALUE;
  return importMemory(handle, static_cast<int>(reinterpret_cast<uintptr_t>(shareable)));
}

CUresult cuMemAddressReserve(CUdeviceptr* out, size_t bytes, size_t alignment, CUdeviceptr wish,
                             unsigned long long flags) {
  if (out == nullptr || bytes == 0 || bytes != wholePages(bytes) || flags != 0 ||
      (alignment & (alignment - 1)) != 0)
    return CUDA_ERROR_INVALID_VALUE;
  const size_t aligned = std::max(alignment, kGranularity);
  const size_t room = bytes + aligned;
  void* const at = room > bytes ? reserveAddresses(pointerTo(wish), room, 0) : MAP_FAILED;
  if (at == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
  const auto start = reinterpret_cast<uintptr_t>(at);
  const uintptr_t begin = (start + aligned - 1) & ~(aligned - 1);
  if (begin != start) munmap(at, begin - start);
  munmap(pointerTo(begin + bytes), start + room - begin - bytes);
  VirtualMemory& all = virtualMemory();
  const std::lock_guard lock(all.mutex);
  all.reservations[begin] = bytes;
  *out = begin;
  return CUDA_SUCCESS;
}

CUresult cuMemAddressFree(CUdeviceptr begin, size_t bytes) {
  VirtualMemory& all = virtualMemory();
  const std::lock_guard lock(all.mutex);
  const auto found = all.reservations.find(begin);
  if (found == all.reservations.end() || found->second != bytes || anyMapped(all, begin, bytes))
    return CUDA_ERROR_INVALID_VALUE;
  all.reservations.erase(found);
  munmap(pointerTo(begin), bytes);
  return CUDA_SUCCESS;
}

CUresult cuMemMap(CUdeviceptr begin, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle,
                  unsigned long long flags) {
  if (!isMultiple(begin) || !isMultiple(bytes) || offset != 0 || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  return map(begin, bytes, handle);
}

// Like CUDA, does not wait for work that uses the memory.
CUresult cuMemUnmap(CUdeviceptr begin, size_t bytes) { return unmap(begin, bytes); }

CUresult cuMemSetAccess(CUdeviceptr begin, size_t bytes, const CUmemAccessDesc* wanted, size_t count) {
  if (wanted == nullptr || count == 0) return CUDA_ERROR_INVALID_VALUE;
  return setAccess(begin, bytes, wanted, count);
}
