#include "verbs/library.h"

#include <atomic>
#include <cstdarg>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/dynamic_library.h"
#include "base/installed_places.h"
#include "base/log.h"
#include "base/text/words.h"
#include "railwise/device.h"
#include "verbs/cm/library.h"
#include "verbs/drivers/mlx5_library.h"

namespace railwise::verbs {
namespace {

Library g_library = {};
bool g_begun = false;  // load() has made what unload() clears
std::atomic<bool> g_kept = false;
// Never destroyed: at exit nothing is unloaded, because NCCL's threads may still run.
std::optional<DynamicLibrary>& g_shared_object = *new std::optional<DynamicLibrary>;

template <typename Function>
bool resolve(const DynamicLibrary& from, const char* symbol, const char* version, Function& function) {
  function = reinterpret_cast<Function>(from.symbol(symbol, version));
  return function != nullptr;
}

// Fills `table` from a libibverbs. Returns the first required symbol that is missing, or null. The versions
// are those of rdma-core's libibverbs.map, which every release since 2009 keeps.
const char* resolveAll(const DynamicLibrary& from, Library& table) {
  constexpr const char* kBase = "IBVERBS_1.1";
#define RAILWISE_REQUIRED(field)                                                \
  static_assert(std::is_same_v<decltype(table.field), decltype(&ibv_##field)>); \
  if (!resolve(from, "ibv_" #field, kBase, table.field)) return "ibv_" #field "@IBVERBS_1.1"
  RAILWISE_REQUIRED(get_device_list);
  RAILWISE_REQUIRED(free_device_list);
  RAILWISE_REQUIRED(get_device_name);
  RAILWISE_REQUIRED(get_device_guid);
  RAILWISE_REQUIRED(open_device);
  RAILWISE_REQUIRED(close_device);
  RAILWISE_REQUIRED(query_device);
  RAILWISE_REQUIRED(query_gid);
  RAILWISE_REQUIRED(query_pkey);
  RAILWISE_REQUIRED(alloc_pd);
  RAILWISE_REQUIRED(dealloc_pd);
  RAILWISE_REQUIRED(reg_mr);
  RAILWISE_REQUIRED(dereg_mr);
  RAILWISE_REQUIRED(create_cq);
  RAILWISE_REQUIRED(destroy_cq);
  RAILWISE_REQUIRED(create_qp);
  RAILWISE_REQUIRED(modify_qp);
  RAILWISE_REQUIRED(query_qp);
  RAILWISE_REQUIRED(destroy_qp);
  RAILWISE_REQUIRED(get_async_event);
  RAILWISE_REQUIRED(ack_async_event);
  RAILWISE_REQUIRED(fork_init);
  RAILWISE_REQUIRED(wc_status_str);
#undef RAILWISE_REQUIRED
  // The header declares this function with a structure for old programs.
  if (!resolve(from, "ibv_query_port", kBase, table.query_port)) return "ibv_query_port@IBVERBS_1.1";
  resolve(from, "ibv_reg_dmabuf_mr", "IBVERBS_1.12", table.reg_dmabuf_mr);
  resolve(from, "ibv_reg_mr_iova2", "IBVERBS_1.8", table.reg_mr_iova2);
  resolve(from, "ibv_query_ece", "IBVERBS_1.10", table.query_ece);
  resolve(from, "ibv_set_ece", "IBVERBS_1.10", table.set_ece);
  resolve(from, "_ibv_query_gid_ex", "IBVERBS_1.11", table.query_gid_ex);
  resolve(from, "_ibv_query_gid_table", "IBVERBS_1.11", table.query_gid_table);
  resolve(from, "ibv_query_port_speed", "IBVERBS_1.16", table.query_port_speed);
  return nullptr;
}

// From now on calls go to `library`.
void enforce(DynamicLibrary&& library, const Library& table) {
  g_shared_object.emplace(std::move(library));
  // A thread that was left behind reads the table (keepLoaded()).
  if (!(g_library == table)) g_library = table;
}

Status loadIbverbs(const Config& config) {
  const std::string& name = config.ibverbs_library;
  const char* file = name.empty() ? "libibverbs.so.1" : name.c_str();
  Outcome<DynamicLibrary> opened = DynamicLibrary::open({file});
  if (!opened.ok()) {
    RAILWISE_WARN(
        "no RDMA: %s. Install libibverbs1 and ibverbs-providers (Debian, Ubuntu) or libibverbs (others), "
        "or set RAILWISE_DEVICE=software to run on the software device",
        opened.error().c_str());
    return {Code::kNoDevice, ENOENT};
  }
  Library table = {.name = "libibverbs"};
  if (const char* missing = resolveAll(*opened, table); missing != nullptr) {
    RAILWISE_WARN("%s has no %s: it is not a usable libibverbs; install a current rdma-core", file, missing);
    return {Code::kNoDevice, 0};
  }
  enforce(std::move(*opened), table);
  setMlx5Library(config.mlx5_library.empty() ? "libmlx5.so.1" : config.mlx5_library);
  setCmLibrary(config.rdmacm_library.empty() ? "librdmacm.so.1" : config.rdmacm_library);
  return Status::success();
}

constexpr const char* kDeviceFile = "librailwise-device.so";

// Where the software device's library may be, best first.
std::vector<std::string> deviceFolders(const Config& config) {
  return config.verbs_folder.empty() ? installedPlaces("railwise-verbs")
                                     : std::vector<std::string>{config.verbs_folder};
}

// The software device's library. Nothing, after one warning, if it is not installed or cannot be loaded.
std::optional<DynamicLibrary> openSoftwareDevice(const Config& config) {
  const std::string file = softwareDeviceFile(config);
  if (file.empty()) {
    RAILWISE_WARN(
        "no software device (RAILWISE_DEVICE=software): %s is not in %s. Install the package "
        "railwise-device, or name the folder that has the file in RAILWISE_VERBS_DIR",
        kDeviceFile, joined(deviceFolders(config)).c_str());
    return std::nullopt;
  }
  Outcome<DynamicLibrary> opened = DynamicLibrary::open({file.c_str()});
  if (opened.ok()) return std::move(*opened);
  RAILWISE_WARN("no software device: %s", opened.error().c_str());
  return std::nullopt;
}

// What the device logs goes where our log goes at that moment.
[[gnu::format(printf, 5, 6)]] void logOfDevice(int level, unsigned long subsystems, const char* where,
                                               int line, const char* format, ...) {
  char text[1024];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  log::sink()(level, subsystems, where, line, "%s", text);
}

// The two functions of the software device that are no calls of verbs.
struct DeviceDoors {
  decltype(&railwise_device_configure) configure;
  decltype(&railwise_device_cm) cm;
};

// Fills what verbs cannot say. Returns the first symbol that is missing, or null.
const char* resolveDevice(const DynamicLibrary& from, Library& table, DeviceDoors& doors) {
#define RAILWISE_REQUIRED(symbol, function)                             \
  static_assert(std::is_same_v<decltype(function), decltype(&symbol)>); \
  if (!resolve(from, #symbol, nullptr, function)) return #symbol
  RAILWISE_REQUIRED(railwise_device_configure, doors.configure);
  RAILWISE_REQUIRED(railwise_device_pci_path, table.pci_path);
  RAILWISE_REQUIRED(railwise_device_gpu_memory, table.gpu_memory);
  RAILWISE_REQUIRED(railwise_device_fabric, table.fabric_identity);
  RAILWISE_REQUIRED(railwise_device_cm, doors.cm);
#undef RAILWISE_REQUIRED
  return nullptr;
}

Status loadSoftware(const char* text, const Config& config) {
  std::optional<DynamicLibrary> opened = openSoftwareDevice(config);
  if (!opened) return {Code::kNoDevice, ENOENT};
  Library table = {.name = "software device"};
  DeviceDoors doors = {};
  const char* missing = resolveAll(*opened, table);
  if (missing == nullptr) missing = resolveDevice(*opened, table, doors);
  if (missing == nullptr) {
    const int error = doors.configure(text, config.host.c_str(), config.fabric.c_str(), logOfDevice);
    if (error == ENOMEM) return {Code::kSystem, error};
    if (error != 0) return {Code::kInvalidUsage, error == EBUSY ? EBUSY : 0};
    missing = setSoftwareCm(doors.cm);
  }
  if (missing != nullptr) {
    RAILWISE_WARN(
        "no software device: %s has no %s: install the package railwise-device of version " RAILWISE_VERSION,
        kDeviceFile, missing);
    return {Code::kNoDevice, 0};
  }
  enforce(std::move(*opened), table);
  return Status::success();
}

}  // namespace

const Library& library() { return g_library; }

std::string softwareDeviceFile(const Config& config) {
  namespace fs = std::filesystem;
  for (const std::string& folder : deviceFolders(config)) {
    std::error_code error;
    const fs::path file = fs::path(folder) / kDeviceFile;
    if (fs::exists(file, error)) return fs::absolute(file, error).string();
  }
  return "";
}

Status load(const Config& config) {
  constexpr std::string_view kSoftware = "software";
  const std::string_view device = config.device;
  if (!g_kept) {
    setCmLibrary("");
    setMlx5Library("");
  }
  g_begun = true;
  if (device.empty() || device == "verbs") return loadIbverbs(config);
  setMlx5Library(config.mlx5_library);
  if (device == kSoftware) return loadSoftware("", config);
  if (device.starts_with("software:"))
    return loadSoftware(config.device.c_str() + kSoftware.size() + 1, config);
  RAILWISE_WARN("RAILWISE_DEVICE=%s is not known: use verbs, software or software:CONFIG",
                config.device.c_str());
  return {Code::kInvalidUsage, 0};
}

void unload() {
  if (!g_begun) return;
  if (g_kept) {
    if (g_shared_object) (void)new DynamicLibrary(std::move(*g_shared_object));
  } else {
    setCmLibrary("");
    setMlx5Library("");
    g_library = {};
  }
  g_shared_object.reset();
}

void keepLoaded() { g_kept = true; }

}  // namespace railwise::verbs
