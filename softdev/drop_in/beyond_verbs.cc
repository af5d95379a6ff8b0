// What verbs cannot say, for the plugin (include/railwise/device.h).
#include <cerrno>
#include <cstring>
#include <type_traits>

#include "base/log.h"
#include "railwise/device.h"
#include "softdev/connection_manager.h"
#include "softdev/drop_in/front.h"

using namespace railwise;
using softdev::guarded;

namespace {

namespace cm = softdev::cm;

struct CmFunction {
  const char* name;
  void* address;
};

// kFunction under the name of librdmacm's function of the type Standard.
template <auto kFunction, typename Standard>
CmFunction cmFunction(const char* name) {
  static_assert(std::is_same_v<decltype(kFunction), Standard>);
  return {name, reinterpret_cast<void*>(softdev::kGuarded<kFunction, -1>)};
}
#define RAILWISE_CM(function, name) cmFunction<cm::function, decltype(&name)>(#name)

const CmFunction kCmFunctions[] = {
    RAILWISE_CM(createEventChannel, rdma_create_event_channel),
    RAILWISE_CM(destroyEventChannel, rdma_destroy_event_channel),
    RAILWISE_CM(getEvent, rdma_get_cm_event),
    RAILWISE_CM(ackEvent, rdma_ack_cm_event),
    RAILWISE_CM(createId, rdma_create_id),
    RAILWISE_CM(destroyId, rdma_destroy_id),
    RAILWISE_CM(migrateId, rdma_migrate_id),
    RAILWISE_CM(bindAddr, rdma_bind_addr),
    RAILWISE_CM(resolveAddr, rdma_resolve_addr),
    RAILWISE_CM(resolveRoute, rdma_resolve_route),
    RAILWISE_CM(getSrcPort, rdma_get_src_port),
    RAILWISE_CM(setOption, rdma_set_option),
    RAILWISE_CM(createQp, rdma_create_qp),
    RAILWISE_CM(destroyQp, rdma_destroy_qp),
    RAILWISE_CM(initQpAttr, rdma_init_qp_attr),
    RAILWISE_CM(listen, rdma_listen),
    RAILWISE_CM(connect, rdma_connect),
    RAILWISE_CM(accept, rdma_accept),
    RAILWISE_CM(reject, rdma_reject),
    RAILWISE_CM(establish, rdma_establish),
    RAILWISE_CM(disconnect, rdma_disconnect),
    cmFunction<cm::localAddresses, decltype(&cm::localAddresses)>("railwise_local_addresses"),
};
#undef RAILWISE_CM

}  // namespace

RAILWISE_EXPORT int railwise_device_configure(const char* devices, const char* host, const char* fabric,
                                              railwise_device_log log) {
  log::setSink(log);
  const int error = guarded([&] { return drop_in::configure(devices, host, fabric); });
  if (error == ENOMEM) RAILWISE_WARN("software device: no memory for its configuration");
  return error;
}

RAILWISE_EXPORT const char* railwise_device_pci_path(const ibv_device* device) {
  return softdev::pciPath(device);
}

RAILWISE_EXPORT unsigned railwise_device_gpu_memory(const ibv_device* device) {
  unsigned ways = 0;
  if (softdev::takesGpuAddresses(device)) ways |= RAILWISE_DEVICE_GPU_BY_ADDRESS;
  if (softdev::takesGpuDmabufs(device)) ways |= RAILWISE_DEVICE_GPU_BY_DMABUF;
  return ways;
}

RAILWISE_EXPORT uint64_t railwise_device_fabric(const ibv_context* context) {
  return softdev::fabricIdentity(context);
}

RAILWISE_EXPORT void* railwise_device_cm(const char* function) {
  for (const CmFunction& each : kCmFunctions)
    if (std::strcmp(each.name, function) == 0) return each.address;
  return nullptr;
}
