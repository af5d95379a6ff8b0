// The C++ API of the library: the state behind railwise::topology::Machine, the conversion between the public
// types and those of the engine, and the answers. Thread-safe: everything is const once it is made.
#include "railwise/topology.h"

#include <exception>
#include <string>
#include <string_view>
#include <vector>

#include "base/text/json.h"
#include "gpu/json.h"
#include "sysfs/tar_archive.h"
#include "topo/choice/pick.h"
#include "topo/explain/channels/channel_ends.h"
#include "topo/explain/explain.h"
#include "topo/explain/gpu_topology.h"
#include "topo/lint/lint.h"
#include "topo/machine/machine.h"
#include "topo/outputs/outputs.h"
#include "topo/paths/policy.h"
#include "topo/sources/cpu_identity.h"
#include "topo/sources/generate/generate.h"
#include "topo/sources/gpu_answers.h"
#include "topo/sources/sysfs.h"

#ifndef RAILWISE_VERSION
#error "the build defines RAILWISE_VERSION"
#endif

namespace railwise::topology {

struct MachineState {
  topo::Machine machine;
  std::vector<Gpu> gpus;
  std::vector<Net> nets;
  GpuTopology gpu_topology;

  static Machine make(topo::Machine machine);
  static const MachineState& of(const Machine& machine) { return *machine.state_; }
  bool hasGpu(int gpu) const { return gpu >= 0 && gpu < static_cast<int>(gpus.size()); }
  bool hasNet(int net) const { return net >= 0 && net < static_cast<int>(nets.size()); }
};

namespace {

template <typename T>
Result<T> published(Outcome<T> outcome) {
  if (!outcome.ok()) return Failure{outcome.error()};
  return std::move(*outcome);
}

// Turns exceptions into a Failure, so that none reaches the caller. The engine throws none of its own, but
// memory can run out.
template <typename Call>
auto guarded(const Call& call) -> decltype(call()) {
  try {
    return call();
  } catch (const std::exception& exception) {
    return Failure{exception.what()};  // std::bad_alloc's text needs no memory
  }
}

// Wraps a call that returns a text and can fail only because memory runs out.
template <typename Call>
Result<std::string> guardedText(const Call& call) {
  return guarded([&]() -> Result<std::string> { return call(); });
}

// The caller's options, in the types of the engine.
struct LoadOptions {
  topo::Settings settings;
  topo::Detection detection;
};

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

Failure noGpu(const MachineState& state, int gpu) { return noSuch("GPU", gpu, state.gpus.size()); }
Failure noNet(const MachineState& state, int net) { return noSuch("network device", net, state.nets.size()); }

// The public enums have NCCL's numbers, and so do the engine's enums.
static_assert(static_cast<int>(PathType::kDis) == static_cast<int>(topo::PathType::kDis));
static_assert(static_cast<int>(PathType::kPxn) == static_cast<int>(topo::PathType::kPxn));
static_assert(static_cast<int>(GpuDirectMode::kPcie) == static_cast<int>(topo::GdrMode::kPcie));
static_assert(static_cast<int>(Flush::kC2c) == static_cast<int>(topo::Flush::kC2c));

PathType published(topo::PathType type) { return static_cast<PathType>(type); }
bool isPathType(PathType type) { return type >= PathType::kLoc && type <= PathType::kDis; }

Path pathOf(const topo::Machine& machine, NodeType to, int from_index, int to_index) {
  const topo::Path& found = machine.paths->get(NodeType::kGpu, from_index, to, to_index);
  Path path;
  path.type = published(found.type);
  path.bandwidth = static_cast<double>(found.bandwidth);
  path.hops = found.hops;
  for (const topo::NodeIndex node : machine.paths->via(found)) path.via.push_back(machine.graph->label(node));
  return path;
}

GpuDirectWay published(topo::GdrAnswer answer) {
  GpuDirectWay way;
  way.mode = static_cast<GpuDirectMode>(answer.mode);
  way.distance = published(answer.distance);
  way.limit = published(answer.level);
  way.rule = std::move(answer.rule);
  way.reason = std::move(answer.reason);
  return way;
}

Result<GpuDirect> gpuDirectOf(const topo::Paths& paths, int gpu, int net) {
  auto receive = topo::checkGdr(paths, gpu, net, false);
  if (!receive.ok()) return Failure{receive.error()};
  auto send = topo::checkGdr(paths, gpu, net, true);
  if (!send.ok()) return Failure{send.error()};
  const auto proxy = topo::proxyRank(paths, gpu, net);
  if (!proxy.ok()) return Failure{proxy.error()};
  topo::FlushAnswer flush = topo::needFlush(paths, gpu, net);
  GpuDirect answer;
  answer.receive = published(std::move(*receive));
  answer.send = published(std::move(*send));
  answer.flush = static_cast<Flush>(flush.flush);
  answer.flush_reason = std::move(flush.reason);
  answer.proxy_rank = *proxy;
  return answer;
}

// The NETs that the GPU's communicator chooses. A domain keeps all NETs of its machine, so their indices stay
// valid.
Result<std::vector<int>> chosenNetsOf(const topo::Machine& machine, int rank) {
  for (const topo::Domain& domain : machine.domains) {
    const int gpu = domain.graph->gpuOfRank(rank);
    if (gpu < 0) continue;
    auto nets = topo::localNets(*domain.paths, gpu);
    if (!nets.ok()) return Failure{nets.error()};
    return std::move(*nets);
  }
  return Failure{"rank " + std::to_string(rank) + " is in no communicator"};
}

// The rank of the GPU with index `gpu`. -1 stands for all GPUs and is returned as it is.
Result<int> rankOf(const MachineState& state, int gpu) {
  if (gpu == -1) return -1;
  if (!state.hasGpu(gpu)) return noGpu(state, gpu);
  return state.gpus[static_cast<std::size_t>(gpu)].rank;
}

const topo::Machine& engine(const Machine& machine) { return MachineState::of(machine).machine; }

static_assert(static_cast<int>(Severity::kNote) == topo::Finding::kNote);

LintReport published(topo::LintReport found) {
  LintReport report;
  report.accepted = found.read;
  for (topo::Finding& finding : found.findings)
    report.findings.push_back({static_cast<Severity>(finding.severity), finding.position.line,
                               finding.position.column, std::move(finding.rule), std::move(finding.text),
                               std::move(finding.fix)});
  return report;
}

std::string lintText(const std::string& path) {
  JsonWriter json;
  topo::writeLintJson(json, path, topo::lintFile(path));
  return json.text();
}

topo::MachineExplanation explained(const topo::Machine& machine) {
  topo::MachineExplanation all = topo::explain(machine);
  topo::addChannels(machine, all);
  topo::addOneSided(machine, all);
  return all;
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

Result<std::string> Machine::explain(int gpu) const {
  return guarded([&]() -> Result<std::string> {
    const auto rank = rankOf(*state_, gpu);
    if (!rank) return Failure{rank.error()};
    return published(topo::explainText(state_->machine, explained(state_->machine), {.rank = *rank}));
  });
}

Result<std::string> Machine::explainJson(int gpu) const {
  return guarded([&]() -> Result<std::string> {
    const auto rank = rankOf(*state_, gpu);
    if (!rank) return Failure{rank.error()};
    return published(topo::explainJson(state_->machine, explained(state_->machine), *rank));
  });
}

Result<std::string> Machine::pickJson(int count, const PickOptions& options) const {
  return guarded([&]() -> Result<std::string> {
    const topo::Machine& machine = state_->machine;
    const topo::GpuTable table = topo::gpuTable(machine);
    const auto question =
        topo::makePickQuestion(machine, table, {options.of, options.exclude, options.nic, options.occupied});
    if (!question.ok()) return Failure{question.error()};
    const auto pick = topo::pickGpus(machine, table, *question, count);
    if (!pick.ok()) return Failure{pick.error()};
    return topo::pickJson(machine, table, *pick);
  });
}

Result<std::string> Machine::json() const {
  return guardedText([&] { return topo::topologyJson(state_->machine); });
}
Result<std::string> Machine::gpuTopologyJson() const {
  return guardedText([&] { return gpu::jsonOf(gpuTopology(), name()); });
}
Result<std::string> Machine::matrix() const {
  return guardedText([&] { return topo::matrixText(state_->machine); });
}
Result<std::string> Machine::xml() const {
  return guardedText([&] { return topo::writeXml(*state_->machine.xml); });
}
Result<std::string> Machine::svg() const {
  return guardedText([&] { return topo::svgText(state_->machine); });
}
Result<std::string> Machine::html() const {
  return guardedText([&] { return topo::htmlText(state_->machine); });
}

Result<std::vector<Difference>> diff(const Machine& left, const Machine& right) {
  return guarded(
      [&]() -> Result<std::vector<Difference>> { return topo::diff(engine(left), engine(right)); });
}

Result<std::string> diffText(const Machine& left, const Machine& right) {
  return guardedText(
      [&] { return topo::diffText(engine(left), engine(right), topo::diff(engine(left), engine(right))); });
}

Result<std::string> diffJson(const Machine& left, const Machine& right) {
  return guardedText(
      [&] { return topo::diffJson(engine(left), engine(right), topo::diff(engine(left), engine(right))); });
}

Result<LintReport> lint(const std::string& path) {
  return guarded([&]() -> Result<LintReport> { return published(topo::lintFile(path)); });
}

Result<std::string> lintJson(const std::string& path) {
  return guardedText([&] { return lintText(path); });
}

const char* version() { return RAILWISE_VERSION; }

const char* pathTypeMeaning(PathType type) {
  return isPathType(type) ? topo::pathTypeMeaning(static_cast<topo::PathType>(type)) : "?";
}

Machine::Machine(std::shared_ptr<const MachineState> state) : state_(std::move(state)) {}

const std::string& Machine::name() const { return state_->machine.name; }
const std::vector<Gpu>& Machine::gpus() const { return state_->gpus; }
const std::vector<Net>& Machine::nets() const { return state_->nets; }
const GpuTopology& Machine::gpuTopology() const { return state_->gpu_topology; }

std::vector<std::string> Machine::remarks() const {
  std::vector<std::string> remarks = state_->machine.remarks;
  const auto& warnings = state_->machine.settings->warnings;
  remarks.insert(remarks.end(), warnings.begin(), warnings.end());
  return remarks;
}

Result<Path> Machine::path(int gpu, int net) const {
  return guarded([&]() -> Result<Path> {
    if (!state_->hasGpu(gpu)) return noGpu(*state_, gpu);
    if (!state_->hasNet(net)) return noNet(*state_, net);
    return pathOf(state_->machine, NodeType::kNet, gpu, net);
  });
}

Result<Path> Machine::pathBetweenGpus(int from, int to) const {
  return guarded([&]() -> Result<Path> {
    if (!state_->hasGpu(from)) return noGpu(*state_, from);
    if (!state_->hasGpu(to)) return noGpu(*state_, to);
    return pathOf(state_->machine, NodeType::kGpu, from, to);
  });
}

Result<std::vector<int>> Machine::chosenNets(int gpu) const {
  return guarded([&]() -> Result<std::vector<int>> {
    if (!state_->hasGpu(gpu)) return noGpu(*state_, gpu);
    return chosenNetsOf(state_->machine, state_->gpus[static_cast<std::size_t>(gpu)].rank);
  });
}

Result<GpuDirect> Machine::gpuDirect(int gpu, int net) const {
  return guarded([&]() -> Result<GpuDirect> {
    if (!state_->hasGpu(gpu)) return noGpu(*state_, gpu);
    if (!state_->hasNet(net)) return noNet(*state_, net);
    return gpuDirectOf(*state_->machine.paths, gpu, net);
  });
}

Result<P2p> Machine::p2p(int from, int to) const {
  return guarded([&]() -> Result<P2p> {
    if (!state_->hasGpu(from)) return noGpu(*state_, from);
    if (!state_->hasGpu(to)) return noGpu(*state_, to);
    auto answer = topo::checkP2p(*state_->machine.paths, from, to);
    if (!answer.ok()) return Failure{answer.error()};
    P2p p2p;
    p2p.allowed = answer->allowed;
    p2p.read = answer->read;
    p2p.intermediate_rank = answer->intermediate_rank;
    p2p.limit = published(answer->level);
    p2p.reason = std::move(answer->reason);
    return p2p;
  });
}

}  // namespace railwise::topology
