// Splits a stanza into words and pairs, and parses stanzas into hosts with devices. Defaults that depend on
// the whole machine come later (defaults.h). Errors: one WARN, then kInvalidUsage.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "softdev/config/description.h"
#include "softdev/config/keys.h"

namespace railwise::softdev {

// Where a piece of text came from, for messages.
struct Source {
  std::string file;  // "" for inline text
  int line = 0;      // 0: the file as a whole
};

// These log the WARN for a bad value, for an unknown key, and for what is no pair.
Status refuse(const Source& source, std::string_view key, std::string_view value,
              const std::string& accepted);
Status unknownKey(std::string_view key, const std::string& known, const Source& source);
// A word without "=", which may be the name of a machine without its "@".
Status notAPair(const Source& source, std::string_view word);

// Removes the next word from `text` and returns it; "" at the end.
std::string_view nextWord(std::string_view& text, std::string_view separators);

// Calls `take` with each key and value of a stanza.
template <typename Take>
Status eachPair(std::string_view text, std::string_view separators, const Source& source, Take&& take) {
  while (true) {
    const std::string_view pair = nextWord(text, separators);
    if (pair.empty()) return Status::success();
    const size_t equals = pair.find('=');
    if (equals == std::string_view::npos) return notAPair(source, pair);
    RAILWISE_TRY(take(pair.substr(0, equals), pair.substr(equals + 1)));
  }
}

// Applies the key with this name to `subject`. Returns nothing if the table has no such key.
template <typename Subject>
std::optional<Status> applyKey(std::span<const Key<Subject>> keys, Subject& subject, std::string_view name,
                               std::string_view value, const Source& source) {
  const Key<Subject>* key = findKey(keys, name);
  if (key == nullptr) return std::nullopt;
  return key->apply(subject, value) ? Status::success() : refuse(source, name, value, key->accepted);
}

// Use one parser for one configuration. Not thread-safe.
class ConfigParser {
 public:
  // Parses stanzas separated by ';'. Any character of `separators` separates the keys of a stanza.
  Status parseLine(std::string_view line, std::string_view separators, const Source& source);
  // Parses text of several lines. Messages call the file `name`.
  Status parseText(std::string_view text, const std::string& name);

  // What is parsed from here on may name another fabric than the text before it.
  void beginOverrides() { fabric_of_file_ = std::exchange(fabric_, {}); }

  // Sets the fabric from RAILWISE_FABRIC, if the text named none. Call it after all text.
  Status useFabric(std::string_view name);

  // True if no text has described a host or a device.
  bool empty() const { return hosts_.empty(); }

  // Call it once, at the end: sets the modes of all devices.
  Result<MachineConfig> finish();
  const std::optional<std::string>& hostKey() const { return host_key_; }

 private:
  struct PortPair {
    uint32_t port;
    std::string_view key, value;
  };
  struct Device {
    DeviceConfig config;
    ModeConfig modes;
  };
  struct Host {
    HostConfig config;
    std::vector<Device> devices;
  };

  Status parseStanza(std::string_view text, std::string_view separators, const Source& source);
  Status parseHost(std::string_view text, std::string_view separators, const Source& source);
  Status parseFunction(std::string_view kind, std::string_view text, std::string_view separators,
                       const Source& source);
  Status parseDevice(std::string_view text, std::string_view separators, bool named, const Source& source);
  Status parseDevicePair(DeviceDraft& draft, std::vector<PortPair>& of_ports, std::string_view key,
                         std::string_view value, bool* describes, const Source& source);
  Status parseShared(std::string_view key, std::string_view value, const Source& source, bool* known);
  Status once(std::optional<std::string>& field, std::string_view key, std::string_view value,
              size_t max_length, const Source& source);
  Status addDevices(DeviceDraft& draft, const std::vector<PortPair>& of_ports, const Source& source);
  Status addDevice(DeviceConfig device, const ModeConfig& modes, uint32_t index, const DeviceDraft& draft,
                   const Source& source);
  Status likeHost(Host& host, const std::string& name, const Source& source) const;
  Host& host();
  bool described() const { return !hosts_.empty() && hosts_.back().config.described; }

  MachineConfig machine_;
  ModeConfig modes_;  // modes of devices that set none themselves
  std::vector<Host> hosts_;
  std::optional<std::string> fabric_;
  std::optional<std::string> fabric_of_file_;
  std::optional<std::string> host_key_;
  uint32_t unnamed_ = 0;
};

}  // namespace railwise::softdev
