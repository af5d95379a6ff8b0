// Gives an id its address: makes the sockets for it, and finds the device behind it (rdma_bind_addr(3)).
#include <algorithm>
#include <cerrno>
#include <cstring>

#include "softdev/cm/objects.h"

namespace railwise::softdev::cm {
namespace {

void setSource(Id& id, const Address& address) {
  id.source = address;
  writeAddress(address, &id.route.addr.src_storage);
}

// Returns every address of this host. *fabric receives the name of its fabric.
std::vector<Address> everyAddress(std::string* fabric) {
  std::vector<Address> addresses;
  ibv_device** list = getDeviceList(nullptr);
  for (ibv_device** at = list; at != nullptr && *at != nullptr; ++at) {
    const Device& device = as<Device>(*at);
    *fabric = device.fabric.name;
    for (const PortConfig& port : device.config.ports) {
      for (const Gid& gid : port.iwarp ? port.addresses : port.gids) {
        Address address;
        std::memcpy(address.ip, gid.raw, sizeof address.ip);
        const auto same = [&](const Address& other) {
          return std::memcmp(other.ip, address.ip, sizeof address.ip) == 0;
        };
        if (std::none_of(addresses.begin(), addresses.end(), same)) addresses.push_back(address);
      }
    }
  }
  freeDeviceList(list);
  return addresses;
}

// Makes sockets with one port number on all of `addresses`. Returns 0 or an errno.
int bindAll(Id& id, const std::string& fabric, std::vector<Address> addresses, uint16_t port) {
  id.sockets.reserve(addresses.size());
  for (Address& address : addresses) {
    address.port = port;
    const int fd = bindAddress(fabric, address);
    if (fd < 0) {
      const int error = errno;
      closeSockets(id);
      return error;
    }
    id.sockets.push_back(fd);
  }
  watch(id);
  return 0;
}

int bindSockets(Id& id, const std::string& fabric, const std::vector<Address>& addresses, uint16_t* port) {
  if (*port != 0) return bindAll(id, fabric, addresses, *port);
  constexpr int kTries = 1000;  // there are 28,000 port numbers
  int error = EADDRINUSE;
  for (int i = 0; i < kTries && error == EADDRINUSE; ++i) {
    *port = ephemeralPort();
    error = bindAll(id, fabric, addresses, *port);
  }
  return error;
}

}  // namespace

int bindHere(Id& id, Address address) {
  uint8_t port_number = 1;
  Device* device = nullptr;
  std::string fabric;
  std::vector<Address> addresses;
  if (address.any()) {
    addresses = everyAddress(&fabric);
  } else {
    device = findLocal(address, &port_number);
    if (device == nullptr) return EADDRNOTAVAIL;
    fabric = device->fabric.name;
    addresses = {address};
  }
  if (const int error = bindSockets(id, fabric, addresses, &address.port); error != 0) return error;
  if (device != nullptr) {
    if (const int error = useDevice(id, *device, port_number); error != 0) {
      closeSockets(id);
      return error;
    }
  }
  setSource(id, address);
  id.state = State::kBound;
  return 0;
}

int bindAddr(rdma_cm_id* base, sockaddr* wanted) {
  Id& id = *static_cast<Id*>(base);
  std::lock_guard lock(manager().mutex);
  Address address;
  if (id.state != State::kIdle || !readAddress(wanted, &address)) return answer(EINVAL);
  return answer(bindHere(id, address));
}

}  // namespace railwise::softdev::cm
