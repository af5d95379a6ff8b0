// The tables that NCCL looks up: ncclNetPlugin_v6 to _v12, and the same tables under the documented names
// ncclNet_v6 to _v12. A function is named after the first version that had its signature, so each table shows
// what changed since the previous version.
#include "plugin/calls.h"

using namespace railwise::plugin;  // NOLINT: the tables name nothing else

namespace {

constexpr const char* kName = "Railwise";

}  // namespace

#define RAILWISE_TABLE(version)                                                                      \
  extern "C" {                                                                                       \
  [[gnu::visibility("default")]] extern const ncclNet_v##version##_t ncclNetPlugin_v##version;       \
  [[gnu::visibility("default"),                                                                      \
    gnu::alias("ncclNetPlugin_v" #version)]] extern const ncclNet_v##version##_t ncclNet_v##version; \
  }                                                                                                  \
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
    .closeSend = closeSend_v6,
    .closeRecv = closeReceive_v6,
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
    .closeSend = closeSend_v6,
    .closeRecv = closeReceive_v6,
    .closeListen = closeListen_v6,
    .getDeviceMr = nullptr,    // only for networks that GPUs drive
    .irecvConsumed = nullptr,  // only for networks that GPUs drive
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
    .closeSend = closeSend_v6,
    .closeRecv = closeReceive_v6,
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
    .closeSend = closeSend_v6,
    .closeRecv = closeReceive_v6,
    .closeListen = closeListen_v6,
    .getDeviceMr = nullptr,
    .irecvConsumed = nullptr,
    .makeVDevice = makeVDevice_v9,
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
    .closeSend = closeSend_v6,
    .closeRecv = closeReceive_v6,
    .closeListen = closeListen_v6,
    .getDeviceMr = nullptr,
    .irecvConsumed = nullptr,
    .makeVDevice = makeVDevice_v9,
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
    .closeSend = closeSend_v6,
    .closeRecv = closeReceive_v6,
    .closeListen = closeListen_v6,
    .getDeviceMr = nullptr,
    .irecvConsumed = nullptr,
    .makeVDevice = makeVDevice_v9,
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
    .closeSend = closeSend_v6,
    .closeRecv = closeReceive_v6,
    .closeListen = closeListen_v6,
    .getDeviceMr = nullptr,
    .irecvConsumed = nullptr,
    .makeVDevice = makeVDevice_v12,
    .finalize = finalize_v11,
    .setNetAttr = setNetAttr_v11,
};
