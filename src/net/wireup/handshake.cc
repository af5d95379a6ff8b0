#include "net/wireup/handshake.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "base/process.h"

namespace railwise::net {
namespace {

bool terminated(std::span<const char> field) {
  return std::find(field.begin(), field.end(), '\0') != field.end();
}

constexpr uint32_t kMaxQpNumber = 0xffffff;

}  // namespace

namespace {

constexpr uint8_t kMappedPrefix[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

}  // namespace

std::vector<SocketAddress> handleAddresses(const ListenHandle& handle) {
  std::vector<SocketAddress> addresses;
  if (handle.candidates > kCandidates || handle.port == 0) return addresses;
  for (int i = 0; i < handle.candidates; ++i) {
    const HandleAddress& candidate = handle.addresses[i];
    const bool v4 = std::memcmp(candidate.bytes, kMappedPrefix, sizeof kMappedPrefix) == 0;
    const std::span<const uint8_t> bytes(candidate.bytes);
    addresses.emplace_back(v4 ? AF_INET : AF_INET6, v4 ? bytes.subspan(12) : bytes, handle.port,
                           candidate.scope_id);
  }
  return addresses;
}

void setHandleAddresses(ListenHandle& handle, std::span<const SocketAddress> addresses, uint16_t port) {
  handle.port = port;
  handle.candidates = static_cast<uint8_t>(std::min<std::size_t>(addresses.size(), kCandidates));
  for (int i = 0; i < handle.candidates; ++i) {
    const std::span<const uint8_t> bytes = addresses[static_cast<std::size_t>(i)].bytes();
    HandleAddress& candidate = handle.addresses[i];
    std::memcpy(candidate.bytes, kMappedPrefix, sizeof kMappedPrefix);
    std::copy(bytes.begin(), bytes.end(), candidate.bytes + (bytes.size() == 4 ? 12 : 0));
    candidate.scope_id = addresses[static_cast<std::size_t>(i)].scopeId();
  }
}

// Before 16 a handle has one version, and the host's name where the newest one stands now.
static uint16_t newestOf(const ListenHandle& handle) {
  constexpr uint16_t kFirstWithTwo = 16;
  return handle.oldest_version < kFirstWithTwo ? handle.oldest_version
                                               : std::max(handle.oldest_version, handle.newest_version);
}

std::string checkHandle(const ListenHandle& handle, ListenerKind expected) {
  if (handle.magic != kMagic) {
    return "the peer's handle is not Railwise's: that rank runs another network plugin. Set "
           "NCCL_NET_PLUGIN=railwise "
           "(and NCCL_NET=Railwise, which makes a failing plugin an error) on every node";
  }
  const std::string host = fieldText(handle.host);
  if (std::string mismatch =
          protocolMismatch({handle.oldest_version, newestOf(handle)}, host.empty() ? "the peer" : host);
      !mismatch.empty())
    return mismatch;
  if (handle.newest_version < handle.oldest_version || handleAddresses(handle).empty() ||
      !terminated(handle.host) || handle.rails < 1 || handle.rails > kMaxRails) {
    return "the peer's handle is damaged";
  }
  if (handle.kind == expected) return {};
  switch (handle.kind) {
    case ListenerKind::kMessages:
      return "the handle is of a listener for messages, not for one-sided communication";
    case ListenerKind::kOneSided:
      return "the handle is of a listener for one-sided communication, not for messages";
  }
  return "the peer's handle is damaged";
}

std::string checkHeader(const MessageHeader& header, MessageType type, std::size_t bytes) {
  if (header.magic != kMagic) return "the other side does not run Railwise";
  if (header.type != type || header.bytes != bytes) return "the other side sent a message out of turn";
  return {};
}

static std::string checkRail(const RailInfo& rail) {
  if (!terminated(rail.device) || !terminated(rail.nic_firmware)) return "a name without end";
  if (rail.link_layer < LinkLayer::kInfiniBand || rail.link_layer > LinkLayer::kIwarp)
    return "an unknown link layer";
  if (rail.mtu < IBV_MTU_256 || rail.mtu > IBV_MTU_4096) return "an unknown MTU";
  if (rail.max_request_bytes < kCutAlignment) return "an impossible message limit";
  if (rail.gid_count > kRailGids) return "an impossible number of GIDs";
  return {};
}

std::string checkRails(const EndInfo& end) {
  if (!terminated(end.host) || !terminated(end.version) || !terminated(end.gpu_driver))
    return "a name without end";
  if (end.rails > kMaxRails) return "an impossible number of rails";
  for (int i = 0; i < end.rails; ++i) {
    if (std::string problem = checkRail(end.rail[i]); !problem.empty()) return problem;
    if (end.rail[i].link_layer != end.rail[0].link_layer) return "rails of different link layers";
  }
  return {};
}

static std::string checkOutline(const EndInfo& end) {
  if (std::string problem = checkRails(end); !problem.empty()) return problem;
  if (end.rails < 1) return "an impossible number of rails";
  if (end.window_address == 0) return "no window";
  if (end.service_level > 15) return "an impossible service level";
  return {};
}

std::string checkEnd(const EndInfo& end) {
  if (std::string problem = checkOutline(end); !problem.empty()) return problem;
  if (end.queue_pairs < 1 || end.queue_pairs > kMaxQueuePairs) return "an impossible number of queue pairs";
  if (end.lanes < 1 || end.lanes > std::min<int>(kMaxLanes, end.queue_pairs))
    return "an impossible number of lanes";
  for (int i = 0; i < end.queue_pairs; ++i) {
    const QueuePairInfo& queue_pair = end.queue_pair[i];
    if (queue_pair.rail >= end.rails) return "a queue pair on a rail that it does not have";
    if (queue_pair.number > kMaxQpNumber) return "an impossible queue pair number";
  }
  return {};
}

std::string checkFirstEnd(const EndInfo& end) {
  if (!beginsLost(end)) return checkEnd(end);
  if (end.lanes != 0) return "an impossible number of lanes";
  if (end.failover == 0) return "no queue pairs";
  return checkOutline(end);
}

std::string checkFirstPairing(const EndInfo& request, const EndInfo& reply) {
  if (!beginsLost(reply)) return checkPairing(request, reply);
  if (request.failover == 0) return "no queue pairs";
  if (reply.connection_manager != request.connection_manager) return "another way to connect";
  if (reply.out_of_order != request.out_of_order) return "another order of messages than was asked for";
  return {};
}

std::string checkPairing(const EndInfo& request, const EndInfo& reply) {
  if (reply.queue_pairs != request.queue_pairs || reply.lanes != request.lanes)
    return "another number of queue pairs than was asked for";
  if (reply.connection_manager != request.connection_manager) return "another way to connect";
  if (reply.out_of_order != request.out_of_order) return "another order of messages than was asked for";
  bool any = false;
  for (int i = 0; i < request.queue_pairs; ++i) {
    const QueuePairInfo& pair = reply.queue_pair[i];
    if ((pair.used != 0) != (reply.queue_pair[i % reply.lanes].used != 0)) return "half a lane";
    if (pair.used == 0) continue;
    any = true;
    const RailInfo& theirs = reply.rail[pair.rail];
    const bool numbered = pair.number != 0 && request.queue_pair[i].number != 0;
    if (!numbered || pair.gid >= theirs.gid_count ||
        pair.peer_gid >= request.rail[request.queue_pair[i].rail].gid_count)
      return "an impossible pairing";
    if (pair.rail != reply.queue_pair[i % reply.lanes].rail) return "a lane to two rails";
    if (reply.connection_manager != 0 && theirs.cm_ports[pair.gid] == 0) return "no port to connect to";
  }
  return any ? "" : "no queue pair in use";
}

std::string checkFabric(const EndInfo& here, const EndInfo& there) {
  if (here.fabric == there.fabric) return {};
  const auto name = [](const EndInfo& end) {
    return fieldText(end.rail[0].device) + " on " + fieldText(end.host);
  };
  if (here.fabric != 0 && there.fabric != 0) {
    return name(here) + " and " + name(there) +
           " are software devices of different machines or fabrics, and these reach only processes of their "
           "own: use real devices (unset RAILWISE_DEVICE) between machines, or one fabric=NAME on one";
  }
  const bool software_here = here.fabric != 0;
  return name(software_here ? here : there) + " is a software device and " +
         name(software_here ? there : here) + " a real one: set or unset RAILWISE_DEVICE on both";
}

std::string fieldText(std::span<const char> field) {
  std::string text(field.begin(), std::find(field.begin(), field.end(), '\0'));
  std::replace_if(
      text.begin(), text.end(), [](char c) { return c < ' ' || c > '~'; }, '?');  // it goes into a log
  return text;
}

void copyText(std::span<char> field, std::string_view text) {
  const std::string_view fits = text.substr(0, field.size() - 1);
  std::fill(std::ranges::copy(fits, field.begin()).out, field.end(), '\0');
}

std::string localHostName(const std::string& played) {
  std::string name = played.empty() ? hostName() : played;
  if (name.empty()) name = "unknown";
  return name.substr(0, kHostBytes - 16) + ":" + std::to_string(getpid());
}

std::string shortHostName(const std::string& host, std::size_t size) {
  const std::size_t colon = std::min(host.rfind(':'), host.size());
  const std::size_t process = host.size() - colon;
  if (process >= size) return host.substr(0, size - 1);
  return host.substr(0, std::min(colon, size - 1 - process)) + host.substr(colon);
}

}  // namespace railwise::net
