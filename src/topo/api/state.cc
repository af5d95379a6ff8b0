#include "topo/api/state.h"

#include <string_view>

#include "sysfs/tar_archive.h"
#include "topo/explain/gpu_topology.h"
#include "topo/sources/cpu_identity.h"
#include "topo/sources/generate/generate.h"
#include "topo/sources/gpu_answers.h"
#include "topo/sources/load_machine.h"

namespace railwise::topology {
namespace {

Result<Machine> finished(Outcome<topo::Machine> machine) {
  if (!machine.ok()) return Failure{machine.error()};
  return MachineState::make(std::move(*machine));
}

// Null for "": the caller does not say which processor it is.
Result<std::optional<topo::CpuIdentity>> cpuOf(const std::string& text) {
  if (text.empty()) return std::optional<topo::CpuIdentity>();
  auto cpu = topo::parseCpuIdentity(text);
  if (!cpu.ok()) return Failure{"cpu: " + cpu.error()};
  return std::optional<topo::CpuIdentity>(std::move(*cpu));
}

// `file` null: no topology file is combined with the tree.
Result<Machine> fromTree(const std::string* file, const std::string& root, const Options& options) {
  auto load = loadOptions(options);
  if (!load) return Failure{load.error()};
  auto cpu = cpuOf(options.cpu);
  if (!cpu) return Failure{cpu.error()};
  const auto tree = sysfs::openTree(root);
  if (!tree.ok()) return Failure{tree.error()};
  topo::SysfsOptions sysfs;
  sysfs.detection = load->detection;
  sysfs.cpu = std::move(*cpu);
  auto answers = topo::askForGpus(**tree, (*tree)->live(), Config());
  if (!answers.ok()) return Failure{answers.error()};
  sysfs.gpu_answers = std::move(*answers);
  return finished(topo::loadMachine(
      {.tree = tree->get(), .settings = load->settings, .options = std::move(sysfs), .topology_file = file}));
}

Result<topo::Pairing> pairingOf(const std::string& text) {
  if (text == "order") return topo::Pairing::kOrder;
  if (text == "bus") return topo::Pairing::kBus;
  if (text == "table") return topo::Pairing::kTable;
  return Failure{"pairing: '" + text + "' is not order, bus or table"};
}

Result<Generated> generateFrom(const std::string& root, const GenerateOptions& options) {
  const auto pairing = pairingOf(options.pairing);
  if (!pairing) return Failure{pairing.error()};
  if (options.gpus_per_bridge < 0) return Failure{"gpus_per_bridge is negative"};
  auto cpu = cpuOf(options.cpu);
  if (!cpu) return Failure{cpu.error()};
  const auto tree = sysfs::openTree(root);
  if (!tree.ok()) return Failure{tree.error()};
  topo::GenerateOptions wanted;
  wanted.pairing = *pairing;
  wanted.table = options.table;
  wanted.table_name = "table";
  wanted.gpus_per_bridge = options.gpus_per_bridge;
  wanted.nic_class = options.nic_class;
  wanted.nic_device = options.nic_device;
  wanted.exclude = options.exclude;
  wanted.cpu = std::move(*cpu);
  wanted.force = options.force;
  Generated generated;
  auto xml = topo::generateTopology(**tree, wanted, &generated.remarks);
  if (!xml.ok()) return Failure{xml.error()};
  generated.xml = std::move(*xml);
  return generated;
}

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

// Null: the number is no release from 2.13 on.
std::optional<topo::NcclChoice> releaseOf(Nccl nccl) {
  constexpr int kFirst = 21300;
  constexpr int kLast = 29999;
  if (nccl == Nccl::kNewest) return topo::rulesFor(topo::NcclVersion::kNewest);
  const int code = static_cast<int>(nccl);
  if (code < kFirst || code > kLast) return std::nullopt;
  return topo::rulesFor(topo::NcclVersion{code});
}

const char* wrongOption(const Options& options) {
  if (!releaseOf(options.nccl)) return "nccl is no version that is known: 2.30.4 is 23004";
  if (options.gpu_sm < 0) return "gpu_sm is negative; 90 stands for compute capability 9.0";
  if (options.nvswitch_links < 0) return "nvswitch_links is negative";
  if (options.nic_speed_mbps <= 0) return "nic_speed_mbps is not positive; 400000 stands for 400 Gb/s";
  return nullptr;
}

}  // namespace

Result<Nccl> ncclRelease(const std::string& text) {
  return guarded([&]() -> Result<Nccl> {
    if (text.empty()) return static_cast<Nccl>(topo::NcclVersion::kNewest.code);
    const auto choice = topo::rulesFor(text);
    if (!choice)
      return Failure{"nccl: '" + text +
                     "' is not a release of NCCL from 2.13 to 2.32, such as 2.30 or 2.30.7"};
    // The rules of "2.30" are those of its newest release. A whole name keeps its own number, so that
    // remarks() tell what is not known of the release.
    auto release = topo::parseNcclVersion(text);
    if (!release && choice->newer) release = topo::parseNcclVersion(text + ".0");
    return static_cast<Nccl>(release.value_or(choice->rules).code);
  });
}

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
  const topo::NcclChoice nccl = *releaseOf(options.nccl);
  load.settings = topo::settingsFromEnvironment(lookup, nccl.rules);
  if (!nccl.doubt.empty()) load.settings.warnings.push_back(nccl.doubt);
  load.settings.xgmi_as_nvlink = options.xgmi_as_nvlink;
  load.detection = {.gpu_sm = options.gpu_sm,
                    .nvswitch_links = options.nvswitch_links,
                    .nic_speed = options.nic_speed_mbps,
                    .fuse_nics = options.fuse_nics};
  return load;
}

Result<Machine> Machine::loadFile(const std::string& path, const Options& options) {
  return guarded([&]() -> Result<Machine> {
    const auto load = loadOptions(options);
    if (!load) return Failure{load.error()};
    return finished(topo::loadMachine(
        {.settings = load->settings, .options = {.detection = load->detection}, .topology_file = &path}));
  });
}

Result<Machine> Machine::parse(const std::string& xml, const std::string& name, const Options& options) {
  return guarded([&]() -> Result<Machine> {
    const auto load = loadOptions(options);
    if (!load) return Failure{load.error()};
    auto document = topo::parseXml(xml, name);
    if (!document.ok()) return Failure{document.error()};
    return finished(topo::loadMachine({.settings = load->settings,
                                       .options = {.detection = load->detection},
                                       .document = std::move(*document),
                                       .name = name}));
  });
}

Result<Machine> Machine::loadTree(const std::string& root, const Options& options) {
  return guarded([&] { return fromTree(nullptr, root, options); });
}

Result<Machine> Machine::loadMerged(const std::string& file, const std::string& root,
                                    const Options& options) {
  return guarded([&] { return fromTree(&file, root, options); });
}

Result<Generated> generate(const std::string& root, const GenerateOptions& options) {
  return guarded([&] { return generateFrom(root, options); });
}

}  // namespace railwise::topology
