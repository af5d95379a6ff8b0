#include "base/dynamic_library.h"

#include <dlfcn.h>

namespace railwise {

Outcome<DynamicLibrary> DynamicLibrary::open(std::initializer_list<const char*> names, Unload unload) {
  const int flags = RTLD_NOW | RTLD_LOCAL | (unload == Unload::kNever ? RTLD_NODELETE : 0);
  Error error;
  for (const char* name : names) {
    if (void* handle = dlopen(name, flags)) return DynamicLibrary(handle);
    if (const char* text = dlerror(); text != nullptr) error.text = text;
  }
  return error;
}

DynamicLibrary::~DynamicLibrary() {
  if (handle_ != nullptr) dlclose(handle_);
}

void* DynamicLibrary::symbol(const char* name, const char* version) const {
  return version != nullptr ? dlvsym(handle_, name, version) : dlsym(handle_, name);
}

}  // namespace railwise
