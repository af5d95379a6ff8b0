// In place of RCCL's src/device/common.h, which declares its kernels: here all are one
// (../../kernels/tables.cc).
#pragma once

#include "device.h"  // RCCL's

namespace kernels {

extern const void* const kKernel;

}  // namespace kernels

#define ncclDevKernel_Generic_1 kernels::kKernel
#define ncclDevKernel_Generic_2 kernels::kKernel
#define ncclDevKernel_Generic_4 kernels::kKernel
