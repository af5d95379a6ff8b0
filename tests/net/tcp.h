// TCP connections of this process, for tests.
#pragma once

#include <sys/socket.h>

#include <array>

#include "base/socket.h"

namespace railwise::test {

inline SocketAddress loopback(uint16_t port) {
  const std::array<uint8_t, 4> bytes = {127, 0, 0, 1};
  return {AF_INET, bytes, port, 0};
}

// Cuts all TCP connections of this process, at both ends. Sockets that listen stay.
inline void cutTcp() {
  for (int fd = 3; fd < 1024; ++fd) {
    sockaddr_storage peer = {};
    socklen_t size = sizeof peer;
    const bool connected = getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &size) == 0;
    if (connected && (peer.ss_family == AF_INET || peer.ss_family == AF_INET6)) (void)shutdown(fd, SHUT_RDWR);
  }
}

}  // namespace railwise::test
