// Which network interface carries the handshakes: NCCL's own rules for NCCL_SOCKET_IFNAME and
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
  SocketAddress address;  // port 0
  bool loopback = false;
};

// Interfaces that are up, have an address of `family` (AF_INET, AF_INET6 or AF_UNSPEC for both) and match
// `selection`. With no selection: InfiniBand (ib*) first, then others, docker* and lo last, as NCCL prefers
// them.
std::vector<Interface> listInterfaces(std::string_view selection, int family);

}  // namespace railwise
