#include "net/paths/offer.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <string>

#include "base/log.h"
#include "net/wireup/resumer.h"

namespace railwise::net {
namespace {

// ECE vendor 0 means "no ECE".
void setEce(QueuePairInfo& info, const std::optional<verbs::Ece>& ece) {
  if (!ece) return;
  info.ece_vendor = ece->vendor;
  info.ece_options = ece->options;
  info.ece_mask = ece->comp_mask;
}

bool addGids(const verbs::GidList& gids, RailInfo& info) {
  for (const verbs::Gid& gid : gids) {
    std::memcpy(info.gids[info.gid_count], gid.value.raw, sizeof gid.value.raw);
    info.gid_versions[info.gid_count] = static_cast<uint8_t>(gid.roce_version);
    info.gid_index[info.gid_count++] = static_cast<uint8_t>(gid.index);
  }
  return !gids.empty();
}

RailInfo describeRail(const Rail& rail, int mbps) {
  RailInfo info = {};
  const verbs::Port now = rail.hca->state().port(rail.port.number).value_or(rail.port);
  info.lid = now.lid;
  info.link_layer = rail.port.iwarp      ? LinkLayer::kIwarp
                    : rail.port.ethernet ? LinkLayer::kRoce
                                         : LinkLayer::kInfiniBand;
  info.mtu = static_cast<uint8_t>(now.mtu);
  info.port = rail.port.number;
  info.rail = static_cast<int16_t>(rail.rail);
  info.plane = static_cast<int16_t>(rail.plane);
  info.speed_mbps = static_cast<uint32_t>(std::max(mbps, 1));
  info.max_request_bytes = rail.port.max_message_bytes;
  copyText(info.device, rail.name);
  const ibv_device_attr& nic = rail.hca->attributes();
  info.nic_vendor = nic.vendor_id;
  info.nic_part = nic.vendor_part_id;
  copyText(info.nic_firmware, fieldText(nic.fw_ver));
  info.reads = verbs::readsAtOnce(nic);
  return info;
}

Status describeRails(const OfferingEnd& own, const std::vector<Rail>& rails, const Window& window,
                     EndInfo& end) {
  const bool may_begin_lost = own.options.config.failover != 0;
  bool any = false;
  Status failed;
  end.rails = static_cast<uint8_t>(rails.size());
  for (std::size_t i = 0; i < rails.size(); ++i) {
    const Rail& rail = rails[i];
    RailInfo& info = end.rail[i];
    info = describeRail(rail, own.options.rail_mbps[i]);
    // Nobody can reach a port that is down or has no address. The connection uses the other ports.
    if (!rail.usable()) {
      RAILWISE_INFO(log::kNet, "%s: port %u is down, or its driver does not answer: left out of a connection",
                    rail.name, rail.port.number);
      continue;
    }
    if (const Result<MemoryKeys> keys = windowKeysOn(own.device, window, rail); keys.ok())
      info.window_key = keys->remote;
    const Result<verbs::GidList> gids = own.joiner.addressesOf(rail);
    const bool has_any = gids.ok() && !gids->empty();
    if (!has_any && may_begin_lost && rail.gids->wasUsable()) {
      RAILWISE_INFO(log::kNet, "%s: port %u has no address any more: left out of a connection", rail.name,
                    rail.port.number);
      continue;
    }
    if (!gids.ok()) {
      failed = gids.status();
      continue;
    }
    if (has_any) rail.gids->noteUsable();
    if (own.joiner.needsCall() && !has_any) {
      RAILWISE_WARN(
          "%s port %u: RDMA CM finds no address of it: give its network interface an IP address, in the "
          "network namespace of this process",
          rail.hca->name(), rail.port.number);
      failed = {Code::kInvalidUsage, 0};
    }
    any = addGids(*gids, info) || any;
  }
  if (any || (failed.ok() && may_begin_lost)) return Status::success();
  if (failed.ok()) RAILWISE_WARN("%s: every port is down: check the cables and `ibstat`", own.device.name());
  return failed.ok() ? Status{Code::kSystem, ENETDOWN} : failed;
}

// A standby rail must reach GPU memory in every way in which the connection's own rails do: NCCL has
// registered memory for what the device offers.
bool reachesGpuMemory(const Device& device, const Rail& rail) {
  const int wanted = device.properties().pointer_support;
  return (rail.pointer_support & wanted) == wanted;
}

}  // namespace

bool offersOutOfOrder(const Device& device, const Config& config) {
  return std::all_of(device.rails().begin(), device.rails().end(), [&](const Rail& rail) {
    return verbs::outOfOrderReceives(rail.hca->context(), config) >= kPostedReceives;
  });
}

bool railsWork(const std::vector<Rail>& rails) {
  const auto fails = [](const Rail& rail) { return rail.hca->state().fatal() || !rail.hca->answers(); };
  const auto active = [](const Rail& rail) { return rail.hca->state().active(rail.port.number); };
  return std::none_of(rails.begin(), rails.end(), fails) && std::any_of(rails.begin(), rails.end(), active);
}

std::vector<Rail> usableRails(const OfferingEnd& own, int* native) {
  std::vector<Rail> usable;
  const auto add = [&](const Rail& rail) {
    if (usable.size() == std::size_t{kMaxRails} || !rail.usable()) return;
    const Result<verbs::GidList> gids = own.joiner.addressesOf(rail);
    if (gids.ok() && !gids->empty()) usable.push_back(rail);
  };
  for (const Rail& rail : own.device.rails()) add(rail.now());
  *native = static_cast<int>(usable.size());
  for (const Rail& first : own.options.standbys) {
    const Rail rail = first.now();
    // The two queue pairs of a connection must agree on whether messages may come out of order.
    const bool in_order =
        !own.out_of_order ||
        verbs::outOfOrderReceives(rail.hca->context(), own.options.config) >= kPostedReceives;
    if (in_order && reachesGpuMemory(own.device, rail)) add(rail);
  }
  return usable;
}

Status describe(const OfferingEnd& own, const std::vector<Rail>& rails, const Window& window, EndInfo& end) {
  const Config& config = own.options.config;
  end = {};
  copyText(end.host, own.options.local_host);
  const auto fabric_identity = verbs::library().fabric_identity;
  end.fabric = fabric_identity != nullptr ? fabric_identity(rails.front().hca->context()) : 0;
  end.window_address = window.address();
  // The settings come first, then the communicator's traffic class (net_ib's rule). A service level has four
  // bits.
  const int communicator = std::max(own.options.traffic_class, 0);
  end.service_level =
      static_cast<uint8_t>(config.ib_service_level >= 0 ? config.ib_service_level : communicator & 0xf);
  end.traffic_class =
      static_cast<uint8_t>(config.ib_traffic_class >= 0 ? config.ib_traffic_class : communicator);
  end.connection_manager = own.joiner.needsCall() ? 1 : 0;
  end.failover = config.failover != 0 ? 1 : 0;
  end.devices = static_cast<uint8_t>(std::min(own.options.devices, 255));
  end.resume_port = own.options.resumer != nullptr ? own.options.resumer->port() : 0;
  end.user_word = own.options.user_word;
  copyText(end.version, RAILWISE_VERSION);
  copyText(end.gpu_driver, own.options.gpu_driver);
  return describeRails(own, rails, window, end);
}

void describeQueuePairs(const Endpoint& endpoint, const Config& config, EndInfo& end) {
  const auto made = [](const LaneQueuePair& queue_pair) { return queue_pair.qp != nullptr; };
  end.queue_pairs = end.lanes = 0;
  if (std::none_of(endpoint.queue_pairs.begin(), endpoint.queue_pairs.end(), made) || !anyReachable(end))
    return;
  end.queue_pairs = static_cast<uint8_t>(endpoint.queue_pairs.size());
  end.lanes = static_cast<uint8_t>(endpoint.lanes.size());
  for (std::size_t i = 0; i < endpoint.queue_pairs.size(); ++i) {
    QueuePairInfo& info = end.queue_pair[i];
    info.number = endpoint.queue_pairs[i].qp->qp_num;
    info.rail = endpoint.queue_pairs[i].rail;
  }
  describeEce(endpoint, config, end);
}

void describeEce(const Endpoint& endpoint, const Config& config, EndInfo& end) {
  for (std::size_t i = 0; i < endpoint.queue_pairs.size(); ++i) {
    QueuePairInfo& info = end.queue_pair[i];
    info.ece_vendor = info.ece_options = info.ece_mask = 0;
    if (endpoint.queue_pairs[i].rest->used) setEce(info, verbs::queryEce(endpoint.queue_pairs[i].qp, config));
  }
}

EndInfo describeOffer(const OfferingEnd& own, const std::vector<Rail>& rails, const EndInfo& end) {
  EndInfo offer = end;
  std::memset(offer.rail, 0, sizeof offer.rail);
  std::memset(offer.queue_pair, 0, sizeof offer.queue_pair);
  offer.queue_pairs = offer.lanes = 0;
  offer.rails = static_cast<uint8_t>(rails.size());
  for (std::size_t i = 0; i < rails.size(); ++i) {
    const verbs::Port now = rails[i].hca->state().port(rails[i].port.number).value_or(rails[i].port);
    offer.rail[i] = describeRail(rails[i], now.speed_mbps);
    const Result<verbs::GidList> gids = own.joiner.addressesOf(rails[i]);
    if (gids.ok()) addGids(*gids, offer.rail[i]);
  }
  return offer;
}

void describeEpoch(const OfferingEnd& own, const std::vector<Rail>& rails, const Window& window,
                   EndInfo& end) {
  end = describeOffer(own, rails, end);
  for (std::size_t i = 0; i < rails.size(); ++i) {
    const Result<MemoryKeys> keys = windowKeysOn(own.device, window, rails[i]);
    end.rail[i].window_key = keys.ok() ? keys->remote : 0;
  }
}

Result<MemoryKeys> windowKeysOn(const Device& device, const Window& window, const Rail& rail) {
  if (const int own = placeOfKeys(rail, device.rails()); own >= 0) {
    const auto place = static_cast<std::size_t>(own);
    const MemoryKeys keys = {window.localKey(place), window.remoteKey(place)};
    if (keys.local != 0 || keys.remote != 0) return keys;
  }
  return window.keysOn(rail.hca->pd());
}

Result<MemoryKeys> keysOn(const Device& device, const MemoryHandle& memory, const Rail& rail) {
  if (const int own = placeOfKeys(rail, device.rails()); own >= 0)
    return memory.keys[static_cast<std::size_t>(own)].both();
  return device.memory().keysOn(memory, rail.hca->pd(), rail.data_direct);
}

Result<MemoryKeys> keysOf(const Device& device, const Endpoint& endpoint, const MemoryHandle& memory,
                          uint8_t rail) {
  const int8_t native = endpoint.native_rail[rail];
  if (native >= 0) return memory.keys[static_cast<std::size_t>(native)].both();
  return keysOn(device, memory, endpoint.rails[rail]);
}

}  // namespace railwise::net
