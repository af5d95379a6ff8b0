// Names of devices and links, in the words that the outputs and explain use for people. Pure; thread-safe.
#pragma once

#include <string>
#include <vector>

#include "base/text/words.h"
#include "topo/machine/machine.h"
#include "topo/paths/paths.h"

namespace railwise::topo {

std::string rulesText(const Machine& machine);  // "NCCL 2.30.7", "RCCL"
// The error of a question about a rank that the machine does not have.
std::string noGpuText(const Machine& machine, int rank);
const char* libraryName(const Graph& graph);  // "NCCL", "RCCL"
// pathTypeMeaning(), in the words that fit the machine: AMD has xGMI instead of NVLink.
std::string meaningText(const Graph& graph, PathType type);
std::string gbText(float gigabytes);  // for example "48", "12.5" or "370.8": at most four digits

std::string gpuName(const Graph& graph, int gpu);  // "GPU 3": 3 is the rank
// Names a NET: "mlx5_0"; on a second host "mlx5_0 of host 1"; if several devices have this name, "mlx5_0
// (device 9)".
std::string netName(const Graph& graph, int net);
std::string nodeName(const Graph& graph,
                     NodeIndex node);                        // "PCIe switch 0000:45:00.0", "NUMA node 0", ...
std::string linkName(const Graph& graph, const Link& link);  // "PCIe", "NVLink", "xGMI", "virtual", ...

// How many NVLinks (or xGMI links) of that GPU or device add up to `bandwidth`. 0: `bandwidth` is not a whole
// number of links.
int nvlinkCount(const Node& gpu, float bandwidth);
// True for AMD GPUs: the links that NCCL's model calls NVLink are xGMI.
bool isXgmi(const Graph& graph);
bool isAmd(const Graph& graph);  // decided by the links of the GPUs, or by RCCL's rules
// The node that is drawn and named for a GPU: its physical device, or the GPU node itself if the model has no
// device nodes (NCCL 2.28).
NodeIndex deviceOf(const Graph& graph, NodeIndex gpu);
// All ranks on the physical device of the GPU with index `gpu`, in order, including its own rank.
std::vector<int> ranksOnDeviceOf(const Graph& graph, int gpu);
// True if NCCL knows no PCI address for the NIC of that NET. NCCL then connects the NIC to a CPU by a link
// that does not exist.
bool isVirtual(const Graph& graph, int net);
// The GPUs (ranks) on `device`, in order.
std::vector<NodeIndex> gpusOn(const Graph& graph, NodeIndex device);

// One link of a path as people count links: a GPU and its device count as one node, and so do a NIC and its
// port.
struct Step {
  std::string link;     // what linkName() returns
  float bandwidth = 0;  // GB/s
  NodeIndex to = kNoNode;
  std::string to_name;
};
std::vector<Step> stepsOf(const Paths& paths, const Path& path);
// Writes "--PCIe 48--> PCIe switch 0000:45:00.0 --PCIe 48--> mlx5_0".
std::string stepsText(const std::vector<Step>& steps);

// "8 GPUs, 4 NICs, 2 NUMA nodes"
std::string countsText(const Graph& graph);
// "0000:06:00.0, NVML index 0, sm 90"; "..., GPU number 0, gfx942"
std::string gpuFacts(const Graph& graph, const Node& gpu);
// The index of the CPU next to a GPU or NET. -1: there is none.
int nextCpu(const Paths& paths, NodeType type, int index);

// Lists the first `shown` names, and how many more there are: "mlx5_0, mlx5_1 and 6 more".
std::string shortList(std::vector<std::string> names, std::size_t shown);
// "0-3, 7" for sorted numbers.
std::string rangesText(const std::vector<int>& numbers);

}  // namespace railwise::topo
