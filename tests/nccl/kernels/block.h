// One block of a launch: the channel that it serves.
#pragma once

#include <cstddef>
#include <cstdint>

#include "device.h"  // NCCL's
#include "fiber.h"

namespace kernels {

#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 28, 0)
using Comm = ncclKernelComm;
using CommAndChannels = ncclKernelCommAndChannels;
#else
using Comm = ncclDevComm;
using CommAndChannels = ncclDevCommAndChannels;
#endif

struct Block {
  Scheduler& scheduler;
  const Comm& comm;
  ncclDevChannel&
      channel;  // NCCL's, in device memory: connections keep their steps there from launch to launch
  int channel_id;
};

}  // namespace kernels
