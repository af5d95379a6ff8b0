// The calls of one-sided communication.
#include "plugin/rma_calls.h"

#include <memory>
#include <span>

#include "net/rma/rma.h"
#include "net/topology/in_use.h"
#include "plugin/guard.h"
#include "plugin/handles.h"

namespace railwise::plugin {

using net::RmaContext;
using net::RmaGroup;
using net::RmaListener;
using net::RmaNet;
using net::RmaPlace;
using net::RmaRequest;
using net::RmaSignal;
using net::RmaWindow;

static_assert(net::kRmaStrongOrder == NCCL_NET_MR_FLAG_FORCE_SO);
static_assert(net::kRmaNeverReset == NCCL_NET_MR_FLAG_SIGNAL_NEVER_RESET);

// ---- communicators

// NCCL registers GPU memory. Where no device reaches it, the registration of a window would fail; without a
// table of one-sided communication a window works inside the host. A process without GPUs has host memory. An
// iWARP device writes no signals into GPU memory (net/rma/loopback.h).
static bool reachesItsMemory(const net::Net& net) {
  if (!net::gpuLibraryLoaded()) return true;
  for (int i = 0; i < net.physicalDevices(); ++i) {
    const net::Device& device = *net.device(i);
    const bool reaches = (device.properties().pointer_support & (NCCL_PTR_CUDA | NCCL_PTR_DMABUF)) != 0;
    if (reaches && !device.rails().front().port.iwarp) return true;
  }
  return false;
}

// Not an error: NCCL goes on to its next network.
static Status leaveItToNccl(const char* why) {
  RAILWISE_INFO(log::kInit | log::kNet,
                "no one-sided communication over Railwise, NCCL takes its next network: %s", why);
  return {Code::kNoDevice, 0};
}

static Status initRma(void** context, uint64_t communicator, ncclDebugLogger_t logger) {
  RAILWISE_REQUIRE("init", context);
  *context = nullptr;
  setLogger(logger);
  NetReference reference;
  RAILWISE_TRY(acquireNet(&reference));
  if (reference == nullptr) return Status::success();
  if (reference->config().rma == 0) return leaveItToNccl("RAILWISE_RMA=0");
  if (!reachesItsMemory(*reference))
    return leaveItToNccl("no device reaches GPU memory, or all are iWARP (railwise doctor says why)");
  auto made = std::make_unique<RmaNet>(*reference, communicator);
  (void)reference.release();
  *context = made.release();
  return Status::success();
}

ncclResult_t rmaInit_v13(void** context, uint64_t communicator, ncclDebugLogger_t logger) {
  return guarded("init", [&] { return initRma(context, communicator, logger); });
}

// From 2.29.7 on, NCCL's own IB network has a GIN that kernels drive, and host RMA. NCCL 2.29.7 to 2.30.4
// lose both to a GIN table of a plugin (src/plugin/gin.cc: the RMA half of an external plugin is never
// initialised). So there Railwise does not take it; later releases do not ask for GIN v11.
static constexpr topo::NcclVersion kNcclsOwnGin = {22907};

ncclResult_t ginInit_v11(void** context, uint64_t communicator, ncclDebugLogger_t logger) {
  return guarded("init", [&] {
    RAILWISE_REQUIRE("init", context);
    *context = nullptr;
    const auto release = net::ncclInUse();
    if (!release || *release < kNcclsOwnGin) return initRma(context, communicator, logger);
    setLogger(logger);
    return leaveItToNccl("this NCCL has no host RMA with a GIN of a plugin");
  });
}

ncclResult_t rmaFinalize_v11(void* context) {
  return guarded("finalize", [&] {
    if (context == nullptr) return Status::success();
    removeHandlesOf(context);
    delete static_cast<RmaNet*>(context);
    net::Net::release();
    return Status::success();
  });
}

// ---- devices

static Status countPhysical(int* count) {
  RAILWISE_REQUIRE("devices", count);
  const net::Net* net = net::Net::current();
  *count = net != nullptr ? net->physicalDevices() : refusedByStrictMode() ? kRefusedDevices : 0;
  return *count > 0 ? Status::success() : beforeInit("devices");
}

ncclResult_t rmaDevices_v11(int* count) {
  return guarded("devices", [&] { return countPhysical(count); });
}

// A signal waits for the puts of its own stream. The property promises the puts of all ranks.
ncclResult_t getRmaProperties_v16(void* group, ncclRmaProperties_v16_t* properties) {
  return guarded("getRmaProperties", [&] {
    RAILWISE_REQUIRE("getRmaProperties", properties);
    *properties = {.flushesAllPutsOnAnySignal = false};
    RAILWISE_REQUIRE("getRmaProperties", group);
    return checkHandle("getRmaProperties", group, HandleKind::kRmaGroup);
  });
}

// ---- groups

static Status listenFor(void* context, int index, void* handle, void** listener) {
  RAILWISE_REQUIRE("listen", listener);
  *listener = nullptr;
  RAILWISE_REQUIRE("listen", context);
  RAILWISE_REQUIRE("listen", handle);
  Result<RmaListener*> made = static_cast<RmaNet*>(context)->listen(index, handle);
  if (!made.ok()) return made.status();
  addHandle(*made, HandleKind::kRmaListener, context);
  *listener = *made;
  return Status::success();
}

ncclResult_t rmaListen_v11(void* context, int index, void* handle, void** listener) {
  return guarded("listen", [&] { return listenFor(context, index, handle, listener); });
}

// *owner receives the context that the listener belongs to.
static Status connectGroup(void** handles, int ranks, int rank, void* listener, RmaGroup** group,
                           const void** owner) {
  RAILWISE_REQUIRE("connect", handles);
  RAILWISE_REQUIRE("connect", listener);
  if (ranks < 1 || rank < 0 || rank >= ranks) {
    RAILWISE_WARN("connect: there is no rank %d of %d", rank, ranks);
    return {Code::kInvalidArgument, 0};
  }
  const std::span<const void* const> all(handles, static_cast<std::size_t>(ranks));
  for (int i = 0; i < ranks; ++i) {
    if (handles[i] != nullptr) continue;
    RAILWISE_WARN("connect: the handle of rank %d is null", i);
    return {Code::kInvalidArgument, 0};
  }
  const Result<const void*> found = ownerOfHandle("connect", listener, HandleKind::kRmaListener);
  if (!found.ok()) return found.status();
  Result<RmaGroup*> made = RmaNet::connect(*static_cast<RmaListener*>(listener), all, rank);
  if (!made.ok()) return made.status();
  *group = *made;
  *owner = *found;
  return Status::success();
}

ncclResult_t rmaConnect_v13(void*, void* handles[], int ranks, int rank, void* listener, void** group) {
  return guarded("connect", [&] {
    RAILWISE_REQUIRE("connect", group);
    *group = nullptr;
    RmaGroup* made = nullptr;
    const void* owner = nullptr;
    RAILWISE_TRY(connectGroup(handles, ranks, rank, listener, &made, &owner));
    addHandle(made, HandleKind::kRmaGroup, owner);
    *group = made;
    return Status::success();
  });
}

ncclResult_t ginConnect_v11(void*, void* handles[], int ranks, int rank, void* listener, void** group) {
  return guarded("connect", [&] {
    RAILWISE_REQUIRE("connect", group);
    *group = nullptr;
    RmaGroup* made = nullptr;
    const void* owner = nullptr;
    RAILWISE_TRY(connectGroup(handles, ranks, rank, listener, &made, &owner));
    const Result<RmaContext*> context = made->createContext(1, NCCL_NET_ID_UNDEF);
    if (!context.ok()) {
      RmaGroup::close(made);
      return context.status();
    }
    addHandle(*context, HandleKind::kGinGroup, owner);
    *group = *context;
    return Status::success();
  });
}

static Status makeContext(void* group, int contexts, int traffic_class, void** context) {
  RAILWISE_REQUIRE("createContext", group);
  RAILWISE_TRY(checkHandle("createContext", group, HandleKind::kRmaGroup));
  if (contexts < 1) {
    RAILWISE_WARN("createContext: %d contexts, at least one is needed", contexts);
    return {Code::kInvalidArgument, 0};
  }
  const Result<RmaContext*> made = static_cast<RmaGroup*>(group)->createContext(contexts, traffic_class);
  if (!made.ok()) return made.status();
  RAILWISE_TRY(addToGroup("createContext", *made, HandleKind::kRmaContext, group, HandleKind::kRmaGroup));
  *context = *made;
  return Status::success();
}

ncclResult_t createContext_v13(void* group, ncclGinConfig_v13_t* config, void** context,
                               ncclNetDeviceHandle_v11_t** device_handle) {
  return guarded("createContext", [&] {
    if (device_handle != nullptr) *device_handle = nullptr;
    RAILWISE_REQUIRE("createContext", context);
    *context = nullptr;
    RAILWISE_REQUIRE("createContext", config);
    return makeContext(group, config->nContexts, config->trafficClass, context);
  });
}

// rankStride says which ranks will talk to each other. Connections come up when they are first used, so it
// changes nothing.
ncclResult_t createContext_v14(void* group, ncclRmaConfig_v14_t* config, void** context) {
  return guarded("createContext", [&] {
    RAILWISE_REQUIRE("createContext", context);
    *context = nullptr;
    RAILWISE_REQUIRE("createContext", config);
    return makeContext(group, config->nContexts, config->trafficClass, context);
  });
}

// ---- windows

// The group behind a collComm of this kind.
static RmaGroup& groupOf(void* group, HandleKind kind) {
  return kind == HandleKind::kGinGroup ? static_cast<RmaContext*>(group)->group()
                                       : *static_cast<RmaGroup*>(group);
}

// `registerIt` returns the window of the group that it gets.
template <typename Register>
static ncclResult_t registerWindow(const char* function, void* group, HandleKind kind, void** window,
                                   void** gin_handle, Register&& registerIt) {
  return guarded(function, [&] {
    if (gin_handle != nullptr) *gin_handle = nullptr;
    if (window == nullptr) return refuseNull(function, "mhandle");
    *window = nullptr;
    if (group == nullptr) return refuseNull(function, "collComm");
    RAILWISE_TRY(checkHandle(function, group, kind));
    const Result<RmaWindow*> made = registerIt(groupOf(group, kind));
    if (!made.ok()) return made.status();
    RAILWISE_TRY(addToGroup(function, *made, HandleKind::kRmaWindow, group, kind));
    *window = *made;
    if (gin_handle != nullptr) *gin_handle = *made;
    return Status::success();
  });
}

static ncclResult_t registerPointer(HandleKind kind, void* group, void* data, size_t bytes, int type,
                                    uint64_t flags, void** window, void** gin_handle) {
  const auto registerIt = [&](RmaGroup& its) -> Result<RmaWindow*> {
    if (type != NCCL_PTR_HOST && type != NCCL_PTR_CUDA) {
      RAILWISE_WARN("regMrSym: pointer type %d is neither host nor CUDA memory", type);
      return Status{Code::kInvalidArgument, 0};
    }
    if (bytes > 0) RAILWISE_REQUIRE("regMrSym", data);
    return its.registerMemory(reinterpret_cast<uint64_t>(data), bytes,
                              type == NCCL_PTR_HOST ? net::MemoryKind::kHost : net::MemoryKind::kDevice,
                              flags);
  };
  return registerWindow("regMrSym", group, kind, window, gin_handle, registerIt);
}

static ncclResult_t registerFd(HandleKind kind, void* group, void* data, size_t bytes, uint64_t offset,
                               int fd, uint64_t flags, void** window, void** gin_handle) {
  const auto registerIt = [&](RmaGroup& its) -> Result<RmaWindow*> {
    if (bytes > 0) RAILWISE_REQUIRE("regMrSymDmaBuf", data);
    return its.registerDmaBuf(reinterpret_cast<uint64_t>(data), bytes, offset, fd, flags);
  };
  return registerWindow("regMrSymDmaBuf", group, kind, window, gin_handle, registerIt);
}

ncclResult_t ginRegMrSym_v11(void* group, void* data, size_t bytes, int type, uint64_t flags, void** window,
                             void** gin_handle) {
  return registerPointer(HandleKind::kGinGroup, group, data, bytes, type, flags, window, gin_handle);
}

ncclResult_t ginRegMrSymDmaBuf_v11(void* group, void* data, size_t bytes, int, uint64_t offset, int fd,
                                   uint64_t flags, void** window, void** gin_handle) {
  return registerFd(HandleKind::kGinGroup, group, data, bytes, offset, fd, flags, window, gin_handle);
}

ncclResult_t regMrSym_v13(void* group, void* data, size_t bytes, int type, uint64_t flags, void** window,
                          void** gin_handle) {
  return registerPointer(HandleKind::kRmaGroup, group, data, bytes, type, flags, window, gin_handle);
}

ncclResult_t regMrSymDmaBuf_v13(void* group, void* data, size_t bytes, int, uint64_t offset, int fd,
                                uint64_t flags, void** window, void** gin_handle) {
  return registerFd(HandleKind::kRmaGroup, group, data, bytes, offset, fd, flags, window, gin_handle);
}

ncclResult_t regMrSym_v14(void* group, void* data, size_t bytes, int type, uint64_t flags, void** window) {
  return regMrSym_v13(group, data, bytes, type, flags, window, nullptr);
}

ncclResult_t regMrSymDmaBuf_v14(void* group, void* data, size_t bytes, int type, uint64_t offset, int fd,
                                uint64_t flags, void** window) {
  return regMrSymDmaBuf_v13(group, data, bytes, type, offset, fd, flags, window, nullptr);
}

// ---- ends

static void freeGroup(void* group, HandleKind kind) {
  RmaGroup& its = groupOf(group, kind);
  if (kind == HandleKind::kGinGroup) RmaContext::destroy(static_cast<RmaContext*>(group));
  RmaGroup::close(&its);
}

static Status deregister(void* group, HandleKind kind, void* window) {
  if (window == nullptr) return Status::success();
  RAILWISE_REQUIRE("deregMrSym", group);
  void* closed_group = nullptr;
  RAILWISE_TRY(removeFromGroup("deregMrSym", window, HandleKind::kRmaWindow, group, &closed_group));
  groupOf(group, kind).deregister(static_cast<RmaWindow*>(window));
  if (closed_group != nullptr) freeGroup(closed_group, kind);
  return Status::success();
}

ncclResult_t ginDeregMrSym_v11(void* group, void* window) {
  return guarded("deregMrSym", [&] { return deregister(group, HandleKind::kGinGroup, window); });
}

ncclResult_t deregMrSym_v13(void* group, void* window) {
  return guarded("deregMrSym", [&] { return deregister(group, HandleKind::kRmaGroup, window); });
}

ncclResult_t destroyContext_v13(void* context) {
  return guarded("destroyContext", [&] {
    if (context == nullptr) return Status::success();
    void* closed_group = nullptr;
    RAILWISE_TRY(removeFromGroup("destroyContext", context, HandleKind::kRmaContext, nullptr, &closed_group));
    RmaContext::destroy(static_cast<RmaContext*>(context));
    if (closed_group != nullptr) freeGroup(closed_group, HandleKind::kRmaGroup);
    return Status::success();
  });
}

static ncclResult_t closeCollOf(void* group, HandleKind kind) {
  return guarded("closeColl", [&] {
    if (group == nullptr) return Status::success();
    bool free_now = false;
    RAILWISE_TRY(closeGroup("closeColl", group, kind, &free_now));
    if (free_now) freeGroup(group, kind);
    return Status::success();
  });
}

ncclResult_t ginCloseColl_v11(void* group) { return closeCollOf(group, HandleKind::kGinGroup); }

ncclResult_t closeColl_v13(void* group) { return closeCollOf(group, HandleKind::kRmaGroup); }

ncclResult_t rmaCloseListen_v11(void* listener) {
  return guarded("closeListen", [&] {
    if (listener == nullptr) return Status::success();
    RAILWISE_TRY(removeHandle("closeListen", listener, HandleKind::kRmaListener));
    RmaNet::close(static_cast<RmaListener*>(listener));
    return Status::success();
  });
}

// ---- the data path

// All versions of a call share one body. Each version has an inline copy of it: a call from one version to
// another would pass 14 arguments on, which costs half as much as the work itself.
#define RAILWISE_INLINE __attribute__((always_inline))

[[gnu::always_inline]] static inline RmaPlace placeOf(void* window, uint64_t offset) {
  return {static_cast<RmaWindow*>(window), offset};
}

// Runs `start`, which posts an operation on the context and writes its request.
template <typename Start>
[[gnu::always_inline]] static inline ncclResult_t startOn(const char* function, void* context, void** request,
                                                          Start&& start) {
  return guarded(function, [&]() RAILWISE_INLINE -> Status {
    if (request == nullptr) [[unlikely]]
      return refuseNull(function, "request");
    *request = nullptr;
    if (context == nullptr) [[unlikely]]
      return refuseNull(function, "context");
    RmaRequest* made = nullptr;
    const Status status = start(*static_cast<RmaContext*>(context), &made);
    *request = made;
    return status;
  });
}

// The flags of v15 say that another operation follows at once. Each one is posted by itself all the same.
[[gnu::always_inline]] static inline ncclResult_t put(void* context, int index, uint64_t from_offset,
                                                      void* from, size_t bytes, uint64_t to_offset, void* to,
                                                      uint32_t rank, void** request) {
  return startOn("iput", context, request, [&](RmaContext& its, RmaRequest** made) RAILWISE_INLINE -> Status {
    RAILWISE_REQUIRE("iput", from);
    RAILWISE_REQUIRE("iput", to);
    return its.put(index, placeOf(from, from_offset), bytes, placeOf(to, to_offset), rank, made);
  });
}

ncclResult_t iput_v15(void* context, int index, uint64_t from_offset, void* from, size_t bytes,
                      uint64_t to_offset, void* to, uint32_t rank, uint32_t, void** request) {
  return put(context, index, from_offset, from, bytes, to_offset, to, rank, request);
}

ncclResult_t iput_v13(void* context, int index, uint64_t from_offset, void* from, size_t bytes,
                      uint64_t to_offset, void* to, uint32_t rank, void** request) {
  return put(context, index, from_offset, from, bytes, to_offset, to, rank, request);
}

ncclResult_t ginPut_v11(void* group, uint64_t from_offset, void* from, size_t bytes, uint64_t to_offset,
                        void* to, uint32_t rank, void** request) {
  return put(group, 0, from_offset, from, bytes, to_offset, to, rank, request);
}

[[gnu::cold]] static Status refuseOperation(uint32_t operation) {
  RAILWISE_WARN("iputSignal: signal operation %u is neither INC (1) nor ADD (2)", operation);
  return {Code::kInvalidArgument, 0};
}

[[gnu::always_inline]] static inline ncclResult_t putSignal(void* context, int index, uint64_t from_offset,
                                                            void* from, size_t bytes, uint64_t to_offset,
                                                            void* to, uint32_t rank, uint64_t signal_offset,
                                                            void* signal, uint64_t value, uint32_t operation,
                                                            void** request) {
  return startOn("iputSignal", context, request,
                 [&](RmaContext& its, RmaRequest** made) RAILWISE_INLINE -> Status {
                   if (bytes > 0) {
                     RAILWISE_REQUIRE("iputSignal", from);
                     RAILWISE_REQUIRE("iputSignal", to);
                   }
                   RAILWISE_REQUIRE("iputSignal", signal);
                   if (operation == NCCL_NET_SIGNAL_OP_INC) value = 1;
                   else if (operation != NCCL_NET_SIGNAL_OP_ADD) [[unlikely]]
                     return refuseOperation(operation);
                   return its.putSignal(index, placeOf(from, from_offset), bytes, placeOf(to, to_offset),
                                        rank, {placeOf(signal, signal_offset), value}, made);
                 });
}

ncclResult_t iputSignal_v15(void* context, int index, uint64_t from_offset, void* from, size_t bytes,
                            uint64_t to_offset, void* to, uint32_t rank, uint64_t signal_offset, void* signal,
                            uint64_t value, uint32_t operation, bool, uint32_t, void** request) {
  return putSignal(context, index, from_offset, from, bytes, to_offset, to, rank, signal_offset, signal,
                   value, operation, request);
}

ncclResult_t iputSignal_v14(void* context, int index, uint64_t from_offset, void* from, size_t bytes,
                            uint64_t to_offset, void* to, uint32_t rank, uint64_t signal_offset, void* signal,
                            uint64_t value, uint32_t operation, bool, void** request) {
  return putSignal(context, index, from_offset, from, bytes, to_offset, to, rank, signal_offset, signal,
                   value, operation, request);
}

ncclResult_t iputSignal_v13(void* context, int index, uint64_t from_offset, void* from, size_t bytes,
                            uint64_t to_offset, void* to, uint32_t rank, uint64_t signal_offset, void* signal,
                            uint64_t value, uint32_t operation, void** request) {
  return putSignal(context, index, from_offset, from, bytes, to_offset, to, rank, signal_offset, signal,
                   value, operation, request);
}

ncclResult_t ginPutSignal_v11(void* group, uint64_t from_offset, void* from, size_t bytes, uint64_t to_offset,
                              void* to, uint32_t rank, uint64_t signal_offset, void* signal, uint64_t value,
                              uint32_t operation, void** request) {
  return putSignal(group, 0, from_offset, from, bytes, to_offset, to, rank, signal_offset, signal, value,
                   operation, request);
}

[[gnu::always_inline]] static inline ncclResult_t get(void* context, int index, uint64_t from_offset,
                                                      void* from, size_t bytes, uint64_t to_offset, void* to,
                                                      uint32_t rank, void** request) {
  return startOn("iget", context, request, [&](RmaContext& its, RmaRequest** made) RAILWISE_INLINE -> Status {
    RAILWISE_REQUIRE("iget", from);
    RAILWISE_REQUIRE("iget", to);
    return its.get(index, placeOf(from, from_offset), bytes, placeOf(to, to_offset), rank, made);
  });
}

ncclResult_t iget_v15(void* context, int index, uint64_t from_offset, void* from, size_t bytes,
                      uint64_t to_offset, void* to, uint32_t rank, uint32_t, void** request) {
  return get(context, index, from_offset, from, bytes, to_offset, to, rank, request);
}

ncclResult_t iget_v13(void* context, int index, uint64_t from_offset, void* from, size_t bytes,
                      uint64_t to_offset, void* to, uint32_t rank, void** request) {
  return get(context, index, from_offset, from, bytes, to_offset, to, rank, request);
}

ncclResult_t rmaFlush_v13(void* context, int index, void* window, uint32_t rank, void** request) {
  return startOn("iflush", context, request,
                 [&](RmaContext& its, RmaRequest** made) RAILWISE_INLINE -> Status {
                   return its.flush(index, static_cast<RmaWindow*>(window), rank, made);
                 });
}

[[gnu::always_inline]] static inline ncclResult_t testIn(void* group, HandleKind kind, void* request,
                                                         int* done) {
  return guarded("test", [&] {
    RAILWISE_REQUIRE("test", done);
    *done = 0;
    RAILWISE_REQUIRE("test", group);
    RAILWISE_REQUIRE("test", request);
    return groupOf(group, kind).test(*static_cast<RmaRequest*>(request), done);
  });
}

ncclResult_t ginTest_v11(void* group, void* request, int* done) {
  return testIn(group, HandleKind::kGinGroup, request, done);
}

ncclResult_t rmaTest_v13(void* group, void* request, int* done) {
  return testIn(group, HandleKind::kRmaGroup, request, done);
}

ncclResult_t rmaProgress_v11(void* context) {
  return guarded("rmaProgress", [&] {
    RAILWISE_REQUIRE("rmaProgress", context);
    return static_cast<RmaContext*>(context)->progress();
  });
}

ncclResult_t queryLastError_v11(void* context, bool* has_error) {
  return guarded("queryLastError", [&] {
    RAILWISE_REQUIRE("queryLastError", has_error);
    *has_error = false;
    RAILWISE_REQUIRE("queryLastError", context);
    *has_error = static_cast<RmaContext*>(context)->failed();
    return Status::success();
  });
}

}  // namespace railwise::plugin
