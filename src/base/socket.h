// Non-blocking TCP for handshakes and the side channel: addresses, listening, connecting, and moving messages
// of fixed size. Nothing here blocks. "Not yet" is a value (Io::kAgain), not an error. Each Socket belongs to
// one thread at a time.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/descriptor.h"
#include "base/status.h"

namespace railwise {

// An IPv4 or IPv6 address with a port, stored as the kernel's sockaddr. port() is in host byte order.
class SocketAddress {
 public:
  SocketAddress() = default;
  // Copies a kernel sockaddr of family AF_INET or AF_INET6. An IPv4-mapped IPv6 address becomes an IPv4
  // address. Any other family gives an invalid address.
  explicit SocketAddress(const sockaddr& address);
  // `bytes`: the address in network order, 4 bytes for AF_INET and 16 for AF_INET6. `scope_id` matters only
  // for link-local IPv6.
  SocketAddress(int family, std::span<const uint8_t> bytes, uint16_t port, uint32_t scope_id);

  bool valid() const { return family() == AF_INET || family() == AF_INET6; }
  int family() const { return storage_.any.sa_family; }
  uint16_t port() const;
  uint32_t scopeId() const;
  // The address in network order: 4 or 16 bytes.
  std::span<const uint8_t> bytes() const;
  // Are the two addresses equal, apart from their ports?
  bool sameHost(const SocketAddress& other) const;
  // The wildcard address, for listening on all addresses of the machine, IPv4 and IPv6.
  static SocketAddress any();
  // Writes "10.0.0.1:4567" or "[fe80::1%2]:4567".
  std::string text() const;
  // The same host at another port.
  SocketAddress atPort(uint16_t port) const { return {family(), bytes(), port, scopeId()}; }

  const sockaddr* raw() const { return &storage_.any; }
  socklen_t rawSize() const;

 private:
  union Storage {
    sockaddr_in6 v6;
    sockaddr_in v4;
    sockaddr any;
  };
  Storage storage_ = {};
};

enum class Io : uint8_t {
  kDone,    // the whole operation is finished
  kAgain,   // call again later
  kClosed,  // the peer closed or reset the connection
};

// A message that is being moved: its bytes, and how many of them have been moved. The owner of the bytes must
// keep them alive.
struct Transfer {
  std::span<std::byte> bytes;
  std::size_t moved = 0;
  bool complete() const { return moved == bytes.size(); }
};

class Socket {
 public:
  Socket() = default;
  explicit Socket(int fd) : fd_(fd) {}

  // Opens a listening socket on `address`; port 0 lets the kernel choose a port. Errors: kSystem with errno.
  static Result<Socket> listen(const SocketAddress& address, int backlog);
  // Listens on all addresses of the machine, IPv4 and IPv6, or IPv4 alone where the kernel has no IPv6.
  static Result<Socket> listenEverywhere(uint16_t port, int backlog);
  // Of a listening socket: the kernel shows a connection only when its first bytes are there, or after about
  // a second without bytes. Silent callers then cost no descriptor. A kernel that cannot do it shows all at
  // once.
  void deferAccept();
  // Begins to connect; connected() reports the result. Errors: kSystem with errno.
  static Result<Socket> connect(const SocketAddress& address);

  // kDone once the connection is established, kAgain until then. A refused or failed connection is kSystem
  // with its errno.
  Result<Io> connected();
  // Returns an invalid Socket when no connection waits. Errors of one aborted connection (ECONNABORTED ...)
  // are treated as if no connection waited.
  Result<Socket> accept();
  // Moves as many bytes as possible without blocking. kDone when the transfer is complete.
  Result<Io> send(Transfer& transfer);
  Result<Io> receive(Transfer& transfer);
  // kClosed when the peer has closed or reset the connection, otherwise kAgain. Consumes no bytes.
  Io peek();
  // Makes the kernel notice that the peer's machine is gone. Without traffic, nothing else would notice it.
  // The first of three probes comes after `idle_s` seconds without traffic, `interval_s` before each other.
  // For `unanswered_ms` data may stay unacknowledged; meanwhile the kernel sends no probes.
  void keepAlive(int idle_s = 30, int interval_s = 10, int unanswered_ms = 60'000);
  // Ends the connection, or the listening, at once, even while a forked child still holds the descriptor.
  void shutdown();

  SocketAddress localAddress() const;
  // The address of the other end of a connection that connect() or accept() has made, also after its end.
  const SocketAddress& peerAddress() const { return peer_; }
  bool valid() const { return fd_.valid(); }
  int fd() const { return fd_.get(); }
  void close() { fd_.close(); }
  // Forgets the descriptor, which is somebody else's now.
  void release() { fd_.release(); }

 private:
  Descriptor fd_;
  SocketAddress peer_;
};

}  // namespace railwise
