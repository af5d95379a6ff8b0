// Where the dynamic linker and Python look for NCCL and its plugins, and what lies there. What dlopen() of a
// process would find is approximated by files: LD_LIBRARY_PATH, the folders of /etc/ld.so.conf, and the
// system's. Thread-safe if the tree is.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "doctor/facts/system.h"

namespace railwise::doctor {

// The folders in which the linker looks, in its order, each once. Only those that exist.
std::vector<std::string> librarySearchPath(const System& system);

// The file that dlopen(name) would take; "": none. A name with a slash is taken as it is.
std::string findLibrary(const System& system, const std::string& name);

// Where libibverbs may lie: where the linker looks, and in the active conda environment.
std::vector<std::string> verbsFolders(const System& system);
// The real file of libibverbs.so.1. "": not there.
std::string verbsLibrary(const System& system);
// The file, without links, that the dynamic linker takes for `library` ("": libibverbs.so.1) in this process;
// "": there is none. Loads it.
std::string loadedRdmaLibrary(const std::string& library);
// "44.0" of ".../libibverbs.so.1.14.44.0": rdma-core puts its version behind the two numbers of the library's
// interface.
// "": the name has another form.
std::string rdmaCoreVersion(std::string_view file);

struct NcclLibrary {
  std::string path;
  std::string version;  // "2.29.7"; "": neither its name nor kLibrariesFile tells
  bool rccl = false;
};
// Every libnccl and librccl of the search path, of CUDA, of Python's packages and of the active environment.
// Each file once, in the order in which programs look.
std::vector<NcclLibrary> ncclLibraries(const System& system);

// The libnccl.so.2 that programs load: that of LD_PRELOAD, of LD_LIBRARY_PATH, of the active Python
// environment, of the linker's folders, of other Pythons. Nothing: none is found.
std::optional<NcclLibrary> ncclOfPrograms(const System& system);
// The libnccl.so.2 that a program would load on this machine. `environment`: NAME=value, one per line, as in
// kEnvironmentFile. Nothing is loaded or run.
std::optional<NcclLibrary> ncclOnThisMachine(const std::string& environment);
// The version in the text of a library of this machine, "NCCL version 2.29.7+cuda13.0": "2.29.7". "": it is
// not there. Nothing is loaded or run.
std::string ncclVersionInside(const std::string& path);

// The entries of NCCL_NET_PLUGIN.
std::vector<std::string> pluginEntries(const System& system);
// The file that NCCL finds for one of the entries; "": it finds none.
std::string findPlugin(const System& system, const std::string& entry);

// What the names of this machine's libraries do not tell, for the file kLibrariesFile: "PATH 2.29.7", the
// release of an NCCL, "PATH railwise", a plugin that is Railwise under another name, and "PATH broken: WHY",
// a plugin of NCCL_NET_PLUGIN that cannot be loaded. Reads the libraries.
std::string librariesText(const System& system);
// True if a plugin is Railwise, by its file's name or by kLibrariesFile.
bool isRailwise(const System& system, const std::string& path);
// Why a plugin cannot be loaded, by kLibrariesFile. "": nothing is known.
std::string flawOfLibrary(const System& system, const std::string& path);

}  // namespace railwise::doctor
