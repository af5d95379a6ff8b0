#include "verbs/library.h"

#include <atomic>
#include <optional>
#include <string>
#include <string_view>

#include "base/dynamic_library.h"
#include "base/log.h"
#include "softdev/softdev.h"
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
bool resolve(const char* symbol, const char* version, Function& function) {
  function = reinterpret_cast<Function>(g_shared_object->symbol(symbol, version));
  return function != nullptr;
}

// Fills `table`. Returns the first required symbol that is missing, or null. The versions are those of
// rdma-core's libibverbs.map, which every release since 2009 keeps.
const char* resolveAll(Library& table) {
  constexpr const char* kBase = "IBVERBS_1.1";
#define RAILWISE_REQUIRED(field) \
  if (!resolve("ibv_" #field, kBase, table.field)) return "ibv_" #field "@IBVERBS_1.1"
  RAILWISE_REQUIRED(get_device_list);
  RAILWISE_REQUIRED(free_device_list);
  RAILWISE_REQUIRED(get_device_name);
  RAILWISE_REQUIRED(get_device_guid);
  RAILWISE_REQUIRED(open_device);
  RAILWISE_REQUIRED(close_device);
  RAILWISE_REQUIRED(query_device);
  RAILWISE_REQUIRED(query_port);
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
  resolve("ibv_reg_dmabuf_mr", "IBVERBS_1.12", table.reg_dmabuf_mr);
  resolve("ibv_reg_mr_iova2", "IBVERBS_1.8", table.reg_mr_iova2);
  resolve("ibv_query_ece", "IBVERBS_1.10", table.query_ece);
  resolve("ibv_set_ece", "IBVERBS_1.10", table.set_ece);
  resolve("_ibv_query_gid_ex", "IBVERBS_1.11", table.query_gid_ex);
  resolve("_ibv_query_gid_table", "IBVERBS_1.11", table.query_gid_table);
  resolve("ibv_query_port_speed", "IBVERBS_1.16", table.query_port_speed);
  table.name = "libibverbs";
  return nullptr;
}

Status loadIbverbs(const Config& config) {
  const std::string& name = config.ibverbs_library;
  const char* file = name.empty() ? "libibverbs.so.1" : name.c_str();
  Outcome<DynamicLibrary> opened = DynamicLibrary::open({file});
  if (!opened.ok()) {
    RAILWISE_WARN(
        "no RDMA: %s. Install libibverbs1 and ibverbs-providers (Debian, Ubuntu) or libibverbs (others), "
        "or set RAILWISE_DEVICE=software to run on the built-in software device",
        opened.error().c_str());
    return {Code::kNoDevice, ENOENT};
  }
  g_shared_object.emplace(std::move(*opened));
  Library table = {};
  if (const char* missing = resolveAll(table); missing != nullptr) {
    RAILWISE_WARN("%s has no %s: it is not a usable libibverbs; install a current rdma-core", file, missing);
    g_shared_object.reset();
    return {Code::kNoDevice, 0};
  }
  if (config.ib_query_port_speed == 0) table.query_port_speed = nullptr;
  g_library = table;
  setMlx5Library(config.mlx5_library.empty() ? "libmlx5.so.1" : config.mlx5_library);
  setCmLibrary(config.rdmacm_library.empty() ? "librdmacm.so.1" : config.rdmacm_library);
  return Status::success();
}

Status loadSoftware(const char* text, const Config& config) {
  RAILWISE_TRY(softdev::configure(text, config.host.c_str(), config.fabric.c_str()));
  setSoftwareCm();
  g_library = Library{
      .get_device_list = softdev::getDeviceList,
      .free_device_list = softdev::freeDeviceList,
      .get_device_name = softdev::getDeviceName,
      .get_device_guid = softdev::getDeviceGuid,
      .open_device = softdev::openDevice,
      .close_device = softdev::closeDevice,
      .query_device = softdev::queryDevice,
      .query_port = softdev::queryPort,
      .query_gid = softdev::queryGid,
      .query_pkey = softdev::queryPkey,
      .alloc_pd = softdev::allocPd,
      .dealloc_pd = softdev::deallocPd,
      .reg_mr = softdev::regMr,
      .dereg_mr = softdev::deregMr,
      .create_cq = softdev::createCq,
      .destroy_cq = softdev::destroyCq,
      .create_qp = softdev::createQp,
      .modify_qp = softdev::modifyQp,
      .query_qp = softdev::queryQp,
      .destroy_qp = softdev::destroyQp,
      .get_async_event = softdev::getAsyncEvent,
      .ack_async_event = softdev::ackAsyncEvent,
      .fork_init = softdev::forkInit,
      .wc_status_str = softdev::wcStatusStr,
      .reg_dmabuf_mr = softdev::regDmabufMr,
      .reg_mr_iova2 = softdev::regMrIova2,
      .query_ece = softdev::queryEce,
      .set_ece = softdev::setEce,
      .query_gid_ex = softdev::queryGidEx,
      .query_gid_table = softdev::queryGidTable,
      .query_port_speed = nullptr,
      .pci_path = softdev::pciPath,
      .takes_gpu_addresses = softdev::takesGpuAddresses,
      .takes_gpu_dmabufs = softdev::takesGpuDmabufs,
      .fabric_identity = softdev::fabricIdentity,
      .name = "software device",
  };
  return Status::success();
}

}  // namespace

const Library& library() { return g_library; }

Status load(const Config& config) {
  constexpr std::string_view kSoftware = "software";
  const std::string_view device = config.device;
  if (!g_kept) setCmLibrary("");
  setMlx5Library("");
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
  setMlx5Library("");
  if (g_kept) {
    if (g_shared_object) (void)new DynamicLibrary(std::move(*g_shared_object));
  } else {
    setCmLibrary("");
    g_library = {};
  }
  g_shared_object.reset();
}

void keepLoaded() { g_kept = true; }

}  // namespace railwise::verbs
