// Non-blocking TCP for handshakes and the side channel: addresses, listening, connecting, moving fixed-size
// messages. Nothing here blocks; "not yet" is a value (Io::kAgain), not an error. One thread at a time per
// Socket.
#pragma once

#include <sys/socket.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>

#include "base/status.h"

namespace railwise {

// An IPv4 or IPv6 address with port, as the wire and the kernel want it. Port in host byte order.
class SocketAddress {
 public:
  SocketAddress() = default;
  // From a kernel sockaddr of family AF_INET or AF_INET6 (an IPv4-mapped one becomes IPv4); any other family
  // gives an invalid address.
  explicit SocketAddress(const sockaddr& address);
  // Raw address bytes in network order: 4 for AF_INET, 16 for AF_INET6; scope_id only counts for link-local
  // IPv6.
  SocketAddress(int family, std::span<const uint8_t> bytes, uint16_t port, uint32_t scope_id);

  bool valid() const { return storage_.ss_family == AF_INET || storage_.ss_family == AF_INET6; }
  int family() const { return storage_.ss_family; }
  uint16_t port() const;
  uint32_t scopeId() const;
  // 4 or 16 bytes, network order.
  std::span<const uint8_t> bytes() const;
  // The same address, whatever the port.
  bool sameHost(const SocketAddress& other) const;
  // All addresses of the machine, of both families.
  static SocketAddress any();
  // "10.0.0.1:4567" or "[fe80::1%2]:4567".
  std::string text() const;

  const sockaddr* raw() const { return reinterpret_cast<const sockaddr*>(&storage_); }
  socklen_t rawSize() const;

 private:
  sockaddr_storage storage_ = {};
};

enum class Io : uint8_t {
  kDone,    // everything asked for has happened
  kAgain,   // call again later
  kClosed,  // the peer closed or reset the connection
};

// A message in flight: the bytes and how many of them have moved. Whoever owns the bytes keeps them alive.
struct Transfer {
  std::span<std::byte> bytes;
  std::size_t moved = 0;
  bool complete() const { return moved == bytes.size(); }
};

class Socket {
 public:
  Socket() = default;
  explicit Socket(int fd) : fd_(fd) {}
  Socket(Socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Socket();

  // A listening socket on `address` (port 0: any). Errors: kSystem with errno.
  static Result<Socket> listen(const SocketAddress& address, int backlog);
  // Begins to connect; finish with connected(). Errors: kSystem with errno.
  static Result<Socket> connect(const SocketAddress& address);

  // kDone once the connection stands; a refused or failed connection is kSystem with its errno.
  Result<Io> connected();
  // An invalid Socket when nobody waits. Errors of one aborted connection (ECONNABORTED ...) count as nobody.
  Result<Socket> accept(SocketAddress* peer);
  // Moves what can be moved now. kDone when the transfer is complete.
  Result<Io> send(Transfer& transfer);
  Result<Io> receive(Transfer& transfer);
  // kClosed when the peer has closed or reset, else kAgain. Reads nothing.
  Io peek();
  // Makes the kernel notice within a minute that the peer's machine is gone: without traffic nothing else
  // does.
  void keepAlive();
  // Ends the connection (or the listening) for the peer now, even while a forked child still holds the
  // descriptor.
  void shutdown();

  SocketAddress localAddress() const;
  bool valid() const { return fd_ >= 0; }
  int fd() const { return fd_; }
  void close() { *this = Socket(); }

 private:
  int fd_ = -1;
};

}  // namespace railwise
