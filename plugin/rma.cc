// The tables of one-sided communication that NCCL looks up in the net plugin's library: ncclRmaPlugin_v13 to
// _v16, and ncclGinPlugin_v11 for the releases before there was RMA. A function is named after the first
// version that had its signature, so each table shows what changed since the previous version.
#include "plugin/rma_calls.h"

using namespace railwise::plugin;  // NOLINT: the tables name nothing else

namespace {

constexpr const char* kOneSidedName = "Railwise";

}  // namespace

#define RAILWISE_ONE_SIDED_TABLE(kind, version)                                                          \
  extern "C" {                                                                                           \
  [[gnu::visibility("default")]] extern const nccl##kind##_v##version##_t nccl##kind##Plugin_v##version; \
  }                                                                                                      \
  const nccl##kind##_v##version##_t nccl##kind##Plugin_v##version

RAILWISE_ONE_SIDED_TABLE(Gin, 11) = {
    .name = kOneSidedName,
    .init = ginInit_v11,
    .devices = rmaDevices_v11,
    .getProperties = rmaGetProperties<ncclNetProperties_v11_t>,
    .listen = rmaListen_v11,
    .connect = ginConnect_v11,
    .createContext = nullptr,  // only for networks that GPUs drive
    .regMrSym = ginRegMrSym_v11,
    .regMrSymDmaBuf = ginRegMrSymDmaBuf_v11,
    .deregMrSym = ginDeregMrSym_v11,
    .destroyContext = nullptr,  // only for networks that GPUs drive
    .closeColl = ginCloseColl_v11,
    .closeListen = rmaCloseListen_v11,
    .iput = ginPut_v11,
    .iputSignal = ginPutSignal_v11,
    .test = ginTest_v11,
    .ginProgress = rmaProgress_v11,
    .queryLastError = queryLastError_v11,
    .finalize = rmaFinalize_v11,
};

RAILWISE_ONE_SIDED_TABLE(Rma, 13) = {
    .name = kOneSidedName,
    .init = rmaInit_v13,
    .devices = rmaDevices_v11,
    .getProperties = rmaGetProperties<ncclNetProperties_v12_t>,
    .listen = rmaListen_v11,
    .connect = rmaConnect_v13,
    .createContext = createContext_v13,
    .regMrSym = regMrSym_v13,
    .regMrSymDmaBuf = regMrSymDmaBuf_v13,
    .deregMrSym = deregMrSym_v13,
    .destroyContext = destroyContext_v13,
    .closeColl = closeColl_v13,
    .closeListen = rmaCloseListen_v11,
    .iput = iput_v13,
    .iputSignal = iputSignal_v13,
    .iget = iget_v13,
    .iflush = rmaFlush_v13,
    .test = rmaTest_v13,
    .ginProgress = rmaProgress_v11,
    .queryLastError = queryLastError_v11,
    .finalize = rmaFinalize_v11,
};

RAILWISE_ONE_SIDED_TABLE(Rma, 14) = {
    .name = kOneSidedName,
    .init = rmaInit_v13,
    .devices = rmaDevices_v11,
    .getProperties = rmaGetProperties<ncclNetProperties_v12_t>,
    .listen = rmaListen_v11,
    .connect = rmaConnect_v13,
    .createContext = createContext_v14,
    .regMrSym = regMrSym_v14,
    .regMrSymDmaBuf = regMrSymDmaBuf_v14,
    .deregMrSym = deregMrSym_v13,
    .destroyContext = destroyContext_v13,
    .closeColl = closeColl_v13,
    .closeListen = rmaCloseListen_v11,
    .iput = iput_v13,
    .iputSignal = iputSignal_v14,
    .iget = iget_v13,
    .iflush = rmaFlush_v13,
    .test = rmaTest_v13,
    .rmaProgress = rmaProgress_v11,
    .queryLastError = queryLastError_v11,
    .finalize = rmaFinalize_v11,
};

RAILWISE_ONE_SIDED_TABLE(Rma, 15) = {
    .name = kOneSidedName,
    .init = rmaInit_v13,
    .devices = rmaDevices_v11,
    .getProperties = rmaGetProperties<ncclNetProperties_v12_t>,
    .listen = rmaListen_v11,
    .connect = rmaConnect_v13,
    .createContext = createContext_v14,
    .regMrSym = regMrSym_v14,
    .regMrSymDmaBuf = regMrSymDmaBuf_v14,
    .deregMrSym = deregMrSym_v13,
    .destroyContext = destroyContext_v13,
    .closeColl = closeColl_v13,
    .closeListen = rmaCloseListen_v11,
    .iput = iput_v15,
    .iputSignal = iputSignal_v15,
    .iget = iget_v15,
    .iflush = rmaFlush_v13,
    .test = rmaTest_v13,
    .rmaProgress = rmaProgress_v11,
    .queryLastError = queryLastError_v11,
    .finalize = rmaFinalize_v11,
};

RAILWISE_ONE_SIDED_TABLE(Rma, 16) = {
    .name = kOneSidedName,
    .init = rmaInit_v13,
    .devices = rmaDevices_v11,
    .getRmaProperties = getRmaProperties_v16,
    .getProperties = rmaGetProperties<ncclNetProperties_v12_t>,
    .listen = rmaListen_v11,
    .connect = rmaConnect_v13,
    .createContext = createContext_v14,
    .regMrSym = regMrSym_v14,
    .regMrSymDmaBuf = regMrSymDmaBuf_v14,
    .deregMrSym = deregMrSym_v13,
    .destroyContext = destroyContext_v13,
    .closeColl = closeColl_v13,
    .closeListen = rmaCloseListen_v11,
    .iput = iput_v15,
    .iputSignal = iputSignal_v15,
    .iget = iget_v15,
    .iflush = rmaFlush_v13,
    .test = rmaTest_v13,
    .rmaProgress = rmaProgress_v11,
    .queryLastError = queryLastError_v11,
    .finalize = rmaFinalize_v11,
};
