// The NICs of GPUs as lists of ports, in the words of UCX. Pure; thread-safe.
#pragma once

#include <string>
#include <vector>

#include "topo/exports/host_view.h"

namespace railwise::topo {

// The ports of the NICs of a GPU, each once, in the order of NCCL's channels.
std::vector<NicPort> portsOfGpu(const HostView& host, const HostGpu& gpu);
// The ports of the NICs of all GPUs, each once.
std::vector<NicPort> portsOfAllGpus(const HostView& host);

// "mlx5_0:1,mlx5_1:1"; an interface has no port: "eth0".
std::string ucxDevices(const std::vector<NicPort>& ports);

// The error for a host without a NIC, or without a GPU that has one. "": some GPU has a NIC.
std::string nothingToChoose(const Machine& machine, const HostView& host);

}  // namespace railwise::topo
