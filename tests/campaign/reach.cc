#include "tests/campaign/reach.h"

#include <algorithm>

namespace railwise::cli {
namespace {

// Compares names as the fault injector does: a star at the end stands for any text.
bool isNamed(std::string_view pattern, std::string_view name) {
  if (pattern.empty()) return true;
  if (pattern.back() != '*') return pattern == name;
  return name.starts_with(pattern.substr(0, pattern.size() - 1));
}

// True if the rule strikes every time, not only some times.
bool strikesAll(const softdev::FaultRule& rule) {
  return rule.nth == 0 && rule.count == 0 && rule.probability == 0 && rule.every <= 1;
}

bool stopsData(const softdev::FaultRule& rule) {
  using softdev::FaultAction;
  switch (rule.action) {
    case FaultAction::kDrop:
    case FaultAction::kRnr:
      return rule.amount == 0;
    case FaultAction::kStatus:
    case FaultAction::kStuck:
    case FaultAction::kQpFatal:
    case FaultAction::kErrno:
      return true;
    default:
      return false;
  }
}

// True if the rule strikes an operation that a device needs for sending data.
bool forData(const softdev::FaultRule& rule) {
  const auto bit = [](softdev::Verb verb) { return 1U << static_cast<uint32_t>(verb); };
  constexpr uint32_t kData = softdev::kFaultWrite | softdev::kFaultWriteImm;
  return (rule.operations & kData) != 0 ||
         (rule.verbs & (bit(softdev::Verb::kPostSend) | bit(softdev::Verb::kPollCq))) != 0;
}

bool hasAddress(const softdev::PortInfo& port) {
  return std::any_of(port.gids.begin(), port.gids.end(), [](const std::string& gid) { return !gid.empty(); });
}

}  // namespace

void DeviceStates::see(const std::vector<softdev::PortInfo>& ports) {
  std::map<std::string, std::map<std::string, bool>> seen;
  for (const softdev::PortInfo& port : ports) {
    const bool works = port.active && hasAddress(port) && port.contexts > port.failed_contexts;
    bool& device = seen[port.host].emplace(port.device, false).first->second;
    device = device || works;
  }
  for (const auto& [host, devices] : seen) {
    for (const auto& [device, works] : devices) works_[host][device] = works;
  }
}

std::vector<DeviceStates::Device> DeviceStates::of(const std::string& host) const {
  std::vector<Device> devices;
  const auto found = works_.find(host);
  if (found == works_.end()) return devices;
  for (const auto& [name, works] : found->second) devices.push_back({name, works});
  return devices;
}

bool cutsOff(const softdev::FaultStatus& status, const std::string& host, const std::string& device,
             const std::string& peer) {
  const softdev::FaultRule& rule = status.rule;
  return status.state == softdev::FaultState::kArmed && strikesAll(rule) && stopsData(rule) &&
         forData(rule) && rule.qp == 0 && rule.process == 0 && isNamed(rule.host, host) &&
         isNamed(rule.device, device) && isNamed(rule.peer, peer);
}

int pairsBetween(const DeviceStates& devices, const std::vector<softdev::FaultStatus>& rules,
                 const std::string& a, const std::string& b) {
  const auto sends = [&](const DeviceStates::Device& device, const std::string& host,
                         const std::string& peer) {
    return device.works && std::none_of(rules.begin(), rules.end(), [&](const softdev::FaultStatus& rule) {
             return cutsOff(rule, host, device.name, peer);
           });
  };
  const auto count = [&](const std::string& host, const std::string& peer) {
    const auto all = devices.of(host);
    return std::count_if(all.begin(), all.end(),
                         [&](const DeviceStates::Device& device) { return sends(device, host, peer); });
  };
  return static_cast<int>(count(a, b) * count(b, a));
}

}  // namespace railwise::cli
