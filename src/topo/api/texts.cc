#include "base/text/json.h"
#include "gpu/json.h"
#include "topo/api/state.h"
#include "topo/choice/pick.h"
#include "topo/explain/channels/channel_ends.h"
#include "topo/explain/one_sided.h"
#include "topo/lint/lint.h"
#include "topo/outputs/diff.h"
#include "topo/outputs/outputs.h"

namespace railwise::topology {
namespace {

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
  topo::addChannels(machine, nullptr, all);
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

}  // namespace railwise::topology
