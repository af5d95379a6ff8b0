// Memory of a GPU for the pair test, through CUDA's driver library (dlopen of libcuda.so.1): building needs
// no CUDA. One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "base/outcome.h"

namespace railwise::doctor::pair {

// A block of memory; released with the object.
class GpuBlock {
 public:
  virtual ~GpuBlock() = default;
  virtual uint64_t address() const = 0;
  // The block as a dma-buf; -1: the driver gives none.
  virtual int dmaBuf() const = 0;
  // Copies between the block and memory of the host. False: the driver refuses.
  virtual bool write(std::size_t offset, const void* from, std::size_t bytes) = 0;
  virtual bool read(std::size_t offset, void* to, std::size_t bytes) const = 0;
};

class GpuDriver {
 public:
  virtual ~GpuDriver() = default;
  // An error: there is no library, or no GPU that it can use.
  static Outcome<std::unique_ptr<GpuDriver>> open();
  // `bus_id`: "0000:1b:00.0". The driver must outlive the block.
  virtual Outcome<std::unique_ptr<GpuBlock>> allocate(const std::string& bus_id, std::size_t bytes) = 0;
};

}  // namespace railwise::doctor::pair
