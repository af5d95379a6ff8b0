// Devices and contexts: configures, lists, opens and queries them (softdev.h).
#include <endian.h>
#include <pthread.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <list>
#include <memory>
#include <string>

#include "base/log.h"
#include "softdev/engine/attachment.h"
#include "softdev/engine/datapath.h"
#include "softdev/engine/progress.h"
#include "softdev/fabric/ports.h"
#include "softdev/fabric/process_locks.h"
#include "softdev/fabric/tables.h"
#include "softdev/faults/verb_faults.h"
#include "softdev/memory/agent.h"
#include "softdev/queues/objects.h"
#include "softdev/verbs/border.h"

namespace railwise::softdev {
namespace {

// Objects with a destructor are never destroyed, because threads may still use devices while the process
// exits.
std::string& g_text = *new std::string;
std::string& g_host = *new std::string;
std::string& g_fabric = *new std::string;  // value of RAILWISE_FABRIC
bool g_configured = false;
int g_open_contexts = 0;
// All devices ever configured, so that a pointer from an old list stays valid. g_current has the current
// ones.
std::list<Device>& g_devices = *new std::list<Device>;
std::vector<Device*>& g_current = *new std::vector<Device*>;

// While a configuration with fault rules is in force, the process stays on the fabric even without an open
// device. Otherwise the fabric would vanish with its last process, and the next open would arm rules again
// that have already struck.
Fabric* g_kept = nullptr;
std::string& g_kept_name = *new std::string;

// The caller of this function and of the next two holds ProcessLock::kDevices.
void leaveKept() {
  if (g_kept != nullptr) detachFabric(g_kept);
  g_kept = nullptr;
}

void keep(Fabric& fabric, const FabricChoice& choice) {
  if (g_kept == &fabric || !attachFabric(choice).ok()) return;
  g_kept = &fabric;  // in a forked child this replaces the parent's attachment
  g_kept_name = choice.name;
}

// Stops our threads if no device is open.
void restKept() {
  if (g_open_contexts > 0 || g_kept == nullptr || g_kept->forgotten) return;
  stopProgress();
  stopAgent(*g_kept);
}

void fillDevice(Device& device, const DeviceConfig& config, const Config& machine, const std::string& text) {
  device.config = config;
  device.fabric = {machine.fabric, machine.fabric_named, machine.digest, text};
  device.host = machine.host;
  device.seed = machine.seed;
  device.faults = machine.faults;
  device.node_type = config.iwarp() ? IBV_NODE_RNIC : IBV_NODE_CA;
  device.transport_type = config.iwarp() ? IBV_TRANSPORT_IWARP : IBV_TRANSPORT_IB;
  std::strncpy(device.name, config.name.c_str(), sizeof device.name - 1);
  std::strncpy(device.dev_name, config.name.c_str(), sizeof device.dev_name - 1);
  // Programs read attributes below this path by ibv_read_sysfs_file (drop_in/sysfs.cc). There is no such
  // folder; dev_path stays empty.
  std::snprintf(device.ibdev_path, sizeof device.ibdev_path, "/sys/class/infiniband/%s", device.name);
}

// The caller holds ProcessLock::kDevices.
Status apply(const std::string& text, const std::string& host, const std::string& fabric) {
  Result<Config> config = parseConfig(text.c_str(), host, fabric);
  if (!config.ok()) return config.status();
  if (g_text != text || g_host != host || g_kept_name != config->fabric) leaveKept();
  g_current.clear();
  for (const DeviceConfig& device : config->devices) {
    Device& added = g_devices.emplace_back();
    fillDevice(added, device, *config, text);
    g_current.push_back(&added);
  }
  g_text = text;
  g_host = host;
  g_fabric = fabric;
  g_configured = true;
  return Status::success();
}

template <typename Answer, typename... Arguments>
Answer unsupported(Arguments...) {
  if constexpr (std::is_pointer_v<Answer>) {
    errno = EOPNOTSUPP;
    return nullptr;
  } else {
    return EOPNOTSUPP;
  }
}

// Sets the functions that <infiniband/verbs.h> calls through the context. postSend, postRecv and pollCq guard
// the border themselves, without an instruction more.
void setOperations(Context& context) {
  ibv_context_ops& ops = context.context.ops;
  ops.post_send = postSend;
  ops.post_recv = postRecv;
  ops.poll_cq = pollCq;
  ops.req_notify_cq = kGuarded<reqNotifyCq>;
  ops.post_srq_recv = kGuarded<postSrqRecv>;
  ops.alloc_mw = unsupported;
  ops.bind_mw = unsupported;
  ops.dealloc_mw = unsupported;
  context.context.abi_compat = __VERBS_ABI_IS_EXTENDED;
  context.sz = sizeof(verbs_context);
  context.query_port = kGuarded<queryPortSized>;
  context.query_device_ex = kGuarded<queryDeviceEx>;
  context.query_rt_values = kGuarded<queryRealTime>;
  context.create_cq_ex = kGuarded<createCqEx>;
  context.create_qp_ex = kGuarded<createQpEx>;
  context.create_srq_ex = kGuarded<createSrqEx>;
  context.get_srq_num = getSrqNum;
}

// Makes the context's record on the fabric. Returns 0 or an errno. ENOMEM: a table is full. EADDRINUSE,
// logged: the fabric is in use with another configuration.
int publishContext(Context& context) {
  Fabric& fabric = *context.fabric;
  const DeviceConfig& config = context.config_device->config;
  uint32_t ports[kMaxDevicePorts] = {};
  for (uint32_t i = 0; i < config.portCount(); ++i) {
    const Status opened = openPort(fabric, config, context.config_device->host, i + 1, &ports[i]);
    if (!opened.ok()) return opened.sys_errno;
  }
  context.index = allocateContext(fabric, [&](ContextRecord& record) {
    std::copy(std::begin(ports), std::end(ports), record.ports);
    record.port_count = config.portCount();
    record.doorbell = context.events.id();
    record.fatal.store(0, std::memory_order_relaxed);
    record.events_head.store(0, std::memory_order_relaxed);
    record.events_tail.store(0, std::memory_order_relaxed);
    std::snprintf(record.device, sizeof record.device, "%s", config.name.c_str());
    for (WorkCounters& retired : record.retired_work) retired.clear();
    record.retired_polls.clear();
  });
  if (context.index == 0) return ENOMEM;
  context.record = &fabric.segment->contexts[context.index];
  return 0;
}

Context* newContext(Device& device, Fabric* fabric) {
  auto context = std::make_unique<Context>();
  context->context.device = &device;
  // Programs duplicate cmd_fd to hand a device to another process, so it must be a descriptor, although
  // importing it is refused (ibv_import_device). The segment's stays open while the device is open.
  context->context.cmd_fd = fabric->segment_fd;
  context->context.num_comp_vectors = kCompVectors;
  context->config_device = &device;
  context->fabric = fabric;
  pthread_mutex_init(&context->context.mutex, nullptr);
  setOperations(*context);
  if (const Status opened = context->events.open(*fabric); !opened.ok()) {
    errno = opened.sys_errno;
    return nullptr;
  }
  context->context.async_fd = context->events.fd();
  if (const int error = publishContext(*context); error != 0) {
    errno = error;
    return nullptr;
  }
  return context.release();
}

}  // namespace

Status configure(const char* config, const char* host, const char* fabric) {
  watchForks();
  std::lock_guard lock(processLock(ProcessLock::kDevices));
  const auto textOf = [](const char* value) { return std::string(value != nullptr ? value : ""); };
  const std::string text = textOf(config);
  if (g_open_contexts > 0) {
    if (text == g_text && g_host == textOf(host) && g_fabric == textOf(fabric)) return Status::success();
    RAILWISE_WARN(
        "software device: cannot change the configuration from \"%s\" to \"%s\" while a device is open",
        g_text.c_str(), text.c_str());
    return {Code::kInvalidUsage, EBUSY};
  }
  return apply(text, textOf(host), textOf(fabric));
}

ibv_device** getDeviceList(int* num_devices) {
  watchForks();
  std::lock_guard lock(processLock(ProcessLock::kDevices));
  if (num_devices != nullptr) *num_devices = 0;
  if (!g_configured && !apply("", "", "").ok()) {
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
uint64_t getDeviceGuid(ibv_device* device) { return htobe64(as<Device>(device).config.guid); }

ibv_context* openDevice(ibv_device* device) {
  if (device == nullptr) {
    errno = EINVAL;
    return nullptr;
  }
  watchForks();
  std::lock_guard lock(processLock(ProcessLock::kDevices));
  Device& opened = as<Device>(device);
  Result<Fabric*> fabric = attachFabric(opened.fabric);
  if (!fabric.ok()) {
    errno = fabric.status().sys_errno != 0 ? fabric.status().sys_errno : EIO;
    return nullptr;
  }
  struct Detach {
    void operator()(Fabric* attached) const {
      const int error = errno;
      detachFabric(attached);
      restKept();
      errno = error;
    }
  };
  std::unique_ptr<Fabric, Detach> attached(*fabric);
  if (!opened.faults.empty()) keep(**fabric, opened.fabric);
  Context* context = nullptr;
  if (!addConfiguredFaults(**fabric, opened.faults, opened.seed).ok()) {
    errno = EINVAL;
  } else if (const int error = openFault(**fabric, opened); error != 0) {
    errno = error;
  } else {
    if (opened.config.mover == MoverChoice::kAgent || (g_kept != nullptr && agentNeeded()))
      (void)startAgent(**fabric);
    context = newContext(opened, *fabric);
  }
  if (context == nullptr) return nullptr;
  ++g_open_contexts;
  (void)attached.release();
  return &context->context;
}

int closeDevice(ibv_context* base) {
  std::lock_guard lock(processLock(ProcessLock::kDevices));
  Context& context = as<Context>(base);
  {
    std::lock_guard objects(context.objects);
    if (context.pds.load() != 0 || !context.qps.empty() || !context.cqs.empty() || !context.channels.empty())
      return EBUSY;
  }
  if (!context.fabric->forgotten) releaseContext(*context.fabric, context.index);
  detachFabric(context.fabric);
  pthread_mutex_destroy(&context.context.mutex);
  delete &context;
  --g_open_contexts;
  restKept();
  return 0;
}

int forkInit() { return 0; }

const char* pciPath(const ibv_device* device) {
  return static_cast<const Device*>(device)->config.pci.c_str();
}

bool takesGpuAddresses(const ibv_device* device) {
  return static_cast<const Device*>(device)->config.gpuByAddress();
}

bool takesGpuDmabufs(const ibv_device* device) {
  return static_cast<const Device*>(device)->config.gpuByDmabuf();
}

uint64_t fabricIdentity(const ibv_context* context) {
  return as<Context>(const_cast<ibv_context*>(context)).fabric->segment->identity;
}

}  // namespace railwise::softdev
