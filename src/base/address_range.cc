#include "base/address_range.h"

#include <arpa/inet.h>

#include <algorithm>
#include <charconv>
#include <string>

namespace railwise {

bool equalPrefix(std::span<const uint8_t, 16> a, std::span<const uint8_t, 16> b, int bits) {
  const auto whole = static_cast<std::size_t>(bits / 8);
  if (!std::equal(a.begin(), a.begin() + static_cast<std::ptrdiff_t>(whole), b.begin())) return false;
  const int rest = bits % 8;
  return rest == 0 || ((a[whole] ^ b[whole]) >> (8 - rest)) == 0;
}

bool AddressRange::contains(std::span<const uint8_t, 16> bytes) const {
  return equalPrefix(address, bytes, bits);
}

std::optional<AddressRange> parseAddressRange(std::string_view text) {
  const auto slash = text.find('/');
  if (slash == std::string_view::npos) return std::nullopt;
  AddressRange range;
  const std::string address(text.substr(0, slash));
  range.ipv4 = address.find(':') == std::string::npos;
  if (range.ipv4) range.address[10] = range.address[11] = 0xff;
  if (inet_pton(range.ipv4 ? AF_INET : AF_INET6, address.c_str(),
                range.address.data() + (range.ipv4 ? 12 : 0)) != 1)
    return std::nullopt;
  const std::string_view bits = text.substr(slash + 1);
  const auto [end, error] = std::from_chars(bits.data(), bits.data() + bits.size(), range.bits);
  if (error != std::errc() || end != bits.data() + bits.size()) return std::nullopt;
  if (range.bits < 0 || range.bits > (range.ipv4 ? 32 : 128)) return std::nullopt;
  if (range.ipv4) range.bits += 96;
  return range;
}

}  // namespace railwise
