// The calls of NCCL's progress thread: isend, irecv, iflush, test.
#include <array>

#include "plugin/calls.h"
#include "plugin/guard.h"

namespace railwise::plugin {

using net::Connection;
using net::MemoryHandle;
using net::ReceiveConnection;
using net::Request;
using net::SendConnection;

static_assert(net::kOutstandingReceives == NCCL_NET_MAX_REQUESTS);

template <typename T>
[[gnu::always_inline]] static inline Status connectionOf(const char* function, void* connection,
                                                         net::Direction direction, T** typed) {
  auto* base = static_cast<Connection*>(connection);
  if (base != nullptr && base->direction() == direction) [[likely]] {
    *typed = static_cast<T*>(base);
    return Status::success();
  }
  RAILWISE_WARN("%s: the communicator is null or of the wrong direction", function);
  return {Code::kInvalidArgument, 0};
}

[[gnu::noinline]] static ncclResult_t isendReady(void* connection, void* data, size_t bytes, int tag,
                                                 void* handle, void* profiler, void** request) {
  return guarded("isend", [&] {
    RAILWISE_REQUIRE("isend", request);
    Request* made = nullptr;
    const auto send = [&] {
      SendConnection* typed = nullptr;
      RAILWISE_TRY(connectionOf("isend", connection, net::Direction::kSend, &typed));
      if (bytes > 0) RAILWISE_REQUIRE("isend", handle);
      return typed->isendReady(reinterpret_cast<uint64_t>(data), bytes, tag,
                               static_cast<const MemoryHandle*>(handle), profiler, &made);
    };
    const Status status = send();
    *request = made;  // on entry, *request may hold the slot's previous request
    return status;
  });
}

// Most calls of NCCL find no clear-to-send. They return at once, without further checks.
ncclResult_t isend_v10(void* connection, void* data, size_t bytes, int tag, void* handle, void* profiler,
                       void** request) {
  auto* const base = static_cast<Connection*>(connection);
  if (base == nullptr || request == nullptr || base->direction() != net::Direction::kSend ||
      !static_cast<SendConnection*>(base)->mustWait()) [[likely]]
    return isendReady(connection, data, bytes, tag, handle, profiler, request);
  *request = nullptr;
  return ncclSuccess;
}

ncclResult_t isend_v9(void* connection, void* data, size_t bytes, int tag, void* handle, void** request) {
  return isend_v10(connection, data, bytes, tag, handle, nullptr, request);
}

// In API versions with int sizes, a negative size becomes a size that no device accepts, and is refused for
// that reason.
ncclResult_t isend_v6(void* connection, void* data, int bytes, int tag, void* handle, void** request) {
  return isend_v9(connection, data, static_cast<size_t>(bytes), tag, handle, request);
}

[[gnu::always_inline]] static inline Status bufferOf(void* data, int64_t bytes, int tag, void* handle,
                                                     void* profiler, net::ReceiveBuffer* buffer) {
  if (bytes < 0) [[unlikely]] {
    RAILWISE_WARN("irecv: a buffer of %ld bytes", static_cast<long>(bytes));
    return {Code::kInvalidArgument, 0};
  }
  if (bytes > 0) RAILWISE_REQUIRE("irecv", handle);
  *buffer = {reinterpret_cast<uint64_t>(data), static_cast<size_t>(bytes), tag,
             static_cast<const MemoryHandle*>(handle), profiler};
  return Status::success();
}

template <typename Size>
[[gnu::noinline]] static Status receiveGroup(ReceiveConnection& receive, int n, void** data,
                                             const Size* sizes, const int* tags, void** handles,
                                             void** profilers, Request** request) {
  if (n < 1 || n > net::kMaxReceives) {
    RAILWISE_WARN("irecv: %d receives in a group, 1 to %d are possible", n, net::kMaxReceives);
    return {Code::kInvalidArgument, 0};
  }
  const auto buffer_at = [=](size_t i, net::ReceiveBuffer* buffer) {
    return bufferOf(data[i], static_cast<int64_t>(sizes[i]), tags[i], handles[i],
                    profilers != nullptr ? profilers[i] : nullptr, buffer);
  };
  return receive.irecvGroup(static_cast<uint32_t>(n), buffer_at, request);
}

// `may_be_silent`: NCCL may pass NCCL_NET_OPTIONAL_RECV_COMPLETION in *request, because it needs no
// completion.
template <typename Size>
[[gnu::always_inline]] static inline Status receive(bool may_be_silent, void* connection, int n, void** data,
                                                    const Size* sizes, const int* tags, void** handles,
                                                    void** profilers, void** request) {
  RAILWISE_REQUIRE("irecv", request);
  const bool silent = may_be_silent && *request == reinterpret_cast<void*>(NCCL_NET_OPTIONAL_RECV_COMPLETION);
  *request = nullptr;
  ReceiveConnection* receive = nullptr;
  RAILWISE_TRY(connectionOf("irecv", connection, net::Direction::kReceive, &receive));
  if (data == nullptr || sizes == nullptr || tags == nullptr || handles == nullptr) [[unlikely]]
    return refuseNull("irecv", "an array");
  Request* made = nullptr;
  Status status;
  if (n == 1) [[likely]] {
    net::ReceiveBuffer buffer;
    RAILWISE_TRY(bufferOf(data[0], static_cast<int64_t>(sizes[0]), tags[0], handles[0],
                          profilers != nullptr ? profilers[0] : nullptr, &buffer));
    status = receive->irecv({&buffer, 1}, silent, &made);
  } else {
    status = receiveGroup(*receive, n, data, sizes, tags, handles, profilers, &made);
  }
  *request = made;
  return status;
}

ncclResult_t irecv_v6(void* connection, int n, void** data, int* sizes, int* tags, void** handles,
                      void** request) {
  return guarded("irecv",
                 [&] { return receive(false, connection, n, data, sizes, tags, handles, nullptr, request); });
}

ncclResult_t irecv_v10(void* connection, int n, void** data, size_t* sizes, int* tags, void** handles,
                       void** profilers, void** request) {
  return guarded(
      "irecv", [&] { return receive(true, connection, n, data, sizes, tags, handles, profilers, request); });
}

ncclResult_t irecv_v9(void* connection, int n, void** data, size_t* sizes, int* tags, void** handles,
                      void** request) {
  return irecv_v10(connection, n, data, sizes, tags, handles, nullptr, request);
}

// NCCL compacts `data` and `handles` to the receives that still matter, but `sizes` has the positions of the
// whole group. So sizes[i] need not belong to data[i]. A null request means that there was nothing to flush:
// no bytes, or host memory, which needs no flush.
static Status flush(void* connection, int n, void** data, const int* sizes, void** handles, void** request) {
  RAILWISE_REQUIRE("iflush", request);
  *request = nullptr;
  ReceiveConnection* receive = nullptr;
  RAILWISE_TRY(connectionOf("iflush", connection, net::Direction::kReceive, &receive));
  if (n > 0 && (data == nullptr || sizes == nullptr || handles == nullptr)) [[unlikely]]
    return refuseNull("iflush", "an array");
  int last = -1;
  bool any = false;
  for (int i = 0; i < n; ++i) {
    any = any || sizes[i] > 0;
    const auto* handle = static_cast<const MemoryHandle*>(handles[i]);
    if (handle != nullptr && handle->kind != net::MemoryKind::kHost) last = i;
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

[[gnu::noinline]] static ncclResult_t testSlowPath(void* request, int* done, int* sizes) {
  return guarded("test", [&] {
    RAILWISE_REQUIRE("test", done);
    *done = 0;
    RAILWISE_REQUIRE("test", request);
    auto& typed = *static_cast<Request*>(request);
    if (typed.kind == Request::Kind::kFree) {
      RAILWISE_WARN("test: the request has completed before");
      return Status{Code::kInvalidUsage, 0};
    }
    bool complete = false;
    const Status status = typed.connection->testSlowPath(typed, &complete, sizes);
    *done = complete ? 1 : 0;
    return status;
  });
}

[[gnu::noinline]] static ncclResult_t testUnknown(void* request, int* done, int* sizes) {
  const std::optional<bool> complete = Connection::testByOnePoll(*static_cast<Request*>(request), sizes);
  if (!complete) [[unlikely]]
    return testSlowPath(request, done, sizes);
  *done = *complete ? 1 : 0;
  return ncclSuccess;
}

ncclResult_t test_v6(void* request, int* done, int* sizes) {
  if (request == nullptr || done == nullptr) [[unlikely]]
    return testSlowPath(request, done, sizes);
  if (!Connection::testIfKnown(*static_cast<Request*>(request), sizes))
    return testUnknown(request, done, sizes);
  *done = 1;
  return ncclSuccess;
}

}  // namespace railwise::plugin
