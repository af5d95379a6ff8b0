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
  bool any() const;  // is the address 0.0.0.0 or ::?
};

// False if `from` is neither IPv4 nor IPv6.
bool readAddress(const sockaddr* from, Address* to);
void writeAddress(const Address& from, sockaddr_storage* to);

// The name of the abstract socket for an address on a fabric.
std::string socketName(const std::string& fabric, const Address& address);
// Makes a socket with the name of the address. The socket does not listen yet. -1 with errno (EADDRINUSE) on
// failure.
int bindAddress(const std::string& fabric, const Address& address);
// Connects the socket to the address. Returns 0 or an errno: ECONNREFUSED if nobody listens there.
int dial(int fd, const std::string& fabric, const Address& address);
// Returns a port number from the range that a system may choose from.
uint16_t ephemeralPort();

// Finds the configured device, and its port, with this address. Null if there is none.
Device* findLocal(const Address& address, uint8_t* port);

}  // namespace railwise::softdev::cm
