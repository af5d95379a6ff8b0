// The calls of NCCL's service thread: communicators, devices, connections, memory.
#pragma once

#include <string>

#include "spy/border.h"
#include "spy/spy.h"

namespace railwise::spy {

// ---- devices

template <typename Properties>
void checkProperties(int index, const Properties& its) {
  const auto bad = [&](const char* what) {
    reportBreach(Breach::kBadProperties, nullptr, "getProperties(%d): %s", index, what);
  };
  if (its.name == nullptr) bad("the name is null");
  if (its.maxRecvs < 1) bad("maxRecvs is less than 1");
  if (its.speed <= 0) bad("the speed is not positive");
  if constexpr (requires { its.maxP2pBytes; }) {
    if (its.maxP2pBytes == 0 || its.maxP2pBytes > NCCL_MAX_NET_SIZE_BYTES)
      bad("maxP2pBytes is 0 or more than 2^40, so NCCL fails each connection");
  }
}

template <int V>
ncclResult_t getProperties(int index, typename Abi<V>::Properties* its) {
  return guarded("getProperties", [&] {
    const ncclResult_t result =
        counted(Function::kGetProperties, [&] { return inside<V>().getProperties(index, its); });
    if (result != ncclSuccess || its == nullptr) return result;
    if (!Registry::get().device(index)) checkProperties(index, *its);
    Device device = {.index = index,
                     .name = its->name != nullptr ? its->name : "",
                     .port = its->port,
                     .mbps = its->speed,
                     .max_receives = its->maxRecvs};
    if constexpr (requires { its->railId; }) {
      device.rail = its->railId;
      device.plane = its->planeId;
    }
    Registry::get().keep(device);
    return result;
  });
}

// NCCL may not have asked for this device yet.
template <int V>
Device deviceOf(int index) {
  if (auto known = Registry::get().device(index)) return *known;
  typename Abi<V>::Properties properties = {};
  if (getProperties<V>(index, &properties) == ncclSuccess) {
    if (auto known = Registry::get().device(index)) return *known;
  }
  return {.index = index, .name = "device" + std::to_string(index)};
}

template <int V, typename Props>
ncclResult_t makeVDevice(int* index, Props* members) {
  return guarded("makeVDevice", [&] {
    return counted(Function::kMakeVDevice, [&] { return inside<V>().makeVDevice(index, members); });
  });
}

// ---- listen, connect, accept

template <int V, typename Inside>
ncclResult_t listenThrough(Context* context, int index, void** listener, Inside&& inside) {
  if (listener == nullptr)
    return refuse(Breach::kWrongObject, "listen", "listenComm is null"), ncclInvalidArgument;
  void* made = nullptr;
  const ncclResult_t result = counted(Function::kListen, [&] { return inside(&made); });
  *listener = nullptr;
  if (result != ncclSuccess) return result;
  if (made == nullptr) {
    reportBreach(Breach::kNothingMade, nullptr, "listen succeeded and gave no listen communicator");
    return result;
  }
  *listener = Registry::get().addListener(made, deviceOf<V>(index), context);
  return result;
}

// `key`: the handle of connect, or the listener of accept. A null communicator means: call again.
template <typename Inside, typename DeviceOf>
ncclResult_t connectThrough(Function function, Side side, Context* context, const void* key, void** comm,
                            DeviceOf&& device, Inside&& inside) {
  if (comm == nullptr)
    return refuse(Breach::kWrongObject, functionName(function), "the communicator's place is null"),
           ncclInvalidArgument;
  Registry::get().attempt(key, nowNs());
  void* made = nullptr;
  const ncclResult_t result = counted(function, [&] { return inside(&made); });
  *comm = nullptr;
  if (result != ncclSuccess) Registry::get().giveUp(key);
  if (result == ncclSuccess && made != nullptr)
    *comm = Registry::get().addConnection(side, made, device(), context, key);
  return result;
}

template <int V, typename Inside>
ncclResult_t connectThrough(Context* context, int index, void* handle, void** comm, Inside&& inside) {
  return connectThrough(
      Function::kConnect, Side::kSender, context, handle, comm, [&] { return deviceOf<V>(index); }, inside);
}

template <typename Inside>
ncclResult_t acceptThrough(void* object, void** comm, Inside&& inside) {
  return guarded("accept", [&] {
    Listener* const listener = listenerOf("accept", object);
    if (listener == nullptr) return ncclInvalidUsage;
    return connectThrough(
        Function::kAccept, Side::kReceiver, listener->context, listener, comm,
        [&] { return listener->device; }, [&](void** made) { return inside(listener->inner, made); });
  });
}

template <int V>
ncclResult_t closeListen(void* object) {
  return guarded("closeListen", [&] {
    if (object == nullptr) return inside<V>().closeListen(object);
    Listener* const listener = listenerOf("closeListen", object);
    if (listener == nullptr) return ncclInvalidUsage;
    Registry::get().close(*listener);
    return counted(Function::kCloseListen, [&] { return inside<V>().closeListen(listener->inner); });
  });
}

template <int V, Side kSide>
ncclResult_t closeConnection(void* object) {
  constexpr bool kSends = kSide == Side::kSender;
  constexpr Function kFunction = kSends ? Function::kCloseSend : Function::kCloseRecv;
  const auto inner_close = [](void* comm) {
    return kSends ? inside<V>().closeSend(comm) : inside<V>().closeRecv(comm);
  };
  return guarded(functionName(kFunction), [&] {
    if (object == nullptr) return inner_close(object);
    Connection* const connection = connectionOf(functionName(kFunction), object, kSide);
    if (connection == nullptr) return ncclInvalidUsage;
    Registry::get().close(*connection);
    const ncclResult_t result = counted(kFunction, [&] { return inner_close(connection->inner()); });
    if constexpr (V <= 10) end(false);  // there is no finalize: this may have been the last call
    return result;
  });
}

// ---- memory

template <typename Inside>
ncclResult_t registerThrough(Function function, void* object, void** handle, Inside&& inside) {
  return guarded(functionName(function), [&] {
    Connection* const connection = connectionOf(functionName(function), object);
    if (connection == nullptr) return ncclInvalidUsage;
    const ncclResult_t result = counted(function, [&] { return inside(connection->inner()); });
    if (result == ncclSuccess && handle != nullptr) connection->registered(*handle);
    return result;
  });
}

template <int V, typename Size>
ncclResult_t regMr(void* object, void* data, Size bytes, int type, void** handle) {
  return registerThrough(Function::kRegMr, object, handle,
                         [&](void* comm) { return inside<V>().regMr(comm, data, bytes, type, handle); });
}

template <int V>
ncclResult_t regMrDmaBuf(void* object, void* data, size_t bytes, int type, uint64_t offset, int fd,
                         void** handle) {
  return registerThrough(Function::kRegMrDmaBuf, object, handle, [&](void* comm) {
    return inside<V>().regMrDmaBuf(comm, data, bytes, type, offset, fd, handle);
  });
}

// NCCL also calls deregMr for memory whose registration has failed, with a null handle.
template <int V>
ncclResult_t deregMr(void* object, void* handle) {
  return guarded("deregMr", [&] {
    Connection* const connection = connectionOf("deregMr", object);
    if (connection == nullptr) return ncclInvalidUsage;
    if (!connection->deregistered(handle) && handle != nullptr)
      reportBreach(Breach::kUnknownMemory, connection->record(),
                   "deregMr of %p, which is not registered with this connection (%s)", handle,
                   connection->name().c_str());
    return counted(Function::kDeregMr, [&] { return inside<V>().deregMr(connection->inner(), handle); });
  });
}

template <int V>
ncclResult_t getDeviceMr(void* object, void* handle, void** device_handle) {
  return guarded("getDeviceMr", [&] {
    Connection* const connection = connectionOf("getDeviceMr", object);
    if (connection == nullptr) return ncclInvalidUsage;
    return counted(Function::kGetDeviceMr,
                   [&] { return inside<V>().getDeviceMr(connection->inner(), handle, device_handle); });
  });
}

// ---- init and finalize

// Puts into the spy's table those functions that the plugin may lack (tables.cc).
template <int V>
void takeOptionalFunctions();

// `inside_init`: calls the plugin's init.
template <int V, typename Inside>
ncclResult_t initThrough(ncclDebugLogger_t logger, Inside&& inside_init) {
  if (!inner().error.empty()) {
    begin(logger, "Spy", 0);
    RAILWISE_WARN("%s", inner().error.c_str());
    return ncclInvalidUsage;
  }
  begin(logger, inside<V>().name, V);
  const ncclResult_t result = counted(Function::kInit, inside_init);
  if (result == ncclSuccess) takeOptionalFunctions<V>();
  return result;
}

template <int V>
ncclResult_t initContext(void** context, uint64_t communicator, ncclNetCommConfig_v11_t* config,
                         ncclDebugLogger_t logger, ncclProfilerCallback_t profiler) {
  return guarded("init", [&] {
    if (context == nullptr) return refuse(Breach::kWrongObject, "init", "ctx is null"), ncclInvalidArgument;
    *context = nullptr;
    void* made = nullptr;
    const ncclResult_t result = initThrough<V>(
        logger, [&] { return inside<V>().init(&made, communicator, config, logger, profiler); });
    const int traffic_class = config != nullptr ? config->trafficClass : NCCL_NET_ID_UNDEF;
    if (result == ncclSuccess) *context = Registry::get().begin(made, communicator, traffic_class);
    return result;
  });
}

// `object` may be null: NCCL 2.28.3 to 2.29.3 call finalize after an init that failed.
template <int V>
ncclResult_t finalize(void* object) {
  return guarded("finalize", [&] {
    if (object == nullptr) return inner().error.empty() ? inside<V>().finalize(nullptr) : ncclSuccess;
    Context* const context = contextOf("finalize", object);
    if (context == nullptr) return ncclInvalidUsage;
    const ncclResult_t result =
        counted(Function::kFinalize, [&] { return inside<V>().finalize(context->inner); });
    Registry::get().end(*context);
    end(true);
    return result;
  });
}

template <int V, typename Attributes>
ncclResult_t setNetAttr(void* object, Attributes* attributes) {
  return guarded("setNetAttr", [&] {
    Context* const context = contextOf("setNetAttr", object);
    if (context == nullptr) return ncclInvalidUsage;
    return counted(Function::kSetNetAttr, [&] { return inside<V>().setNetAttr(context->inner, attributes); });
  });
}

}  // namespace railwise::spy
