#include "doctor/pair/measuring/facts.h"

#include <algorithm>

namespace railwise::doctor::pair {
namespace {

constexpr double kMbpsPerGbyte = 8000;

}  // namespace

const char* linkName(LinkKind link) {
  static constexpr const char* kNames[] = {"another link", "InfiniBand", "RoCE", "iWARP"};
  return kNames[static_cast<int>(link)];
}

std::string gidTypeText(const verbs::Gid& gid) {
  if (gid.roce_version == 0) return "IB";
  const char* const family = verbs::isIpv4(gid.value)        ? "IPv4"
                             : verbs::isLinkLocal(gid.value) ? "link-local"
                                                             : "IPv6";
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
