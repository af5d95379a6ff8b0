// The PCI ids of vendors and devices that Railwise treats in their own way, as /sys writes them.
#pragma once

#include <string_view>

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
