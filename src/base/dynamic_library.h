// A dlopen'ed library, closed by its owner unless released. Not thread-safe to move; symbol() is thread-safe.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <utility>

#include "base/status.h"

namespace railwise {

class DynamicLibrary {
 public:
  // kNever: the code stays in the process when the owner has closed it, and opening it again finds it as it
  // was.
  enum class Unload : uint8_t { kWithOwner, kNever };
  // Opens the first of `names` that loads, with RTLD_NOW | RTLD_LOCAL. On failure `error` (may be null)
  // receives the dynamic linker's text for the last name tried.
  static Result<DynamicLibrary> open(std::initializer_list<const char*> names, std::string* error,
                                     Unload unload = Unload::kWithOwner);

  DynamicLibrary(DynamicLibrary&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  DynamicLibrary& operator=(DynamicLibrary&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~DynamicLibrary();

  // Address of `name`, or null. `version` null: the default version.
  void* symbol(const char* name, const char* version = nullptr) const;

 private:
  explicit DynamicLibrary(void* handle) : handle_(handle) {}
  void* handle_;
};

}  // namespace railwise
