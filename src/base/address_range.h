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
