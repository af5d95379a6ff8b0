#include "softdev/config/parser.h"

#include <algorithm>

#include "base/log.h"
#include "base/text/words.h"
#include "softdev/config/fault_rule.h"
#include "softdev/config/machines.h"
#include "softdev/config/values.h"

namespace railwise::softdev {
namespace {

void fillUnset(ModeConfig& modes, const ModeConfig& all) {
  if (!modes.engine) modes.engine = all.engine;
  if (!modes.pacing) modes.pacing = all.pacing;
  if (!modes.adversarial) modes.adversarial = all.adversarial;
  if (!modes.mover) modes.mover = all.mover;
  if (!modes.gpudirect) modes.gpudirect = all.gpudirect;
  if (!modes.latency_ns) modes.latency_ns = all.latency_ns;
}

void applyModes(DeviceConfig& device, const ModeConfig& modes) {
  device.engine = modes.engine.value_or(device.engine);
  device.paced = modes.pacing.value_or(device.paced);
  device.adversarial = modes.adversarial.value_or(device.adversarial);
  device.mover = modes.mover.value_or(device.mover);
  device.gpudirect = modes.gpudirect.value_or(device.gpudirect);
  for (PortConfig& port : device.ports) {
    if (port.latency_ns == 0) port.latency_ns = modes.latency_ns.value_or(0);
  }
}

std::string where(const Source& source) {
  if (source.file.empty()) return {};
  if (source.line == 0) return " (" + source.file + ")";
  return " (" + source.file + " line " + std::to_string(source.line) + ")";
}

}  // namespace

ConfigParser::Host& ConfigParser::host() {
  if (hosts_.empty()) hosts_.emplace_back();
  return hosts_.back();
}

Status ConfigParser::parseText(std::string_view text, const std::string& name) {
  Source source{name, 0};
  while (!text.empty()) {
    ++source.line;
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    line = line.substr(0, std::min(line.find('#'), line.size()));
    RAILWISE_TRY(parseLine(line, ", \t\r", source));
  }
  return Status::success();
}

Status ConfigParser::parseLine(std::string_view line, std::string_view separators, const Source& source) {
  while (!line.empty()) {
    const size_t end = std::min(line.find(';'), line.size());
    RAILWISE_TRY(parseStanza(line.substr(0, end), separators, source));
    line.remove_prefix(std::min(end + 1, line.size()));
  }
  return Status::success();
}

Status ConfigParser::parseStanza(std::string_view text, std::string_view separators, const Source& source) {
  std::string_view rest = text;
  const std::string_view kind = nextWord(rest, ", \t\r");
  constexpr std::string_view kWithKind = ", \t\r";  // after a first word, spaces always separate
  if (kind == "fault") {
    const std::string_view rule = trimmed(rest, " \t\r");
    if (rule.empty()) return refuse(source, "fault", "", "a rule behind it (railwise device fault --help)");
    if (const auto checked = parseFaultRule(rule); !checked.ok())
      return refuse(source, "fault", rule, checked.error());
    machine_.faults.emplace_back(rule);
    return Status::success();
  }
  if (kind == "host") return parseHost(rest, kWithKind, source);
  if (kind == "gpu" || kind == "nvswitch" || kind == "bridge")
    return parseFunction(kind, rest, kWithKind, source);
  if (kind == "device") return parseDevice(rest, kWithKind, true, source);
  return parseDevice(text, separators, false, source);
}

Status ConfigParser::once(std::optional<std::string>& field, std::string_view key, std::string_view value,
                          size_t max_length, const Source& source) {
  std::string name;
  if (!parseName(value, max_length, &name))
    return refuse(source, key, value,
                  "1 to " + std::to_string(max_length) + " letters, digits, '_', '-' or '.'");
  if (field && *field != name)
    return refuse(source, key, value, "one name for the whole process (it is already " + *field + ")");
  field = name;
  return Status::success();
}

Status ConfigParser::useFabric(std::string_view name) {
  const bool named = fabric_ || fabric_of_file_;
  return named ? Status::success() : once(fabric_, "RAILWISE_FABRIC", name, kMaxFabricName, {});
}

// Parses the keys of the process.
Status ConfigParser::parseShared(std::string_view key, std::string_view value, const Source& source,
                                 bool* known) {
  *known = true;
  if (key == "fabric") return once(fabric_, key, value, kMaxFabricName, source);
  if (key == "host") return once(host_key_, key, value, 60, source);
  const auto applied = applyKey(processKeys(), machine_, key, value, source);
  *known = applied.has_value();
  return applied.value_or(Status::success());
}

Status ConfigParser::parseDevicePair(DeviceDraft& draft, std::vector<PortPair>& of_ports,
                                     std::string_view key, std::string_view value, bool* describes,
                                     const Source& source) {
  bool known = false;
  RAILWISE_TRY(parseShared(key, value, source, &known));
  if (known) return Status::success();
  if (const auto applied = applyKey(modeKeys(), draft.modes, key, value, source)) return *applied;
  *describes = true;
  if (const auto applied = applyKey(portKeys(), draft.port, key, value, source)) return *applied;
  if (const auto applied = applyKey(deviceKeys(), draft, key, value, source)) return *applied;
  PciConfig& function = draft.device;
  if (const auto applied = applyKey(pciKeys(described()), function, key, value, source)) return *applied;
  const size_t dot = key.find('.');
  uint32_t port = 0;
  if (key.starts_with("port") && dot != std::string_view::npos &&
      parseNumber(key.substr(4, dot - 4), 1, kMaxDevicePorts, &port)) {
    of_ports.push_back({port, key.substr(dot + 1), value});
    return Status::success();
  }
  const std::string names = keyNames(deviceKeys()) + ", " + keyNames(portKeys()) + ", " +
                            keyNames(pciKeys(true)) + ", " + keyNames(modeKeys()) + ", " +
                            keyNames(processKeys());
  return unknownKey(key, names + ", fabric, host, and portN.KEY for one port", source);
}

Status ConfigParser::parseDevice(std::string_view text, std::string_view separators, bool named,
                                 const Source& source) {
  DeviceDraft draft;
  std::vector<PortPair> of_ports;
  bool describes = named;
  RAILWISE_TRY(eachPair(text, separators, source, [&](std::string_view key, std::string_view value) {
    return parseDevicePair(draft, of_ports, key, value, &describes, source);
  }));
  if (describes) return addDevices(draft, of_ports, source);
  fillUnset(draft.modes, modes_);  // a later stanza overrides an earlier one
  modes_ = draft.modes;
  return Status::success();
}

Status ConfigParser::addDevices(DeviceDraft& draft, const std::vector<PortPair>& of_ports,
                                const Source& source) {
  if (draft.ports > 1 && !draft.port.port.gids.empty())
    return refuse(source, "gid", "", "portN.gid=ADDRESS, for the device has several ports");
  if (draft.ports > 1 && !draft.port.port.netdev.empty())
    return refuse(source, "netdev", draft.port.port.netdev, "portN.netdev, for the device has several ports");
  std::vector<PortDraft> ports(draft.ports, draft.port);
  for (const PortPair& pair : of_ports) {
    const std::string name = "port" + std::to_string(pair.port) + "." + std::string(pair.key);
    if (pair.port > draft.ports)
      return refuse(source, name, pair.value, "a port from 1 to ports=" + std::to_string(draft.ports));
    PortDraft& port = ports[pair.port - 1];
    if (pair.key == "latency_ns") {
      if (!parseNumber(pair.value, 0, 1000000000, &port.port.latency_ns))
        return refuse(source, name, pair.value, "nanoseconds from 0 to 1000000000");
      continue;
    }
    const Key<PortDraft>* key = findKey(portKeys(), pair.key);
    if (key == nullptr)
      return unknownKey(name, "those of a port: " + keyNames(portKeys()) + ", latency_ns", source);
    if (!key->apply(port, pair.value)) return refuse(source, name, pair.value, key->accepted);
  }
  draft.device.ports.clear();
  for (PortDraft& port : ports) {
    if (!speedCodes(port.port.speed_mbps, port.lanes, &port.port.active_width, &port.port.active_speed))
      return refuse(source, "width", std::to_string(port.lanes),
                    "lanes that carry speed=" + std::to_string(port.port.speed_mbps));
    if (port.port.iwarp != ports[0].port.iwarp)
      return refuse(source, "link", "iwarp", "all ports of a device alike: iWARP is the device's transport");
    draft.device.ports.push_back(std::move(port.port));
  }
  for (uint32_t i = 0; i < draft.count; ++i)
    RAILWISE_TRY(addDevice(draft.device, draft.modes, i, draft, source));
  return Status::success();
}

Status ConfigParser::addDevice(DeviceConfig device, const ModeConfig& modes, uint32_t index,
                               const DeviceDraft& draft, const Source& source) {
  if (device.name.empty()) {
    device.name = "soft" + std::to_string(unnamed_++);
  } else if (draft.count > 1) {
    device.name += std::to_string(index);
  }
  if (device.guid != 0) device.guid += index;
  std::vector<Device>& devices = host().devices;
  for (const Device& other : devices) {
    if (other.config.name == device.name)
      return refuse(source, "name", device.name, "a name no other device has");
  }
  for (const Host& other_host : hosts_) {
    for (const Device& other : other_host.devices) {
      if (other.config.guid != 0 && other.config.guid == device.guid)
        return refuse(source, "guid", other.config.name, "a guid no other device has");
    }
  }
  if (devices.size() == kMaxDevices)
    return refuse(source, "count", std::to_string(draft.count), "at most 256 devices");
  devices.push_back({std::move(device), modes});
  return Status::success();
}

Result<MachineConfig> ConfigParser::finish() {
  (void)host();  // a machine has one at least
  for (Host& each : hosts_) {
    for (Device& device : each.devices) {
      fillUnset(device.modes, modes_);
      applyModes(device.config, device.modes);
      each.config.devices.push_back(std::move(device.config));
    }
    machine_.hosts.push_back(std::move(each.config));
  }
  if (!fabric_) fabric_ = fabric_of_file_;
  machine_.fabric_named = fabric_.has_value();
  if (fabric_) machine_.fabric = *fabric_;
  return std::move(machine_);
}

Status refuse(const Source& source, std::string_view key, std::string_view value,
              const std::string& accepted) {
  RAILWISE_WARN("software device: bad value \"%.*s\" for key \"%.*s\"%s: expected %s",
                static_cast<int>(value.size()), value.data(), static_cast<int>(key.size()), key.data(),
                where(source).c_str(), accepted.c_str());
  return {Code::kInvalidUsage, 0};
}

Status unknownKey(std::string_view key, const std::string& known, const Source& source) {
  RAILWISE_WARN("software device: unknown key \"%.*s\"%s: known keys are %s", static_cast<int>(key.size()),
                key.data(), where(source).c_str(), known.c_str());
  return {Code::kInvalidUsage, 0};
}

Status notAPair(const Source& source, std::string_view word) {
  const std::string text(word);
  const std::string meant =
      findMachine(text) != nullptr ? "; the machine of that name is software:@" + text : "";
  RAILWISE_WARN("software device: \"%s\"%s: expected key=value%s", text.c_str(), where(source).c_str(),
                meant.c_str());
  return {Code::kInvalidUsage, 0};
}

std::string_view nextWord(std::string_view& text, std::string_view separators) {
  text.remove_prefix(std::min(text.find_first_not_of(separators), text.size()));
  const std::string_view word = text.substr(0, std::min(text.find_first_of(separators), text.size()));
  text.remove_prefix(word.size());
  return word;
}

}  // namespace railwise::softdev
