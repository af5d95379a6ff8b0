#include "cli/plugin/plugin_loader.h"

#include <dlfcn.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "base/installed_places.h"
#include "base/library_file.h"
#include "base/process.h"
#include "base/settings/config.h"
#include "base/text/words.h"
#include "cli/options/message.h"
#include "cli/plugin/watched_api.h"

namespace railwise::cli {
namespace {

constexpr const char* kOwnPluginName = "Railwise";  // as its table says
constexpr const char* kOwnName = "railwise";
constexpr const char* kBehindVariable = "RAILWISE_BEHIND_DROP_IN";
constexpr std::string_view kSoftwareKind = "software";

// The machine of --device software[:CONFIG], for --machine; "": the one of RAILWISE_DEVICE, or the default.
std::string machineOf(const PluginOptions& options) {
  if (!options.device.starts_with(kSoftwareKind)) return "";
  const std::size_t colon = options.device.find(':');
  return colon == std::string::npos ? "default" : options.device.substr(colon + 1);
}

constexpr const char* kVariable = "RAILWISE_DEVICE";
// Runs in the child process. Returns 0 if the plugin starts.
int probe(const PluginOptions& options, const char* device) {
  if (!options.verbose) setPluginLog(PluginLog::kNone);
  if (device != nullptr) setenv(kVariable, device, 1);
  auto plugin = loadPlugin(options);
  // If the plugin cannot be loaded, the problem is not its device. The caller's own attempt will report the
  // problem.
  if (!plugin.ok()) return 0;
  g_call_now = sharedCall();
  const auto api = watched(std::move(plugin->api));
  const auto count = startPlugin(*api, 1);
  if (count.ok()) (void)api->finalize();
  return count.ok() ? 0 : 1;
}

// Does the plugin start in a process of its own, with RAILWISE_DEVICE=`device`? If `device` is null, the
// variable stays as it is. An error if the plugin hangs.
Outcome<bool> pluginStarts(const PluginOptions& options, const char* device) {
  static std::map<std::pair<std::string, std::string>, bool> known;  // plugin, device
  const char* const variable = device != nullptr ? device : std::getenv(kVariable);
  const std::pair key(options.plugin, variable != nullptr ? variable : "");
  if (const auto found = known.find(key); found != known.end()) return found->second;
  CallNow* const call = sharedCall();
  if (call != nullptr) call->name = "dlopen";
  ProcessPlan plan;
  plan.body = [&](std::string&) { return probe(options, device); };
  if (!options.verbose) plan.error = kStreamNothing;
  auto child = Process::start(plan);
  if (!child.ok()) return true;  // no probe, no fallback: the plugin's own init decides
  const auto& end = child->wait(Deadline::after(std::chrono::seconds(options.start_limit_s)));
  if (!end)
    return Error{textOf("plugin %s hangs: %s does not return within %d s",
                        options.plugin.empty() ? kOwnName : options.plugin.c_str(),
                        call != nullptr && call->name != nullptr ? call->name.load() : "its start",
                        options.start_limit_s)};
  return known[key] = end->good();
}

constexpr const char* kOwnPlugin = "libnccl-net-railwise.so";

// The tables of one kind that a plugin may have.
struct TableKind {
  const char* symbol;  // without the version
  int oldest;
  int newest;
};
constexpr TableKind kNetTables = {"ncclNetPlugin_v", kOldestApi, kNewestApi};
constexpr TableKind kRmaTables = {"ncclRmaPlugin_v", kOldestRmaApi, kNewestRmaApi};

std::string symbolName(const TableKind& kind, int version) { return kind.symbol + std::to_string(version); }

std::string exportedVersions(const DynamicLibrary& library, const TableKind& kind) {
  std::string list;
  for (int version = kind.newest; version >= kind.oldest; --version) {
    if (library.symbol(symbolName(kind, version).c_str()) == nullptr) continue;
    list += (list.empty() ? "v" : ", v") + std::to_string(version);
  }
  return list;
}

std::string fileOf(void* symbol, const std::string& fallback) {
  Dl_info info = {};
  return dladdr(symbol, &info) != 0 && info.dli_fname != nullptr ? info.dli_fname : fallback;
}

// The file that the dynamic linker would map for a name, as far as files that are cut off are concerned: such
// a file would end this process. "": none.
std::string cutOffFile(const std::string& name) {
  const bool is_path = name.find('/') != std::string::npos;
  const char* const folders = std::getenv("LD_LIBRARY_PATH");
  for (const std::string& folder :
       is_path ? std::vector<std::string>{""} : fullPartsOf(folders != nullptr ? folders : "", ':')) {
    const std::string path = is_path ? name : folder + "/" + name;
    const LibraryFile file = libraryFileAt(path);
    if (file == LibraryFile::kCutOff) return path;
    if (file == LibraryFile::kLoadable) break;
  }
  return "";
}

Outcome<DynamicLibrary> openFirst(const std::vector<std::string>& names, std::string* opened) {
  Error error;
  for (const std::string& name : names) {
    // A missing file beside the executable is not an error. A missing file that the user named is one.
    if (names.size() > 2 && name.find('/') != std::string::npos && access(name.c_str(), F_OK) != 0) continue;
    if (const std::string file = cutOffFile(name); !file.empty())
      return Error{file + ": " + flawOf(LibraryFile::kCutOff) + ": copy it again"};
    // Never unloaded: threads of a plugin may outlive its finalize().
    auto library = DynamicLibrary::open({name.c_str()}, DynamicLibrary::Unload::kNever);
    if (library.ok()) {
      *opened = name;
      return library;
    }
    error.text += (error.text.empty() ? "" : "; ") + library.error();
  }
  return error;
}

bool acceptDevice(std::string_view value, std::string* field) {
  if (value != "auto" && !isDeviceKind(value)) return false;
  *field = value;
  return true;
}

}  // namespace

std::string executablePath() {
  char path[PATH_MAX];
  const ssize_t length = readlink("/proc/self/exe", path, sizeof path);
  return length > 0 ? std::string(path, static_cast<std::size_t>(length)) : std::string();
}

Option apiOption(std::string text, int* version, int newest) {
  return valueOption(0, "api", "VERSION", std::move(text),
                     textOf("an API version from v%d to v%d", kOldestApi, newest),
                     [version, newest](std::string_view value) {
                       if (!value.starts_with('v')) return false;
                       const auto parsed = parseInt(value.substr(1), kOldestApi, newest);
                       if (parsed) *version = *parsed;
                       return parsed.has_value();
                     });
}

static void addOptions(std::vector<Option>& options, PluginOptions& fields, Option api) {
  options.insert(
      options.end(),
      {textOption(0, "plugin", "NAME", &fields.plugin,
                  "net plugin to load, found as NCCL_NET_PLUGIN=NAME finds it: a file, or NAME "
                  "for libnccl-net-NAME.so (default: our own, which is beside this command)"),
       std::move(api),
       valueOption(
           0, "device", "KIND",
           "verbs (libibverbs), software[:CONFIG] (the software device) or auto: RAILWISE_DEVICE if set, "
           "else verbs if there is an RDMA device, else software (default: auto)",
           "auto, verbs, software or software:CONFIG",
           [&fields](std::string_view value) { return acceptDevice(value, &fields.device); }),
       flagOption('v', "verbose", &fields.verbose, "also show what the plugin logs at INFO")});
}

void addPluginOptions(std::vector<Option>& options, PluginOptions& fields) {
  addOptions(options, fields,
             apiOption("v6 to v12: the plugin API version to use (default: the newest that the plugin "
                       "exports, as NCCL does)",
                       &fields.api));
}

void addPluginAndRmaOptions(std::vector<Option>& options, PluginOptions& fields) {
  addOptions(options, fields,
             apiOption("v6 to v12, or v13 to v16 for puts and gets: the plugin API version to use (default: "
                       "the newest that the plugin exports, as NCCL does)",
                       &fields.api, kNewestRmaApi));
}

bool namesOwnPlugin(const std::string& name) { return name.empty() || name == kOwnName; }

std::string ownPluginFile() {
  for (const std::string& path : installedPlaces(kOwnPlugin)) {
    std::error_code error;
    if (std::filesystem::exists(path, error)) return std::filesystem::weakly_canonical(path, error).string();
  }
  return "";
}

// The dynamic linker does not look for a name without a slash in the current folder.
static std::string inThisFolder(const std::string& plugin) {
  const bool here = plugin.find('/') == std::string::npos && access(plugin.c_str(), F_OK) == 0;
  return plugin.empty() || !here ? "" : "; the file is in this folder: --plugin ./" + plugin;
}

template <typename Api>
static Outcome<Loaded<Api>> load(const PluginOptions& options, const TableKind& kind) {
  const bool own = namesOwnPlugin(options.plugin);
  // A name is first what it would be to NCCL: LD_LIBRARY_PATH comes before our own folder.
  auto names = options.plugin.empty() ? std::vector<std::string>() : pluginFileNames(options.plugin);
  if (own) {
    const auto beside = installedPlaces(kOwnPlugin);
    names.insert(names.end(), beside.begin(), beside.end());
    names.emplace_back(kOwnPlugin);  // where the dynamic linker finds it
  }
  const std::string shown = own ? kOwnPlugin : options.plugin;
  std::string name;
  auto library = openFirst(names, &name);
  if (!library.ok())
    return Error{"cannot load plugin " + shown + ": " + library.error() + inThisFolder(options.plugin) +
                 (own && ownPluginFile().empty() ? "; install the package railwise-nccl-plugin" : "")};
  const int newest = options.api != 0 ? options.api : kind.newest;
  const int oldest = options.api != 0 ? options.api : kind.oldest;
  for (int version = newest; version >= oldest; --version) {
    void* table = library->symbol(symbolName(kind, version).c_str());
    if (table == nullptr) continue;
    auto api = Api::create(version, table);
    if (!api.ok()) return Error{"plugin " + name + ": " + api.error()};
    return Loaded<Api>{std::move(*library), fileOf(table, name), std::move(*api)};
  }
  const std::string exported = exportedVersions(*library, kind);
  return Error{"plugin " + name + " does not export " +
                   (options.api != 0
                        ? symbolName(kind, options.api)
                        : "any " + symbolName(kind, kind.oldest) + " .. " + symbolName(kind, kind.newest)) +
                   (exported.empty() ? std::string() : "; it exports " + exported),
               options.api != 0 && !exported.empty() ? Code::kInvalidUsage : Code::kSystem};
}

Outcome<LoadedPlugin> loadPlugin(const PluginOptions& options) { return load<NetApi>(options, kNetTables); }

Outcome<LoadedRma> loadRma(const PluginOptions& options) { return load<RmaApi>(options, kRmaTables); }

static Error failedCall(const PluginApi& api, const char* call, ncclResult_t result) {
  return Error{
      textOf("plugin %s (v%d): %s failed: %s", api.name(), api.version(), call, resultText(result).c_str())};
}

static Error failedInit(const PluginApi& api, ncclResult_t result) {
  const Config config = Config::load();
  const bool disabled =
      std::string_view(api.name()) == kOwnPluginName && config.ib_disable != 0 && config.device != "verbs";
  return Error{failedCall(api, "init", result).text +
               (disabled ? "; NCCL_IB_DISABLE=1 switches it off: unset NCCL_IB_DISABLE"
                         : "; --verbose shows what it logs at INFO")};
}

// After init.
static Outcome<int> devicesOf(PluginApi& api, const TableKind& kind) {
  if (const char* const missing = api.missingFunction())
    return Error{
        textOf("plugin %s: %s has no %s", api.name(), symbolName(kind, api.version()).c_str(), missing)};
  int count = 0;
  if (const ncclResult_t result = api.devices(&count); result != ncclSuccess)
    return failedCall(api, "devices", result);
  if (count > 0) return count;
  return Error{
      textOf("plugin %s (v%d): it has no device: load the NIC's driver, or try the plugin on software "
             "devices (railwise perf --device software)",
             api.name(), api.version())};
}

Outcome<int> startPlugin(NetApi& api, uint64_t comm_id) {
  if (const ncclResult_t result = api.init(comm_id, pluginLogger); result != ncclSuccess)
    return failedInit(api, result);
  auto count = devicesOf(api, kNetTables);
  if (!count.ok()) return count;
  NetProperties properties;
  if (const ncclResult_t result = api.getProperties(0, &properties); result != ncclSuccess)
    return failedCall(api, "getProperties(0)", result);
  if (!properties.host_device)
    return Error{textOf("plugin %s (v%d): device 0 (%s) needs code on the GPU (netDeviceType is not HOST)",
                        api.name(), api.version(), properties.name.c_str())};
  return count;
}

Outcome<int> startRma(RmaApi& api, uint64_t comm_id) {
  if (const ncclResult_t result = api.init(comm_id, pluginLogger); result != ncclSuccess)
    return failedInit(api, result);
  return devicesOf(api, kRmaTables);
}

void useOwnFabric(const std::string& name) {
  constexpr const char* kFabricVariable = "RAILWISE_FABRIC";
  const char* const named = std::getenv(kFabricVariable);
  if (named == nullptr || *named == '\0') setenv(kFabricVariable, name.c_str(), 1);
}

Outcome<bool> startsByItself(const PluginOptions& options) { return pluginStarts(options, nullptr); }

Outcome<bool> needsSoftwareDevice(const PluginOptions& options) {
  if (options.device != "auto" || std::getenv(kVariable) != nullptr) return false;
  const auto starts = pluginStarts(options, nullptr);
  if (!starts.ok() || *starts) return starts.ok() ? Outcome<bool>(false) : starts;
  return pluginStarts(options, "software");
}

void applyDevice(const PluginOptions& options, bool software_fallback) {
  if (options.device != "auto") {
    setenv(kVariable, options.device.c_str(), 1);
  } else if (software_fallback) {
    setenv(kVariable, "software", 1);
  }
}

Outcome<bool> needsDropIn(const PluginOptions& options, const std::string& name) {
  if (name == kOwnPluginName || std::getenv(kBehindVariable) != nullptr) return false;
  if (options.device != "auto") return options.device.starts_with(kSoftwareKind);
  const char* const variable = std::getenv("RAILWISE_DEVICE");
  if (variable != nullptr) return std::string_view(variable).starts_with(kSoftwareKind);
  auto starts = startsByItself(options);
  if (starts.ok()) *starts = !*starts;
  return starts;
}

int runBehindDropIn(const char* command, const PluginOptions& options, Args args) {
  const std::string machine = machineOf(options);
  say("plugin %s runs on software devices behind Railwise's libibverbs.so.1 (as with railwise device run)",
      options.plugin.c_str());
  setenv(kBehindVariable, "1", 1);
  setenv("NCCL_SOCKET_IFNAME", "lo", 0);  // a fabric is on one machine, which may have no other interface
  const std::string executable = executablePath();
  std::vector<std::string> words = {executable, "device", "run", "--sysfs", kSysfsForOtherPlugins};
  if (!machine.empty()) words.insert(words.end(), {"--machine", machine});
  words.insert(words.end(), {"--", executable, command});
  words.insert(words.end(), args.begin(), args.end());
  execv(executable.c_str(), argvOf(words).data());
  say("%s: cannot run %s again: %s", command, executable.c_str(), std::strerror(errno));
  return kExitFailed;
}

}  // namespace railwise::cli
