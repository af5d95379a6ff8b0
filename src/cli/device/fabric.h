// The fabric that `railwise device fault`, `port` and `stats` work on: the one in --fabric, otherwise the one
// of RAILWISE_DEVICE.
#pragma once

#include <string>
#include <vector>

#include "cli/options/options.h"
#include "softdev/fabric/fabric.h"

namespace railwise::cli {

enum class DeviceFormat { kText, kJson };

struct DeviceFabricOptions {
  std::string fabric;
  DeviceFormat format = DeviceFormat::kText;
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
