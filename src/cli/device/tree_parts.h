// What the files of a software machine's /sys say (cli/device/tree.h): name and text of each, without the
// newline.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "softdev/config/config.h"

namespace railwise::tools {

constexpr uint32_t kAmd = 0x1002;  // PCI vendor

using Files = std::vector<std::pair<std::string, std::string>>;

struct PciFunction {
  uint32_t class_code = 0;
  uint32_t vendor = 0;
  uint32_t device = 0;
  uint32_t gen = 0;  // of the link above it
  uint32_t lanes = 0;
  int32_t numa = -1;
  const char* driver = "";
};

PciFunction gpuFunction(const softdev::PciConfig& gpu);
PciFunction nvswitchFunction(const softdev::PciConfig& nvswitch);
PciFunction nicFunction(const softdev::DeviceConfig& device);
// Its link is as fast as the fastest below it, unless `told` says otherwise (null: nothing told).
void describeBridge(PciFunction& bridge, bool is_root_port, const softdev::PciConfig* told);

Files functionFiles(const PciFunction& function, const std::string& busid);
Files deviceFiles(const softdev::DeviceConfig& device);
Files portFiles(const softdev::PortConfig& port);
Files interfaceFiles(const softdev::PortConfig& port, uint32_t number);

// The processors of a NUMA node: "56-111", and the mask as 32-bit words, the highest first.
std::string cpuList(uint32_t node, uint32_t cores);
std::string cpuMask(uint32_t node, const softdev::HostConfig& host);

}  // namespace railwise::tools
