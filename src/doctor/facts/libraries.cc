#include "doctor/facts/libraries.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <set>

#include "base/dynamic_library.h"
#include "base/installed_places.h"
#include "base/library_file.h"
#include "base/text/words.h"
#include "doctor/facts/trees.h"

namespace railwise::doctor {
namespace {

constexpr std::string_view kBroken = "broken: ";  // before the reason in kLibrariesFile
constexpr const char* kWheelFolder = "/nvidia/nccl/lib";
constexpr const char* kSystemFolders[] = {"/lib/x86_64-linux-gnu",
                                          "/usr/lib/x86_64-linux-gnu",
                                          "/lib/aarch64-linux-gnu",
                                          "/usr/lib/aarch64-linux-gnu",
                                          "/lib64",
                                          "/usr/lib64",
                                          "/lib",
                                          "/usr/lib"};
// Programs are linked to these, or find them by an rpath.
constexpr const char* kMoreFolders[] = {"/usr/local/cuda/lib64", "/usr/local/lib", "/opt/rocm/lib",
                                        "/opt/amazon/ofi-nccl/lib", "/opt/amazon/ofi-nccl/lib64"};

// The folders that the linker's configuration names.
void addConfigured(const System& system, std::vector<std::string>& folders) {
  std::string text;
  for (const std::string& file : system.tree().list("/etc/ld.so.conf.d"))
    if (file.ends_with(".conf")) text += system.text("/etc/ld.so.conf.d/" + file) + "\n";
  for (const std::string& line : linesOf(text + system.text("/etc/ld.so.conf")))
    if (const std::string folder(trimmed(line)); folder.starts_with('/')) folders.push_back(folder);
}

void keepExisting(const System& system, std::vector<std::string>& folders) {
  std::set<std::string> seen;
  std::erase_if(folders, [&](const std::string& folder) {
    const std::string real = sysfs::realPathOf(system.tree(), folder);
    return real.empty() || !seen.insert(real).second;
  });
}

// The site-packages folders of a prefix: lib/python3.12/site-packages and dist-packages.
void addPython(const System& system, const std::string& prefix, std::vector<std::string>& packages) {
  for (const char* lib : {"/lib", "/lib64"}) {
    for (const std::string& name : system.tree().list(prefix + lib)) {
      if (!name.starts_with("python3")) continue;
      for (const char* kind : {"/site-packages", "/dist-packages"})
        packages.push_back(prefix + lib + "/" + name + kind);
    }
  }
}

// The packages of the environment that is active.
std::vector<std::string> activePackages(const System& system) {
  std::vector<std::string> packages;
  for (const char* name : {"VIRTUAL_ENV", "CONDA_PREFIX"})
    if (const Variable* set = system.variable(name); set != nullptr) addPython(system, set->value, packages);
  return packages;
}

std::vector<std::string> pythonPackages(const System& system) {
  std::vector<std::string> packages = activePackages(system);
  for (const char* prefix : {"/usr/local", "/usr", "/opt/conda", "/opt/venv"})
    addPython(system, prefix, packages);
  return packages;
}

// The numbers of "libnccl.so.2.29.7" or of "nvidia_nccl_cu12-2.29.7.dist-info".
std::string versionIn(const std::string& name, const std::string& after) {
  const auto at = name.find(after);
  if (at == std::string::npos) return {};
  const std::string rest = name.substr(at + after.size());
  const std::string version = rest.substr(0, rest.find_first_not_of("0123456789."));
  const std::string plain = version.ends_with('.') ? version.substr(0, version.size() - 1) : version;
  return std::ranges::count(plain, '.') >= 2 ? plain : "";
}

// The folders in which programs find NCCL, in their order, besides LD_PRELOAD.
std::vector<std::string> foldersOfPrograms(const System& system) {
  std::vector<std::string> folders;
  if (const Variable* path = system.variable("LD_LIBRARY_PATH"); path != nullptr)
    folders = fullPartsOf(path->value, ':');
  for (const std::string& packages : activePackages(system)) folders.push_back(packages + kWheelFolder);
  for (const std::string& folder : librarySearchPath(system)) folders.push_back(folder);
  for (const std::string& packages : pythonPackages(system)) folders.push_back(packages + kWheelFolder);
  folders.insert(folders.end(), std::begin(kMoreFolders), std::end(kMoreFolders));
  return folders;
}

std::string pathOfPrograms(const System& system) {
  constexpr std::string_view kName = "libnccl.so";
  if (const Variable* preload = system.variable("LD_PRELOAD"); preload != nullptr)
    for (const std::string& words : fullPartsOf(preload->value, ':'))
      for (const std::string& path : fullPartsOf(words, ' '))
        if (sysfs::baseName(path).starts_with(kName) && system.exists(path)) return path;
  for (const std::string& folder : foldersOfPrograms(system))
    if (const std::string path = folder + "/libnccl.so.2"; system.exists(path)) return path;
  return {};
}

// The word of kLibrariesFile for a file; "": it has none.
std::string wordOf(const System& system, const std::string& path) {
  for (const std::string& line : linesOf(system.text(kLibrariesFile)))
    if (line.starts_with(path + " ")) return line.substr(path.size() + 1);
  return {};
}

// Maps a file of this machine. `text` is empty if it cannot be read.
class MappedFile {
 public:
  explicit MappedFile(const std::string& path) {
    const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    struct stat info = {};
    if (file < 0) return;
    if (fstat(file, &info) == 0 && info.st_size > 0) {
      const auto bytes = static_cast<std::size_t>(info.st_size);
      void* const mapped = mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE, file, 0);
      if (mapped != MAP_FAILED) text_ = {static_cast<const char*>(mapped), bytes};
    }
    close(file);
  }
  ~MappedFile() {
    if (!text_.empty()) munmap(const_cast<char*>(text_.data()), text_.size());
  }
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  std::string_view text() const { return text_; }

