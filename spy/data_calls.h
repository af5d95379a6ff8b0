// The calls of NCCL's progress thread: isend, irecv, iflush, test, irecvConsumed.
#pragma once

#include <array>
#include <tuple>
#include <type_traits>

#include "spy/border.h"
#include "spy/shadow.h"

namespace railwise::spy {

// ---- messages

template <typename Inside>
ncclResult_t postThrough(Connection* connection, const char* function, const Posted& posted, void** request,
                         Inside&& inside) {
  if (connection == nullptr) return ncclInvalidUsage;
  if (request == nullptr)
    return refuse(Breach::kWrongObject, function, "the request's place is null"), ncclInvalidArgument;
  connection->beforePost(posted);
  void* const given = *request;
  void* made = given;
  const Call call = timed([&] { return inside(connection->inner(), &made); },
                          [&](uint64_t now) { connection->enter(posted.call, now); });
  *request = connection->afterPost(posted, given, made, call);
  if (call.result != ncclSuccess)
    shadowFailure(connection->device(), connection->name(), function, call.result);
  return call.result;
}

template <typename Size>
uint64_t checkedSize(const char* function, Size bytes) {
  if constexpr (std::is_signed_v<Size>) {
    if (bytes >= 0) return static_cast<uint64_t>(bytes);
    reportBreach(Breach::kNegativeSize, nullptr, "%s of %lld bytes", function, static_cast<long long>(bytes));
    return 0;
  } else {
    return bytes;
  }
}

// `rest`: from v10 on NCCL's handle for the profiler, then the request.
template <int V, typename Size, typename... Rest>
ncclResult_t isend(void* object, void* data, Size bytes, int tag, void* handle, Rest... rest) {
  return guarded("isend", [&] {
    Connection* const connection = connectionOf("isend", object, Side::kSender);
    const Posted posted = {.call = CallKind::kIsend, .bytes = checkedSize("isend", bytes)};
    std::tuple its(rest...);
    void**& request = std::get<sizeof...(Rest) - 1>(its);
    return postThrough(connection, "isend", posted, request, [&](void* comm, void** made) {
      request = made;
      return std::apply(
          [&](auto... all) { return inside<V>().isend(comm, data, bytes, tag, handle, all...); }, its);
    });
  });
}

template <typename Size>
Posted postedOf(const char* function, CallKind call, int n, const Size* sizes) {
  Posted posted = {.call = call, .count = n};
  for (int i = 0; i < n && sizes != nullptr; ++i) {
    const uint64_t bytes = checkedSize(function, sizes[i]);
    posted.bytes += bytes;
    if (i < Request::kSizes) posted.sizes[static_cast<std::size_t>(i)] = bytes;
  }
  return posted;
}

template <int V, typename Size, typename... Rest>
ncclResult_t irecv(void* object, int n, void** data, Size* sizes, int* tags, void** handles, Rest... rest) {
  return guarded("irecv", [&] {
    Connection* const connection = connectionOf("irecv", object, Side::kReceiver);
    Posted posted = postedOf("irecv", CallKind::kIrecv, n, sizes);
    std::tuple its(rest...);
    void**& request = std::get<sizeof...(Rest) - 1>(its);
    posted.optional = V >= 9 && request != nullptr &&
                      *request == reinterpret_cast<void*>(NCCL_NET_OPTIONAL_RECV_COMPLETION);
    return postThrough(connection, "irecv", posted, request, [&](void* comm, void** made) {
      request = made;
      return std::apply(
          [&](auto... all) { return inside<V>().irecv(comm, n, data, sizes, tags, handles, all...); }, its);
    });
  });
}

template <int V>
ncclResult_t iflush(void* object, int n, void** data, int* sizes, void** handles, void** request) {
  return guarded("iflush", [&] {
    Connection* const connection = connectionOf("iflush", object, Side::kReceiver);
    const Posted posted = postedOf("iflush", CallKind::kIflush, n, sizes);
    return postThrough(connection, "iflush", posted, request, [&](void* comm, void** made) {
      return inside<V>().iflush(comm, n, data, sizes, handles, made);
    });
  });
}

// The request that NCCL means, if it is open; null after a report.
inline Request* openRequest(void* object) {
  if (object == nullptr) return refuse(Breach::kNoSuchRequest, "test", "the request is null");
  if (!is(object, Kind::kRequest))
    return refuse(Breach::kNoSuchRequest, "test", "the plugin has not given this request");
  auto* const request = static_cast<Request*>(object);
  const auto said = [&](const char* what) { return "of a request of " + request->connection->name() + what; };
  if (request->connection->closed())
    return refuse(Breach::kClosedBefore, "test", said(", which is closed").c_str());
  if (request->state != Request::State::kOpen)
    return refuse(Breach::kTestedAfterDone, "test", said(" that was done before").c_str());
  return request;
}

// NCCL's groups are no larger (NCCL_PROXY_MAX_SUBS).
constexpr int kMostBuffers = 64;

template <int V>
ncclResult_t test(void* object, int* done, int* sizes) {
  return guarded("test", [&] {
    if (done == nullptr) return refuse(Breach::kWrongObject, "test", "done is null"), ncclInvalidArgument;
    *done = 0;
    Request* const request = openRequest(object);
    if (request == nullptr) return ncclInvalidUsage;
    // Only a receive writes as many sizes as it has buffers.
    const bool watched =
        request->call == CallKind::kIrecv && sizes != nullptr && request->count <= kMostBuffers;
    std::array<int, kMostBuffers> written;
    if (watched) written.fill(Connection::kUnwritten);
    int* const place = watched ? written.data() : sizes;
    int said = Connection::kUnwritten;
    const Call call = timed([&] { return inside<V>().test(request->inner, &said, place); },
                            [&](uint64_t now) { request->connection->enter(CallKind::kTest, now); });
    const int count = request->count;
    const Connection& connection = *request->connection;
    request->connection->afterTest(*request, said, watched ? place : nullptr, call);
    if (call.result != ncclSuccess)
      shadowFailure(connection.device(), connection.name(), "test", call.result);
    *done = said != Connection::kUnwritten ? said : 0;
    for (int i = 0; watched && i < count; ++i) {
      const int size = written[static_cast<std::size_t>(i)];
      if (size != Connection::kUnwritten) sizes[i] = size;
    }
    return call.result;
  });
}

// NCCL calls it with the request of a receive that is done.
template <int V>
ncclResult_t irecvConsumed(void* object, int n, void* request) {
  return guarded("irecvConsumed", [&] {
    Connection* const connection = connectionOf("irecvConsumed", object, Side::kReceiver);
    if (connection == nullptr) return ncclInvalidUsage;
    if (!is(request, Kind::kRequest))
      return refuse(Breach::kNoSuchRequest, "irecvConsumed", "the plugin has not given this request"),
             ncclInvalidUsage;
    return counted(Function::kIrecvConsumed, [&] {
      return inside<V>().irecvConsumed(connection->inner(), n, static_cast<Request*>(request)->inner);
    });
  });
}

}  // namespace railwise::spy
