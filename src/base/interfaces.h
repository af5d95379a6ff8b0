// Chooses the network interfaces for handshakes by NCCL's own rules for NCCL_SOCKET_IFNAME and
// NCCL_SOCKET_FAMILY. Source of the rules: NCCL 2.30.7, src/misc/socket.cc (ncclFindInterfaces).
#pragma once

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

}  // namespace railwise
