// The addresses by which the communication manager knows a port (connection_manager.h).
#include <netinet/in.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <utility>

#include "base/clock.h"
#include "base/interfaces.h"
#include "verbs/cm/connection_manager.h"

namespace railwise::verbs {
namespace {

constexpr uint8_t kMapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
constexpr int kMost = 32;

std::vector<SocketAddress> ofSoftware(const CmLibrary& library, ibv_context* context, const Port& port) {
  ibv_gid found[kMost];
  const int count = library.local_addresses(context, port.number, found, kMost);
  std::vector<SocketAddress> addresses;
  for (int i = 0; i < count; ++i) addresses.push_back(cmAddressOf(found[i], 0, 0));
  return addresses;
}

// Asks the kernel: binding an id to an address of this host binds the id to the port behind that address. The
// GID table does not help on iWARP, where it holds a MAC address.
bool leadsTo(const CmLibrary& library, SocketAddress address, const char* device, const Port& port) {
  const CmChannel channel = makeCmChannel(library);
  const CmId id = makeCmId(library, channel.get());
  if (id == nullptr) return false;
  sockaddr_storage storage = storageOf(address);
  return library.bind_addr(id.get(), raw(storage)) == 0 && id->verbs != nullptr &&
         id->port_num == port.number && std::strcmp(deviceName(id->verbs), device) == 0;
}

// IPv4 first, then routable IPv6, then link-local.
int rank(const SocketAddress& address) {
  if (address.family() == AF_INET) return 0;
  return address.scopeId() == 0 ? 1 : 2;
}

std::vector<SocketAddress> ofKernel(const CmLibrary& library, ibv_context* context, const Port& port,
                                    std::span<const Interface> interfaces) {
  const char* device = deviceName(context);
  std::vector<SocketAddress> addresses;
  for (const Interface& interface : interfaces) {
    if (!interface.loopback && leadsTo(library, interface.address, device, port))
      addresses.push_back(interface.address);
  }
  std::stable_sort(addresses.begin(), addresses.end(),
                   [](const auto& a, const auto& b) { return rank(a) < rank(b); });
  return addresses;
}

// All addresses of this host as text, to detect changes.
std::string textOf(std::span<const Interface> interfaces) {
  std::string text;
  for (const Interface& interface : interfaces)
    text += interface.name + " " + interface.address.text() + "\n";
  return text;
}

// A cache, so that a process that makes a thousand connections seldom asks the kernel which addresses lead to
// the port.
struct Known {
  Clock::time_point until;
  Clock::time_point unasked_until;  // until then nobody asks whether the interfaces have changed
  std::string interfaces;
  std::vector<SocketAddress> addresses;
};
constexpr auto kBelieved = std::chrono::seconds(10);
// A connection that looks for a path asks every 20 ms, and there may be a thousand of them.
constexpr auto kUnasked = std::chrono::milliseconds(100);
// A port without an address is asked for again sooner.
constexpr auto kBelievedNone = std::chrono::seconds(1);
struct Cache {
  std::mutex mutex;
  std::map<std::pair<std::string, uint8_t>, Known> known;  // by device and port
};
Cache& cache() {
  static Cache& it = *new Cache;
  return it;
}

}  // namespace

Result<std::vector<SocketAddress>> cmAddresses(ibv_context* context, const Port& port) {
  const Result<const CmLibrary*> library = cmLibrary();
  if (!library.ok()) return library.status();
  if ((*library)->local_addresses != nullptr) return ofSoftware(**library, context, port);
  Cache& it = cache();
  const std::lock_guard lock(it.mutex);
  Known& known = it.known[{deviceName(context), port.number}];
  const Clock::time_point now = Clock::now();
  if (now < known.unasked_until) return known.addresses;
  const std::vector<Interface> interfaces = listInterfaces("", AF_UNSPEC);
  const std::string all = textOf(interfaces);
  if (known.until <= now || known.interfaces != all) {
    known.addresses = ofKernel(**library, context, port, interfaces);
    known.until = now + (known.addresses.empty() ? Clock::duration(kBelievedNone) : kBelieved);
    known.interfaces = all;
  }
  known.unasked_until = now + kUnasked;
  return known.addresses;
}

ibv_gid cmAddressBytes(const SocketAddress& address) {
  ibv_gid gid = {};
  const std::span<const uint8_t> bytes = address.bytes();
  if (bytes.size() == 4) std::memcpy(gid.raw, kMapped, sizeof kMapped);
  if (!bytes.empty()) std::memcpy(gid.raw + (sizeof gid.raw - bytes.size()), bytes.data(), bytes.size());
  return gid;
}

SocketAddress cmAddressOf(const ibv_gid& gid, uint16_t port, uint32_t scope_id) {
  if (std::memcmp(gid.raw, kMapped, sizeof kMapped) == 0)
    return {AF_INET, {gid.raw + sizeof kMapped, 4}, port, 0};
  const bool link_local = gid.raw[0] == 0xfe && (gid.raw[1] & 0xc0) == 0x80;
  return {AF_INET6, {gid.raw, sizeof gid.raw}, port, link_local ? scope_id : 0};
}

}  // namespace railwise::verbs