 private:
  std::string_view text_;
};

// Railwise's own name in a library's dynamic section, where it is a whole string.
bool namesItselfRailwise(const std::string& path) {
  constexpr std::string_view kOwnName("\0libnccl-net-railwise.so", sizeof "\0libnccl-net-railwise.so");
  return MappedFile(path).text().find(kOwnName) != std::string_view::npos;
}

class Collector {
 public:
  explicit Collector(const System& system) : system_(system) {}

  void folder(const std::string& folder, const std::string& version = "") {
    for (const std::string& name : system_.tree().list(folder)) {
      const bool rccl = name.starts_with("librccl.so");
      if (!rccl && !name.starts_with("libnccl.so")) continue;
      const std::string real = sysfs::realPathOf(system_.tree(), folder + "/" + name);
      if (real.empty() || !seen_.insert(real).second) continue;
      const std::string file(sysfs::baseName(real));
      std::string found = versionIn(file, rccl ? "librccl.so." : "libnccl.so.");
      if (found.empty()) found = version.empty() && !rccl ? wordOf(system_, real) : version;
      libraries_.push_back({real, found, rccl});
    }
  }

  // The wheels nvidia-nccl-cu12 and -cu13, whose library has no version in its name.
  void packages(const std::string& packages) {
    std::string version;
    for (const std::string& name : system_.tree().list(packages))
      if (name.starts_with("nvidia_nccl_cu") && name.ends_with(".dist-info")) version = versionIn(name, "-");
    folder(packages + kWheelFolder, version);
  }

  std::vector<NcclLibrary> take() { return std::move(libraries_); }

 private:
  const System& system_;
  std::set<std::string> seen_;
  std::vector<NcclLibrary> libraries_;
};

}  // namespace

std::vector<std::string> librarySearchPath(const System& system) {
  std::vector<std::string> folders;
  if (const Variable* path = system.variable("LD_LIBRARY_PATH"); path != nullptr)
    folders = fullPartsOf(path->value, ':');
  addConfigured(system, folders);
  folders.insert(folders.end(), std::begin(kSystemFolders), std::end(kSystemFolders));
  keepExisting(system, folders);
  return folders;
}

std::string findLibrary(const System& system, const std::string& name) {
  if (name.find('/') != std::string::npos) {
    const std::string path = system.pathOf(name);
    return system.exists(path) ? path : "";
  }
  for (const std::string& folder : librarySearchPath(system))
    if (system.exists(folder + "/" + name)) return folder + "/" + name;
  return {};
}

std::vector<std::string> verbsFolders(const System& system) {
  std::vector<std::string> folders = librarySearchPath(system);
  if (const Variable* conda = system.variable("CONDA_PREFIX"); conda != nullptr)
    folders.push_back(conda->value + "/lib");
  return folders;
}

std::string verbsLibrary(const System& system) {
  for (const std::string& folder : verbsFolders(system)) {
    const std::string file = sysfs::realPathOf(system.tree(), folder + "/libibverbs.so.1");
    if (!file.empty()) return file;
  }
  return {};
}

std::string loadedRdmaLibrary(const std::string& library) {
  const char* const name = library.empty() ? "libibverbs.so.1" : library.c_str();
  const Outcome<DynamicLibrary> opened = DynamicLibrary::open({name}, DynamicLibrary::Unload::kNever);
  Dl_info info = {};
  if (!opened.ok() || dladdr(opened->symbol("ibv_get_device_list"), &info) == 0) return "";
  const std::unique_ptr<char, void (*)(void*)> file(realpath(info.dli_fname, nullptr), std::free);
  return file == nullptr ? "" : file.get();
}

