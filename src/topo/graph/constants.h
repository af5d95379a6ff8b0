// NCCL's numbers: bandwidths in GB/s, and the tables that turn strings of the XML into them. Source:
// graph/topo.h and topo.cc of NCCL 2.30.7 (the same in 2.28.9); AMD's: topo.h of RCCL. Thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "topo/graph/graph.h"

namespace railwise::topo {

inline constexpr float kLocalBandwidth = 5000;  // LOC_BW
inline constexpr float kPartBandwidth = 2618;   // MLOPART_LOC_BW: between the parts of a split GPU
inline constexpr int kDefaultNetMbps = 10000;   // a net without a speed
inline constexpr int kMaxChannels = 64;         // MAXCHANNELS

// The node type of a PCI class, by prefix. RCCL (version 2) knows AMD's accelerators; NCCL takes unknown ones
// as switches.
NodeType classType(std::string_view pci_class, int document_version);

// GB/s of a PCIe link: by prefix of the speed; unknown speeds count as Gen3, width 0 as 16.
float pciBandwidth(std::string_view speed, int width);
// False: the speed matches no spelling that NCCL knows, so that it reads as Gen3 whatever it says.
bool pciSpeedKnown(std::string_view speed);

CpuArch cpuArch(std::string_view text);
CpuVendor cpuVendor(std::string_view text);
CpuModel cpuModel(CpuVendor vendor, int family, int model);
float interCpuBandwidth(const Node& cpu);

float nvlinkBandwidth(int sm);                 // of one NVLink
float xgmiBandwidth(std::string_view gcn);     // of one xGMI link
std::string gcnName(const std::string& text);  // "910" and "gfx90a:sramecc+" -> "gfx90a"

// 4 or 5 for a Broadcom switch that NCCL flattens (level 0 the outer one, 1 the inner one), else 0.
int broadcomGeneration(uint64_t pci_device, int level);

}  // namespace railwise::topo
