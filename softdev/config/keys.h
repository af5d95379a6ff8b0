// The keys of the configuration: one table for each kind of thing that a stanza describes. The parser, the
// message for a bad value and the list of known keys all come from these tables.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "softdev/config/description.h"

namespace railwise::softdev {

// The mode of the devices of a process. A device that leaves a field open takes it from the mode for all
// devices.
struct ModeConfig {
  std::optional<bool> engine, pacing, adversarial;
  std::optional<MoverChoice> mover;
  std::optional<GpuDirectChoice> gpudirect;
  std::optional<uint32_t> latency_ns;
};

// One port whose speed code is not computed yet.
struct PortDraft {
  PortConfig port;
  uint32_t lanes = 0;  // width=; 0: any
};

struct DeviceDraft {
  DeviceConfig device;
  ModeConfig modes;
  PortDraft port;  // values for every port of the device
  uint32_t count = 1;
  uint32_t ports = 1;
};

struct HostDraft {
  HostConfig host;
  std::string like;
};

template <typename Subject>
struct Key {
  const char* name;
  const char* accepted;
  bool (*apply)(Subject&, std::string_view value);
};

std::span<const Key<ModeConfig>> modeKeys();
std::span<const Key<PortDraft>> portKeys();
std::span<const Key<DeviceDraft>> deviceKeys();
std::span<const Key<PciConfig>> pciKeys(bool described);  // `described`: below a `host` stanza
std::span<const Key<GpuConfig>> gpuKeys();                // in addition to pciKeys
std::span<const Key<HostDraft>> hostKeys();
std::span<const Key<MachineConfig>> processKeys();  // without fabric and host, which a text may set only once

template <typename Subject>
const Key<Subject>* findKey(std::span<const Key<Subject>> keys, std::string_view name) {
  for (const Key<Subject>& key : keys) {
    if (name == key.name) return &key;
  }
  return nullptr;
}

template <typename Subject>
std::string keyNames(std::span<const Key<Subject>> keys) {
  std::string names;
  for (const Key<Subject>& key : keys) names += std::string(names.empty() ? "" : ", ") + key.name;
  return names;
}

}  // namespace railwise::softdev
