// The contents of the files of a software machine's /sys (cli/device/tree.h): the name and the text of each
// file, without the newline at the end.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "gpu/topology.h"
#include "softdev/config/config.h"

namespace railwise::cli {

constexpr uint32_t kAmd = 0x1002;  // AMD's PCI vendor id

using Files = std::vector<std::pair<std::string, std::string>>;

struct PciFunction {
  uint32_t class_code = 0;
  uint32_t vendor = 0;
  uint32_t device = 0;
  uint32_t gen = 0;  // PCIe generation of the link above the function
  uint32_t lanes = 0;
  int32_t numa = -1;
  const char* driver = "";
};

// What a vendor's library would say of a GPU, and of one of its links; the link's `to` stays -1.
gpu::Device gpuAnswer(const softdev::GpuConfig& gpu, int index);
gpu::Link linkAnswer(const softdev::NvlinkConfig& link, const softdev::GpuConfig& gpu, int index);

PciFunction gpuFunction(const softdev::PciConfig& gpu);
PciFunction nvswitchFunction(const softdev::PciConfig& nvswitch);
PciFunction nicFunction(const softdev::DeviceConfig& device);
// Makes the bridge's link as fast as the fastest link below it. `told` is what the configuration says about
// the bridge and has precedence; null: it says nothing.
void describeBridge(PciFunction& bridge, bool is_root_port, const softdev::PciConfig* told);

Files functionFiles(const PciFunction& function, const std::string& busid);
Files deviceFiles(const softdev::DeviceConfig& device);
Files portFiles(const softdev::PortConfig& port);
Files interfaceFiles(const softdev::PortConfig& port, uint32_t number);

// The processors of a NUMA node: as a list ("56-111"), and as a mask of 32-bit words with the highest word
// first.
std::string cpuList(uint32_t node, uint32_t cores);
std::string cpuMask(uint32_t node, const softdev::HostConfig& host);

// "fe80:0000:0000:0000:0000:0000:0000:0001", as /sys writes a GID.
std::string gidText(const softdev::Gid& gid);

}  // namespace railwise::cli
