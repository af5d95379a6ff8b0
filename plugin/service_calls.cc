// The calls of NCCL's service thread: communicators, devices, connections, memory.
#include <atomic>
#include <iterator>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "nccl/context_room.h"
#include "nccl/logger.h"
#include "net/nccl_own_network.h"
#include "net/profiler.h"
#include "net/topology/strict.h"
#include "plugin/calls.h"
#include "plugin/guard.h"
#include "plugin/handles.h"

namespace railwise::plugin {

using net::Connection;
using net::Context;
using net::Listener;
using net::MemoryHandle;
using net::ReceiveConnection;
using net::SendConnection;

static_assert(net::kHandleBytes == NCCL_NET_HANDLE_MAXSIZE);
static_assert(net::kMaxRails == std::size(decltype(ncclNetVDeviceProps_v12_t::devs){}));
static_assert(net::kMaxMessageBytes <= NCCL_MAX_NET_SIZE_BYTES);

void setLogger(ncclDebugLogger_t logger) { setNcclLogger(logger, "NET/Railwise : "); }

// ---- communicators

// API versions 6 to 10 have no context and no finalize, so their calls share one context that lives as long
// as the process.
static std::mutex g_shared_mutex;
static std::atomic<Context*> g_shared_context = nullptr;

// RAILWISE_STRICT has refused the last init. If init fails, or there are no devices, or the first one cannot
// be described, NCCL takes its next network, which may be sockets. NCCL's own init fails only later, when it
// reads the devices for its topology. So init succeeds, and shows NCCL two devices: the first is a name, and
// asking for the second fails. docs/develop/decisions.md has the evidence.
static std::atomic<bool> g_refused = false;

bool refusedByStrictMode() { return g_refused && net::Net::current() == nullptr; }

// The reason once more, because NCCL keeps its last warning for ncclGetLastError.
static Status refuse() {
  RAILWISE_WARN("%s", net::lastRefusal().c_str());
  return {Code::kRefused, 0};
}

Status acquireNet(NetReference* net) {
  Result<net::Net*> made = net::Net::acquire();
  const bool refused = !made.ok() && made.status().code == Code::kRefused;
  g_refused = refused;
  if (refused) return Status::success();
  if (!made.ok()) return made.status();
  net->reset(*made);
  return Status::success();
}

static Status initShared(ncclDebugLogger_t logger) {
  setLogger(logger);
  const std::lock_guard lock(g_shared_mutex);
  if (g_shared_context != nullptr) {
    net::Net::current()->reloaded();
    return Status::success();
  }
  NetReference reference;
  RAILWISE_TRY(acquireNet(&reference));
  if (reference == nullptr) return Status::success();
  g_shared_context = new Context(*reference, NCCL_NET_ID_UNDEF);
  (void)reference.release();
  return Status::success();
}

static Status sharedContext(Context** context) {
  *context = g_shared_context;
  if (*context != nullptr) return Status::success();
  if (refusedByStrictMode()) return refuse();
  RAILWISE_WARN("called before init succeeded");
  return {Code::kInvalidUsage, 0};
}

ncclResult_t init_v6(ncclDebugLogger_t logger) {
  return guarded("init", [&] { return initShared(logger); });
}

// NCCL's profiler. Railwise's own profiler interface calls it through a function here, because a call through
// a pointer of another type would be undefined.
static std::atomic<ncclProfilerCallback_t> g_profiler = nullptr;

static_assert(int{net::profiler::kStart} == int{ncclProfilerNetEventStart});
static_assert(int{net::profiler::kStop} == int{ncclProfilerNetEventStop});
static_assert(int{net::profiler::kUpdate} == int{ncclProfilerNetEventUpdate});
static_assert(int{net::profiler::kUpdateAndStop} == int{ncclProfilerNetEventUpdateAndStop});

static int profileToNccl(void** event, int call, void* parent, int64_t id, void* data) {
  const ncclProfilerCallback_t profiler = g_profiler;
  return profiler != nullptr ? profiler(event, call, parent, id, data) : ncclSuccess;
}

static void setProfiler(ncclProfilerCallback_t profiler) {
  g_profiler = profiler;
  net::profiler::setCallback(profiler != nullptr ? profileToNccl : nullptr);
}

ncclResult_t init_v10(ncclDebugLogger_t logger, ncclProfilerCallback_t profiler) {
  setProfiler(profiler);
  return init_v6(logger);
}

// Logs once per process that NCCL's own IB network may describe these devices (net::ownNetworkNote). Only the
// init functions from v11 on call it, because the NCCL versions concerned use those.
static void noteNcclsOwnNetwork(const net::Net& net) {
  static std::atomic_flag said;
  std::vector<net::DescribedDevice> devices;
  for (int i = 0; i < net.physicalDevices(); ++i) {
    const net::DeviceProperties& its = net.device(i)->properties();
    devices.push_back({its.name, (its.pointer_support & (NCCL_PTR_CUDA | NCCL_PTR_DMABUF)) != 0});
  }
  const std::string note = net::ownNetworkNote(net.config(), net::onLibibverbs(), devices);
  if (!note.empty() && !said.test_and_set()) RAILWISE_INFO(log::kInit | log::kNet, "%s", note.c_str());
}

// What init hands to NCCL as the communicator's context, from v11 on.
struct HandedContext {
  HandedContext(net::Net& net, int traffic_class, uint64_t communicator)
      : room{.traffic_class = traffic_class}, context(net, traffic_class, communicator) {}

