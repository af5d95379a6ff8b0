#include "spy/inner.h"

#include <dlfcn.h>

#include <optional>
#include <utility>

#include "base/dynamic_library.h"
#include "base/log.h"

namespace railwise::spy {
namespace {

bool g_looking = false;  // as the dynamic loader's lock allows one thread only
bool g_found_itself = false;

// Other kinds of plugins that NCCL looks for in the library of a net plugin, with their newest versions.
struct OtherKind {
  const char* symbol;
  int newest;
};
constexpr OtherKind kOtherKinds[] = {
    {"ncclCollNetPlugin_v", 12}, {"ncclTunerPlugin_v", 9}, {"ncclProfiler_v", 9}};

void* tableOf(const DynamicLibrary& library, const char* prefix, int version) {
  return library.symbol((prefix + std::to_string(version)).c_str());
}

// The file that holds `address`.
std::string fileOf(const void* address, const std::string& fallback = "") {
  Dl_info info = {};
  return dladdr(address, &info) != 0 && info.dli_fname != nullptr ? info.dli_fname : fallback;
}

// The spy's own folder, with a slash at its end; "": not known.
std::string ownFolder() {
  const std::string file = fileOf(reinterpret_cast<const void*>(&inner));
  return file.substr(0, file.rfind('/') + 1);
}

void ignoreLog(int, unsigned long, const char*, int, const char*, ...) {}

// The plugin behind the spy reads the settings too, and it is the one that warns of mistakes in them.
Config loadQuietly() {
  log::setSink(ignoreLog);
  Config config = Config::load();
  log::setSink(nullptr);
  return config;
}

// The names to open for `name`: those that NCCL tries, then the spy's own folder.
std::optional<DynamicLibrary> openPlugin(const std::string& name, std::string* error) {
  std::string names[3] = {name, "", ""};
  const bool is_file =
      name.find('/') != std::string::npos || (name.starts_with("lib") && name.ends_with(".so"));
  if (!is_file) {
    names[1] = "libnccl-net-" + name + ".so";
    names[2] = ownFolder() + names[1];
  } else if (name.find('/') == std::string::npos) {
    names[1] = ownFolder() + name;
  }
  for (const std::string& each : names) {
    if (each.empty()) continue;
    auto opened = DynamicLibrary::open({each.c_str()}, DynamicLibrary::Unload::kNever);
    if (opened.ok()) return std::move(*opened);
    *error += (error->empty() ? "" : "; ") + opened.error();
  }
  return std::nullopt;
}

Inner load() {
  Inner made;
  made.config = loadQuietly();
  const std::string& name = made.config.spy;
  if (name.empty()) {
    made.error =
        "RAILWISE_SPY is not set: it names the network plugin behind the spy, as NCCL_NET_PLUGIN would";
    return made;
  }
  std::string problem;
  const auto library = openPlugin(name, &problem);
  if (!library) {
    made.error = "RAILWISE_SPY=" + name + ": the plugin cannot be loaded: " + problem;
    return made;
  }
  const void* found = nullptr;
  g_looking = true;
  for (int version = kOldestApi; version <= kNewestApi; ++version) {
    const void* const table = tableOf(*library, "ncclNetPlugin_v", version);
    made.tables[static_cast<std::size_t>(version)] = table;
    if (table != nullptr) found = table;
  }
  for (int version = kOldestRma; version <= kNewestOneSided; ++version)
    made.rma[static_cast<std::size_t>(version)] = tableOf(*library, "ncclRmaPlugin_v", version);
  for (int version = kOldestGin; version <= kNewestOneSided; ++version)
    made.gin[static_cast<std::size_t>(version)] = tableOf(*library, "ncclGinPlugin_v", version);
  g_looking = false;
  if (g_found_itself) {
    made.error = "RAILWISE_SPY=" + name + ": this is the spy itself; name the plugin that it shall watch";
    return made;
  }
  if (found == nullptr) {
    made.error =
        "RAILWISE_SPY=" + name + ": the library exports none of ncclNetPlugin_v6 to ncclNetPlugin_v12";
    return made;
  }
  made.file = fileOf(found, name);
  for (const OtherKind& kind : kOtherKinds) {
    for (int version = kind.newest; version > 0; --version) {
      if (tableOf(*library, kind.symbol, version) == nullptr) continue;
      made.hidden += (made.hidden.empty() ? "" : ", ") + (kind.symbol + std::to_string(version));
      break;
    }
  }
  return made;
}

// While the spy is loaded: NCCL reads the plugin's name before it calls init.
[[gnu::constructor]] void loadWithSpy() { (void)inner(); }

}  // namespace

bool askedByItself() {
  if (g_looking) g_found_itself = true;
  return g_looking;
}

const Inner& inner() {
  static const Inner& loaded = *new Inner(load());
  return loaded;
}

}  // namespace railwise::spy
