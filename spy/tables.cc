// The tables that NCCL looks up: ncclNetPlugin_v6 to _v12, and ncclNet_v6 to _v12. NCCL takes the newest
// version that it finds and looks for no other one, so a version that the plugin behind the spy lacks must
// not be found here either. Each symbol is therefore an indirect function: dlsym calls its resolver and
// returns what the resolver returns, which is null for a version that the plugin lacks. NCCL then treats the
// plugin through the spy exactly as it does without the spy. docs/spy.md has more.
#include <type_traits>

#include "spy/data_calls.h"
#include "spy/service_calls.h"

namespace railwise::spy {
template <int V>
typename Abi<V>::Net g_table = {};

// A function that the plugin lacks is null here too. Some plugins decide that in init.
template <int V>
void takeOptionalFunctions() {
  auto& table = g_table<V>;
  const auto& its = inside<V>();
  table.name = its.name;
  table.regMrDmaBuf = its.regMrDmaBuf != nullptr ? regMrDmaBuf<V> : nullptr;
  table.iflush = its.iflush != nullptr ? iflush<V> : nullptr;
  if constexpr (requires { its.getDeviceMr; }) {
    table.getDeviceMr = its.getDeviceMr != nullptr ? getDeviceMr<V> : nullptr;
    table.irecvConsumed = its.irecvConsumed != nullptr ? irecvConsumed<V> : nullptr;
  }
  if constexpr (requires { its.makeVDevice; })
    table.makeVDevice = its.makeVDevice != nullptr ? makeVDevice<V, Members<V>> : nullptr;
  if constexpr (requires { its.setNetAttr; })
    table.setNetAttr = its.setNetAttr != nullptr ? setNetAttr<V, ncclNetAttr_v11_t> : nullptr;
}

namespace {

template <int V>
void fillInit() {
  auto& table = g_table<V>;
  if constexpr (V >= 11) {
    table.init = initContext<V>;
    table.finalize = finalize<V>;
  } else if constexpr (V == 10) {
    table.init = [](ncclDebugLogger_t logger, ncclProfilerCallback_t profiler) {
      return guarded(
          "init", [&] { return initThrough<V>(logger, [&] { return inside<V>().init(logger, profiler); }); });
    };
  } else {
    table.init = [](ncclDebugLogger_t logger) {
      return guarded("init",
                     [&] { return initThrough<V>(logger, [&] { return inside<V>().init(logger); }); });
    };
  }
}

template <int V>
void fillListen() {
  auto& table = g_table<V>;
  if constexpr (V >= 11) {
    table.listen = [](void* object, int index, void* handle, void** listener) {
      return guarded("listen", [&] {
        Context* const context = contextOf("listen", object);
        if (context == nullptr) return ncclInvalidUsage;
        return listenThrough<V>(context, index, listener, [&](void** made) {
          return inside<V>().listen(context->inner, index, handle, made);
        });
      });
    };
  } else {
    table.listen = [](int index, void* handle, void** listener) {
      return guarded("listen", [&] {
        return listenThrough<V>(nullptr, index, listener,
                                [&](void** made) { return inside<V>().listen(index, handle, made); });
      });
    };
  }
}

template <int V>
void fillConnect() {
  auto& table = g_table<V>;
  if constexpr (V >= 11) {
    table.connect = [](void* object, int index, void* handle, void** comm, DeviceHandle** device_handle) {
      return guarded("connect", [&] {
        Context* const context = contextOf("connect", object);
        if (context == nullptr) return ncclInvalidUsage;
        return connectThrough<V>(context, index, handle, comm, [&](void** made) {
          return inside<V>().connect(context->inner, index, handle, made, device_handle);
        });
      });
    };
  } else if constexpr (V == 10) {
    table.connect = [](int index, ncclNetCommConfig_v10_t* config, void* handle, void** comm,
                       DeviceHandle** device_handle) {
      return guarded("connect", [&] {
        return connectThrough<V>(nullptr, index, handle, comm, [&](void** made) {
          return inside<V>().connect(index, config, handle, made, device_handle);
        });
      });
    };
  } else if constexpr (V >= 7) {
    table.connect = [](int index, void* handle, void** comm, DeviceHandle** device_handle) {
      return guarded("connect", [&] {
        return connectThrough<V>(nullptr, index, handle, comm, [&](void** made) {
          return inside<V>().connect(index, handle, made, device_handle);
        });
      });
    };
  } else {
    table.connect = [](int index, void* handle, void** comm) {
      return guarded("connect", [&] {
        return connectThrough<V>(nullptr, index, handle, comm,
                                 [&](void** made) { return inside<V>().connect(index, handle, made); });
      });
    };
  }
}

template <int V>
void fillAccept() {
  auto& table = g_table<V>;
  if constexpr (V >= 7) {
    table.accept = [](void* listener, void** comm, DeviceHandle** device_handle) {
      return acceptThrough(listener, comm, [&](void* its, void** made) {
        return inside<V>().accept(its, made, device_handle);
      });
    };
  } else {
    table.accept = [](void* listener, void** comm) {
      return acceptThrough(listener, comm,
                           [&](void* its, void** made) { return inside<V>().accept(its, made); });
    };
  }
}

template <int V>
void fillMessages() {
  auto& table = g_table<V>;
  if constexpr (V >= 10) {
    table.isend = isend<V, size_t, void*, void**>;
    table.irecv = irecv<V, size_t, void**, void**>;
  } else if constexpr (V == 9) {
    table.isend = isend<V, size_t, void**>;
    table.irecv = irecv<V, size_t, void**>;
  } else {
    table.isend = isend<V, int, void**>;
    table.irecv = irecv<V, int, void**>;
  }
  table.test = test<V>;
}

template <int V>
void fillMemory() {
  using Size = std::conditional_t<(V >= 8), size_t, int>;
  auto& table = g_table<V>;
  table.regMr = [](void* object, void* data, Size bytes, int type, void** handle) {
    return registerThrough(Function::kRegMr, object, handle,
                           [&](void* comm) { return inside<V>().regMr(comm, data, bytes, type, handle); });
  };
  table.deregMr = deregMr<V>;
}

// What the symbols of version V lead to: a table, or null where the plugin lacks the version. Where there is
// no plugin, every version has a table, whose init says why.
template <int V>
void* tableOf() {
  if (askedByItself()) return nullptr;
  const bool none = !inner().error.empty();
  if (!none && inner().tables[V] == nullptr) return nullptr;
  auto& table = g_table<V>;
  if (table.init != nullptr) return &table;
  table.name = "Spy";
  table.devices = [](int* count) {
    return counted(Function::kDevices, [&] { return inside<V>().devices(count); });
  };
  table.getProperties = getProperties<V>;
  table.closeSend = closeConnection<V, Side::kSender>;
  table.closeRecv = closeConnection<V, Side::kReceiver>;
  table.closeListen = closeListen<V>;
  fillListen<V>();
  fillConnect<V>();
  fillAccept<V>();
  fillMemory<V>();
  fillMessages<V>();
  if (!none) takeOptionalFunctions<V>();
  fillInit<V>();
  return &table;
}

}  // namespace
}  // namespace railwise::spy

#define RAILWISE_SPY_TABLE(version)                                                                        \
  extern "C" {                                                                                             \
  void (*railwiseSpyTable##version())() {                                                                  \
    return reinterpret_cast<void (*)()>(railwise::spy::tableOf<version>());                                \
  }                                                                                                        \
  [[gnu::visibility("default"), gnu::ifunc("railwiseSpyTable" #version)]] void ncclNetPlugin_v##version(); \
  [[gnu::visibility("default"), gnu::ifunc("railwiseSpyTable" #version)]] void ncclNet_v##version();       \
  }
RAILWISE_SPY_TABLE(6)
RAILWISE_SPY_TABLE(7)
RAILWISE_SPY_TABLE(8)
RAILWISE_SPY_TABLE(9)
RAILWISE_SPY_TABLE(10)
RAILWISE_SPY_TABLE(11)
RAILWISE_SPY_TABLE(12)
