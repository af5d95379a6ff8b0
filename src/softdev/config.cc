#include "softdev/config.h"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <optional>
#include <sstream>
#include <string_view>

#include "base/log.h"
#include "softdev/config_values.h"

namespace railwise::softdev {
namespace {

constexpr uint32_t kMaxDevices = 256;

// Where a piece of text came from, for messages.
struct Source {
  std::string file;  // "" for inline text
  int line = 0;
};

struct Stanza {
  DeviceConfig device;
  uint32_t count = 1;
  bool only_fabric = true;
};

struct Parser {
  Config config;
  std::optional<std::string> fabric;
  uint32_t unnamed = 0;
};

std::string where(const Source& source) {
  if (source.file.empty()) return {};
  return " (" + source.file + " line " + std::to_string(source.line) + ")";
}

Status refuse(const Source& source, std::string_view key, std::string_view value,
              const std::string& accepted) {
  RAILWISE_WARN("software device: bad value \"%.*s\" for key \"%.*s\"%s: expected %s",
                static_cast<int>(value.size()), value.data(), static_cast<int>(key.size()), key.data(),
                where(source).c_str(), accepted.c_str());
  return {Code::kInvalidUsage, 0};
}

struct Key {
  const char* name;
  const char* accepted;
  bool (*apply)(Stanza&, std::string_view value);
};

constexpr Key kKeys[] = {
    {"name", "1 to 60 letters, digits, '_', '-' or '.'",
     [](Stanza& s, std::string_view v) { return parseName(v, 60, &s.device.name); }},
    {"count", "a number from 1 to 256",
     [](Stanza& s, std::string_view v) { return parseNumber(v, 1, kMaxDevices, &s.count); }},
    {"speed", "Mb/s that verbs has a code for: " RAILWISE_SOFTDEV_SPEEDS,
     [](Stanza& s, std::string_view v) {
       return parseNumber(v, 1, UINT32_MAX, &s.device.speed_mbps) &&
              speedCodes(s.device.speed_mbps, &s.device.active_width, &s.device.active_speed);
     }},
    {"link", "roce (or ethernet) or ib (or infiniband)",
     [](Stanza& s, std::string_view v) { return parseLink(v, &s.device.link_layer); }},
    {"mtu", "256, 512, 1024, 2048 or 4096 bytes",
     [](Stanza& s, std::string_view v) { return parseMtu(v, &s.device.mtu); }},
    {"guid", "16 hexadecimal digits other than all 0, ':' allowed between bytes",
     [](Stanza& s, std::string_view v) { return parseGuid(v, &s.device.guid); }},
    {"gid", "an IPv6 or IPv4 address, then /ib, /v1 or /v2 if wanted; at most 16 of them",
     [](Stanza& s, std::string_view v) { return parseGid(v, &s.device.gids); }},
    {"pci", "a PCI address like 0000:3b:00.0 or a path that begins with /sys/",
     [](Stanza& s, std::string_view v) { return parsePci(v, &s.device.pci); }},
    {"port_state", "active or down",
     [](Stanza& s, std::string_view v) {
       s.device.active = v == "active";
       return v == "active" || v == "down";
     }},
    {"max_qp", "a number from 1 to 32000",
     [](Stanza& s, std::string_view v) { return parseNumber(v, 1, 32000, &s.device.max_qp); }},
    {"max_inline", "bytes from 0 to 4096",
     [](Stanza& s, std::string_view v) { return parseNumber(v, 0, 4096, &s.device.max_inline_bytes); }},
    {"max_msg", "bytes from 1 to 2147483648",
     [](Stanza& s, std::string_view v) { return parseNumber(v, 1, 1U << 31, &s.device.max_message_bytes); }},
};

std::string knownKeys() {
  std::string names;
  for (const Key& key : kKeys) names += std::string(key.name) + ", ";
  return names + "fabric";
}

Status parseFabric(Parser& parser, std::string_view value, const Source& source) {
  std::string name;
  if (!parseName(value, 32, &name))
    return refuse(source, "fabric", value, "1 to 32 letters, digits, '_', '-' or '.'");
  if (parser.fabric && *parser.fabric != name)
    return refuse(source, "fabric", value,
                  "one name for the whole process (it is already " + *parser.fabric + ")");
  parser.fabric = name;
  return Status::success();
}

Status parsePair(Parser& parser, Stanza& stanza, std::string_view pair, const Source& source) {
  const size_t equals = pair.find('=');
  const std::string_view name = pair.substr(0, equals);
  if (equals == std::string_view::npos) return refuse(source, name, "", "key=value");
  const std::string_view value = pair.substr(equals + 1);
  if (name == "fabric") return parseFabric(parser, value, source);
  stanza.only_fabric = false;
  for (const Key& key : kKeys) {
    if (name != key.name) continue;
    return key.apply(stanza, value) ? Status::success() : refuse(source, name, value, key.accepted);
  }
  RAILWISE_WARN("software device: unknown key \"%.*s\"%s: known keys are %s", static_cast<int>(name.size()),
                name.data(), where(source).c_str(), knownKeys().c_str());
  return {Code::kInvalidUsage, 0};
}

Status addDevice(Parser& parser, DeviceConfig device, uint32_t index, uint32_t count, const Source& source) {
  if (device.name.empty()) {
    device.name = "soft" + std::to_string(parser.unnamed++);
  } else if (count > 1) {
    device.name += std::to_string(index);
  }
  if (device.guid != 0) device.guid += index;
  std::vector<DeviceConfig>& devices = parser.config.devices;
  for (const DeviceConfig& other : devices) {
    if (other.name == device.name) return refuse(source, "name", device.name, "a name no other device has");
    if (other.guid != 0 && other.guid == device.guid)
      return refuse(source, "guid", other.name, "a guid no other device has");
  }
  if (devices.size() == kMaxDevices)
    return refuse(source, "count", std::to_string(count), "at most 256 devices");
  completeDevice(device, devices);
  devices.push_back(std::move(device));
  return Status::success();
}

// One stanza: pairs separated by any of `separators`.
Status parseStanza(Parser& parser, std::string_view text, std::string_view separators, const Source& source) {
  Stanza stanza;
  bool empty = true;
  while (!text.empty()) {
    const size_t end = std::min(text.find_first_of(separators), text.size());
    const std::string_view pair = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (pair.empty()) continue;
    empty = false;
    RAILWISE_TRY(parsePair(parser, stanza, pair, source));
  }
  if (empty || stanza.only_fabric) return Status::success();
  for (uint32_t i = 0; i < stanza.count; ++i)
    RAILWISE_TRY(addDevice(parser, stanza.device, i, stanza.count, source));
  return Status::success();
}

Status parseLine(Parser& parser, std::string_view line, std::string_view separators, const Source& source) {
  while (!line.empty()) {
    const size_t end = std::min(line.find(';'), line.size());
    RAILWISE_TRY(parseStanza(parser, line.substr(0, end), separators, source));
    line.remove_prefix(std::min(end + 1, line.size()));
  }
  return Status::success();
}

Status parseFile(Parser& parser, const std::string& path) {
  std::ifstream file(path);
  if (!file) {
    RAILWISE_WARN("software device: cannot read the configuration file %s", path.c_str());
    return {Code::kInvalidUsage, ENOENT};
  }
  Source source{path, 0};
  for (std::string line; std::getline(file, line);) {
    ++source.line;
    line.resize(std::min(line.find('#'), line.size()));
    RAILWISE_TRY(parseLine(parser, line, ", \t\r", source));
  }
  return Status::success();
}

}  // namespace

Result<Config> parseConfig(const char* text) {
  const std::string_view config = text != nullptr ? text : "";
  Parser parser;
  const bool is_file = config.starts_with('/') || config.starts_with("./") || config.starts_with('@');
  if (is_file) {
    RAILWISE_TRY(parseFile(parser, std::string(config.substr(config.starts_with('@') ? 1 : 0))));
  } else {
    RAILWISE_TRY(parseLine(parser, config, ",", {}));
  }
  if (parser.config.devices.empty()) RAILWISE_TRY(addDevice(parser, {}, 0, 1, {}));
  if (parser.fabric) parser.config.fabric = *parser.fabric;
  return std::move(parser.config);
}

}  // namespace railwise::softdev
