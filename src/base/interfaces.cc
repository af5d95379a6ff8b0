#include "base/interfaces.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>

#include <algorithm>
#include <string>

#include "base/text/name_selection.h"
#include "base/text/words.h"

namespace railwise {
namespace {

// NCCL's order of preference when nothing is selected: ib*, anything else, docker*, lo.
int preference(const Interface& interface) {
  if (interface.loopback) return 3;
  if (interface.name.starts_with("docker")) return 2;
  return interface.name.starts_with("ib") ? 0 : 1;
}

bool linkLocal(const SocketAddress& address) {
  const auto bytes = address.bytes();
  return address.family() == AF_INET6 && bytes[0] == 0xfe && (bytes[1] & 0xc0) == 0x80;
}

}  // namespace

std::vector<Interface> listInterfaces(std::string_view selection, int family) {
  std::vector<Interface> found;
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return found;
  for (const ifaddrs* item = list; item != nullptr; item = item->ifa_next) {
    if (item->ifa_addr == nullptr || (item->ifa_flags & IFF_UP) == 0) continue;
    const SocketAddress address(*item->ifa_addr);
    if (!address.valid() || (family != AF_UNSPEC && address.family() != family)) continue;
    if (!nameSelected(selection, item->ifa_name)) continue;
    found.push_back({item->ifa_name, address, (item->ifa_flags & IFF_LOOPBACK) != 0});
  }
  freeifaddrs(list);
  // The sort is stable, so the kernel's order decides between equal ranks. Link-local addresses come last,
  // because they need a scope that the peer may not share.
  const auto rank = [&](const Interface& i) {
    return (selection.empty() ? preference(i) : 0) * 2 + (linkLocal(i.address) ? 1 : 0);
  };
  std::stable_sort(found.begin(), found.end(),
                   [&](const Interface& a, const Interface& b) { return rank(a) < rank(b); });
  return found;
}

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
  range.bits = numberIn<int>(text.substr(slash + 1)).value_or(-1);
  if (range.bits < 0 || range.bits > (range.ipv4 ? 32 : 128)) return std::nullopt;
  if (range.ipv4) range.bits += 96;
  return range;
}

}  // namespace railwise
