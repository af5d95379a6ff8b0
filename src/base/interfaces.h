// Chooses the network interfaces for handshakes by NCCL's own rules for NCCL_SOCKET_IFNAME and
// NCCL_SOCKET_FAMILY. Source of the rules: NCCL 2.30.7, src/misc/socket.cc (ncclFindInterfaces).
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/socket.h"
#include "base/status.h"

namespace railwise {

struct Interface {
  std::string name;
  SocketAddress address;  // its port is 0
  bool loopback = false;
};

// Returns the interfaces that are up, have an address of `family` (AF_INET, AF_INET6, or AF_UNSPEC for both)
// and match `selection`. If `selection` is empty, the order is NCCL's preference: InfiniBand (ib*) first,
// then others, then docker*, and lo last.
std::vector<Interface> listInterfaces(std::string_view selection, int family);

// A network of IP addresses, "10.1.0.0/16" or "2001:db8::/32" (NCCL_IB_ADDR_RANGE). Plain values.

struct AddressRange {
  bool ipv4 = false;
  std::array<uint8_t, 16> address = {};  // an IPv4 address is in the last four bytes, as ::ffff:a.b.c.d
  int bits = 0;  // length of the prefix in the 16 bytes; for IPv4, 96 more than the text says

  // `bytes`: an IPv6 address, or an IPv4 address mapped into one (::ffff:a.b.c.d), as in a GID.
  bool contains(std::span<const uint8_t, 16> bytes) const;
};

// Null when `text` is not an address, a slash and a number of bits that fits the address.
std::optional<AddressRange> parseAddressRange(std::string_view text);

// Are the first `bits` bits of both addresses equal?
bool equalPrefix(std::span<const uint8_t, 16> a, std::span<const uint8_t, 16> b, int bits);

}  // namespace railwise
