// Values of the configuration: text to value, and what follows from a device's name. Each returns false on
// bad text.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "softdev/config.h"

#define RAILWISE_SOFTDEV_SPEEDS                                                                       \
  "2500, 5000, 10000, 14000, 20000, 25000, 28000, 30000, 40000, 50000, 56000, 60000, 80000, 100000, " \
  "112000, 120000, "                                                                                  \
  "168000, 200000, 300000, 400000, 600000, 800000, 1200000"

namespace railwise::softdev {

bool parseNumber(std::string_view text, uint32_t low, uint32_t high, uint32_t* number);
bool parseName(std::string_view text, size_t max_length, std::string* name);
bool parseLink(std::string_view text, uint8_t* link_layer);
bool parseMtu(std::string_view text, ibv_mtu* mtu);
bool parseGuid(std::string_view text, uint64_t* guid);
bool parseGid(std::string_view text, std::vector<Gid>* gids);
bool parsePci(std::string_view text, std::string* path);

// Fills in the GUID and the GID table when not given, different from those of `others`.
void completeDevice(DeviceConfig& device, const std::vector<DeviceConfig>& others);

}  // namespace railwise::softdev
