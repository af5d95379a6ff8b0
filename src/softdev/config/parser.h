// From stanzas to hosts with devices, before anything that follows from a whole machine (defaults.h).
// One parser for one configuration; not thread-safe. Errors: one WARN, then kInvalidUsage.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "softdev/config/description.h"
#include "softdev/config/keys.h"
#include "softdev/config/stanza.h"

namespace railwise::softdev {

class ConfigParser {
 public:
  // Stanzas separated by ';', their keys by any of `separators`.
  Status parseLine(std::string_view line, std::string_view separators, const Source& source);
  // Lines; `name` is the file in messages.
  Status parseText(std::string_view text, const std::string& name);

  // RAILWISE_FABRIC, after all text: the fabric where the text names none.
  Status useFabric(std::string_view name);

  // Once, at the end: the modes of all devices, and a default device where none is.
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
  ModeConfig modes_;  // of the devices that do not say
  std::vector<Host> hosts_;
  std::optional<std::string> fabric_;
  std::optional<std::string> host_key_;
  uint32_t unnamed_ = 0;
};

}  // namespace railwise::softdev
