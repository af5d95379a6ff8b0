#include "tests/campaign/conductor.h"

#include <algorithm>

#include "cli/options/message.h"
#include "softdev/control/control.h"
#include "softdev/faults/faults.h"

namespace railwise::cli {
namespace {

// How often the conductor looks at the fabric if no change is known, because a process may have reopened a
// device.
constexpr auto kLookEvery = std::chrono::milliseconds(5);

// Does the action of a fault lose data or time, on a device that goes on?
bool breaks(std::string_view action) {
  for (const char* harmless : {"delay", "speed", "event", "port=up"})
    if (action.starts_with(harmless)) return false;
  return true;
}

}  // namespace

FaultConductor::FaultConductor(std::string fabric, const Schedule& schedule,
                               std::vector<std::pair<int, int>> talking)
    : log_(std::move(fabric)),
      schedule_(schedule),
      talking_(std::move(talking)),
      states_(schedule.steps.size()) {}

void FaultConductor::conduct(Clock::duration since_traffic) {
  const auto now = Clock::now();
  bool changed = false;
  for (std::size_t i = 0; i < states_.size(); ++i) {
    StepState& state = states_[i];
    if (state.done || since_traffic < std::chrono::milliseconds(schedule_.steps[i].at_ms)) continue;
    state.done = true;
    ++steps_done_;
    perform(i);
    changed = true;
  }
  if (closed_) return;
  const uint64_t seen = log_.seen();
  readLog();
  if (changed || log_.seen() != seen || !looked_at_ || now - *looked_at_ >= kLookEvery) look();
}

void FaultConductor::perform(std::size_t index) {
  const FaultStep& step = schedule_.steps[index];
  if (step.what == FaultStep::kPort) return changePlace(step);
  if (step.what == FaultStep::kStop) return stop(index);
  if (step.what == FaultStep::kGoOn) {
    pauses_.end(step.place);
    log_.add("the process of " + step.place + " goes on");
    return;
  }
  if (step.what == FaultStep::kHeal) {
    const uint32_t rule = states_[static_cast<std::size_t>(step.heals)].rule;
    if (rule == 0 || !softdev::removeFault(*fabric(), rule)) return;
    // The fault log has no entry for a removal.
    log_.add(textOf("rule %u is removed", rule));
    return;
  }
  const auto rule = softdev::parseFaultRule(step.text);
  if (!rule.ok()) return say("%s", rule.error().c_str());
  const auto id = softdev::addFault(*fabric(), *rule);
  if (id.ok()) states_[index].rule = *id;
}

void FaultConductor::stop(std::size_t index) {
  const FaultStep& step = schedule_.steps[index];
  const auto go_on = std::find_if(
      schedule_.steps.begin() + static_cast<std::ptrdiff_t>(index), schedule_.steps.end(),
      [&](const FaultStep& later) { return later.what == FaultStep::kGoOn && later.place == step.place; });
  if (go_on == schedule_.steps.end()) return;
  std::vector<pid_t> processes;
  for (const softdev::CountsRow& row : softdev::listCounts(*fabric(), softdev::CountsBy::kProcess)) {
    if (row.host == step.place) processes.push_back(static_cast<pid_t>(row.process));
  }
  pauses_.begin(step.place, std::move(processes), std::chrono::milliseconds(go_on->at_ms - step.at_ms));
  log_.add("the process of " + step.place + " is stopped");
}

void FaultConductor::changePlace(const FaultStep& step) {
  const auto ports = softdev::findPorts(*fabric(), step.place);
  if (!ports.ok()) return;
  for (const softdev::PortInfo& port : *ports) {
    if (const auto done = softdev::changePort(*fabric(), port, step.text); !done.ok())
      say("%s", done.error().c_str());
  }
}

void FaultConductor::look() {
  looked_at_ = Clock::now();
  devices_.see(softdev::listPorts(*fabric()));
  const auto rules = softdev::listFaults(*fabric());
  int left = INT32_MAX;
  for (const auto& [a, b] : talking_)
    left = std::min(left, pairsBetween(devices_, rules, hostName(a), hostName(b)));
  pairs_.last = left;
  pairs_.least = looked_ ? std::min(pairs_.least, left) : left;
  looked_ = true;
  if (left == 0) zero_at_ = looked_at_;
}

void FaultConductor::close() {
  if (closed_) return;
  closed_ = true;
  // Looks once more: what made the rank end may have happened since the last look, and the rank's devices are
  // still open.
  if (looked_) {
    readLog();
    look();
  }
  if (!zero_at_) return;
  const auto age = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - *zero_at_);
  pairs_.zero_age_ms = static_cast<int>(age.count());
}

void FaultConductor::disarm() {
  pauses_.endAll();
  if (fabric() == nullptr) return;
  for (const softdev::FaultStatus& rule : softdev::listFaults(*fabric())) {
    if (rule.rule.nth != 0 || rule.rule.count != 0) (void)softdev::removeFault(*fabric(), rule.id);
  }
}

void FaultConductor::readLog() {
  for (const softdev::FaultLogEntry& entry : log_.read())
    if (breaks(entry.action)) struck_at_[std::string(entry.host) + "/" + entry.device] = Clock::now();
}

std::vector<std::string> FaultConductor::broken(Clock::time_point since) const {
  std::vector<std::string> places;
  for (const auto& [place, at] : struck_at_)
    if (at >= since) places.push_back(place);
  const auto rules =
      fabric() != nullptr ? softdev::listFaults(*fabric()) : std::vector<softdev::FaultStatus>{};
  const auto look = [&](int rank, int peer) {
    for (const DeviceStates::Device& device : devices_.of(hostName(rank))) {
      const bool cut_off = std::any_of(rules.begin(), rules.end(), [&](const softdev::FaultStatus& rule) {
        return cutsOff(rule, hostName(rank), device.name, hostName(peer));
      });
      if (!device.works || cut_off) places.push_back(hostName(rank) + "/" + device.name);
    }
  };
  for (const auto& [a, b] : talking_) {
    look(a, b);
    look(b, a);
  }
  std::sort(places.begin(), places.end());
  places.erase(std::unique(places.begin(), places.end()), places.end());
  return places;
}

bool FaultConductor::othersLeft() const {
  return fabric() != nullptr && softdev::otherProcesses(*fabric()) > 0;
}

}  // namespace railwise::cli
