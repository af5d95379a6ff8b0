// Every function in the tables for NCCL. Each function is named by the first API version that had its
// signature. The functions only check and cast; src/net does the work. Contract: NCCL 2.30.7,
// src/include/plugin/net/net_v12.h and src/transport/net.cc.
//
// Threads, as NCCL calls the functions: any thread may call init, finalize, devices and getProperties, one at
// a time per process. The communicator's service thread calls listen to deregMr, and close*. The
// communicator's progress thread calls isend, irecv, iflush and test, at the same time as the service thread
// makes its calls.
#pragma once

#include <memory>

#include "nccl/net_v10.h"
#include "nccl/net_v11.h"
#include "nccl/net_v12.h"
#include "nccl/net_v6.h"
#include "nccl/net_v7.h"
#include "nccl/net_v8.h"
#include "nccl/net_v9.h"
#include "net/net.h"
#include "plugin/guard.h"
#include "plugin/properties.h"

namespace railwise::plugin {

// Every line of Railwise's log goes to `logger` from then on. Null: to stderr.
void setLogger(ncclDebugLogger_t logger);

// The process's network, given back unless it is released.
struct ReleaseNet {
  void operator()(net::Net* /*net*/) const { net::Net::release(); }
};
using NetReference = std::unique_ptr<net::Net, ReleaseNet>;
// Turns the refusal of RAILWISE_STRICT into a success with a null network.
Status acquireNet(NetReference* net);

ncclResult_t init_v6(ncclDebugLogger_t logger);
ncclResult_t init_v10(ncclDebugLogger_t logger, ncclProfilerCallback_t profiler);
// *context is null when init fails, or when RAILWISE_STRICT refuses the machine. `config` may be null.
ncclResult_t init_v11(void** context, uint64_t communicator, ncclNetCommConfig_v11_t* config,
                      ncclDebugLogger_t logger, ncclProfilerCallback_t profiler);
// Frees everything of the communicator that was not closed. `context` may be null: NCCL 2.28.3 to 2.29.3 call
// finalize after an init that failed.
ncclResult_t finalize_v11(void* context);
ncclResult_t setNetAttr_v11(void* context, ncclNetAttr_v11_t* attributes);
ncclResult_t makeVDevice_v9(int* index, ncclNetVDeviceProps_v9_t* props);
ncclResult_t makeVDevice_v12(int* index, ncclNetVDeviceProps_v12_t* props);

ncclResult_t devices_v6(int* count);
// For calls before init has succeeded: an error, logged.
Status beforeInit(const char* function);
// The devices that NCCL sees while RAILWISE_STRICT refuses the machine (service_calls.cc).
inline constexpr int kRefusedDevices = 2;
// After an init that RAILWISE_STRICT has refused, while no other communicator has devices: NCCL shall fail,
// and not take another network (service_calls.cc).
bool refusedByStrictMode();
// What getProperties then says of device `index`.
Status refuseDevice(int index);
// Returns device `index`, or null after logging a warning.
const net::Device* findDevice(int index);
template <typename Properties>
ncclResult_t getProperties(int index, Properties* properties) {
  return guarded("getProperties", [&] {
    RAILWISE_REQUIRE("getProperties", properties);
    if (refusedByStrictMode()) {
      fillRefused(*properties);
      return refuseDevice(index);
    }
    const net::Device* device = findDevice(index);
    if (device == nullptr) return Status{Code::kInvalidArgument, 0};
    fillProperties(*device, *properties);
    return Status::success();
  });
}

ncclResult_t listen_v6(int index, void* handle, void** listener);
ncclResult_t listen_v11(void* context, int index, void* handle, void** listener);
// NCCL calls connect again with the same handle until *send is not null. Device handles are for networks that
// GPUs drive; they may be null and are never written.
ncclResult_t connect_v6(int index, void* handle, void** send);
ncclResult_t connect_v7(int index, void* handle, void** send, ncclNetDeviceHandle_v7_t** device_handle);
// `config` is on NCCL's stack. It is null for NCCL's own out-of-band connections.
ncclResult_t connect_v10(int index, ncclNetCommConfig_v10_t* config, void* handle, void** send,
                         ncclNetDeviceHandle_v10_t** device_handle);
ncclResult_t connect_v11(void* context, int index, void* handle, void** send,
                         ncclNetDeviceHandle_v11_t** device_handle);
// NCCL calls accept again until *receive is not null.
ncclResult_t accept_v6(void* listener, void** receive);
ncclResult_t accept_v7(void* listener, void** receive, ncclNetDeviceHandle_v7_t** device_handle);
// The close functions accept a connection in any state, and null. They return success, because an error would
// end NCCL's own clean-up early; only a handle that is not theirs is refused (handles.h).
ncclResult_t closeListen_v6(void* listener);
ncclResult_t closeSend_v6(void* connection);
ncclResult_t closeReceive_v6(void* connection);

ncclResult_t regMr_v6(void* connection, void* data, int bytes, int type, void** handle);
ncclResult_t regMr_v8(void* connection, void* data, size_t bytes, int type, void** handle);
ncclResult_t regMrDmaBuf_v6(void* connection, void* data, size_t bytes, int type, uint64_t offset, int fd,
                            void** handle);
// `handle` may be null, because NCCL also deregisters memory whose registration failed.
ncclResult_t deregMr_v6(void* connection, void* handle);

// isend always writes *request. Null means that NCCL has to call again.
ncclResult_t isend_v6(void* connection, void* data, int bytes, int tag, void* handle, void** request);
ncclResult_t isend_v9(void* connection, void* data, size_t bytes, int tag, void* handle, void** request);
ncclResult_t isend_v10(void* connection, void* data, size_t bytes, int tag, void* handle, void* profiler,
                       void** request);
// From v9 on, *request may be NCCL_NET_OPTIONAL_RECV_COMPLETION on entry.
ncclResult_t irecv_v6(void* connection, int n, void** data, int* sizes, int* tags, void** handles,
                      void** request);
ncclResult_t irecv_v9(void* connection, int n, void** data, size_t* sizes, int* tags, void** handles,
                      void** request);
ncclResult_t irecv_v10(void* connection, int n, void** data, size_t* sizes, int* tags, void** handles,
                       void** profilers, void** request);
// A null request means that there was nothing to flush. iflush cannot ask NCCL to call again.
ncclResult_t iflush_v6(void* connection, int n, void** data, int* sizes, void** handles, void** request);
// test always writes *done. `sizes` may be null.
ncclResult_t test_v6(void* request, int* done, int* sizes);

}  // namespace railwise::plugin
