#include "net/wireup/asymmetry.h"

#include <algorithm>
#include <mutex>
#include <set>

#include "base/log.h"

namespace railwise::net {
namespace {

// The value that all rails with an address share, else -1.
template <typename Field>
int64_t common(const EndInfo& end, Field RailInfo::*field) {
  int64_t value = -1;
  for (int i = 0; i < end.rails; ++i) {
    if (!reachable(end.rail[i])) continue;
    const auto its = static_cast<int64_t>(end.rail[i].*field);
    if (value >= 0 && its != value) return -1;
    value = its;
  }
  return value;
}

std::string named(const EndInfo& end) {
  return fieldText(end.rail[0].device) + (end.rails > 1 ? " ..." : "") + " of " + fieldText(end.host);
}

}  // namespace

std::vector<Difference> compareEnds(const EndInfo& here, const EndInfo& there) {
  std::vector<Difference> found;
  const auto add = [&](const char* kind, const std::string& mine, const std::string& its,
                       const char* advice) {
    found.push_back({kind, std::string(kind) + ": " + mine + " at " + named(here) + ", " + its + " at " +
                               named(there) + ": " + advice});
  };
  const auto addNumber = [&](const char* kind, int64_t mine, int64_t its, const char* unit,
                             const char* advice) {
    if (mine < 0 || its < 0 || mine == its) return;
    add(kind, std::to_string(mine) + unit, std::to_string(its) + unit, advice);
  };
  const std::string version = fieldText(here.version);
  const std::string its_version = fieldText(there.version);
  if (version != its_version)
    add("Railwise version", version, its_version, "install the same Railwise on every node");
  const auto mtu = [](const EndInfo& end) {
    const int64_t code = common(end, &RailInfo::mtu);
    return code < 0 ? int64_t{-1} : int64_t{128} << code;
  };
  addNumber("MTU", mtu(here), mtu(there), " bytes",
            "packets have the smaller one; set the same MTU on the interfaces of both ends and on the switch "
            "ports");
  addNumber("speed", common(here, &RailInfo::speed_mbps), common(there, &RailInfo::speed_mbps), " Mb/s",
            "the slower end decides; check the link with `ibstat` or `ethtool`");
  addNumber("plane", common(here, &RailInfo::plane), common(there, &RailInfo::plane), "",
            "traffic crosses planes; check NCCL_IB_HCA at both ends");
  addNumber("rails of a device", here.rails, there.rails, "",
            "check NCCL_IB_MERGE_NICS and NCCL_NET_MERGE_LEVEL, and that no NIC is missing");
  addNumber("devices", here.devices, there.devices, "",
            "check NCCL_IB_HCA, and that no NIC is missing or down");
  if (here.failover != there.failover)
    add("RAILWISE_FAILOVER", std::to_string(here.failover), std::to_string(there.failover),
        "the connection fails where it could go on; set it alike on every node");
  return found;
}

void warnOfDifferences(const EndInfo& here, const EndInfo& there) {
  static std::mutex mutex;
  static auto& said = *new std::set<std::string>;  // never destroyed: NCCL's threads may still run at exit
  for (const Difference& difference : compareEnds(here, there)) {
    const std::lock_guard lock(mutex);
    if (said.insert(difference.kind).second)
      RAILWISE_WARN("the two ends of a connection differ in %s (said once)", difference.text.c_str());
  }
}

}  // namespace railwise::net
