#include "softdev/config/values.h"

#include <arpa/inet.h>
#include <endian.h>

#include <algorithm>
#include <charconv>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <span>

#include "base/nic_drivers.h"
#include "base/pci.h"
#include "base/text/text_layout.h"

namespace railwise::softdev {
namespace {

struct Rate {
  uint32_t mbps;
  uint16_t code;
};

// Lane speeds whose code fits the 8-bit active_speed of ibv_port_attr. XDR's code does not fit.
constexpr Rate kLanes[] = {{2500, 1},   {5000, 2},   {10000, 4},   {14000, 16},
                           {25000, 32}, {50000, 64}, {100000, 128}};
constexpr Rate kXdr[] = {{200000, 256}};
struct Width {
  uint32_t lanes;
  uint8_t code;
};
constexpr Width kWidths[] = {{4, 2}, {1, 1}, {2, 16}, {8, 4}, {12, 8}};  // the most common width first

bool findCodes(std::span<const Rate> rates, uint32_t mbps, uint32_t lanes, uint8_t* width, uint16_t* speed) {
  for (const Width& candidate : kWidths) {
    if (lanes != 0 && candidate.lanes != lanes) continue;
    for (const Rate& lane : rates) {
      if (candidate.lanes * lane.mbps != mbps) continue;
      *width = candidate.code;
      *speed = lane.code;
      return true;
    }
  }
  return false;
}

std::string lowerCase(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return lower;
}

// "0000:16:01.0/17:00.0/0000:18:04.0" -> a path below /sys/devices/pci0000:16. Addresses after the first may
// omit the domain.
bool parsePciSteps(std::string_view text, std::string* path) {
  std::string domain;
  std::string steps;
  while (true) {
    const size_t slash = std::min(text.find('/'), text.size());
    std::string step(text.substr(0, slash));
    if (!domain.empty() && step.size() == 7) step.insert(0, domain);
    if (!isBusId(step)) return false;
    if (domain.empty()) {
      domain = step.substr(0, 5);
      steps = "/sys/devices/pci" + step.substr(0, 7);
    }
    steps.append("/").append(step);
    if (slash == text.size()) break;
    text.remove_prefix(slash + 1);
  }
  *path = steps;
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

bool parseNumber64(std::string_view text, uint64_t* number) {
  const int base = text.starts_with("0x") ? 16 : 10;
  if (base == 16) text.remove_prefix(2);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *number, base);
  return !text.empty() && error == std::errc() && end == text.data() + text.size();
}

bool parseSmall(std::string_view text, int32_t high, int32_t* number) {
  uint32_t value = 0;
  if (!parseNumber(text, 0, static_cast<uint32_t>(high), &value)) return false;
  *number = static_cast<int32_t>(value);
  return true;
}

bool parseHex16(std::string_view text, uint32_t* number) {
  uint64_t value = 0;
  if (!text.starts_with("0x") || text.size() != 6 || !parseNumber64(text, &value)) return false;
  *number = static_cast<uint32_t>(value);
  return value != 0;
}

bool parseOnOff(std::string_view text, bool* value) {
  *value = text == "on";
  return text == "on" || text == "off";
}

bool parseName(std::string_view text, size_t max_length, std::string* name) {
  const auto allowed = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-' || c == '.';
  };
  *name = text;
  return !text.empty() && text.size() <= max_length && std::all_of(text.begin(), text.end(), allowed);
}

bool parseLink(std::string_view text, uint8_t* link_layer, bool* iwarp) {
  const bool infiniband = text == "ib" || text == "infiniband";
  *link_layer = infiniband ? IBV_LINK_LAYER_INFINIBAND : IBV_LINK_LAYER_ETHERNET;
  *iwarp = text == "iwarp";
  return infiniband || *iwarp || text == "roce" || text == "ethernet";
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
  gid.type = kGidTypeByLink;
  if (type == "/ib") gid.type = static_cast<uint32_t>(GidType::kIb);
  if (type == "/v1") gid.type = static_cast<uint32_t>(GidType::kRoceV1);
  if (type == "/v2") gid.type = static_cast<uint32_t>(GidType::kRoceV2);
  if (!type.empty() && gid.type == kGidTypeByLink) return false;
  if (inet_pton(AF_INET, address.c_str(), gid.raw + 12) == 1) {
    gid.raw[10] = gid.raw[11] = 0xff;
  } else if (inet_pton(AF_INET6, address.c_str(), gid.raw) != 1) {
    return false;
  }
  gids->push_back(gid);
  return true;
}

bool parsePci(std::string_view text, bool here, std::string* path) {
  constexpr size_t kLongest = 512;
  if (text.size() > kLongest) return false;
  if (text.starts_with("/sys/")) {
    *path = text;
    return text.find("/../") == std::string_view::npos && !text.ends_with("/..");
  }
  const std::string lower = lowerCase(text);
  if (!here || !isBusId(lower)) return parsePciSteps(lower, path);
  *path = "/sys/bus/pci/devices/" + lower;
  char real[PATH_MAX];
  if (realpath(path->c_str(), real) != nullptr) *path = real;
  return true;
}

bool parsePcie(std::string_view text, PciConfig* pci) {
  const size_t x = text.find('x');
  if (x == std::string_view::npos) {
    pci->pcie_gen = pci->pcie_lanes = 0;
    return parseNumber(text, 1, UINT32_MAX, &pci->pcie_mbps);
  }
  uint32_t gen = 0;
  uint32_t lanes = 0;
  if (!parseNumber(text.substr(0, x), 1, kPcieGenerations.size(), &gen) ||
      !parseNumber(text.substr(x + 1), 1, 32, &lanes))
    return false;
  if ((lanes & (lanes - 1)) != 0) return false;
  pci->pcie_gen = gen;
  pci->pcie_lanes = lanes;
  pci->pcie_mbps = kPcieGenerations[gen - 1].lane_mbps * lanes;
  return true;
}

bool parseNvlink(std::string_view text, NvlinkConfig* link) {
  const size_t colon = std::min(text.rfind(':'), text.size());
  link->target = lowerCase(text.substr(0, colon));
  if (link->target != kAnyNvswitch && !isBusId(link->target)) return false;
  return parseNumber(text.substr(std::min(colon + 1, text.size())), 1, kMaxNvlinks, &link->count);
}

bool parseMover(std::string_view text, MoverChoice* mover) {
  for (const MoverChoice choice :
       {MoverChoice::kAuto, MoverChoice::kVm, MoverChoice::kMem, MoverChoice::kRemap, MoverChoice::kAgent}) {
    *mover = choice;
    if (text == moverName(choice)) return true;
  }
  return false;
}

bool parseGpuDirect(std::string_view text, GpuDirectChoice* choice) {
  for (const GpuDirectChoice each :
       {GpuDirectChoice::kOff, GpuDirectChoice::kPeermem, GpuDirectChoice::kDmabuf, GpuDirectChoice::kOn}) {
    *choice = each;
    if (text == gpuDirectName(each)) return true;
  }
  return false;
}

bool parseCpu(std::string_view text, std::string* cpu) {
  if (text == "arm64" || text == "ppc64") {
    *cpu = text;
    return true;
  }
  const size_t slashes = static_cast<size_t>(std::count(text.begin(), text.end(), '/'));
  if (!text.starts_with("x86_64/") || slashes != 3) return false;
  const size_t model = text.rfind('/');
  const size_t family = text.rfind('/', model - 1);
  uint32_t number = 0;
  std::string vendor;
  if (!parseName(text.substr(7, family - std::min<size_t>(family, 7)), 32, &vendor)) return false;
  if (!parseNumber(text.substr(family + 1, model - family - 1), 0, 4095, &number)) return false;
  if (!parseNumber(text.substr(model + 1), 0, 4095, &number)) return false;
  *cpu = text;
  std::replace(cpu->begin(), cpu->end(), '/', ',');
  return true;
}

bool isBusId(std::string_view text) {
  constexpr std::string_view kShape = "hhhh:hh:hh.h";
  if (text.size() != kShape.size()) return false;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool digit = std::isxdigit(static_cast<unsigned char>(text[i])) != 0;
    if (kShape[i] == 'h' ? !digit : text[i] != kShape[i]) return false;
  }
  return true;
}

