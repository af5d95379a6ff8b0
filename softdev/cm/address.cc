#include "softdev/cm/address.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <span>

#include "base/secrets.h"
#include "softdev/cm/objects.h"
#include "softdev/fabric/joining/membership.h"

namespace railwise::softdev::cm {
namespace {

constexpr uint8_t kMapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

bool isMapped(const Address& address) { return std::memcmp(address.ip, kMapped, sizeof kMapped) == 0; }

// The addresses that the text gives a port.
const std::vector<Gid>& addressesOf(const PortConfig& port) {
  return port.iwarp ? port.addresses : port.gids;
}

}  // namespace

bool Address::any() const {
  const auto zero = [](uint8_t byte) { return byte == 0; };
  return std::all_of(isMapped(*this) ? ip + sizeof kMapped : ip, std::end(ip), zero);
}

bool readAddress(const sockaddr* from, Address* to) {
  if (from == nullptr) return false;
  *to = {};
  if (from->sa_family == AF_INET) {
    sockaddr_in v4;
    std::memcpy(&v4, from, sizeof v4);
    std::memcpy(to->ip, kMapped, sizeof kMapped);
    std::memcpy(to->ip + sizeof kMapped, &v4.sin_addr, sizeof v4.sin_addr);
    to->port = ntohs(v4.sin_port);
    return true;
  }
  if (from->sa_family != AF_INET6) return false;
  sockaddr_in6 v6;
  std::memcpy(&v6, from, sizeof v6);
  std::memcpy(to->ip, &v6.sin6_addr, sizeof to->ip);
  to->port = ntohs(v6.sin6_port);
  return true;
}

void writeAddress(const Address& from, sockaddr_storage* to) {
  *to = {};
  if (isMapped(from)) {
    auto* v4 = reinterpret_cast<sockaddr_in*>(to);
    v4->sin_family = AF_INET;
    v4->sin_port = htons(from.port);
    std::memcpy(&v4->sin_addr, from.ip + sizeof kMapped, sizeof v4->sin_addr);
    return;
  }
  auto* v6 = reinterpret_cast<sockaddr_in6*>(to);
  v6->sin6_family = AF_INET6;
  v6->sin6_port = htons(from.port);
  std::memcpy(&v6->sin6_addr, from.ip, sizeof from.ip);
}

std::string socketName(const std::string& fabric, const Address& address) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string name = fabricPrefix(fabric) + "cm/";
  for (const uint8_t byte : address.ip) {
    name += kDigits[byte >> 4];
    name += kDigits[byte & 15];
  }
  return name + "." + std::to_string(address.port);
}

int bindAddress(const std::string& fabric, const Address& address) {
  sockaddr_un name;
  const socklen_t length = abstractAddress(socketName(fabric, address), &name);
  if (length == 0) {
    errno = ENAMETOOLONG;
    return -1;
  }
  const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0 || bind(fd, reinterpret_cast<const sockaddr*>(&name), length) == 0) return fd;
  const int error = errno;
  close(fd);
  errno = error;
  return -1;
}

int dial(int fd, const std::string& fabric, const Address& address) {
  sockaddr_un name;
  const socklen_t length = abstractAddress(socketName(fabric, address), &name);
  if (length == 0) return ENAMETOOLONG;
  if (::connect(fd, reinterpret_cast<const sockaddr*>(&name), length) != 0) return errno;
  return peerIsOurs(fd) ? 0 : ECONNREFUSED;  // other users can listen at any name
}

uint16_t ephemeralPort() {
  constexpr uint32_t kFirst = 32768;  // the range of Linux
  constexpr uint32_t kLast = 60999;
  uint32_t number = 0;
  fillRandom(std::as_writable_bytes(std::span(&number, 1)));
  return static_cast<uint16_t>(kFirst + number % (kLast - kFirst + 1));
}

Device* findLocal(const Address& address, uint8_t* port) {
  ibv_device** list = getDeviceList(nullptr);
  Device* found = nullptr;
  for (ibv_device** at = list; at != nullptr && *at != nullptr && found == nullptr; ++at) {
    Device& device = as<Device>(*at);
    for (uint32_t number = 1; number <= device.config.portCount(); ++number) {
      const std::vector<Gid>& gids = addressesOf(*device.config.port(number));
      const auto same = [&](const Gid& gid) {
        return std::memcmp(gid.raw, address.ip, sizeof address.ip) == 0;
      };
      if (!std::any_of(gids.begin(), gids.end(), same)) continue;
      found = &device;
      *port = static_cast<uint8_t>(number);
      break;
    }
  }
  // The fabric may have changed GIDs since.
  for (ibv_device** at = list; at != nullptr && *at != nullptr && found == nullptr; ++at) {
    if (hasAddressNow(as<Device>(*at), address, port)) found = &as<Device>(*at);
  }
  freeDeviceList(list);
  return found;
}

}  // namespace railwise::softdev::cm
