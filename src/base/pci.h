// What is known of PCI: addresses as NCCL reads and writes them, the generations of PCI Express, and the ids
// of vendors and devices that Railwise treats in their own way. Thread-safe.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace railwise {

constexpr std::size_t kBusIdLength = 12;  // "0000:00:00.0"

// NCCL's busIdToInt64. Reads hexadecimal digits, and stops at the first character that is neither a digit nor
// '.' or ':'.
int64_t busIdToNumber(std::string_view busid);
// NCCL's int64ToBusId: writes "dddd:bb:dd.f".
std::string busIdText(int64_t number);
// Writes "0x3b001", the form in which NCCL writes GUIDs and hashes.
std::string hexText(uint64_t number);
// Is `text` "dddd:bb:dd.f" with hexadecimal digits of either case? NCCL's checkBDFFormat.
bool isBusId(std::string_view text);

// A new generation is a row below, and a number in softgpu/nvml.cc (pcieGeneration).
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

// The ids of vendors and devices, as /sys writes them.
namespace railwise::pci {

inline constexpr char kNvidia[] = "0x10de";  // GPUs
inline constexpr char kAmd[] = "0x1002";
inline constexpr char kMellanox[] = "0x15b3";  // NVIDIA's NICs
inline constexpr char kAmazon[] = "0x1d0f";
inline constexpr char kBroadcom[] = "0x14e4";
inline constexpr char kIntel[] = "0x8086";
inline constexpr char kHuawei[] = "0x19e5";
inline constexpr char kPensando[] = "0x1dd8";
inline constexpr char kConnectX8[] = "0x1023";  // and its data-direct function
inline constexpr char kDataDirect[] = "0x2100";

// 0x15b3 of "0x15b3".
constexpr unsigned numberOf(std::string_view id) {
  unsigned number = 0;
  for (const char digit : id.substr(2))
    number = number << 4 | static_cast<unsigned>(digit <= '9' ? digit - '0' : digit - 'a' + 10);
  return number;
}

}  // namespace railwise::pci
