// NCCL's result codes as plugins see them (nccl.h of NCCL 2.30.7); our own declaration, values fixed by the
// ABI.
#pragma once

enum ncclResult_t : int {
  ncclSuccess = 0,
  ncclUnhandledCudaError = 1,
  ncclSystemError = 2,
  ncclInternalError = 3,
  ncclInvalidArgument = 4,
  ncclInvalidUsage = 5,
  ncclRemoteError = 6,
  ncclInProgress = 7,
};
