// Addresses of the connection manager: an IP address in 16 bytes, as a GID has it, with a port number.
#pragma once

#include <netinet/in.h>

#include <cstdint>
#include <string>

#include "softdev/queues/objects.h"

namespace railwise::softdev::cm {

struct Address {
  uint8_t ip[16] = {};  // IPv4 mapped
  uint16_t port = 0;
  bool any() const;  // 0.0.0.0 or ::
};

// False when it is neither IPv4 nor IPv6.
bool readAddress(const sockaddr* from, Address* to);
void writeAddress(const Address& from, sockaddr_storage* to);

// The abstract socket of an address on a fabric.
std::string socketName(const std::string& fabric, const Address& address);
// A socket with that name, not listening yet; -1 with errno (EADDRINUSE).
int bindAddress(const std::string& fabric, const Address& address);
// Connects it: 0 or errno, ECONNREFUSED when nobody listens there.
int dial(int fd, const std::string& fabric, const Address& address);
// A port number that a system may choose.
uint16_t ephemeralPort();

// The configured device and its port with this address, or null.
Device* findLocal(const Address& address, uint8_t* port);

}  // namespace railwise::softdev::cm
