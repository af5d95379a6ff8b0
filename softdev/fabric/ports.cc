#include "softdev/fabric/ports.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "softdev/fabric/joining/unlike_configuration.h"

namespace railwise::softdev {
namespace {

// Finds or makes the record for this GUID. The GUID determines the LID, so that the fabrics of two machines
// have different LIDs. The caller holds the table lock.
uint32_t findOrAdd(Segment& segment, uint64_t guid) {
  const auto first = static_cast<uint32_t>(guid * 0x9e3779b97f4a7c15ULL >> 52);
  static_assert(kMaxPorts == 1U << 12);
  for (uint32_t i = 0; i < kMaxPorts; ++i) {
    const uint32_t index = (first + i) % kMaxPorts;
    const uint64_t seen = segment.ports[index].guid.load(std::memory_order_relaxed);
    if (seen == guid) return index;
    if (seen != 0) continue;
    segment.ports[index].guid.store(guid, std::memory_order_release);
    return index;
  }
  return kMaxPorts;
}

bool inUse(const Segment& segment, uint32_t port) {
  for (uint32_t i = 0; i < segment.contexts_marks.high_water; ++i) {
    const ContextRecord& context = segment.contexts[i];
    if (context.owner.load(std::memory_order_acquire) == 0) continue;
    if (std::find(context.ports, context.ports + context.port_count, port) !=
        context.ports + context.port_count)
      return true;
  }
  return false;
}

// 1 + index of the port that has the clock of a PCIe link: the first other port of this host with the link's
// name. 0: there is no such port.
uint32_t pcieClock(Segment& segment, const PortRecord& port, const std::string& link) {
  if (link.empty()) return 0;
  for (uint32_t i = 0; i < kMaxPorts; ++i) {
    const PortRecord& other = segment.ports[i];
    if (other.guid.load(std::memory_order_relaxed) == 0 || &other == &port) continue;
    if (link == other.pcie_name && std::strcmp(other.host, port.host) == 0)
      return other.pcie_link != 0 ? other.pcie_link : i + 1;
  }
  return 0;
}

template <size_t size>
void copyText(char (&target)[size], const std::string& text) {
  std::snprintf(target, size, "%s", text.c_str());
}

void initialise(Segment& segment, PortRecord& port, const DeviceConfig& config, const std::string& host,
                uint32_t number) {
  const PortConfig& settings = *config.port(number);
  copyText(port.device, config.name);
  copyText(port.host, host);
  copyText(port.pcie_name, config.pcie_link);
  port.number = static_cast<uint8_t>(number);
  port.link_layer = settings.link_layer;
  port.pcie_link = pcieClock(segment, port, config.pcie_link);
  port.pcie_mbps.store(config.pcie_mbps, std::memory_order_relaxed);
  port.speed_mbps.store(settings.speed_mbps, std::memory_order_relaxed);
  port.latency_ns.store(settings.latency_ns, std::memory_order_relaxed);
  port.paced.store(config.paced ? 1 : 0, std::memory_order_relaxed);
  port.state.store(settings.active ? IBV_PORT_ACTIVE : IBV_PORT_DOWN, std::memory_order_relaxed);
  port.iwarp = settings.iwarp ? 1 : 0;
  std::copy(settings.addresses.begin(), settings.addresses.end(), port.addresses);
  port.address_count.store(static_cast<uint32_t>(settings.addresses.size()), std::memory_order_release);
  std::copy(settings.gids.begin(), settings.gids.end(), port.gids);
  const std::vector<Gid>& configured = settings.iwarp ? settings.addresses : settings.gids;
  std::copy(configured.begin(), configured.end(), port.configured);
  port.configured_count = static_cast<uint32_t>(configured.size());
  port.gid_count.store(static_cast<uint32_t>(settings.gids.size()), std::memory_order_release);
  port.out_free_ns.store(0, std::memory_order_relaxed);
  port.in_free_ns.store(0, std::memory_order_relaxed);
  port.pcie_out_free_ns.store(0, std::memory_order_relaxed);
  port.pcie_in_free_ns.store(0, std::memory_order_relaxed);
}

}  // namespace

Status openPort(Fabric& fabric, const DeviceConfig& config, const std::string& host, uint32_t number,
                uint32_t* opened) {
  Segment& segment = *fabric.segment;
  const PortConfig& settings = *config.port(number);
  SharedLockGuard guard(segment.tables, fabric.self);
  const uint32_t index = findOrAdd(segment, settings.guid);
  if (index == kMaxPorts) return {Code::kSystem, ENOMEM};
  RAILWISE_TRY(checkConfiguration(fabric, config, number, index));
  if (!inUse(segment, index)) initialise(segment, segment.ports[index], config, host, number);
  *opened = index;
  return Status::success();
}

bool hasGid(const PortRecord& port, const uint8_t (&raw)[16], uint32_t type) {
  const uint32_t count = std::min(port.gid_count.load(std::memory_order_acquire), kMaxGids);
  return std::any_of(port.gids, port.gids + count, [&](const Gid& gid) {
    return (type == kAnyGidType || gid.type == type) && std::memcmp(gid.raw, raw, sizeof gid.raw) == 0;
  });
}

std::span<const Gid> addressesOf(const PortRecord& port) {
  const bool iwarp = port.iwarp != 0;
  const uint32_t count = (iwarp ? port.address_count : port.gid_count).load(std::memory_order_acquire);
  return {iwarp ? port.addresses : port.gids, std::min(count, kMaxGids)};
}

const PortRecord* findAddress(const Segment& segment, const uint8_t (&raw)[16]) {
  for (const PortRecord& port : segment.ports) {
    if (port.guid.load(std::memory_order_acquire) == 0) continue;
    for (const Gid& address : addressesOf(port)) {
      if (std::memcmp(address.raw, raw, sizeof address.raw) == 0) return &port;
    }
  }
  return nullptr;
}

const PortRecord* findGid(const Segment& segment, const uint8_t (&raw)[16], uint32_t type) {
  for (const PortRecord& port : segment.ports) {
    if (port.guid.load(std::memory_order_acquire) != 0 && hasGid(port, raw, type)) return &port;
  }
  return nullptr;
}

}  // namespace railwise::softdev
