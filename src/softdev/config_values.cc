#include "softdev/config_values.h"

#include <arpa/inet.h>

#include <algorithm>
#include <charconv>
#include <climits>
#include <cstdlib>
#include <cstring>

namespace railwise::softdev {
namespace {

constexpr uint32_t kTypeByLink = UINT32_MAX;  // a GID whose type the link layer decides, once it is known

struct Rate {
  uint32_t mbps;
  uint8_t code;
};

// Lane speeds that fit the 8-bit active_speed of ibv_port_attr (XDR's code, 256, does not).
constexpr Rate kLanes[] = {{2500, 1},   {5000, 2},   {10000, 4},   {14000, 16},
                           {25000, 32}, {50000, 64}, {100000, 128}};
constexpr Rate kWidths[] = {{4, 2}, {1, 1}, {2, 16}, {8, 4}, {12, 8}};  // lanes and code, the usual first

// FNV-1a, to make a stable number of a name.
uint64_t hashName(std::string_view name) {
  uint64_t hash = 0xcbf29ce484222325ULL;
  for (char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  return hash;
}

Gid makeGid(const uint8_t (&raw)[16], GidType type) {
  Gid gid{};
  std::memcpy(gid.raw, raw, sizeof raw);
  gid.type = static_cast<uint32_t>(type);
  return gid;
}

Gid linkLocal(uint64_t interface_id, GidType type) {
  uint8_t raw[16] = {0xfe, 0x80};
  for (unsigned i = 0; i < 8; ++i) raw[8 + i] = static_cast<uint8_t>(interface_id >> (56 - 8 * i));
  return makeGid(raw, type);
}

Gid ipv4Mapped(uint16_t host, GidType type) {
  const uint8_t raw[16] = {0,
                           0,
                           0,
                           0,
                           0,
                           0,
                           0,
                           0,
                           0,
                           0,
                           0xff,
                           0xff,
                           10,
                           66,
                           static_cast<uint8_t>(host >> 8),
                           static_cast<uint8_t>(host)};
  return makeGid(raw, type);
}

bool hasGid(const std::vector<DeviceConfig>& devices, const Gid& gid) {
  for (const DeviceConfig& device : devices) {
    for (const Gid& other : device.gids) {
      if (std::memcmp(other.raw, gid.raw, sizeof gid.raw) == 0) return true;
    }
  }
  return false;
}

// The same name gives the same GUID in every process: it is the same device of this machine.
uint64_t guidOfName(std::string_view name) {
  const size_t digits = name.find_last_not_of("0123456789") + 1;
  uint32_t number = 0;
  if (!parseNumber(name.substr(digits), 0, 0xffff, &number))
    number = static_cast<uint32_t>(hashName(name) & 0xffff);
  const uint64_t family = hashName(name.substr(0, digits)) & 0xffffff;
  return 0x0252570000000000ULL | family << 16 | number;
}

void addDefaultGids(DeviceConfig& device, const std::vector<DeviceConfig>& others) {
  if (device.link_layer == IBV_LINK_LAYER_INFINIBAND) {
    device.gids = {linkLocal(device.guid, GidType::kIb)};
    return;
  }
  auto host = static_cast<uint16_t>((device.guid & 0xffff) + 1);
  while (host == 0 || hasGid(others, ipv4Mapped(host, GidType::kRoceV1))) ++host;
  device.gids = {linkLocal(device.guid, GidType::kRoceV1), linkLocal(device.guid, GidType::kRoceV2),
                 ipv4Mapped(host, GidType::kRoceV1), ipv4Mapped(host, GidType::kRoceV2)};
}

bool isBdf(std::string_view text) {
  constexpr std::string_view kShape = "hhhh:hh:hh.h";
  if (text.size() != kShape.size()) return false;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool digit = std::isxdigit(static_cast<unsigned char>(text[i])) != 0;
    if (kShape[i] == 'h' ? !digit : text[i] != kShape[i]) return false;
  }
  return true;
}

}  // namespace

bool parseNumber(std::string_view text, uint32_t low, uint32_t high, uint32_t* number) {
  uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return false;
  *number = value;
  return value >= low && value <= high;
}

bool parseName(std::string_view text, size_t max_length, std::string* name) {
  const auto allowed = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-' || c == '.';
  };
  *name = text;
  return !text.empty() && text.size() <= max_length && std::all_of(text.begin(), text.end(), allowed);
}

