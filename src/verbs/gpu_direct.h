// Can a NIC read and write GPU memory, and by which mechanism? Determined once per device at init.
#pragma once

#include <string>

#include "verbs/library.h"

namespace railwise::verbs {

struct GpuDirect {
  bool dma_buf = false;         // regMrDmaBuf works
  std::string peer_memory;      // the kernel module that makes regMr of GPU memory work; "": none is loaded
  std::string missing_dma_buf;  // why there is no dma-buf; "" if there is

  // "dma-buf", "peermem (nvidia_peermem)", "dma-buf and peermem (...)", "none, because ... and ...".
  std::string text() const;
};

// Combines the findings to an answer. `software`: Soft-RoCE or soft-iWARP, whose drivers do not use a
// peer-memory module.
enum class DmaBuf { kYes, kNo, kUnknownToLibrary };
GpuDirect gpuDirectOf(bool software, std::string peer_memory, DmaBuf dma_buf);

// `root`: the folder that contains sys/ (RAILWISE_SYSFS_ROOT).
GpuDirect gpuDirect(ibv_pd* pd, const std::string& root = "/");

}  // namespace railwise::verbs
