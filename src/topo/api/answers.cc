#include "base/text/json.h"
#include "gpu/json.h"
#include "topo/api/state.h"
#include "topo/choice/pick.h"
#include "topo/explain/channels/channel_ends.h"
#include "topo/explain/explain.h"
#include "topo/lint/lint.h"
#include "topo/outputs/outputs.h"
#include "topo/paths/policy.h"

#ifndef RAILWISE_VERSION
#error "the build defines RAILWISE_VERSION"
#endif

namespace railwise::topology {
namespace {

using topo::NodeType;

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

std::vector<Difference> published(std::vector<topo::Difference> found) {
  std::vector<Difference> differences;
  for (topo::Difference& difference : found)
    differences.push_back({std::move(difference.kind), std::move(difference.what), std::move(difference.left),
                           std::move(difference.right)});
  return differences;
}

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
    const auto pick = topo::pickGpus(*question, count);
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
  return guarded([&]() -> Result<std::vector<Difference>> {
    return published(topo::diff(engine(left), engine(right)));
  });
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
