#include "doctor/pair/measuring/facts.h"

#include <algorithm>

namespace railwise::doctor::pair {
namespace {

bool mappedIpv4(const GidFacts& gid) {
  return std::all_of(gid.value.begin(), gid.value.begin() + 10, [](uint8_t byte) { return byte == 0; }) &&
         gid.value[10] == 0xff && gid.value[11] == 0xff;
}

constexpr double kMbpsPerGbyte = 8000;

}  // namespace

const char* linkName(LinkKind link) {
  switch (link) {
    case LinkKind::kInfiniBand:
      return "InfiniBand";
    case LinkKind::kRoce:
      return "RoCE";
    case LinkKind::kIwarp:
      return "iWARP";
    case LinkKind::kOther:
      break;
  }
  return "another link";
}

std::string gidTypeText(const GidFacts& gid) {
  if (gid.roce_version == 0) return "IB";
  const bool link_local = gid.value[0] == 0xfe && gid.value[1] == 0x80;
  const char* const family = mappedIpv4(gid) ? "IPv4" : link_local ? "link-local" : "IPv6";
  return "RoCE v" + std::to_string(gid.roce_version) + " " + family;
}

std::string nicName(const NicFacts& nic) {
  return nic.port == 1 ? nic.device : nic.device + " port " + std::to_string(nic.port);
}

double allowedGbytes(const NicFacts& nic) {
  const uint32_t mbps = nic.pcie_mbps == 0    ? nic.speed_mbps
                        : nic.speed_mbps == 0 ? nic.pcie_mbps
                                              : std::min(nic.speed_mbps, nic.pcie_mbps);
  return mbps / kMbpsPerGbyte;
}

}  // namespace railwise::doctor::pair
