// A library opened with dlopen and closed by its owner. symbol() is thread-safe; moving is not.
#pragma once

#include <dlfcn.h>

#include <cstdint>
#include <initializer_list>
#include <utility>

#include "base/outcome.h"

namespace railwise {

class DynamicLibrary {
 public:
  // kNever: the library stays loaded after the owner has closed it (RTLD_NODELETE). Opening it again finds
  // its variables unchanged.
  enum class Unload : uint8_t { kWithOwner, kNever };
  // Opens the first of `names` that can be loaded, with RTLD_NOW and RTLD_LOCAL. The error is the dynamic
  // linker's text for the last name that was tried.
  static Outcome<DynamicLibrary> open(std::initializer_list<const char*> names,
                                      Unload unload = Unload::kWithOwner) {
    const int flags = RTLD_NOW | RTLD_LOCAL | (unload == Unload::kNever ? RTLD_NODELETE : 0);
    Error error;
    for (const char* name : names) {
      if (void* handle = dlopen(name, flags)) return DynamicLibrary(handle);
      if (const char* text = dlerror(); text != nullptr) error.text = text;
    }
    return error;
  }

  DynamicLibrary(DynamicLibrary&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  DynamicLibrary& operator=(DynamicLibrary&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~DynamicLibrary() {
    if (handle_ != nullptr) dlclose(handle_);
  }

  // The address of `name`, or null. If `version` is null, the default version is looked up.
  void* symbol(const char* name, const char* version = nullptr) const {
    return version != nullptr ? dlvsym(handle_, name, version) : dlsym(handle_, name);
  }
  // The function `name` as a pointer of the type that it is assigned to, or null.
  struct Function {
    void* address;
    template <typename Signature>
    operator Signature*() const {  // NOLINT: implicit, so that `Signature* call = library["name"];` works
      return reinterpret_cast<Signature*>(address);
    }
  };
  Function operator[](const char* name) const { return {symbol(name)}; }

 private:
  explicit DynamicLibrary(void* handle) : handle_(handle) {}
  void* handle_;
};

}  // namespace railwise
