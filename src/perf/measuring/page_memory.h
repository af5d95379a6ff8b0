// Whole pages of memory that belong to Railwise, for registration with a device. Plain values.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <memory>

namespace railwise::cli {

inline constexpr std::size_t roundUp(std::size_t value, std::size_t unit) {
  return (value + unit - 1) / unit * unit;
}

inline constexpr std::size_t kCacheLine = 64;
inline constexpr std::size_t kPage = 4096;

struct FreePages {
  void operator()(std::byte* memory) const { std::free(memory); }
};
using PageMemory = std::unique_ptr<std::byte, FreePages>;

// Allocates at least `bytes` bytes, zeroed. Null: there is not enough memory.
inline PageMemory allocatePages(std::size_t bytes) {
  const std::size_t whole = roundUp(bytes, kPage);
  PageMemory memory(static_cast<std::byte*>(std::aligned_alloc(kPage, whole)));
  if (memory != nullptr) std::memset(memory.get(), 0, whole);
  return memory;
}

}  // namespace railwise::cli
