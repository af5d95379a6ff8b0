#include "base/interfaces.h"

#include <ifaddrs.h>
#include <net/if.h>

#include <algorithm>

#include "base/text/name_selection.h"

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

}  // namespace railwise
