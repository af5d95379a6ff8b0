// Values of the configuration: these functions convert text to values. Each returns false for bad text.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "softdev/config/description.h"

#define RAILWISE_SOFTDEV_SPEEDS                                                                       \
  "2500, 5000, 10000, 14000, 20000, 25000, 28000, 30000, 40000, 50000, 56000, 60000, 80000, 100000, " \
  "112000, 120000, "                                                                                  \
  "168000, 200000, 300000, 400000, 600000, 800000, 1200000, 1600000, 2400000"

namespace railwise::softdev {

// The target of NVLinks that the configuration distributes over the NVSwitches of the host.
inline constexpr char kAnyNvswitch[] = "switch";
// The type of a GID while its link layer, which decides the type, is not known yet.
constexpr uint32_t kGidTypeByLink = UINT32_MAX;

bool parseNumber(std::string_view text, uint32_t low, uint32_t high, uint32_t* number);
bool parseNumber64(std::string_view text, uint64_t* number);  // decimal, or 0x and hexadecimal digits
bool parseSmall(std::string_view text, int32_t high, int32_t* number);  // 0 to high
bool parseHex16(std::string_view text, uint32_t* number);               // "0x15b3"
bool parseOnOff(std::string_view text, bool* value);
bool parseName(std::string_view text, size_t max_length, std::string* name);
bool parseLink(std::string_view text, uint8_t* link_layer, bool* iwarp);
bool parseMtu(std::string_view text, ibv_mtu* mtu);
bool parseGuid(std::string_view text, uint64_t* guid);
bool parseGid(std::string_view text, std::vector<Gid>* gids);
// Parses one PCI address, a list of addresses from the root port down ("0000:16:01.0/17:00.0"), or a path
// that begins with /sys/. `here`: a single address is looked up in the /sys of this computer. Otherwise a
// single address lies on the root bus with its bus number.
bool parsePci(std::string_view text, bool here, std::string* path);
bool parsePcie(std::string_view text, PciConfig* pci);        // "5x16" or Mb/s
bool parseNvlink(std::string_view text, NvlinkConfig* link);  // "switch:18" or "0000:1b:00.0:2"
bool parseGpuDirect(std::string_view text, GpuDirectChoice* choice);
bool parseMover(std::string_view text, MoverChoice* mover);
bool parseCpu(std::string_view text, std::string* cpu);  // "x86_64/GenuineIntel/6/143" or "arm64"

bool isBusId(std::string_view text);  // "0000:3b:00.0"

// As /sys writes a GUID, "0200:4bff:fe00:0001", and the 16 bytes of a GID: eight such groups.
std::string sysGuidText(uint64_t guid);
std::string sysGidText(const uint8_t* raw);

// What the drivers of real RDMA cards grant, so that a software device can be as narrow as such a card
// (`like=bnxt_re`): base/nic_drivers.h has the values and their sources. Any thread.

// The drivers that makeLike() knows.
#define RAILWISE_SOFTDEV_DRIVERS "bnxt_re, hns, ionic or irdma"

// Gives a device the limits and PCI ids of a card with this driver. False: there is no such driver here.
bool makeLike(std::string_view driver, DeviceConfig& device);

}  // namespace railwise::softdev
