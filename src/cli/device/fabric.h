// The fabric that `railwise device fault`, `port` and `stats` look at: --fabric, else that of
// RAILWISE_DEVICE.
#pragma once

#include <string>
#include <vector>

#include "cli/options/options.h"
#include "softdev/fabric/fabric.h"

namespace railwise::tools {

enum class DeviceFormat { kText, kJson };

struct DeviceFabricOptions {
  std::string fabric;
  DeviceFormat format = DeviceFormat::kText;
};

// Appends --fabric and --format.
void addDeviceFabricOptions(std::vector<Option>& table, DeviceFabricOptions& fields);

// An attachment, for as long as it lives. Not attached: the reason was said.
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

// Lines of columns as wide as they need to be; columns of numbers (`right`) are aligned right.
std::string columns(const std::vector<std::vector<std::string>>& rows, std::size_t right_from);

}  // namespace railwise::tools
