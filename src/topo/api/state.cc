#include "topo/api/state.h"

#include <string_view>

#include "topo/explain/gpu_topology.h"

namespace railwise::topology {
namespace {

using topo::Graph;
using topo::Node;
using topo::NodeType;

Gpu gpuOf(const topo::Machine& machine, int index) {
  const Graph& graph = *machine.graph;
  const Node& node = graph.of(NodeType::kGpu, index);
  Gpu gpu;
  gpu.index = index;
  gpu.rank = node.rank;
  gpu.device = node.dev;
  gpu.host = node.host;
  gpu.busid = node.busid;
  gpu.sm = node.sm;
  gpu.gcn = node.gcn;
  gpu.gpu_direct = node.gdr != 0;
  const Node& cpu = graph.of(NodeType::kCpu, machine.paths->localCpu(index));
  gpu.numa = cpu.numa;
  gpu.cpus = topo::cpuList(cpu.affinity);
  return gpu;
}

Net netOf(const topo::Machine& machine, int index) {
  const Graph& graph = *machine.graph;
  const Node& node = graph.of(NodeType::kNet, index);
  Net net;
  net.index = index;
  net.device = node.dev;
  net.host = node.host;
  net.name = node.name;
  for (const topo::Link& link : node.links)
    if (graph.node(link.to).type == NodeType::kNic) net.busid = graph.node(link.to).busid;
  net.bandwidth = static_cast<double>(node.bandwidth);
  net.port = node.port;
  net.guid = node.guid;
  net.gpu_direct = node.gdr != 0;
  net.local_gpu = machine.paths->localGpu(index);
  return net;
}

Failure noSuch(const char* what, int index, std::size_t count) {
  const std::string last = count == 0 ? "there is none" : "they are 0 to " + std::to_string(count - 1);
  return Failure{std::string("no ") + what + " has the index " + std::to_string(index) + ": " + last};
}

// Finds `name` in a list of "NAME=VALUE" and returns its value. Null: the name is not in the list.
const char* valueOf(const std::vector<std::string>& variables, std::string_view name) {
  for (const std::string& variable : variables)
    if (variable.size() > name.size() && variable[name.size()] == '=' && variable.starts_with(name))
      return variable.c_str() + name.size() + 1;
  return nullptr;
}

const char* wrongOption(const Options& options) {
  if (options.nccl != Nccl::k2_30 && options.nccl != Nccl::k2_28) return "nccl is no version that is known";
  if (options.gpu_sm < 0) return "gpu_sm is negative; 90 stands for compute capability 9.0";
  if (options.nvswitch_links < 0) return "nvswitch_links is negative";
  if (options.nic_speed_mbps <= 0) return "nic_speed_mbps is not positive; 400000 stands for 400 Gb/s";
  return nullptr;
}

}  // namespace

Machine MachineState::make(topo::Machine machine) {
  auto state = std::make_shared<MachineState>();
  for (int i = 0; i < machine.graph->count(NodeType::kGpu); ++i) state->gpus.push_back(gpuOf(machine, i));
  for (int i = 0; i < machine.graph->count(NodeType::kNet); ++i) state->nets.push_back(netOf(machine, i));
  state->gpu_topology = topo::gpuTopology(machine);
  state->machine = std::move(machine);
  return Machine(std::move(state));
}

Failure noGpu(const MachineState& state, int gpu) { return noSuch("GPU", gpu, state.gpus.size()); }
Failure noNet(const MachineState& state, int net) { return noSuch("network device", net, state.nets.size()); }

Result<LoadOptions> loadOptions(const Options& options) {
  if (const char* wrong = wrongOption(options); wrong != nullptr)
    return Failure{std::string("options: ") + wrong};
  const auto lookup = [&options](const char* name) { return valueOf(options.variables, name); };
  LoadOptions load;
  load.settings = topo::settingsFromEnvironment(
      lookup, options.nccl == Nccl::k2_28 ? topo::NcclVersion::k2_28 : topo::NcclVersion::k2_30);
  load.settings.xgmi_as_nvlink = options.xgmi_as_nvlink;
  load.detection = {.gpu_sm = options.gpu_sm,
                    .nvswitch_links = options.nvswitch_links,
                    .nic_speed = options.nic_speed_mbps,
                    .fuse_nics = options.fuse_nics};
  return load;
}

}  // namespace railwise::topology
