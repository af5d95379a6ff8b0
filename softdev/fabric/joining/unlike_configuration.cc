#include "softdev/fabric/joining/unlike_configuration.h"

#include <arpa/inet.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <span>
#include <string>
#include <string_view>

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

std::string programOf(uint32_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/comm");
  std::string name;
  std::getline(file, name);
  return name;
}

// "4711 (python3)"
std::string processText(const Fabric& fabric, uint32_t token) {
  const uint32_t pid = fabric.segment->processes[slotOf(token)].pid.load(std::memory_order_acquire);
  const std::string name = programOf(pid);
  return std::to_string(pid) + (name.empty() ? "" : " (" + name + ")");
}

// "RAILWISE_DEVICE=software:link=ib"
std::string configurationText(const std::string& text) {
  return std::string("RAILWISE_DEVICE=software") + (text.empty() ? "" : ":" + text);
}

// "process 4711 (python3) made it", or that this process has ended and who is there now.
std::string makerText(const Segment& segment) {
  const MakerRecord& maker = segment.maker;
  const std::string process =
      "process " + std::to_string(maker.pid) + " (" + std::string(maker.program) + ")";
  if (processAlive(static_cast<pid_t>(maker.pid), maker.start_time)) return process + " made it";
  for (const ProcessSlot& slot : segment.processes) {
    const uint32_t pid = slot.pid.load(std::memory_order_acquire);
    if (pid == 0 || !processAlive(static_cast<pid_t>(pid), slot.start_time.load(std::memory_order_relaxed)))
      continue;
    return process + ", which has ended, made it, and process " + std::to_string(pid) + " (" +
           programOf(pid) + ") still uses it,";
  }
  return process + ", which has ended, made it";
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

void noteMaker(Segment& segment, const FabricChoice& choice) {
  constexpr std::string_view kCut = "...";
  MakerRecord& maker = segment.maker;
  maker.pid = static_cast<uint32_t>(getpid());
  maker.start_time = processStartTime(getpid());
  maker.digest = choice.digest;
  std::snprintf(maker.program, sizeof maker.program, "%s", programOf(maker.pid).c_str());
  std::string text = choice.configuration;
  if (text.size() >= sizeof maker.configuration)
    text.replace(sizeof maker.configuration - 1 - kCut.size(), std::string::npos, kCut);
  std::snprintf(maker.configuration, sizeof maker.configuration, "%s", text.c_str());
}

Status checkMaker(const Segment& segment, const FabricChoice& choice) {
  if (choice.named || segment.maker.digest == choice.digest) return Status::success();
  // A process with eight devices is refused eight times, and says so once.
  static std::atomic<uint64_t> told{0};
  if (told.exchange(segment.identity) != segment.identity)
    RAILWISE_WARN(
        "software device: cannot join the fabric %s with %s: %s with %s. Processes that name no fabric meet "
        "only if they have one configuration. Give this one a fabric of its own (RAILWISE_FABRIC=NAME, or "
        "fabric=NAME in RAILWISE_DEVICE=software:fabric=NAME,...), or wait until that process has ended",
        choice.name.c_str(), configurationText(choice.configuration).c_str(), makerText(segment).c_str(),
        configurationText(segment.maker.configuration).c_str());
  return {Code::kSystem, EADDRINUSE};
}

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
          "%s. Let it end first, give both processes one configuration, or give this one a fabric of its own "
          "(RAILWISE_FABRIC=NAME, or fabric=NAME in RAILWISE_DEVICE)",
          config.name.c_str(), processText(fabric, owner).c_str(), name.c_str(), difference.c_str());
      return {Code::kSystem, EADDRINUSE};
    }
  }
  return Status::success();
}

}  // namespace railwise::softdev
