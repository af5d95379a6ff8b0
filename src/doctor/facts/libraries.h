// Where the dynamic linker and Python look for NCCL and its plugins, and what lies there. What dlopen() of a
// process would find is approximated by files: LD_LIBRARY_PATH, the folders of /etc/ld.so.conf, and the
// system's. Thread-safe if the tree is.
#pragma once

#include <string>
#include <vector>

#include "doctor/facts/system.h"

namespace railwise::doctor {

// The folders in which the linker looks, in its order, each once. Only those that exist.
std::vector<std::string> librarySearchPath(const System& system);

// The file that dlopen(name) would take; "": none. A name with a slash is taken as it is.
std::string findLibrary(const System& system, const std::string& name);

struct NcclLibrary {
  std::string path;
  std::string version;  // "2.29.7"; "": its name does not tell
  bool rccl = false;
};
// Every libnccl and librccl of the search path, of CUDA, of Python's packages and of the active environment.
// Each file once, in the order in which programs look.
std::vector<NcclLibrary> ncclLibraries(const System& system);

}  // namespace railwise::doctor
