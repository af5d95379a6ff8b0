// The border between NCCL and the plugin behind the spy: the plugin's own tables, what is counted and timed
// of a call, and the objects that NCCL means. tables.cc alone includes it, with service_calls.h and
// data_calls.h.
#pragma once

#include <cstddef>
#include <exception>

#include "base/clock.h"
#include "base/log.h"
#include "nccl/net_versions.h"
#include "spy/contract.h"
#include "spy/inner.h"
#include "spy/registry.h"

namespace railwise::spy {

using record::CallKind;
using record::Side;

using DeviceHandle = ncclNetDeviceHandle_v7_t;

// The plugin's own table.
template <int V>
const typename Abi<V>::Net& inside() {
  return *static_cast<const typename Abi<V>::Net*>(inner().tables[V]);
}

// No exception crosses the border to NCCL.
template <typename Body>
ncclResult_t guarded(const char* function, Body&& body) noexcept {
  try {
    return body();
  } catch (const std::exception& error) {  // in practice std::bad_alloc
    RAILWISE_WARN("%s: %s", function, error.what());
  }
  return ncclInternalError;
}

// `entered` gets the time before the call.
template <typename Body, typename Entered>
Call timed(Body&& body, Entered&& entered) {
  Call call;
  call.begin_ns = nowNs();
  entered(call.begin_ns);
  call.result = body();
  call.end_ns = nowNs();
  return call;
}

template <typename Body>
Call timed(Body&& body) {
  return timed(body, [](uint64_t) {});
}

template <typename Body>
ncclResult_t counted(Function function, Body&& body) {
  const Call call = timed(body);
  Registry::get().count(function, call);
  return call.result;
}

// ---- NCCL's objects

inline bool is(const void* object, Kind kind) {
  return object != nullptr && *static_cast<const Kind*>(object) == kind;
}

inline std::nullptr_t refuse(Breach breach, const char* function, const char* what) {
  reportBreach(breach, nullptr, "%s: %s", function, what);
  return nullptr;
}

// The connection that NCCL means; null after a report that it is none, closed, or of the wrong direction.
inline Connection* connectionOf(const char* function, void* object) {
  if (object == nullptr) return refuse(Breach::kWrongObject, function, "the communicator is null");
  if (!is(object, Kind::kConnection))
    return refuse(Breach::kWrongObject, function, "this is no send or receive communicator");
  auto* const connection = static_cast<Connection*>(object);
  if (!connection->closed()) return connection;
  return refuse(Breach::kClosedBefore, function, (connection->name() + " is closed").c_str());
}

inline Connection* connectionOf(const char* function, void* object, Side side) {
  Connection* const connection = connectionOf(function, object);
  if (connection == nullptr || connection->side() == side) return connection;
  return refuse(Breach::kWrongObject, function, ("the wrong direction: " + connection->name()).c_str());
}

inline Listener* listenerOf(const char* function, void* object) {
  if (!is(object, Kind::kListener))
    return refuse(Breach::kWrongObject, function, "this is no listen communicator");
  auto* const listener = static_cast<Listener*>(object);
  if (!listener->closed) return listener;
  return refuse(Breach::kClosedBefore, function, "the listen communicator is closed");
}

inline Context* contextOf(const char* function, void* object) {
  auto* const context = static_cast<Context*>(object);
  if (context == nullptr || context->kind != Kind::kContext)
    return refuse(Breach::kWrongObject, function, "this is no context of init");
  if (!context->ended) return context;
  return refuse(Breach::kClosedBefore, function, "finalize has ended the context");
}

}  // namespace railwise::spy
