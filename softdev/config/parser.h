// Parses stanzas into hosts with devices. Defaults that depend on the whole machine come later (defaults.h).
// Use one parser for one configuration. Not thread-safe. Errors: one WARN, then kInvalidUsage.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "softdev/config/description.h"
#include "softdev/config/keys.h"
#include "softdev/config/stanza.h"

namespace railwise::softdev {

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
