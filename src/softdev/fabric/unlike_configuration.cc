#include "softdev/fabric/unlike_configuration.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <span>
#include <string>

#include "base/log.h"

namespace railwise::softdev {
namespace {

bool isIpv4(const Gid& gid) {
  constexpr uint8_t kMapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  return std::memcmp(gid.raw, kMapped, sizeof kMapped) == 0;
}

std::string addressText(const Gid& gid) {
  char text[INET6_ADDRSTRLEN] = "";
  const bool ipv4 = isIpv4(gid);
  inet_ntop(ipv4 ? AF_INET : AF_INET6, gid.raw + (ipv4 ? 12 : 0), text, sizeof text);
  return text;
}

// "RoCE with 10.66.0.1 and fe80::1"
std::string portText(uint32_t link_layer, bool iwarp, std::span<const Gid> addresses) {
  std::string text = iwarp ? "iWARP" : link_layer == IBV_LINK_LAYER_INFINIBAND ? "InfiniBand" : "RoCE";
  std::string last;
  for (const Gid& gid : addresses) {
    const std::string address = addressText(gid);
    if (address == last) continue;  // a RoCE port has each address in two versions
    text += (last.empty() ? " with " : ", ") + address;
    last = address;
  }
  return text;
}

bool sameGids(std::span<const Gid> one, std::span<const Gid> other) {
  return std::equal(one.begin(), one.end(), other.begin(), other.end(), [](const Gid& a, const Gid& b) {
    return a.type == b.type && std::memcmp(a.raw, b.raw, sizeof a.raw) == 0;
  });
}

// The last component of "railwise/1000/4026531836/default/".
std::string nameOf(const Fabric& fabric) {
  const std::string prefix = fabric.prefix.substr(0, fabric.prefix.size() - 1);
  return prefix.substr(prefix.rfind('/') + 1);
}

// "4711 (python3)"
std::string processText(const Fabric& fabric, uint32_t token) {
  const uint32_t pid = fabric.segment->processes[slotOf(token)].pid.load(std::memory_order_acquire);
  std::ifstream file("/proc/" + std::to_string(pid) + "/comm");
  std::string name;
  std::getline(file, name);
  return std::to_string(pid) + (name.empty() ? "" : " (" + name + ")");
}

std::string placeText(const PortRecord& port) {
  return std::string(port.device) + " port " + std::to_string(port.number) + " of host " + port.host;
}

// How `other`, the record of the port with our GUID, differs from our port. "": it does not.
std::string differenceOfPort(const PortRecord& other, const PortConfig& ours,
                             std::span<const Gid> addresses) {
  const std::span<const Gid> theirs(other.configured, std::min(other.configured_count, kMaxGids));
  if (other.link_layer == ours.link_layer && (other.iwarp != 0) == ours.iwarp && sameGids(theirs, addresses))
    return "";
  return "its " + placeText(other) + " is " + portText(other.link_layer, other.iwarp != 0, theirs) +
         ", and ours is " + portText(ours.link_layer, ours.iwarp, addresses);
}

// An address of ours that `other`, a port of another device, has too. "": there is none.
std::string sharedAddress(const PortRecord& other, const DeviceConfig& config, uint32_t number,
                          std::span<const Gid> addresses) {
  const std::span<const Gid> theirs(other.configured, std::min(other.configured_count, kMaxGids));
  for (const Gid& gid : addresses) {
    if (std::none_of(theirs.begin(), theirs.end(),
                     [&](const Gid& its) { return std::memcmp(its.raw, gid.raw, sizeof gid.raw) == 0; }))
      continue;
    return "its " + placeText(other) + " has the address " + addressText(gid) + " of our " + config.name +
           " port " + std::to_string(number);
  }
  return "";
}

}  // namespace

Status checkConfiguration(const Fabric& fabric, const DeviceConfig& config, uint32_t number, uint32_t index) {
  const Segment& segment = *fabric.segment;
  const PortConfig& ours = *config.port(number);
  const std::span<const Gid> addresses = ours.iwarp ? ours.addresses : ours.gids;
  for (uint32_t i = 0; i < segment.contexts_marks.high_water; ++i) {
    const ContextRecord& context = segment.contexts[i];
    const uint32_t owner = context.owner.load(std::memory_order_acquire);
    if (owner == 0 || owner == fabric.self.token) continue;
    for (uint32_t p = 0; p < context.port_count; ++p) {
      const PortRecord& other = segment.ports[context.ports[p]];
      const std::string difference = context.ports[p] == index
                                         ? differenceOfPort(other, ours, addresses)
                                         : sharedAddress(other, config, number, addresses);
      if (difference.empty() || !tokenAlive(fabric.self, owner)) continue;
      const std::string name = nameOf(fabric);
      RAILWISE_WARN(
          "software device: %s cannot be opened: process %s uses the fabric %s with another configuration: "
          "%s. "
          "Let it end first, give both processes one configuration, or give this one a fabric of its own "
          "(RAILWISE_FABRIC=NAME, or fabric=NAME in RAILWISE_DEVICE)",
          config.name.c_str(), processText(fabric, owner).c_str(), name.c_str(), difference.c_str());
      return {Code::kSystem, EADDRINUSE};
    }
  }
  return Status::success();
}

}  // namespace railwise::softdev
