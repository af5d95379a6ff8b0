// The device nodes of GPUs and NICs. Pure; thread-safe.
#pragma once

#include <string>
#include <vector>

#include "topo/exports/device_facts.h"
#include "topo/exports/host_view.h"

namespace railwise::topo {

// "/dev/nvidia3", or "/dev/dri/renderD131" for AMD. `dev`: NVML's or RCCL's index, from which the number is
// assumed; `render_node`: what /sys says, "" if it says nothing.
std::string gpuDeviceFile(bool amd, int dev, const std::string& render_node);

struct NicFile {
  std::string device;  // "mlx5_0"
  std::string path;    // "/dev/infiniband/uverbs0"
  int nic = -1;        // index in HostView::nics
};
// The RDMA devices of the host, each once. *assumed: /sys does not tell some of the numbers; they are those
// at the end of the devices' names, or count up.
std::vector<NicFile> nicFiles(const HostView& host, const DeviceFacts& facts, bool* assumed);

}  // namespace railwise::topo
