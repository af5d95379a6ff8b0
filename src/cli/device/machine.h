// The options --machine, --host, --fabric and --set: which software machine the subcommands of `railwise
// device` work on.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/options/options.h"
#include "softdev/config/config.h"
#include "softdev/fabric/fabric.h"

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
// Is it the /sys of a machine, a folder or an archive of `railwise topo record`, and not a software machine?
bool isRecording(const std::string& machine);
// Is it the name of a software machine that Railwise brings?
bool isShippedMachine(const std::string& name);
// Null: the reason was reported to the user.
std::optional<DeviceMachine> openDeviceMachine(const char* command, const DeviceMachineOptions& options);

// Sets RAILWISE_DEVICE and RAILWISE_HOST to this machine, for this process and those that it starts. Without
// `machine`: does nothing. False: the reason was reported to the user. Main thread, before others start.
bool playMachine(const char* command, const std::string& machine, const std::string& host);

// The fabric that `railwise device fault`, `port` and `stats` work on: the one in --fabric, otherwise the one
// of RAILWISE_DEVICE.

struct DeviceFabricOptions {
  std::string fabric;
  bool json = false;
};

// Adds the options --fabric and --format to `table`.
void addDeviceFabricOptions(std::vector<Option>& table, DeviceFabricOptions& fields);

// Attaches to the fabric while it exists. If it could not attach, it has reported the reason to the user.
class DeviceFabric {
 public:
  DeviceFabric(const char* command, const DeviceFabricOptions& options);
  ~DeviceFabric();
  DeviceFabric(const DeviceFabric&) = delete;
  DeviceFabric& operator=(const DeviceFabric&) = delete;

  explicit operator bool() const { return fabric_ != nullptr; }
  softdev::Fabric& operator*() const { return *fabric_; }

 private:
  softdev::Fabric* fabric_ = nullptr;
};

}  // namespace railwise::cli
