// Every function in the tables of one-sided communication, RMA and GIN. Each function is named by the first
// API version that had its signature, of GIN (v11) or of RMA (v13). The functions only check and cast;
// src/net/rma does the work. Contract: NCCL 2.30.7, src/include/plugin/rma/rma_v14.h, src/rma and
// src/gin/gin_host_proxy.cc.
//
// Handles: a context of NCCL's is a net::RmaNet; a collComm is a net::RmaGroup, an rmaCtx a net::RmaContext,
// an mhandle a net::RmaWindow. GIN v11 has no contexts, so its collComm is the only net::RmaContext of its
// group.
//
// Threads, as NCCL calls the functions: any thread may call init, finalize, devices and getProperties, one at
// a time per process. The application's threads call listen to deregMrSym, destroyContext and close*, also
// while progress threads use the same group. One progress thread for each context calls iput to rmaProgress.
// queryLastError: any thread.
#pragma once

#include "nccl/gin_v11.h"
#include "nccl/rma_v13.h"
#include "nccl/rma_v14.h"
#include "nccl/rma_v15.h"
#include "nccl/rma_v16.h"
#include "plugin/calls.h"

namespace railwise::plugin {

// NCCL calls it twice per communicator: for RMA and for its GIN proxy. It needs no init of the net table.
// *context is null when init fails, or when RAILWISE_STRICT refuses the machine. Fails, so that NCCL takes
// its next network: RAILWISE_RMA=0; no device reaches GPU memory in a process that uses GPUs.
ncclResult_t rmaInit_v13(void** context, uint64_t communicator, ncclDebugLogger_t logger);
// Fails also with NCCL 2.29.7 and later (rma_calls.cc).
ncclResult_t ginInit_v11(void** context, uint64_t communicator, ncclDebugLogger_t logger);
// Frees everything of the context that was not closed. `context` may be null.
ncclResult_t rmaFinalize_v11(void* context);

// The physical devices: the net table's numbers, for both. Virtual devices have numbers behind them, which
// getProperties and listen take too.
ncclResult_t rmaDevices_v11(int* count);
template <typename Properties>
ncclResult_t rmaGetProperties(int index, Properties* properties) {
  const ncclResult_t result = getProperties(index, properties);
  if (result == ncclSuccess) properties->netDeviceType = NCCL_NET_DEVICE_GIN_PROXY;
  return result;
}
ncclResult_t getRmaProperties_v16(void* group, ncclRmaProperties_v16_t* properties);

ncclResult_t rmaListen_v11(void* context, int index, void* handle, void** listener);
// `context` may be another network's: NCCL passes the context of its net table (rma_proxy.cc:430). So it is
// not looked at.
ncclResult_t ginConnect_v11(void* context, void* handles[], int ranks, int rank, void* listener,
                            void** group);
ncclResult_t rmaConnect_v13(void* context, void* handles[], int ranks, int rank, void* listener,
                            void** group);
// The device handle may be null; it is for networks that GPUs drive.
ncclResult_t createContext_v13(void* group, ncclGinConfig_v13_t* config, void** context,
                               ncclNetDeviceHandle_v11_t** device_handle);
ncclResult_t createContext_v14(void* group, ncclRmaConfig_v14_t* config, void** context);

// The GIN handle may be null. It receives the window, because NCCL 2.30.3 flushes by it.
ncclResult_t ginRegMrSym_v11(void* group, void* data, size_t bytes, int type, uint64_t flags, void** window,
                             void** gin_handle);
ncclResult_t ginRegMrSymDmaBuf_v11(void* group, void* data, size_t bytes, int type, uint64_t offset, int fd,
                                   uint64_t flags, void** window, void** gin_handle);
ncclResult_t ginDeregMrSym_v11(void* group, void* window);
ncclResult_t regMrSym_v13(void* group, void* data, size_t bytes, int type, uint64_t flags, void** window,
                          void** gin_handle);
ncclResult_t regMrSymDmaBuf_v13(void* group, void* data, size_t bytes, int type, uint64_t offset, int fd,
                                uint64_t flags, void** window, void** gin_handle);
ncclResult_t regMrSym_v14(void* group, void* data, size_t bytes, int type, uint64_t flags, void** window);
ncclResult_t regMrSymDmaBuf_v14(void* group, void* data, size_t bytes, int type, uint64_t offset, int fd,
                                uint64_t flags, void** window);
// `window` may be null.
ncclResult_t deregMrSym_v13(void* group, void* window);

// These functions accept null, and any order: a group that is closed before its contexts and windows ends
// with the last of them. Only a handle that is not theirs is refused (handles.h).
ncclResult_t destroyContext_v13(void* context);
ncclResult_t ginCloseColl_v11(void* group);
ncclResult_t closeColl_v13(void* group);
ncclResult_t rmaCloseListen_v11(void* listener);

// The functions of the data path write *request always. It is null after an error. After a success it is
// never null for a put and a get; for a flush null means that there is nothing to wait for. Windows may be
// null only in a signal without data.
ncclResult_t ginPut_v11(void* group, uint64_t from_offset, void* from, size_t bytes, uint64_t to_offset,
                        void* to, uint32_t rank, void** request);
ncclResult_t iput_v13(void* context, int index, uint64_t from_offset, void* from, size_t bytes,
                      uint64_t to_offset, void* to, uint32_t rank, void** request);
ncclResult_t iput_v15(void* context, int index, uint64_t from_offset, void* from, size_t bytes,
                      uint64_t to_offset, void* to, uint32_t rank, uint32_t flags, void** request);
// Every signal is a strong one: it waits for all that was put before it in its stream.
ncclResult_t ginPutSignal_v11(void* group, uint64_t from_offset, void* from, size_t bytes, uint64_t to_offset,
                              void* to, uint32_t rank, uint64_t signal_offset, void* signal, uint64_t value,
                              uint32_t operation, void** request);
ncclResult_t iputSignal_v13(void* context, int index, uint64_t from_offset, void* from, size_t bytes,
                            uint64_t to_offset, void* to, uint32_t rank, uint64_t signal_offset, void* signal,
                            uint64_t value, uint32_t operation, void** request);
ncclResult_t iputSignal_v14(void* context, int index, uint64_t from_offset, void* from, size_t bytes,
                            uint64_t to_offset, void* to, uint32_t rank, uint64_t signal_offset, void* signal,
                            uint64_t value, uint32_t operation, bool strong, void** request);
ncclResult_t iputSignal_v15(void* context, int index, uint64_t from_offset, void* from, size_t bytes,
                            uint64_t to_offset, void* to, uint32_t rank, uint64_t signal_offset, void* signal,
                            uint64_t value, uint32_t operation, bool strong, uint32_t flags, void** request);
ncclResult_t iget_v13(void* context, int index, uint64_t from_offset, void* from, size_t bytes,
                      uint64_t to_offset, void* to, uint32_t rank, void** request);
ncclResult_t iget_v15(void* context, int index, uint64_t from_offset, void* from, size_t bytes,
                      uint64_t to_offset, void* to, uint32_t rank, uint32_t flags, void** request);
// `window` may be null.
ncclResult_t rmaFlush_v13(void* context, int index, void* window, uint32_t rank, void** request);
// test always writes *done.
ncclResult_t ginTest_v11(void* group, void* request, int* done);
ncclResult_t rmaTest_v13(void* group, void* request, int* done);
ncclResult_t rmaProgress_v11(void* context);
ncclResult_t queryLastError_v11(void* context, bool* has_error);

}  // namespace railwise::plugin