std::string rdmaCoreVersion(std::string_view file) {
  constexpr std::string_view kSoname = ".so.1.";
  const std::size_t soname = file.rfind(kSoname);
  if (soname == std::string_view::npos) return "";
  const std::string_view interface = file.substr(soname + kSoname.size());  // "14.44.0"
  const std::size_t dot = interface.find('.');
  const std::string_view version = dot == std::string_view::npos ? "" : interface.substr(dot + 1);
  // Before rdma-core the library was libibverbs.so.1.0.0.
  return version.find('.') == std::string_view::npos ? "" : std::string(version);
}

std::vector<NcclLibrary> ncclLibraries(const System& system) {
  Collector collector(system);
  for (const std::string& packages : pythonPackages(system)) collector.packages(packages);
  for (const std::string& folder : librarySearchPath(system)) collector.folder(folder);
  for (const char* folder : kMoreFolders) collector.folder(folder);
  return collector.take();
}

std::optional<NcclLibrary> ncclOfPrograms(const System& system) {
  const std::string path = pathOfPrograms(system);
  if (path.empty()) return std::nullopt;
  const std::string real = sysfs::realPathOf(system.tree(), path);
  NcclLibrary found{path, versionIn(real, "libnccl.so."), false};
  for (const NcclLibrary& library : ncclLibraries(system))
    if (library.path == real && found.version.empty()) found.version = library.version;
  return found;
}

std::string ncclVersionInside(const std::string& path) {
  constexpr std::string_view kBefore = "NCCL version ";
  constexpr std::size_t kMostDigits = 16;
  const MappedFile file(path);
  const std::string_view text = file.text();
  std::string version;
  for (std::size_t at = text.find(kBefore); version.empty() && at != std::string_view::npos;
       at = text.find(kBefore, at + 1))
    version = versionIn(std::string(text.substr(at, kBefore.size() + kMostDigits)), std::string(kBefore));
  return version;
}

std::optional<NcclLibrary> ncclOnThisMachine(const std::string& environment) {
  sysfs::MemoryTree facts("this process");
  facts.file(kEnvironmentFile, environment);
  const auto files = sysfs::makeLiveTree();
  const OverlayTree tree(*files, facts);
  auto library = ncclOfPrograms(System(tree));
  if (library && library->version.empty()) library->version = ncclVersionInside(library->path);
  return library;
}

std::vector<std::string> pluginEntries(const System& system) {
  const Variable* set = system.variable("NCCL_NET_PLUGIN");
  std::vector<std::string> entries;
  for (const std::string& entry : fullPartsOf(set == nullptr ? "" : set->value, ','))
    entries.emplace_back(trimmed(entry));
  return entries;
}

std::string findPlugin(const System& system, const std::string& entry) {
  for (const std::string& name : pluginFileNames(entry))
    if (const std::string found = findLibrary(system, name); !found.empty()) return found;
  return {};
}

std::string librariesText(const System& system) {
  std::string text;
  for (const NcclLibrary& library : ncclLibraries(system)) {
    if (library.rccl || !library.version.empty()) continue;
    if (const std::string version = ncclVersionInside(library.path); !version.empty())
      text.append(library.path).append(" ").append(version).append("\n");
  }
  for (const char* name : {"libnccl-net.so", "librccl-net.so"}) {
    const std::string path = sysfs::realPathOf(system.tree(), findLibrary(system, name));
    if (!path.empty() && !isRailwise(system, path) && namesItselfRailwise(path))
      text.append(path).append(" railwise\n");
  }
  for (const std::string& entry : pluginEntries(system)) {
    const std::string found = findPlugin(system, entry);
    if (found.empty()) continue;
    const std::string path = sysfs::realPathOf(system.tree(), found);
    const std::string flaw = flawOf(libraryFileAt(path));
    if (!flaw.empty()) text.append(path).append(" ").append(kBroken).append(flaw).append("\n");
  }
  return text;
}

bool isRailwise(const System& system, const std::string& path) {
  const std::string real = sysfs::realPathOf(system.tree(), path);
  return sysfs::baseName(real).find("railwise") != std::string::npos || wordOf(system, real) == "railwise";
}

std::string flawOfLibrary(const System& system, const std::string& path) {
  const std::string word = wordOf(system, sysfs::realPathOf(system.tree(), path));
  return word.starts_with(kBroken) ? word.substr(kBroken.size()) : "";
}

}  // namespace railwise::doctor
