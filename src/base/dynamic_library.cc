#include "base/dynamic_library.h"

#include <dlfcn.h>

#include <cerrno>

namespace railwise {

Result<DynamicLibrary> DynamicLibrary::open(std::initializer_list<const char*> names, std::string* error,
                                            Unload unload) {
  const int flags = RTLD_NOW | RTLD_LOCAL | (unload == Unload::kNever ? RTLD_NODELETE : 0);
  for (const char* name : names) {
    if (void* handle = dlopen(name, flags)) return DynamicLibrary(handle);
    if (const char* text = dlerror(); error != nullptr && text != nullptr) *error = text;
  }
  return Status{Code::kSystem, ENOENT};
}

DynamicLibrary::~DynamicLibrary() {
  if (handle_ != nullptr) dlclose(handle_);
}

void* DynamicLibrary::symbol(const char* name, const char* version) const {
  return version != nullptr ? dlvsym(handle_, name, version) : dlsym(handle_, name);
}

}  // namespace railwise
