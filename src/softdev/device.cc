// Devices and contexts: configure, list, open, query (softdev.h).
#include <endian.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <list>
#include <string>

#include "base/log.h"
#include "softdev/datapath.h"
#include "softdev/objects.h"
#include "softdev/tables.h"

namespace railwise::softdev {
namespace {

constexpr uint32_t kVendorId = 0x5257;  // "RW": not a PCI vendor

std::mutex g_mutex;
std::string g_text;
bool g_configured = false;
int g_open_contexts = 0;
// All devices ever configured: a pointer from an old list stays valid. The current ones are g_current.
std::list<Device> g_devices;
std::vector<Device*> g_current;

void fillDevice(Device& device, const DeviceConfig& config, const std::string& fabric) {
  device.config = config;
  device.fabric = fabric;
  device.node_type = IBV_NODE_CA;
  device.transport_type = IBV_TRANSPORT_IB;
  std::strncpy(device.name, config.name.c_str(), sizeof device.name - 1);
  std::strncpy(device.dev_name, config.name.c_str(), sizeof device.dev_name - 1);
  // No sysfs entry stands behind the device: dev_path and ibdev_path stay empty.
}

// g_mutex is held.
Status apply(const char* text) {
  Result<Config> config = parseConfig(text);
  if (!config.ok()) return config.status();
  g_current.clear();
  for (const DeviceConfig& device : config->devices) {
    Device& added = g_devices.emplace_back();
    fillDevice(added, device, config->fabric);
    g_current.push_back(&added);
  }
  g_text = text != nullptr ? text : "";
  g_configured = true;
  return Status::success();
}

void setOperations(Context& context) {
  context.ops.post_send = postSend;
  context.ops.post_recv = postRecv;
  context.ops.poll_cq = pollCq;
  context.ops.req_notify_cq = [](ibv_cq*, int) { return EOPNOTSUPP; };
  context.ops.alloc_mw = [](ibv_pd*, ibv_mw_type) -> ibv_mw* {
    errno = EOPNOTSUPP;
    return nullptr;
  };
  context.ops.bind_mw = [](ibv_qp*, ibv_mw*, ibv_mw_bind*) { return EOPNOTSUPP; };
  context.ops.dealloc_mw = [](ibv_mw*) { return EOPNOTSUPP; };
  context.ops.post_srq_recv = [](ibv_srq*, ibv_recv_wr*, ibv_recv_wr**) { return EOPNOTSUPP; };
}

// The context's record on the fabric; false when a table is full.
bool publishContext(Context& context) {
  Fabric& fabric = *context.fabric;
  const DeviceConfig& config = context.config_device->config;
  const uint32_t lid = lidOf(fabric, config.guid);
  context.index = lid != 0 ? allocateContext(fabric) : 0;
  if (context.index == 0) return false;
  context.record = &fabric.segment->contexts[context.index];
  ContextRecord& record = *context.record;
  record.lid = lid;
  record.link_layer = config.link_layer;
  record.active = config.active ? 1 : 0;
  record.gid_count = static_cast<uint32_t>(config.gids.size());
  std::copy(config.gids.begin(), config.gids.end(), record.gids);
  return true;
}

Context* newContext(Device& device, Fabric* fabric) {
  auto* context = new Context{};
  context->device = &device;
  context->config_device = &device;
  context->fabric = fabric;
  context->cmd_fd = -1;
  context->num_comp_vectors = 1;
  context->async_fd = eventfd(0, EFD_CLOEXEC);
  setOperations(*context);
  if (context->async_fd >= 0 && publishContext(*context)) return context;
  const int error = context->async_fd < 0 ? errno : ENOMEM;
  if (context->async_fd >= 0) close(context->async_fd);
  delete context;
  errno = error;
  return nullptr;
}

const Context& contextOf(const ibv_context* context) { return *static_cast<const Context*>(context); }

void addQp(Counters& sum, const Qp& qp) {
  const QpCounters& c = qp.counters;
  sum.post_send_calls += c.posts.value();
  sum.writes += c.writes.value();
  sum.writes_with_imm += c.writes_with_imm.value();
  sum.reads += c.reads.value();
  sum.sends += c.sends.value();
  sum.send_sges += c.sges.value();
  sum.inline_sends += c.inlined.value();
  sum.signalled_sends += c.signalled.value();
  sum.bytes += c.bytes.value();
  sum.system_calls += c.system_calls.value();
  sum.receives += c.receives.value();
}

void addCq(Counters& sum, const Cq& cq) {
  const uint64_t empty = cq.empty_polls.load(std::memory_order_relaxed);
  sum.empty_polls += empty;
  sum.poll_calls += cq.polls.value() + empty;
  sum.completions += cq.completions.value();
}

}  // namespace

void retireCounters(Context& context, const Qp& qp) { addQp(context.retired, qp); }
void retireCounters(Context& context, const Cq& cq) { addCq(context.retired, cq); }

Status configure(const char* config) {
  std::lock_guard lock(g_mutex);
  const std::string text = config != nullptr ? config : "";
  if (g_open_contexts > 0) {
    if (text == g_text) return Status::success();
    RAILWISE_WARN(
        "software device: cannot change the configuration from \"%s\" to \"%s\" while a device is open",
        g_text.c_str(), text.c_str());
    return {Code::kInvalidUsage, EBUSY};
  }
  return apply(config);
}

ibv_device** getDeviceList(int* num_devices) {
  std::lock_guard lock(g_mutex);
  if (num_devices != nullptr) *num_devices = 0;
  if (!g_configured && !apply(nullptr).ok()) {
    errno = EINVAL;
    return nullptr;
  }
  auto** list = new ibv_device* [g_current.size() + 1] {};
  std::copy(g_current.begin(), g_current.end(), list);
  if (num_devices != nullptr) *num_devices = static_cast<int>(g_current.size());
  return list;
}

void freeDeviceList(ibv_device** list) { delete[] list; }
const char* getDeviceName(ibv_device* device) { return device != nullptr ? device->name : nullptr; }

ibv_context* openDevice(ibv_device* device) {
  if (device == nullptr) {
    errno = EINVAL;
    return nullptr;
  }
  std::lock_guard lock(g_mutex);
  Device& opened = as<Device>(device);
  Result<Fabric*> fabric = attachFabric(opened.fabric);
  if (!fabric.ok()) {
    errno = fabric.status().sys_errno != 0 ? fabric.status().sys_errno : EIO;
    return nullptr;
  }
  Context* context = newContext(opened, *fabric);
  if (context != nullptr) {
    ++g_open_contexts;
  } else {
    const int error = errno;
    detachFabric(*fabric);
    errno = error;
  }
  return context;
}

int closeDevice(ibv_context* base) {
  std::lock_guard lock(g_mutex);
  Context& context = as<Context>(base);
  {
    std::lock_guard objects(context.objects);
    if (context.pds.load() != 0 || !context.qps.empty() || !context.cqs.empty()) return EBUSY;
  }
  if (!context.fabric->forgotten) releaseContext(*context.fabric, context.index);
  detachFabric(context.fabric);
  close(context.async_fd);
  delete &context;
  --g_open_contexts;
  return 0;
}

int queryDevice(ibv_context* base, ibv_device_attr* attr) {
  const DeviceConfig& config = contextOf(base).config_device->config;
  *attr = {};
  std::strncpy(attr->fw_ver, "railwise-" RAILWISE_VERSION, sizeof attr->fw_ver - 1);
  attr->node_guid = htobe64(config.guid);
  attr->sys_image_guid = htobe64(config.guid);
  attr->max_mr_size = UINT64_MAX;
  attr->page_size_cap = kPageBytes;
  attr->vendor_id = kVendorId;
  attr->vendor_part_id = 1;
  attr->hw_ver = kLayoutVersion;
  attr->max_qp = static_cast<int>(config.max_qp);
  attr->max_qp_wr = kMaxQpWr;
  attr->device_cap_flags = IBV_DEVICE_RC_RNR_NAK_GEN | IBV_DEVICE_SYS_IMAGE_GUID;
  attr->max_sge = kMaxSge;
  attr->max_sge_rd = kMaxSge;
  attr->max_cq = kMaxCqs - 1;
  attr->max_cqe = kMaxCqe;
  attr->max_mr = kMaxMrs - 1;
  attr->max_pd = INT32_MAX;
  attr->max_qp_rd_atom = kMaxRdAtomic;
  attr->max_qp_init_rd_atom = kMaxRdAtomic;
  attr->max_res_rd_atom = static_cast<int>(config.max_qp * kMaxRdAtomic);
  attr->atomic_cap = IBV_ATOMIC_NONE;
  attr->max_pkeys = 1;
  attr->phys_port_cnt = 1;
  return 0;
}

int queryPort(ibv_context* base, uint8_t port_num, ibv_port_attr* attr) {
  if (port_num != 1) return EINVAL;
  const Context& context = contextOf(base);
  const DeviceConfig& config = context.config_device->config;
  const bool infiniband = config.link_layer == IBV_LINK_LAYER_INFINIBAND;
  *attr = {};
  attr->state = config.active ? IBV_PORT_ACTIVE : IBV_PORT_DOWN;
  attr->max_mtu = IBV_MTU_4096;
  attr->active_mtu = config.mtu;
  attr->gid_tbl_len = static_cast<int>(config.gids.size());
  attr->port_cap_flags = infiniband ? 0 : IBV_PORT_IP_BASED_GIDS;
  attr->max_msg_sz = config.max_message_bytes;
  attr->pkey_tbl_len = 1;
  attr->lid = static_cast<uint16_t>(infiniband ? context.record->lid : 0);
  attr->sm_lid = static_cast<uint16_t>(infiniband ? context.record->lid : 0);
  attr->max_vl_num = 1;
  attr->active_width = config.active_width;
  attr->active_speed = config.active_speed;
  attr->phys_state = config.active ? 5 : 3;  // LinkUp, Disabled
  attr->link_layer = config.link_layer;
  return 0;
}

int queryPort(ibv_context* context, uint8_t port_num, _compat_ibv_port_attr* attr) {
  return queryPort(context, port_num, reinterpret_cast<ibv_port_attr*>(attr));
}

int queryGid(ibv_context* base, uint8_t port_num, int index, ibv_gid* gid) {
  const std::vector<Gid>& gids = contextOf(base).config_device->config.gids;
  if (port_num != 1 || index < 0 || static_cast<size_t>(index) >= gids.size()) {
    errno = EINVAL;
    return -1;  // the one query that does not return an errno (ibv_query_gid(3))
  }
  std::memcpy(gid->raw, gids[static_cast<size_t>(index)].raw, sizeof gid->raw);
  return 0;
}

int queryPkey(ibv_context*, uint8_t port_num, int index, __be16* pkey) {
  if (port_num != 1 || index != 0) {
    errno = EINVAL;
    return -1;
  }
  *pkey = htobe16(0xffff);
  return 0;
}

int getAsyncEvent(ibv_context* context, ibv_async_event*) {
  uint64_t never = 0;
  if (read(context->async_fd, &never, sizeof never) >= 0) errno = EIO;
  return -1;
}

void ackAsyncEvent(ibv_async_event*) {}
int forkInit() { return 0; }

const char* pciPath(const ibv_device* device) {
  return static_cast<const Device*>(device)->config.pci.c_str();
}

Counters counters(const ibv_context* base) {
  const Context& context = contextOf(base);
  std::lock_guard lock(context.objects);
  Counters sum = context.retired;
  for (const Qp* qp : context.qps) addQp(sum, *qp);
  for (const Cq* cq : context.cqs) addCq(sum, *cq);
  return sum;
}

}  // namespace railwise::softdev
