#include "net/wireup/asymmetry.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <set>
#include <span>
#include <utility>

#include "base/log.h"

namespace railwise::net {
namespace {

constexpr const char* kSpeed = "speed";  // refused by another word of RAILWISE_STRICT than the others

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

// The NICs of an end that have one type: their firmware, as far as it is known, and their names.
struct NicType {
  std::set<std::string> firmware;
  std::set<std::string> devices;
};

std::map<std::pair<uint32_t, uint32_t>, NicType> nicTypes(const EndInfo& end) {
  std::map<std::pair<uint32_t, uint32_t>, NicType> types;
  for (const RailInfo& rail : std::span(end.rail, end.rails)) {
    const std::string firmware = fieldText(rail.nic_firmware);
    if (firmware.empty()) continue;
    NicType& type = types[{rail.nic_vendor, rail.nic_part}];
    type.firmware.insert(firmware);
    type.devices.insert(fieldText(rail.device));
  }
  return types;
}

std::string listText(const std::set<std::string>& texts) {
  std::string list;
  for (const std::string& text : texts) list += (list.empty() ? "" : ", ") + text;
  return list;
}

// The first type of NIC that both ends have, with different firmware. NICs of different types have different
// firmware by nature.
void compareFirmware(const EndInfo& here, const EndInfo& there, std::vector<Difference>& found) {
  const auto alike = [](const RailInfo& one, const RailInfo& other) {
    return one.nic_vendor == other.nic_vendor && one.nic_part == other.nic_part &&
           fieldText(one.nic_firmware) == fieldText(other.nic_firmware);
  };
  if (std::equal(here.rail, here.rail + here.rails, there.rail, there.rail + there.rails, alike)) return;
  const auto theirs = nicTypes(there);
  for (const auto& [type, mine] : nicTypes(here)) {
    const auto other = theirs.find(type);
    if (other == theirs.end() || other->second.firmware == mine.firmware) continue;
    const auto at = [](const NicType& nics, const EndInfo& end) {
      return listText(nics.firmware) + " at " + listText(nics.devices) + " of " + fieldText(end.host);
    };
    found.push_back({"NIC firmware", "NIC firmware: " + at(mine, here) + ", " + at(other->second, there) +
                                         ": install the same firmware on NICs of one type"});
    return;
  }
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
  addNumber(kSpeed, common(here, &RailInfo::speed_mbps), common(there, &RailInfo::speed_mbps), " Mb/s",
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
  const std::string driver = fieldText(here.gpu_driver);
  const std::string its_driver = fieldText(there.gpu_driver);
  if (!driver.empty() && !its_driver.empty() && driver != its_driver)
    add("GPU driver", driver, its_driver, "install the same GPU driver on every node");
  compareFirmware(here, there, found);
  return found;
}

std::string refusedDifference(const StrictMode& strict, const EndInfo& here, const EndInfo& there) {
  if (!strict.speed && !strict.version) return "";
  for (const Difference& difference : compareEnds(here, there)) {
    const bool of_speed = std::string_view(difference.kind) == kSpeed;
    if (of_speed ? !strict.speed : !strict.version) continue;
    return "the ends differ in " + difference.text + " (or a RAILWISE_STRICT without " +
           (of_speed ? "speed" : "version") + " lets the job run so)";
  }
  return "";
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
