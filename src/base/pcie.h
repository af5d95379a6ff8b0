// What is known of each generation of PCI Express. A new generation is a row here. Plain values.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace railwise {

struct PcieGeneration {
  float gigatransfers;        // per second and lane
  const char* text;           // how the kernel writes it
  std::string_view old_text;  // how kernels up to 5.6 write it; "": they do not know it
  int nccl_lane;              // what a lane carries in NCCL's graph, 100 Mb/s
  uint32_t lane_mbps;         // what a lane carries after the line code
};

// Generation 1 is the first one.
inline constexpr std::array<PcieGeneration, 6> kPcieGenerations = {{
    {2.5F, "2.5 GT/s PCIe", "2.5 GT/s", 15, 2000},
    {5, "5.0 GT/s PCIe", "5 GT/s", 30, 4000},
    {8, "8.0 GT/s PCIe", "8 GT/s", 60, 7877},
    {16, "16.0 GT/s PCIe", "16 GT/s", 120, 15754},
    {32, "32.0 GT/s PCIe", "32 GT/s", 240, 31508},
    {64, "64.0 GT/s PCIe", "", 480, 60500},
}};

}  // namespace railwise
