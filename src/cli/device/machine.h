// The options --machine, --host, --fabric and --set: which software machine the subcommands of `railwise
// device` work on.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/options/options.h"
#include "softdev/config/config.h"

namespace railwise::cli {

struct DeviceMachineOptions {
  // A shipped machine, a file or a configuration; "": RAILWISE_DEVICE, otherwise the default machine.
  std::string machine;
  std::string host;  // "": RAILWISE_HOST
  std::string fabric;
  std::string settings;  // more configuration stanzas
};

void addDeviceMachineOptions(std::vector<Option>& table, DeviceMachineOptions& fields);

struct DeviceMachine {
  std::string text;  // the text after "software:"; file names in it are absolute
  softdev::MachineConfig config;
};
// Null: the reason was reported to the user.
std::optional<DeviceMachine> openDeviceMachine(const char* command, const DeviceMachineOptions& options);

}  // namespace railwise::cli
