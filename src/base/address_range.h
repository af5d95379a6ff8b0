// A network of IP addresses, "10.1.0.0/16" or "2001:db8::/32" (NCCL_IB_ADDR_RANGE). Plain values.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace railwise {

struct AddressRange {
  bool ipv4 = false;
  std::array<uint8_t, 16> address = {};  // IPv4 in the last four bytes, as ::ffff:a.b.c.d
  int bits = 0;                          // of the 16 bytes: 96 more than written for IPv4

  // `bytes`: an IPv6 address, or an IPv4 address mapped into one (::ffff:a.b.c.d), as in a GID.
  bool contains(std::span<const uint8_t, 16> bytes) const;
};

// Nothing when `text` is no address, a slash and a number of bits that such an address has.
std::optional<AddressRange> parseAddressRange(std::string_view text);

// The first `bits` of both addresses are equal.
bool equalPrefix(std::span<const uint8_t, 16> a, std::span<const uint8_t, 16> b, int bits);

}  // namespace railwise
