#include "base/installed_places.h"

#include <dlfcn.h>
#include <link.h>

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#ifndef RAILWISE_INSTALL_LIBDIR
#define RAILWISE_INSTALL_LIBDIR "lib"
#endif

namespace railwise {
namespace {

namespace fs = std::filesystem;

// The library that this code is in. "": this code is part of the program.
fs::path ownLibrary() {
  Dl_info info = {};
  link_map* map = nullptr;
  const auto* here = reinterpret_cast<const void*>(&ownLibrary);
  if (dladdr1(here, &info, reinterpret_cast<void**>(&map), RTLD_DL_LINKMAP) == 0 || map == nullptr) return {};
  return map->l_name;
}

fs::path folderOfProgram() {
  std::error_code error;
  return fs::read_symlink("/proc/self/exe", error).parent_path();
}

}  // namespace

std::vector<std::string> installedPlaces(const std::string& name) {
  std::error_code error;
  if (const fs::path library = ownLibrary(); !library.empty()) {
    const fs::path file = fs::weakly_canonical(library, error);
    return {((error ? library : file).parent_path() / name).string()};
  }
  const fs::path folder = folderOfProgram();
  if (folder.empty()) return {};
  std::vector<std::string> places{(folder / name).string()};
  for (const char* library_folder : {"lib", "lib64", RAILWISE_INSTALL_LIBDIR}) {
    std::string place = (folder.parent_path() / library_folder / name).string();
    if (std::find(places.begin(), places.end(), place) == places.end()) places.push_back(std::move(place));
  }
  return places;
}

std::vector<std::string> pluginFileNames(const std::string& entry) {
  const bool library = entry.starts_with("lib") && entry.ends_with(".so");
  if (entry.find('/') != std::string::npos || library) return {entry};
  return {entry, "libnccl-net-" + entry + ".so"};
}

std::string docsFolder() {
  static const std::string found = [] {
    std::error_code error;
    const fs::path folder = folderOfProgram().parent_path() / "share/doc/railwise-doctor/docs";
    return fs::is_directory(folder, error) ? folder.string() + "/" : std::string("docs/");
  }();
  return found;
}

}  // namespace railwise
