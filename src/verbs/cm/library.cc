#include "verbs/cm/library.h"

#include <mutex>
#include <optional>
#include <type_traits>

#include "base/dynamic_library.h"
#include "base/log.h"

namespace railwise::verbs {
namespace {

struct State {
  std::mutex mutex;
  std::string file;
  bool opened = false;  // the library was looked for, perhaps without success
  std::optional<DynamicLibrary> library;
  CmLibrary table = {};
};

// Never destroyed: NCCL's threads may still run at exit.
State& state() {
  static State& it = *new State;
  return it;
}

// Fills `table` from symbol(name, version); returns the first symbol that is missing, or null. The versions
// are those of rdma-core's librdmacm.map.
template <typename Symbol>
const char* resolveAll(const Symbol& symbol, CmLibrary& table) {
  const auto resolve = [&symbol]<typename Function>(const char* name, const char* version,
                                                    Function& function) {
    function = reinterpret_cast<Function>(symbol(name, version));
    return function != nullptr;
  };
#define RAILWISE_REQUIRED(field, version)                                        \
  static_assert(std::is_same_v<decltype(table.field), decltype(&rdma_##field)>); \
  if (!resolve("rdma_" #field, version, table.field)) return "rdma_" #field "@" version
  RAILWISE_REQUIRED(create_event_channel, "RDMACM_1.0");
  RAILWISE_REQUIRED(destroy_event_channel, "RDMACM_1.0");
  RAILWISE_REQUIRED(get_cm_event, "RDMACM_1.0");
  RAILWISE_REQUIRED(ack_cm_event, "RDMACM_1.0");
  RAILWISE_REQUIRED(create_id, "RDMACM_1.0");
  RAILWISE_REQUIRED(destroy_id, "RDMACM_1.0");
  RAILWISE_REQUIRED(migrate_id, "RDMACM_1.0");
  RAILWISE_REQUIRED(bind_addr, "RDMACM_1.0");
  RAILWISE_REQUIRED(resolve_addr, "RDMACM_1.0");
  RAILWISE_REQUIRED(resolve_route, "RDMACM_1.0");
  RAILWISE_REQUIRED(get_src_port, "RDMACM_1.0");
  RAILWISE_REQUIRED(set_option, "RDMACM_1.0");
  RAILWISE_REQUIRED(init_qp_attr, "RDMACM_1.2");
  RAILWISE_REQUIRED(listen, "RDMACM_1.0");
  RAILWISE_REQUIRED(connect, "RDMACM_1.0");
  RAILWISE_REQUIRED(accept, "RDMACM_1.0");
  RAILWISE_REQUIRED(reject, "RDMACM_1.0");
  RAILWISE_REQUIRED(establish, "RDMACM_1.2");
  RAILWISE_REQUIRED(disconnect, "RDMACM_1.0");
#undef RAILWISE_REQUIRED
  return nullptr;
}

void openLocked(State& it) {
  it.opened = true;
  // librdmacm opens each device itself, keeps it open until the process ends, and has no call that ends this.
  // If it were unloaded and loaded again, it would open all devices once more each time.
  Outcome<DynamicLibrary> library = DynamicLibrary::open({it.file.c_str()}, DynamicLibrary::Unload::kNever);
  if (!library.ok()) {
    RAILWISE_WARN(
        "no RDMA communication manager: %s. Install librdmacm1 (Debian, Ubuntu) or librdmacm (others); it is "
        "needed on iWARP and for RAILWISE_CONNECT=cm",
        library.error().c_str());
    return;
  }
  CmLibrary table = {.name = "librdmacm"};
  const auto symbol = [&library](const char* name, const char* version) {
    return library->symbol(name, version);
  };
  if (const char* missing = resolveAll(symbol, table); missing != nullptr) {
    RAILWISE_WARN("%s has no %s: it is too old; install rdma-core 22 or newer", it.file.c_str(), missing);
    return;
  }
  it.library.emplace(std::move(*library));
  it.table = table;
}

void set(const std::string& file, const CmLibrary* table) {
  State& it = state();
  const std::lock_guard lock(it.mutex);
  // A thread that was left behind may be in it (keepLoaded()).
  if (table != nullptr ? it.table == *table : file == it.file && it.table.name != nullptr) return;
  it.library.reset();
  it.file = file;
  it.opened = table != nullptr;
  it.table = table != nullptr ? *table : CmLibrary{};
}

}  // namespace

Result<const CmLibrary*> cmLibrary() {
  State& it = state();
  const std::lock_guard lock(it.mutex);
  if (!it.opened) openLocked(it);
  if (it.table.name == nullptr) return Status{Code::kNoDevice, 0};
  return &it.table;
}

const CmLibrary& cmLibraryInUse() { return state().table; }

void setCmLibrary(const std::string& file) { set(file, nullptr); }

const char* setSoftwareCm(void* (*function)(const char* name)) {
  CmLibrary table = {.name = "software device"};
  const char* missing =
      resolveAll([function](const char* name, const char*) { return function(name); }, table);
  if (missing != nullptr) return missing;
  constexpr const char* kLocalAddresses = "railwise_local_addresses";
  table.local_addresses = reinterpret_cast<decltype(table.local_addresses)>(function(kLocalAddresses));
  if (table.local_addresses == nullptr) return kLocalAddresses;
  set("", &table);
  return nullptr;
}

}  // namespace railwise::verbs
