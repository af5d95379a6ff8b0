// NCCL's numbers: bandwidths in GB/s, and the tables that turn strings of the XML into numbers. Source:
// graph/topo.h and topo.cc of NCCL; for AMD, topo.h of RCCL. Where releases differ, the release is an
// argument. Thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "topo/graph/graph.h"

namespace railwise::topo {

inline constexpr float kLocalBandwidth = 5000;  // LOC_BW
inline constexpr float kPartBandwidth = 2618;   // MLOPART_LOC_BW: between the parts of a split GPU
inline constexpr int kDefaultNetMbps = 10000;   // Mb/s of a net that has no speed
inline constexpr int kMaxChannels = 64;         // MAXCHANNELS of the newest releases
// MAXCHANNELS of a release.
inline int maxChannels(NcclVersion release) {
  return release.has(NcclRule::kSixtyFourChannels) ? kMaxChannels : kMaxChannels / 2;
}

// The node type for a PCI class; the class is matched by prefix. RCCL (version 2) also knows AMD's
// accelerators. NCCL treats unknown classes as switches.
NodeType classType(std::string_view pci_class, int document_version);

// The bandwidth of a PCIe link in GB/s. The speed is matched by prefix; an unknown speed counts as Gen3, and
// width 0 counts as 16. NCCL multiplies in 32 bits: an absurd width can give a negative bandwidth.
float pciBandwidth(std::string_view speed, int width);
// False: NCCL knows no such spelling of a speed, and takes the link for Gen3 whatever the text says.
bool pciSpeedKnown(std::string_view speed);

CpuArch cpuArch(std::string_view text);
CpuVendor cpuVendor(std::string_view text);
CpuModel cpuModel(CpuVendor vendor, int family, int model, NcclVersion release);
float interCpuBandwidth(const Node& cpu, NcclVersion release);

float nvlinkBandwidth(int sm, NcclVersion release);  // GB/s of one NVLink
float xgmiBandwidth(std::string_view gcn);           // GB/s of one xGMI link
std::string gcnName(const std::string& text);        // turns "910" and "gfx90a:sramecc+" into "gfx90a"

// The PCIe generation, 4 or 5, of a Broadcom switch that NCCL flattens; 0 for any other device. Level 0 is
// the outer switch, level 1 the inner switch.
int broadcomGeneration(uint64_t pci_device, int level);

}  // namespace railwise::topo
