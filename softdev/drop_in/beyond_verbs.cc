// What verbs cannot say, for the plugin (include/railwise/device.h).
#include <cerrno>
#include <cstring>

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

template <auto kFunction>
CmFunction cmFunction(const char* name) {
  return {name, reinterpret_cast<void*>(softdev::kGuarded<kFunction, -1>)};
}

const CmFunction kCmFunctions[] = {
    cmFunction<cm::createEventChannel>("rdma_create_event_channel"),
    cmFunction<cm::destroyEventChannel>("rdma_destroy_event_channel"),
    cmFunction<cm::getEvent>("rdma_get_cm_event"),
    cmFunction<cm::ackEvent>("rdma_ack_cm_event"),
    cmFunction<cm::createId>("rdma_create_id"),
    cmFunction<cm::destroyId>("rdma_destroy_id"),
    cmFunction<cm::migrateId>("rdma_migrate_id"),
    cmFunction<cm::bindAddr>("rdma_bind_addr"),
    cmFunction<cm::resolveAddr>("rdma_resolve_addr"),
    cmFunction<cm::resolveRoute>("rdma_resolve_route"),
    cmFunction<cm::getSrcPort>("rdma_get_src_port"),
    cmFunction<cm::setOption>("rdma_set_option"),
    cmFunction<cm::createQp>("rdma_create_qp"),
    cmFunction<cm::destroyQp>("rdma_destroy_qp"),
    cmFunction<cm::initQpAttr>("rdma_init_qp_attr"),
    cmFunction<cm::listen>("rdma_listen"),
    cmFunction<cm::connect>("rdma_connect"),
    cmFunction<cm::accept>("rdma_accept"),
    cmFunction<cm::reject>("rdma_reject"),
    cmFunction<cm::establish>("rdma_establish"),
    cmFunction<cm::disconnect>("rdma_disconnect"),
    cmFunction<cm::localAddresses>("railwise_local_addresses"),
};

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
