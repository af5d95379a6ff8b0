// What NCCL 2.29 has a kernel for when a program ends its use of GIN.
#include <nccl.h>

#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 29, 0) && NCCL_VERSION_CODE < NCCL_VERSION(2, 30, 0)
#include "device_code.h"

ncclResult_t ncclGinResetSignalsAndCounters(ncclComm*, ncclDevComm_t const* device) {
  for (int context = 0; context < static_cast<int>(device->ginContextCount); ++context) {
    const ncclGin gin(*device, context);
    for (int i = 0; i < device->ginSignalCount; ++i) gin.resetSignal(static_cast<ncclGinSignal_t>(i));
    for (int i = 0; i < device->ginCounterCount; ++i) gin.resetCounter(static_cast<ncclGinCounter_t>(i));
  }
  return ncclSuccess;
}
#endif
