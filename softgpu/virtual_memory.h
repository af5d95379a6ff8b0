// CUDA's virtual memory management ("cuMem"): memory with a handle, addresses that are reserved, and mappings
// of the one to the other. The driver's functions are in virtual_memory.cc; the rest of the software GPU asks
// for what stands here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "api.h"

namespace softgpu {

struct Device;

// What a handle names: a memfd. It lives as long as a handle or a mapping needs it; another process that
// imported the descriptor keeps the file by itself.
struct PhysicalMemory {
  PhysicalMemory(int file, size_t size, const CUmemAllocationProp& given, Device* counting)
      : fd(file), bytes(size), properties(given), payer(counting) {}
  ~PhysicalMemory();
  PhysicalMemory(const PhysicalMemory&) = delete;
  PhysicalMemory& operator=(const PhysicalMemory&) = delete;

  const int fd;
  const size_t bytes;
  const CUmemAllocationProp properties;
  Device* const payer;  // the device that the bytes are counted for; null: host memory, or imported
};

struct AddressRange {
  uintptr_t begin;
  size_t bytes;
};

// The range of cuMemAddressReserve that `address` lies in, mapped or not.
std::optional<AddressRange> findReservation(const void* address);

}  // namespace softgpu
