// Memory that the software GPU knows: what a pointer is, and where its allocation begins and ends.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "api.h"

namespace softgpu {

struct PhysicalMemory;

enum class MemoryKind {
  kDevice,      // cudaMalloc: a memfd
  kManaged,     // cudaMallocManaged: a memfd too
  kImported,    // cudaIpcOpenMemHandle: another process' memfd
  kMapped,      // cuMemMap of a device's memory (virtual_memory.h)
  kMappedHost,  // cuMemMap of the host's memory
  kPinned,      // cudaHostAlloc
  kRegistered,  // cudaHostRegister: the program's own memory
};

struct Allocation {
  uintptr_t begin = 0;
  size_t bytes = 0;         // as asked for
  size_t mapped_bytes = 0;  // whole pages; 0 for registered memory
  MemoryKind kind = MemoryKind::kDevice;
  int device = 0;  // CUDA's number
  int fd = -1;     // the memfd; -1: none
  unsigned long long id = 0;
  std::shared_ptr<PhysicalMemory> physical = nullptr;  // of cuMem: what is mapped, and whose `fd` it is

  // What CUDA calls device memory: a copy from or to it is not one of the host's memory.
  bool onDevice() const {
    return kind == MemoryKind::kDevice || kind == MemoryKind::kImported || kind == MemoryKind::kMapped;
  }
};

// A new memfd of zeroes, whole pages. -1: no memory.
int createMemoryFile(const char* name, size_t bytes);
// A new memfd of zeroes, mapped. Null pointer: no memory.
void* allocateShared(size_t bytes, MemoryKind kind, int device);
// Memory of the process alone, zeroes.
void* allocatePinned(size_t bytes, int device);
// A mapping that exists already: imported, registered or cuMem's. False: it overlaps what is known.
bool addMapping(Allocation allocation);
// The allocation that `address` lies in.
std::optional<Allocation> findAllocation(const void* address);
// Forgets the allocation that begins at `address` if `accept` says so, and returns it. releaseMapping() ends
// it.
std::optional<Allocation> takeAllocation(const void* address,
                                         const std::function<bool(const Allocation&)>& accept);
void releaseMapping(const Allocation& allocation);

size_t wholePages(size_t bytes);

}  // namespace softgpu
