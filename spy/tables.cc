// The tables that NCCL looks up: ncclNetPlugin_v6 to _v12, and ncclNet_v6 to _v12. NCCL takes the newest
// version that it finds and looks for no other one, so a version that the plugin behind the spy lacks must
// not be found here either. Each symbol is therefore an indirect function: dlsym calls its resolver and
// returns what the resolver returns, which is null for a version that the plugin lacks. NCCL then treats the
// plugin through the spy exactly as it does without the spy. docs/spy.md has more.
#include <tuple>

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
  if constexpr (requires { its.makeVDevice; }) {
    table.makeVDevice = makeVDevice<V>;
    if (its.makeVDevice == nullptr) table.makeVDevice = nullptr;
  }
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
  } else {
    table.init = [](ncclDebugLogger_t logger, auto... profiler) {
      return guarded("init", [&] {
        return initThrough<V>(logger, [&] { return inside<V>().init(logger, profiler...); });
      });
    };
  }
}

// From v11 on, a context stands before the other arguments of listen and connect. Calls through(context,
// inside, the other arguments...): `inside` calls the plugin's function with the plugin's context and with
// such arguments.
template <int V, auto kFunction, typename Through, typename First, typename... Rest>
ncclResult_t withContext(const char* name, Through through, First first, Rest... rest) {
  return guarded(name, [&] {
    if constexpr (V >= 11) {
      Context* const context = contextOf(name, first);
      if (context == nullptr) return ncclInvalidUsage;
      const auto inside_context = [context](auto... its) {
        return (inside<V>().*kFunction)(context->inner, its...);
      };
      return through(context, inside_context, rest...);
    } else {
      const auto inside_none = [](auto... its) { return (inside<V>().*kFunction)(its...); };
      return through(nullptr, inside_none, first, rest...);
    }
  });
}

// `rest`: in v10 the configuration, then the handle, the place of the communicator and, from v7 on, the
// device handle.
template <int V, typename Inside, typename... Rest>
ncclResult_t connect(Context* context, const Inside& inside_connect, int index, Rest... rest) {
  std::tuple its(rest...);
  return connectThrough<V>(context, index, std::get<void*>(its), std::get<void**>(its), [&](void** made) {
    std::get<void**>(its) = made;
    return std::apply([&](auto... all) { return inside_connect(index, all...); }, its);
  });
}

template <int V>
void fillConnections() {
  using Net = typename Abi<V>::Net;
  auto& table = g_table<V>;
  table.listen = [](auto... arguments) {
    const auto through = [](Context* context, auto inside_listen, int index, void* handle, void** listener) {
      return listenThrough<V>(context, index, listener,
                              [&](void** made) { return inside_listen(index, handle, made); });
    };
    return withContext<V, &Net::listen>("listen", through, arguments...);
  };
  table.connect = [](auto... arguments) {
    const auto through = [](auto... its) { return connect<V>(its...); };
    return withContext<V, &Net::connect>("connect", through, arguments...);
  };
  table.accept = [](void* listener, void** comm, auto... device_handle) {  // v6 has no device handle
    return acceptThrough(listener, comm, [&](void* its, void** made) {
      return inside<V>().accept(its, made, device_handle...);
    });
  };
  table.closeSend = closeConnection<V, Side::kSender>;
  table.closeRecv = closeConnection<V, Side::kReceiver>;
  table.closeListen = closeListen<V>;
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
  table.regMr = regMr<V>;
  table.deregMr = deregMr<V>;
  table.isend = isend<V>;
  table.irecv = irecv<V>;
  table.test = test<V>;
  fillConnections<V>();
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