  ncclContextRoom room;
  Context context;
};

static Context* contextOf(void* handed) {
  return handed != nullptr ? &static_cast<HandedContext*>(handed)->context : nullptr;
}

static Status initContext(void** context, uint64_t communicator, const ncclNetCommConfig_v11_t* config,
                          ncclDebugLogger_t logger) {
  RAILWISE_REQUIRE("init", context);
  *context = nullptr;
  setLogger(logger);
  NetReference reference;
  RAILWISE_TRY(acquireNet(&reference));
  if (reference == nullptr) return Status::success();
  auto made = std::make_unique<HandedContext>(
      *reference, config != nullptr ? config->trafficClass : NCCL_NET_ID_UNDEF, communicator);
  noteNcclsOwnNetwork(*reference);
  (void)reference.release();
  *context = made.release();
  return Status::success();
}

ncclResult_t init_v11(void** context, uint64_t communicator, ncclNetCommConfig_v11_t* config,
                      ncclDebugLogger_t logger, ncclProfilerCallback_t profiler) {
  setProfiler(profiler);
  return guarded("init", [&] { return initContext(context, communicator, config, logger); });
}

ncclResult_t finalize_v11(void* context) {
  return guarded("finalize", [&] {
    if (context == nullptr) return Status::success();
    removeHandlesOf(contextOf(context));
    delete static_cast<HandedContext*>(context);
    net::Net::release();
    return Status::success();
  });
}

// NCCL's hints about what the communicator will do; NCCL_NET_ID_UNDEF means unknown. This is NCCL's most
// frequent call (59,267 calls for 1,848 isends of an alltoall of 16 ranks). It stores two numbers and cannot
// throw.
ncclResult_t setNetAttr_v11(void* context, ncclNetAttr_v11_t* attributes) {
  if (context == nullptr || attributes == nullptr) return ncclSuccess;
  const auto& send = attributes->sendCommAttr;
  contextOf(context)->setHints(send.maxConcurrentPeers, send.maxFlowsPerPeer);
  return ncclSuccess;
}

// ---- devices

Status beforeInit(const char* function) {
  RAILWISE_WARN("%s: called before init succeeded", function);
  return {Code::kInvalidUsage, 0};
}

static Status countDevices(int* count) {
  RAILWISE_REQUIRE("devices", count);
  net::Net* net = net::Net::current();
  if (refusedByStrictMode()) {
    *count = kRefusedDevices;
    return Status::success();
  }
  *count = net != nullptr ? net->deviceCount() : 0;
  return net != nullptr ? Status::success() : beforeInit("devices");
}

ncclResult_t devices_v6(int* count) {
  return guarded("devices", [&] { return countDevices(count); });
}

Status refuseDevice(int index) { return index == 0 ? Status::success() : refuse(); }

const net::Device* findDevice(int index) {
  const net::Net* net = net::Net::current();
  const net::Device* device = net != nullptr ? net->device(index) : nullptr;
  if (device == nullptr) RAILWISE_WARN("getProperties: device %d does not exist", index);
  return device;
}

static Status fuse(int* index, const int* members, int count, int most) {
  RAILWISE_REQUIRE("makeVDevice", index);
  if (count < 1 || count > most) {
    RAILWISE_WARN("makeVDevice: %d devices to fuse, 1 to %d are possible", count, most);
    return {Code::kInvalidArgument, 0};
  }
  net::Net* net = net::Net::current();
  if (net == nullptr) return beforeInit("makeVDevice");
  const Result<int> made = net->makeVirtualDevice({members, static_cast<std::size_t>(count)});
  if (!made.ok()) return made.status();
  *index = *made;
  return Status::success();
}

ncclResult_t makeVDevice_v9(int* index, ncclNetVDeviceProps_v9_t* props) {
  return guarded("makeVDevice", [&] {
    RAILWISE_REQUIRE("makeVDevice", props);
    return fuse(index, props->devs, props->ndevs, static_cast<int>(std::size(props->devs)));
  });
}

ncclResult_t makeVDevice_v12(int* index, ncclNetVDeviceProps_v12_t* props) {
  return guarded("makeVDevice", [&] {
    RAILWISE_REQUIRE("makeVDevice", props);
    return fuse(index, props->devs, props->ndevs, static_cast<int>(std::size(props->devs)));
  });
}

// ---- connections

static Status listenOn(Context* context, int index, void* handle, void** listener) {
  RAILWISE_REQUIRE("listen", listener);
  *listener = nullptr;
  RAILWISE_REQUIRE("listen", context);
  RAILWISE_REQUIRE("listen", handle);
  const net::Device* device = context->device(index);
  if (device == nullptr) return {Code::kInvalidArgument, 0};
  Result<Listener*> made = context->listen(*device, handle);
  if (!made.ok()) return made.status();
  addHandle(*made, HandleKind::kListener, context);
  *listener = *made;
  return Status::success();
}

ncclResult_t listen_v6(int index, void* handle, void** listener) {
  return guarded("listen", [&] {
    Context* context = nullptr;
    RAILWISE_TRY(sharedContext(&context));
    return listenOn(context, index, handle, listener);
  });
}

ncclResult_t listen_v11(void* context, int index, void* handle, void** listener) {
  return guarded("listen", [&] { return listenOn(contextOf(context), index, handle, listener); });
}

static Status connectTo(Context* context, int index, int traffic_class, void* handle, void** send) {
  RAILWISE_REQUIRE("connect", send);
  *send = nullptr;
  RAILWISE_REQUIRE("connect", context);
  RAILWISE_REQUIRE("connect", handle);
  const net::Device* device = context->device(index);
  if (device == nullptr) return {Code::kInvalidArgument, 0};
  Result<SendConnection*> connected = context->connect(*device, handle, traffic_class);
  if (!connected.ok()) return connected.status();
  Connection* const connection = *connected;
  if (connection != nullptr) addHandle(connection, HandleKind::kSend, context);
  *send = connection;
  return Status::success();
}

// connect for the API versions that use the shared context.
static ncclResult_t connectShared(int index, int traffic_class, void* handle, void** send) {
  return guarded("connect", [&] {
    Context* context = nullptr;
    RAILWISE_TRY(sharedContext(&context));
    return connectTo(context, index, traffic_class, handle, send);
  });
}

ncclResult_t connect_v6(int index, void* handle, void** send) {
  return connectShared(index, NCCL_NET_ID_UNDEF, handle, send);
}

ncclResult_t connect_v7(int index, void* handle, void** send, ncclNetDeviceHandle_v7_t**) {
  return connect_v6(index, handle, send);
}

ncclResult_t connect_v10(int index, ncclNetCommConfig_v10_t* config, void* handle, void** send,
                         ncclNetDeviceHandle_v10_t**) {
  return connectShared(index, config != nullptr ? config->trafficClass : NCCL_NET_ID_UNDEF, handle, send);
}

ncclResult_t connect_v11(void* context, int index, void* handle, void** send, ncclNetDeviceHandle_v11_t**) {
  return guarded("connect",
                 [&] { return connectTo(contextOf(context), index, NCCL_NET_ID_UNDEF, handle, send); });
}

static Status acceptFrom(void* listener, void** receive) {
  RAILWISE_REQUIRE("accept", receive);
  *receive = nullptr;
  RAILWISE_REQUIRE("accept", listener);
  RAILWISE_TRY(checkHandle("accept", listener, HandleKind::kListener));
  const net::Context* const owner = static_cast<Listener*>(listener)->owner();
  Result<ReceiveConnection*> accepted = Context::accept(*static_cast<Listener*>(listener));
  if (!accepted.ok()) return accepted.status();
  Connection* const connection = *accepted;
  if (connection != nullptr) addHandle(connection, HandleKind::kReceive, owner);
  *receive = connection;
  return Status::success();
}

ncclResult_t accept_v6(void* listener, void** receive) {
  return guarded("accept", [&] { return acceptFrom(listener, receive); });
}

ncclResult_t accept_v7(void* listener, void** receive, ncclNetDeviceHandle_v7_t**) {
  return accept_v6(listener, receive);
}

ncclResult_t closeListen_v6(void* listener) {
  return guarded("closeListen", [&] {
    if (listener == nullptr) return Status::success();
    RAILWISE_TRY(removeHandle("closeListen", listener, HandleKind::kListener));
    Context::close(static_cast<Listener*>(listener));
    return Status::success();
  });
}

static Status closeOf(const char* function, void* connection, HandleKind kind) {
  if (connection == nullptr) return Status::success();
  RAILWISE_TRY(removeHandle(function, connection, kind));
  Context::close(static_cast<Connection*>(connection));
  return Status::success();
}

ncclResult_t closeSend_v6(void* connection) {
  return guarded("closeSend", [&] { return closeOf("closeSend", connection, HandleKind::kSend); });
}

ncclResult_t closeReceive_v6(void* connection) {
  return guarded("closeRecv", [&] { return closeOf("closeRecv", connection, HandleKind::kReceive); });
}

// ---- memory

static Status registerHost(void* connection, void* data, size_t bytes, int type, void** handle) {
  RAILWISE_REQUIRE("regMr", handle);
  *handle = nullptr;
  RAILWISE_REQUIRE("regMr", connection);
  if (type != NCCL_PTR_HOST && type != NCCL_PTR_CUDA) {
    RAILWISE_WARN("regMr: pointer type %d is neither host nor CUDA memory", type);
    return {Code::kInvalidArgument, 0};
  }
  const auto kind = type == NCCL_PTR_HOST ? net::MemoryKind::kHost : net::MemoryKind::kDevice;
  Result<MemoryHandle*> made =
      static_cast<Connection*>(connection)->memory().acquire(reinterpret_cast<uint64_t>(data), bytes, kind);
  if (!made.ok()) return made.status();
  *handle = *made;
  return Status::success();
}

ncclResult_t regMr_v8(void* connection, void* data, size_t bytes, int type, void** handle) {
  return guarded("regMr", [&] { return registerHost(connection, data, bytes, type, handle); });
}

ncclResult_t regMr_v6(void* connection, void* data, int bytes, int type, void** handle) {
  return regMr_v8(connection, data, static_cast<size_t>(bytes), type, handle);
}

static Status registerFd(void* connection, void* data, size_t bytes, uint64_t offset, int fd, void** handle) {
  RAILWISE_REQUIRE("regMrDmaBuf", handle);
  *handle = nullptr;
  RAILWISE_REQUIRE("regMrDmaBuf", connection);
  Result<MemoryHandle*> made = static_cast<Connection*>(connection)
                                   ->memory()
                                   .acquireDmaBuf(reinterpret_cast<uint64_t>(data), bytes, offset, fd);
  if (!made.ok()) return made.status();
  *handle = *made;
  return Status::success();
}

ncclResult_t regMrDmaBuf_v6(void* connection, void* data, size_t bytes, int, uint64_t offset, int fd,
                            void** handle) {
  return guarded("regMrDmaBuf", [&] { return registerFd(connection, data, bytes, offset, fd, handle); });
}

ncclResult_t deregMr_v6(void* connection, void* handle) {
  return guarded("deregMr", [&] {
    if (connection == nullptr || handle == nullptr) return Status::success();
    auto& typed = *static_cast<Connection*>(connection);
    typed.memory().release(static_cast<MemoryHandle*>(handle));
    return Status::success();
  });
}

}  // namespace railwise::plugin
