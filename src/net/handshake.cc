#include "net/handshake.h"

#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <random>

namespace railwise::net {
namespace {

bool terminated(std::span<const char> field) {
  return std::find(field.begin(), field.end(), '\0') != field.end();
}

constexpr uint32_t kMaxQpNumber = 0xffffff;

}  // namespace

std::optional<SocketAddress> handleAddress(const ListenHandle& handle) {
  if (handle.family != 4 && handle.family != 6) return std::nullopt;
  const bool v4 = handle.family == 4;
  const std::span<const uint8_t> bytes(handle.address, v4 ? 4 : 16);
  return SocketAddress(v4 ? AF_INET : AF_INET6, bytes, handle.port, handle.scope_id);
}

std::string checkHandle(const ListenHandle& handle) {
  if (handle.magic != kMagic) {
    return "the peer's handle is not Railwise's: that rank runs another network plugin. Set "
           "NCCL_NET_PLUGIN=railwise "
           "(and NCCL_NET=Railwise, which makes a failing plugin an error) on every node";
  }
  if (handle.version != kProtocolVersion) {
    return "the peer speaks protocol version " + std::to_string(handle.version) +
           " of Railwise and this end version " + std::to_string(kProtocolVersion) +
           ": install the same Railwise on every node";
  }
  if (!handleAddress(handle) || handle.port == 0 || !terminated(handle.host))
    return "the peer's handle is damaged";
  return {};
}

std::string checkHeader(const MessageHeader& header, MessageType type, std::size_t bytes) {
  if (header.magic != kMagic) return "the other side does not run Railwise";
  if (header.version != kProtocolVersion) {
    return "the other side speaks protocol version " + std::to_string(header.version) +
           " of Railwise, this one version " + std::to_string(kProtocolVersion) +
           ": install the same Railwise on every node";
  }
  if (header.type != type || header.bytes != bytes) return "the other side sent a message out of turn";
  return {};
}

std::string checkEnd(const EndInfo& end) {
  if (!terminated(end.host) || !terminated(end.device)) return "a name without end";
  if (end.qp_number == 0 || end.qp_number > kMaxQpNumber) return "an impossible queue pair number";
  if (end.link_layer != 1 && end.link_layer != 2) return "an unknown link layer";
  if (end.mtu < IBV_MTU_256 || end.mtu > IBV_MTU_4096) return "an unknown MTU";
  if (end.window_address == 0) return "no window";
  if (end.piece_bytes < kPieceAlignment) return "an impossible message limit";
  if (end.service_level > 15) return "an impossible service level";
  return {};
}

std::string checkFabric(const EndInfo& here, const EndInfo& there) {
  if (here.fabric == there.fabric) return {};
  const auto name = [](const EndInfo& end) { return fieldText(end.device) + " on " + fieldText(end.host); };
  if (here.fabric != 0 && there.fabric != 0) {
    return name(here) + " and " + name(there) +
           " are software devices of different machines or fabrics, and these reach only processes of their "
           "own: "
           "use real devices (unset RAILWISE_DEVICE) between machines, or one fabric=NAME on one";
  }
  const bool software_here = here.fabric != 0;
  return name(software_here ? here : there) + " is a software device and " +
         name(software_here ? there : here) + " a real one: set or unset RAILWISE_DEVICE on both";
}

verbs::PathAddress pathAddress(const EndInfo& end) {
  verbs::PathAddress address;
  address.qp_number = end.qp_number;
  address.lid = end.lid;
  address.ethernet = end.link_layer == 2;
  address.mtu = static_cast<ibv_mtu>(end.mtu);
  std::memcpy(address.gid.raw, end.gid, sizeof end.gid);
  return address;
}

std::string fieldText(std::span<const char> field) {
  std::string text(field.begin(), std::find(field.begin(), field.end(), '\0'));
  std::replace_if(
      text.begin(), text.end(), [](char c) { return c < ' ' || c > '~'; }, '?');  // it goes into a log
  return text;
}

void copyText(std::span<char> field, std::string_view text) {
  const std::size_t length = std::min(text.size(), field.size() - 1);
  std::memcpy(field.data(), text.data(), length);
  std::fill(field.begin() + static_cast<std::ptrdiff_t>(length), field.end(), '\0');
}

std::string localHostName() {
  char name[kHostBytes] = "";
  if (gethostname(name, sizeof name - 1) != 0) copyText(name, "unknown");
  return std::string(name).substr(0, kHostBytes - 16) + ":" + std::to_string(getpid());
}

uint64_t randomNonce() {
  uint64_t nonce = 0;
  if (getrandom(&nonce, sizeof nonce, GRND_NONBLOCK) != sizeof nonce) nonce = std::random_device{}();
  return nonce | 1;  // never 0
}

}  // namespace railwise::net