std::string PciConfig::busid() const {
  const std::string last = pci.substr(pci.rfind('/') + 1);
  return isBusId(last) ? last : "";
}

uint32_t GpuConfig::nvlinkCount() const {
  uint32_t count = 0;
  for (const NvlinkConfig& link : nvlinks) count += link.count;
  return count;
}

const std::string& GpuConfig::nvlinkTarget(uint32_t link) const {
  size_t at = 0;
  while (link >= nvlinks[at].count) link -= nvlinks[at++].count;
  return nvlinks[at].target;
}

bool speedCodes(uint32_t mbps, uint32_t lanes, uint8_t* width, uint16_t* speed) {
  return findCodes(kLanes, mbps, lanes, width, speed) || findCodes(kXdr, mbps, lanes, width, speed);
}

const char* gpuDirectName(GpuDirectChoice choice) {
  switch (choice) {
    case GpuDirectChoice::kPeermem:
      return "peermem";
    case GpuDirectChoice::kDmabuf:
      return "dmabuf";
    case GpuDirectChoice::kOn:
      return "on";
    default:
      return "off";
  }
}

const char* moverName(MoverChoice mover) {
  switch (mover) {
    case MoverChoice::kVm:
      return "vm";
    case MoverChoice::kMem:
      return "mem";
    case MoverChoice::kRemap:
      return "remap";
    case MoverChoice::kAgent:
      return "agent";
    default:
      return "auto";
  }
}

std::string sysGuidText(uint64_t guid) {
  const auto group = [&](int shift) { return static_cast<unsigned>(guid >> shift & 0xffff); };
  return formatText("%04x:%04x:%04x:%04x", group(48), group(32), group(16), group(0));
}

std::string sysGidText(const uint8_t* raw) {
  uint64_t halves[2];
  std::memcpy(halves, raw, sizeof halves);
  return sysGuidText(be64toh(halves[0])) + ":" + sysGuidText(be64toh(halves[1]));
}

bool makeLike(std::string_view driver, DeviceConfig& device) {
  const auto* const found = std::ranges::find(kNicDrivers, driver, &NicDriver::name);
  if (found == std::end(kNicDrivers) || found->limits.part == 0) return false;
  device.vendor_id = pci::numberOf(found->vendor);
  device.part_id = found->limits.part;
  device.hca_type = found->name;
  device.max_sge = found->limits.max_sge;
  device.max_inline_bytes = found->limits.max_inline_bytes;
  device.atomics = found->limits.atomics;
  device.ece = false;
  return true;
}

}  // namespace railwise::softdev
