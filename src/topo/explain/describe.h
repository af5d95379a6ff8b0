// Words for people: the names of devices and links as the outputs and explain say them. Pure; thread-safe.
#pragma once

#include <string>
#include <vector>

#include "topo/machine/machine.h"
#include "topo/paths/paths.h"

namespace railwise::topo {

std::string rulesText(const Machine& machine);  // "NCCL 2.30.7", "RCCL"
const char* libraryName(const Graph& graph);    // "NCCL", "RCCL"
// pathTypeMeaning() in the words of the machine: AMD has no NVLink.
std::string meaningText(const Graph& graph, PathType type);
std::string gbText(float gigabytes);  // "48", "12.5", "370.8": at most four digits

std::string gpuName(const Graph& graph, int gpu);  // "GPU 3": its rank
std::string netName(
    const Graph& graph,
    int net);  // "mlx5_0"; on a second host "mlx5_0 of host 1"; of several "mlx5_0 (device 9)"
std::string nodeName(const Graph& graph,
                     NodeIndex node);  // "PCIe switch 0000:45:00.0", "NUMA node 0", "NVSwitch"
std::string linkName(const Graph& graph, const Link& link);  // "PCIe", "NVLink", "xGMI", "virtual", ...

// NVLinks (or xGMI links) that `bandwidth` of that GPU or device stands for; 0: not a whole number of them.
int nvlinkCount(const Node& gpu, float bandwidth);
// AMD: what NCCL's model calls NVLink is xGMI.
bool isXgmi(const Graph& graph);
bool isAmd(const Graph& graph);  // by its links or by RCCL's rules
// What is drawn and named for a GPU: its physical device, or itself where the model has none (NCCL 2.28).
NodeIndex deviceOf(const Graph& graph, NodeIndex gpu);
// The ranks on the physical device of that GPU (index), its own among them, in order.
std::vector<int> ranksOnDeviceOf(const Graph& graph, int gpu);
// NCCL knows no PCI address of that NET's NIC, so that it hangs on a CPU by a link that does not exist.
bool isVirtual(const Graph& graph, int net);
// The GPU (index) on a device, or -1; the lowest rank of several.
int gpuOn(const Graph& graph, NodeIndex device);

// One link of a path as people count it: a GPU and its device are one thing, and so are a NIC and its port.
struct Step {
  std::string link;     // linkName()
  float bandwidth = 0;  // GB/s
  NodeIndex to = kNoNode;
  std::string to_name;
};
std::vector<Step> stepsOf(const Paths& paths, const Path& path);
// "--PCIe 48--> PCIe switch 0000:45:00.0 --PCIe 48--> mlx5_0"
std::string stepsText(const std::vector<Step>& steps);

// "0-3, 7" of sorted numbers; "mlx5_0, mlx5_1 and mlx5_2"; "3 GPUs", "1 GPU".
std::string rangesText(const std::vector<int>& numbers);
std::string listText(const std::vector<std::string>& items);
std::string countText(int count, const std::string& noun);

}  // namespace railwise::topo