bool parseLink(std::string_view text, uint8_t* link_layer) {
  const bool infiniband = text == "ib" || text == "infiniband";
  *link_layer = infiniband ? IBV_LINK_LAYER_INFINIBAND : IBV_LINK_LAYER_ETHERNET;
  return infiniband || text == "roce" || text == "ethernet";
}

bool parseMtu(std::string_view text, ibv_mtu* mtu) {
  uint32_t bytes = 0;
  if (!parseNumber(text, 256, 4096, &bytes)) return false;
  for (int code = IBV_MTU_256; code <= IBV_MTU_4096; ++code) {
    if (bytes != 128U << code) continue;
    *mtu = static_cast<ibv_mtu>(code);
    return true;
  }
  return false;
}

bool parseGuid(std::string_view text, uint64_t* guid) {
  std::string digits;
  for (char c : text) {
    if (c != ':') digits += c;
  }
  if (digits.starts_with("0x")) digits.erase(0, 2);
  const char* last = digits.data() + digits.size();
  const auto [end, error] = std::from_chars(digits.data(), last, *guid, 16);
  return digits.size() == 16 && error == std::errc() && end == last && *guid != 0;
}

bool parseGid(std::string_view text, std::vector<Gid>* gids) {
  if (gids->size() == kMaxGids) return false;
  const size_t slash = std::min(text.find('/'), text.size());
  const std::string address(text.substr(0, slash));
  const std::string_view type = text.substr(slash);
  Gid gid{};
  gid.type = kTypeByLink;
  if (type == "/ib") gid.type = static_cast<uint32_t>(GidType::kIb);
  if (type == "/v1") gid.type = static_cast<uint32_t>(GidType::kRoceV1);
  if (type == "/v2") gid.type = static_cast<uint32_t>(GidType::kRoceV2);
  if (!type.empty() && gid.type == kTypeByLink) return false;
  if (inet_pton(AF_INET, address.c_str(), gid.raw + 12) == 1) {
    gid.raw[10] = gid.raw[11] = 0xff;
  } else if (inet_pton(AF_INET6, address.c_str(), gid.raw) != 1) {
    return false;
  }
  gids->push_back(gid);
  return true;
}

bool parsePci(std::string_view text, std::string* path) {
  if (text.starts_with("/sys/")) {
    *path = text;
    return true;
  }
  if (!isBdf(text)) return false;
  *path = "/sys/bus/pci/devices/" + std::string(text);
  char real[PATH_MAX];
  if (realpath(path->c_str(), real) != nullptr) *path = real;
  return true;
}

bool speedCodes(uint32_t mbps, uint8_t* width, uint8_t* speed) {
  for (const Rate& lanes : kWidths) {
    for (const Rate& lane : kLanes) {
      if (lanes.mbps * lane.mbps != mbps) continue;
      *width = lanes.code;
      *speed = lane.code;
      return true;
    }
  }
  return false;
}

void completeDevice(DeviceConfig& device, const std::vector<DeviceConfig>& others) {
  if (device.guid == 0) device.guid = guidOfName(device.name);
  const auto taken = [&](const DeviceConfig& other) { return other.guid == device.guid; };
  while (std::any_of(others.begin(), others.end(), taken)) ++device.guid;
  if (device.gids.empty()) addDefaultGids(device, others);
  const bool infiniband = device.link_layer == IBV_LINK_LAYER_INFINIBAND;
  for (Gid& gid : device.gids) {
    if (gid.type == kTypeByLink)
      gid.type = static_cast<uint32_t>(infiniband ? GidType::kIb : GidType::kRoceV2);
  }
}

}  // namespace railwise::softdev
