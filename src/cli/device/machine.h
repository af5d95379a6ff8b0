// --machine, --host, --fabric and --set: the software machine that the subcommands of `railwise device` are
// about.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/options/options.h"
#include "softdev/config/config.h"

namespace railwise::tools {

struct DeviceMachineOptions {
  std::string machine;  // a shipped one, a file, or a configuration; "": RAILWISE_DEVICE, else the default
  std::string host;     // "": RAILWISE_HOST
  std::string fabric;
  std::string settings;  // more stanzas
};

void addDeviceMachineOptions(std::vector<Option>& table, DeviceMachineOptions& fields);

struct DeviceMachine {
  std::string text;  // what follows "software:"; file names in it are absolute
  softdev::MachineConfig config;
};
// Nothing: the reason was said.
std::optional<DeviceMachine> openDeviceMachine(const char* command, const DeviceMachineOptions& options);

}  // namespace railwise::tools
