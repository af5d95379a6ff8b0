// The tables that NCCL looks up: ncclNetPlugin_v6 to _v12, and the same under the documented names ncclNet_v6
// to _v12. A function is named by the first version that had its signature, so each table reads as a diff to
// the one before. Casts and checks only; the work is in src/net. Contract: NCCL 2.30.7,
// src/include/plugin/net/net_v12.h and src/transport/net.cc.
#include "net/net.h"

#include <array>
#include <atomic>
#include <cstdarg>
#include <cstdio>
#include <mutex>

#include "nccl/net_v10.h"
#include "nccl/net_v11.h"
#include "nccl/net_v12.h"
#include "nccl/net_v6.h"
#include "nccl/net_v7.h"
#include "nccl/net_v8.h"
#include "nccl/net_v9.h"
#include "plugin/guard.h"
#include "plugin/properties.h"

namespace railwise::plugin {
namespace {

using net::Connection;
using net::Context;
using net::Listener;
using net::MemoryHandle;
using net::ReceiveConnection;
using net::Request;
using net::SendConnection;

static_assert(net::kHandleBytes == NCCL_NET_HANDLE_MAXSIZE);
static_assert(net::kOutstandingReceives == NCCL_NET_MAX_REQUESTS);
static_assert(net::kMaxMessageBytes <= NCCL_MAX_NET_SIZE_BYTES);
static_assert(int{log::kWarn} == int{NCCL_LOG_WARN} && int{log::kInfo} == int{NCCL_LOG_INFO} &&
              int{log::kTrace} == int{NCCL_LOG_TRACE});

// NCCL's logger, behind our own interface: its level is an enum of NCCL's, so the line is formatted here.
std::atomic<ncclDebugLogger_t> g_logger = nullptr;

[[gnu::format(printf, 5, 6)]] void logToNccl(int level, unsigned long flags, const char* file, int line,
                                             const char* format, ...) {
  char text[1024];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  if (const ncclDebugLogger_t logger = g_logger) {
    logger(static_cast<ncclDebugLogLevel>(level), flags, file, line, "NET/Railwise : %s", text);
  }
}

void setLogger(ncclDebugLogger_t logger) {
  g_logger = logger;
  log::setSink(logger != nullptr ? logToNccl : nullptr);
}

// ---- communicator contexts

// Versions 6 to 10 have no context and no finalize: they share one that lives as long as the process.
std::mutex g_shared_mutex;
std::atomic<Context*> g_shared_context = nullptr;

Status initShared(ncclDebugLogger_t logger) {
  setLogger(logger);
  const std::lock_guard lock(g_shared_mutex);
  if (g_shared_context != nullptr) return Status::success();
  Result<net::Net*> net = net::Net::acquire();
  if (!net.ok()) return net.status();
  g_shared_context = new Context(**net, NCCL_NET_ID_UNDEF);
  return Status::success();
}

Status sharedContext(Context** context) {
  *context = g_shared_context;
  if (*context != nullptr) return Status::success();
  RAILWISE_WARN("called before init succeeded");
  return {Code::kInvalidUsage, 0};
}

ncclResult_t init_v6(ncclDebugLogger_t logger) {
  return guarded("init", [&] { return initShared(logger); });
}

ncclResult_t init_v10(ncclDebugLogger_t logger, ncclProfilerCallback_t) { return init_v6(logger); }

Status initContext(void** context, const ncclNetCommConfig_v11_t* config, ncclDebugLogger_t logger) {
  RAILWISE_REQUIRE(context);
  *context = nullptr;
  setLogger(logger);
  Result<net::Net*> net = net::Net::acquire();
  if (!net.ok()) return net.status();
  *context = new Context(**net, config != nullptr ? config->trafficClass : NCCL_NET_ID_UNDEF);
  return Status::success();
}

ncclResult_t init_v11(void** context, uint64_t, ncclNetCommConfig_v11_t* config, ncclDebugLogger_t logger,
                      ncclProfilerCallback_t) {
  return guarded("init", [&] { return initContext(context, config, logger); });
}

// Null after an init that failed: NCCL 2.28.3 to 2.29.3 call finalize all the same.
ncclResult_t finalize_v11(void* context) {
  return guarded("finalize", [&] {
    if (context == nullptr) return Status::success();
    delete static_cast<Context*>(context);
    net::Net::release();
    return Status::success();
  });
}

ncclResult_t setNetAttr_v11(void*, ncclNetAttr_v11_t*) { return ncclSuccess; }  // hints; none is used yet

// ---- devices

Status countDevices(int* count) {
  RAILWISE_REQUIRE(count);
  const net::Net* net = net::Net::current();
  *count = net != nullptr ? static_cast<int>(net->devices().size()) : 0;
  if (net != nullptr) return Status::success();
  RAILWISE_WARN("devices: called before init succeeded");
  return {Code::kInvalidUsage, 0};
}

ncclResult_t devices_v6(int* count) {
  return guarded("devices", [&] { return countDevices(count); });
}

template <typename Properties>
Status propertiesOf(int index, Properties* properties) {
  RAILWISE_REQUIRE(properties);
  const net::Net* net = net::Net::current();
  if (net == nullptr || index < 0 || static_cast<size_t>(index) >= net->devices().size()) {
    RAILWISE_WARN("getProperties: device %d does not exist", index);
    return {Code::kInvalidArgument, 0};
  }
  fillProperties(index, net->devices()[static_cast<size_t>(index)].properties, *properties);
  return Status::success();
}

template <typename Properties>
ncclResult_t getProperties(int index, Properties* properties) {
  return guarded("getProperties", [&] { return propertiesOf(index, properties); });
}

// ---- connections

Status listenOn(void* context, int index, void* handle, void** listener) {
  RAILWISE_REQUIRE(listener);
  *listener = nullptr;
  RAILWISE_REQUIRE(context);
  RAILWISE_REQUIRE(handle);
  auto& net_context = *static_cast<Context*>(context);
  const net::Device* device = net_context.device(index);
  if (device == nullptr) return {Code::kInvalidArgument, 0};
  Result<Listener*> made = net_context.listen(*device, handle);
  if (!made.ok()) return made.status();
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
  return guarded("listen", [&] { return listenOn(context, index, handle, listener); });
}

Status connectTo(void* context, int index, int traffic_class, void* handle, void** send) {
  RAILWISE_REQUIRE(send);
  *send = nullptr;
  RAILWISE_REQUIRE(context);
  RAILWISE_REQUIRE(handle);
  auto& net_context = *static_cast<Context*>(context);
  const net::Device* device = net_context.device(index);
  if (device == nullptr) return {Code::kInvalidArgument, 0};
  Result<SendConnection*> connected = net_context.connect(*device, handle, traffic_class);
  if (!connected.ok()) return connected.status();
  *send = static_cast<Connection*>(*connected);
  return Status::success();
}

// For the versions that use the shared context.
ncclResult_t connectShared(int index, int traffic_class, void* handle, void** send) {
  return guarded("connect", [&] {
    Context* context = nullptr;
    RAILWISE_TRY(sharedContext(&context));
    return connectTo(context, index, traffic_class, handle, send);
  });
}

ncclResult_t connect_v6(int index, void* handle, void** send) {
  return connectShared(index, NCCL_NET_ID_UNDEF, handle, send);
}

// The device handle is for networks that GPUs drive; it may be null, and ours stays untouched.
ncclResult_t connect_v7(int index, void* handle, void** send, ncclNetDeviceHandle_v7_t**) {
  return connect_v6(index, handle, send);
}

// `config` lies on NCCL's stack, and is null for NCCL's own out-of-band connections.
ncclResult_t connect_v10(int index, ncclNetCommConfig_v10_t* config, void* handle, void** send,
                         ncclNetDeviceHandle_v10_t**) {
  return connectShared(index, config != nullptr ? config->trafficClass : NCCL_NET_ID_UNDEF, handle, send);
}

ncclResult_t connect_v11(void* context, int index, void* handle, void** send, ncclNetDeviceHandle_v11_t**) {
  return guarded("connect", [&] { return connectTo(context, index, NCCL_NET_ID_UNDEF, handle, send); });
}

Status acceptFrom(void* listener, void** receive) {
  RAILWISE_REQUIRE(receive);
  *receive = nullptr;
  RAILWISE_REQUIRE(listener);
  Result<ReceiveConnection*> accepted = Context::accept(*static_cast<Listener*>(listener));
  if (!accepted.ok()) return accepted.status();
  *receive = static_cast<Connection*>(*accepted);
  return Status::success();
}

ncclResult_t accept_v6(void* listener, void** receive) {
  return guarded("accept", [&] { return acceptFrom(listener, receive); });
}

ncclResult_t accept_v7(void* listener, void** receive, ncclNetDeviceHandle_v7_t**) {
  return accept_v6(listener, receive);
}

// Errors of closing would end NCCL's own clean-up early, so there are none.
ncclResult_t closeListen_v6(void* listener) {
  return guarded("closeListen", [&] {
    if (listener != nullptr) Context::close(static_cast<Listener*>(listener));
    return Status::success();
  });
}

ncclResult_t closeConnection_v6(void* connection) {
  return guarded("close", [&] {
    if (connection != nullptr) Context::close(static_cast<Connection*>(connection));
    return Status::success();
  });
}

// ---- memory

Status registerHost(void* connection, void* data, size_t bytes, int type, void** handle) {
  RAILWISE_REQUIRE(handle);
  *handle = nullptr;
  RAILWISE_REQUIRE(connection);
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

Status registerFd(void* connection, void* data, size_t bytes, uint64_t offset, int fd, void** handle) {
  RAILWISE_REQUIRE(handle);
  *handle = nullptr;
  RAILWISE_REQUIRE(connection);
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

// NCCL calls it with a null handle where its own registration had failed.
ncclResult_t deregMr_v6(void* connection, void* handle) {
  return guarded("deregMr", [&] {
    if (connection == nullptr || handle == nullptr) return Status::success();
    static_cast<Connection*>(connection)->memory().release(static_cast<MemoryHandle*>(handle));
    return Status::success();
  });
}

// ---- data

template <typename T>
Status connectionOf(const char* function, void* connection, net::Direction direction, T** typed) {
  auto* base = static_cast<Connection*>(connection);
  if (base != nullptr && base->direction() == direction) {
    *typed = static_cast<T*>(base);
    return Status::success();
  }
  RAILWISE_WARN("%s: the communicator is null or of the wrong direction", function);
  return {Code::kInvalidArgument, 0};
}

ncclResult_t isend_v9(void* connection, void* data, size_t bytes, int tag, void* handle, void** request) {
  return guarded("isend", [&] {
    RAILWISE_REQUIRE(request);
    *request = nullptr;  // on entry it holds the slot's previous request
    SendConnection* send = nullptr;
    RAILWISE_TRY(connectionOf("isend", connection, net::Direction::kSend, &send));
    if (bytes > 0) RAILWISE_REQUIRE(handle);
    Request* made = nullptr;
    const Status status = send->isend(reinterpret_cast<uint64_t>(data), bytes, tag,
                                      static_cast<const MemoryHandle*>(handle), &made);
    *request = made;
    return status;
  });
}

ncclResult_t isend_v6(void* connection, void* data, int bytes, int tag, void* handle, void** request) {
  return isend_v9(connection, data, static_cast<size_t>(bytes), tag, handle, request);
}

ncclResult_t isend_v10(void* connection, void* data, size_t bytes, int tag, void* handle, void*,
                       void** request) {
  return isend_v9(connection, data, bytes, tag, handle, request);
}

template <typename Size>
Status receive(void* connection, int n, void** data, const Size* sizes, const int* tags, void** handles,
               void** request) {
  RAILWISE_REQUIRE(request);
  *request = nullptr;  // on entry it may hold NCCL_NET_OPTIONAL_RECV_COMPLETION
  ReceiveConnection* receive = nullptr;
  RAILWISE_TRY(connectionOf("irecv", connection, net::Direction::kReceive, &receive));
  if (n < 1 || n > net::kMaxReceives) {
    RAILWISE_WARN("irecv: %d receives in a group, 1 to %d are possible", n, net::kMaxReceives);
    return {Code::kInvalidArgument, 0};
  }
  std::array<net::ReceiveBuffer, net::kMaxReceives> buffers;
  for (int i = 0; i < n; ++i) {
    const auto* handle = static_cast<const MemoryHandle*>(handles[i]);
    const auto bytes = static_cast<size_t>(sizes[i]);
    if (bytes > 0) RAILWISE_REQUIRE(handle);
    buffers[static_cast<size_t>(i)] = {reinterpret_cast<uint64_t>(data[i]), bytes, tags[i], handle};
  }
  Request* made = nullptr;
  const Status status = receive->irecv({buffers.data(), static_cast<size_t>(n)}, &made);
  *request = made;
  return status;
}

ncclResult_t irecv_v6(void* connection, int n, void** data, int* sizes, int* tags, void** handles,
                      void** request) {
  return guarded("irecv", [&] { return receive(connection, n, data, sizes, tags, handles, request); });
}

ncclResult_t irecv_v9(void* connection, int n, void** data, size_t* sizes, int* tags, void** handles,
                      void** request) {
  return guarded("irecv", [&] { return receive(connection, n, data, sizes, tags, handles, request); });
}

ncclResult_t irecv_v10(void* connection, int n, void** data, size_t* sizes, int* tags, void** handles, void**,
                       void** request) {
  return irecv_v9(connection, n, data, sizes, tags, handles, request);
}

// `data` and `handles` are compacted to the receives still of interest while `sizes` is by position in the
// group, so sizes[i] need not belong to data[i]. A null request means that there was nothing to flush.
Status flush(void* connection, int n, void** data, const int* sizes, void** handles, void** request) {
  RAILWISE_REQUIRE(request);
  *request = nullptr;
  ReceiveConnection* receive = nullptr;
  RAILWISE_TRY(connectionOf("iflush", connection, net::Direction::kReceive, &receive));
  int last = -1;
  bool any = false;
  for (int i = 0; i < n; ++i) {
    any = any || sizes[i] > 0;
    if (handles[i] != nullptr) last = i;
  }
  if (!any || last < 0) return Status::success();
  Request* made = nullptr;
  RAILWISE_TRY(receive->iflush(reinterpret_cast<uint64_t>(data[last]),
                               *static_cast<const MemoryHandle*>(handles[last]), &made));
  *request = made;
  return Status::success();
}

ncclResult_t iflush_v6(void* connection, int n, void** data, int* sizes, void** handles, void** request) {
  return guarded("iflush", [&] { return flush(connection, n, data, sizes, handles, request); });
}

ncclResult_t test_v6(void* request, int* done, int* sizes) {
  return guarded("test", [&] {
    RAILWISE_REQUIRE(done);
    *done = 0;
    RAILWISE_REQUIRE(request);
    auto& typed = *static_cast<Request*>(request);
    if (typed.kind == Request::Kind::kFree) {
      RAILWISE_WARN("test: the request has completed before");
      return Status{Code::kInvalidUsage, 0};
    }
    const Result<bool> complete = typed.connection->test(typed, sizes);
    if (!complete.ok()) return complete.status();
    *done = *complete ? 1 : 0;
    return Status::success();
  });
}

constexpr const char* kName = "Railwise";

}  // namespace
}  // namespace railwise::plugin

// ---- tables

using namespace railwise::plugin;  // NOLINT: the tables name nothing else

#define RAILWISE_TABLE(version)                                                                       \
  extern "C" {                                                                                        \
  [[gnu::visibility("default")]] extern const ncclNet_v##version##_t ncclNetPlugin_v##version;        \
  [[gnu::visibility("default"), gnu::alias("ncclNetPlugin_v" #version)]] extern const ncclNet_v##version##_t \
      ncclNet_v##version;                                                                             \
  }                                                                                                   \
  const ncclNet_v##version##_t ncclNetPlugin_v##version

RAILWISE_TABLE(6) = {
    .name = kName,
    .init = init_v6,
    .devices = devices_v6,
    .getProperties = getProperties<ncclNetProperties_v6_t>,
    .listen = listen_v6,
    .connect = connect_v6,
    .accept = accept_v6,
    .regMr = regMr_v6,
    .regMrDmaBuf = regMrDmaBuf_v6,
    .deregMr = deregMr_v6,
    .isend = isend_v6,
    .irecv = irecv_v6,
    .iflush = iflush_v6,
    .test = test_v6,
    .closeSend = closeConnection_v6,
    .closeRecv = closeConnection_v6,
    .closeListen = closeListen_v6,
};

RAILWISE_TABLE(7) = {
    .name = kName,
    .init = init_v6,
    .devices = devices_v6,
    .getProperties = getProperties<ncclNetProperties_v7_t>,
    .listen = listen_v6,
    .connect = connect_v7,
    .accept = accept_v7,
    .regMr = regMr_v6,
    .regMrDmaBuf = regMrDmaBuf_v6,
    .deregMr = deregMr_v6,
    .isend = isend_v6,
    .irecv = irecv_v6,
    .iflush = iflush_v6,
    .test = test_v6,
    .closeSend = closeConnection_v6,
    .closeRecv = closeConnection_v6,
    .closeListen = closeListen_v6,
    .getDeviceMr = nullptr,    // only for networks that GPUs drive
    .irecvConsumed = nullptr,  // likewise
};

RAILWISE_TABLE(8) = {
    .name = kName,
    .init = init_v6,
    .devices = devices_v6,
    .getProperties = getProperties<ncclNetProperties_v8_t>,
    .listen = listen_v6,
    .connect = connect_v7,
    .accept = accept_v7,
    .regMr = regMr_v8,
    .regMrDmaBuf = regMrDmaBuf_v6,
    .deregMr = deregMr_v6,
    .isend = isend_v6,
    .irecv = irecv_v6,
    .iflush = iflush_v6,
    .test = test_v6,
    .closeSend = closeConnection_v6,
    .closeRecv = closeConnection_v6,
    .closeListen = closeListen_v6,
    .getDeviceMr = nullptr,
    .irecvConsumed = nullptr,
};

RAILWISE_TABLE(9) = {
    .name = kName,
    .init = init_v6,
    .devices = devices_v6,
    .getProperties = getProperties<ncclNetProperties_v9_t>,
    .listen = listen_v6,
    .connect = connect_v7,
    .accept = accept_v7,
    .regMr = regMr_v8,
    .regMrDmaBuf = regMrDmaBuf_v6,
    .deregMr = deregMr_v6,
    .isend = isend_v9,
    .irecv = irecv_v9,
    .iflush = iflush_v6,
    .test = test_v6,
    .closeSend = closeConnection_v6,
    .closeRecv = closeConnection_v6,
    .closeListen = closeListen_v6,
    .getDeviceMr = nullptr,
    .irecvConsumed = nullptr,
    .makeVDevice = nullptr,  // NCCL then fuses no NICs
};

RAILWISE_TABLE(10) = {
    .name = kName,
    .init = init_v10,
    .devices = devices_v6,
    .getProperties = getProperties<ncclNetProperties_v10_t>,
    .listen = listen_v6,
    .connect = connect_v10,
    .accept = accept_v7,
    .regMr = regMr_v8,
    .regMrDmaBuf = regMrDmaBuf_v6,
    .deregMr = deregMr_v6,
    .isend = isend_v10,
    .irecv = irecv_v10,
    .iflush = iflush_v6,
    .test = test_v6,
    .closeSend = closeConnection_v6,
    .closeRecv = closeConnection_v6,
    .closeListen = closeListen_v6,
    .getDeviceMr = nullptr,
    .irecvConsumed = nullptr,
    .makeVDevice = nullptr,
};

RAILWISE_TABLE(11) = {
    .name = kName,
    .init = init_v11,
    .devices = devices_v6,
    .getProperties = getProperties<ncclNetProperties_v11_t>,
    .listen = listen_v11,
    .connect = connect_v11,
    .accept = accept_v7,
    .regMr = regMr_v8,
    .regMrDmaBuf = regMrDmaBuf_v6,
    .deregMr = deregMr_v6,
    .isend = isend_v10,
    .irecv = irecv_v10,
    .iflush = iflush_v6,
    .test = test_v6,
    .closeSend = closeConnection_v6,
    .closeRecv = closeConnection_v6,
    .closeListen = closeListen_v6,
    .getDeviceMr = nullptr,
    .irecvConsumed = nullptr,
    .makeVDevice = nullptr,
    .finalize = finalize_v11,
    .setNetAttr = setNetAttr_v11,
};

RAILWISE_TABLE(12) = {
    .name = kName,
    .init = init_v11,
    .devices = devices_v6,
    .getProperties = getProperties<ncclNetProperties_v12_t>,
    .listen = listen_v11,
    .connect = connect_v11,
    .accept = accept_v7,
    .regMr = regMr_v8,
    .regMrDmaBuf = regMrDmaBuf_v6,
    .deregMr = deregMr_v6,
    .isend = isend_v10,
    .irecv = irecv_v10,
    .iflush = iflush_v6,
    .test = test_v6,
    .closeSend = closeConnection_v6,
    .closeRecv = closeConnection_v6,
    .closeListen = closeListen_v6,
    .getDeviceMr = nullptr,
    .irecvConsumed = nullptr,
    .makeVDevice = nullptr,
    .finalize = finalize_v11,
    .setNetAttr = setNetAttr_v11,
};
