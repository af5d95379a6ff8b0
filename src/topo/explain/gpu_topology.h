// The GPUs of a machine with their links and NICs, in the structs of the public header: what the vendors said
// of them, completed from the model. Pure; thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "gpu/topology.h"
#include "topo/machine/machine.h"

namespace railwise::topo {

// Every GPU of the model is in it, with its rank; of several ranks on one GPU the lowest. Where the vendors
// said nothing of links (a topology file), they have the bandwidths by which NCCL counts. GPUs that
// neither a link, a switch nor another GPU joins have a PCIe link with the bandwidth of their path. remarks:
// the vendors'.
gpu::GpuTopology gpuTopology(const Machine& machine);

// The physical GPU that has the GPU with this index in the graph. Null: `topology` is another machine's.
const gpu::Device* physicalGpu(const gpu::GpuTopology& topology, const Graph& graph, int gpu);

// "NVIDIA H100 80GB HBM3", "AMD Instinct MI300X CPX"; of a MIG instance "MIG 3g.40gb".
std::string gpuModelText(const gpu::Device& device);
std::string memoryText(uint64_t bytes);  // "80 GiB"; "-" for 0
// What is wrong with a GPU, or that it is in use: "2 ECC errors, throttled (thermal)"; "ok"; "-" when its
// vendor's library has not told.
std::string stateText(const gpu::Device& device);

// A NIC that a GPU reaches within its host.
struct NearNic {
  int net = -1;  // index in the graph
  PathType type = PathType::kDis;
  double gb_per_s = 0;  // of the path
};
// The NICs of the GPU with this index in the graph; the nearest first, of equally near ones the fastest.
std::vector<NearNic> nearNics(const Paths& paths, int gpu);

}  // namespace railwise::topo
