#include "base/socket.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

namespace railwise {
namespace {

Status lastError() { return {Code::kSystem, errno}; }

bool peerGone(int error) { return error == ECONNRESET || error == EPIPE || error == ETIMEDOUT; }

void setNoDelay(int fd) {
  const int on = 1;
  (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

}  // namespace

SocketAddress::SocketAddress(const sockaddr& address) {
  if (address.sa_family == AF_INET) std::memcpy(&storage_.v4, &address, sizeof storage_.v4);
  if (address.sa_family != AF_INET6) return;
  std::memcpy(&storage_.v6, &address, sizeof storage_.v6);
  // The kernel shows an IPv4 peer of a dual-stack socket as an IPv4-mapped IPv6 address.
  if (!IN6_IS_ADDR_V4MAPPED(&storage_.v6.sin6_addr)) return;
  const SocketAddress v6 = *this;
  *this = SocketAddress(AF_INET, v6.bytes().subspan(12), v6.port(), 0);
}

SocketAddress::SocketAddress(int family, std::span<const uint8_t> bytes, uint16_t port, uint32_t scope_id) {
  if (family == AF_INET && bytes.size() >= sizeof(in_addr)) {
    sockaddr_in& v4 = storage_.v4;
    v4.sin_family = AF_INET;
    v4.sin_port = htons(port);
    std::memcpy(&v4.sin_addr, bytes.data(), sizeof v4.sin_addr);
  } else if (family == AF_INET6 && bytes.size() >= sizeof(in6_addr)) {
    sockaddr_in6& v6 = storage_.v6;
    v6.sin6_family = AF_INET6;
    v6.sin6_port = htons(port);
    v6.sin6_scope_id = scope_id;
    std::memcpy(&v6.sin6_addr, bytes.data(), sizeof v6.sin6_addr);
  }
}

uint16_t SocketAddress::port() const {
  return ntohs(family() == AF_INET ? storage_.v4.sin_port : storage_.v6.sin6_port);
}

uint32_t SocketAddress::scopeId() const { return family() == AF_INET6 ? storage_.v6.sin6_scope_id : 0; }

std::span<const uint8_t> SocketAddress::bytes() const {
  if (family() == AF_INET) return {reinterpret_cast<const uint8_t*>(&storage_.v4.sin_addr), sizeof(in_addr)};
  if (family() == AF_INET6)
    return {reinterpret_cast<const uint8_t*>(&storage_.v6.sin6_addr), sizeof(in6_addr)};
  return {};
}

socklen_t SocketAddress::rawSize() const {
  return family() == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
}

bool SocketAddress::sameHost(const SocketAddress& other) const {
  const std::span<const uint8_t> own = bytes();
  const std::span<const uint8_t> its = other.bytes();
  return valid() && std::equal(own.begin(), own.end(), its.begin(), its.end());
}

SocketAddress SocketAddress::any() {
  const std::array<uint8_t, 16> zeros = {};
  return {AF_INET6, zeros, 0, 0};
}

std::string SocketAddress::text() const {
  if (!valid()) return "no address";
  char host[INET6_ADDRSTRLEN] = "";
  inet_ntop(family(), bytes().data(), host, sizeof host);
  const std::string port_text = std::to_string(port());
  if (family() == AF_INET) return std::string(host) + ":" + port_text;
  const std::string scope = scopeId() != 0 ? "%" + std::to_string(scopeId()) : "";
  return "[" + std::string(host) + scope + "]:" + port_text;
}

Result<Socket> Socket::listen(const SocketAddress& address, int backlog) {
  Socket socket(::socket(address.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket.valid()) return lastError();
  const int on = 1;
  (void)setsockopt(socket.fd(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  const int off = 0;  // any() must accept both families, whatever net.ipv6.bindv6only says
  if (address.family() == AF_INET6)
    (void)setsockopt(socket.fd(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
  if (::bind(socket.fd(), address.raw(), address.rawSize()) != 0) return lastError();
  if (::listen(socket.fd(), backlog) != 0) return lastError();
  return socket;
}

Result<Socket> Socket::listenEverywhere(uint16_t port, int backlog) {
  Result<Socket> both = listen(SocketAddress::any().atPort(port), backlog);
  constexpr uint8_t kAllOfIpv4[4] = {};
  return both.ok() ? std::move(both) : listen(SocketAddress(AF_INET, kAllOfIpv4, port, 0), backlog);
}

void Socket::deferAccept() {
  const int seconds = 1;
  (void)setsockopt(fd(), IPPROTO_TCP, TCP_DEFER_ACCEPT, &seconds, sizeof seconds);
}

Result<Socket> Socket::connect(const SocketAddress& address) {
  Socket socket(::socket(address.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket.valid()) return lastError();
  setNoDelay(socket.fd());
  socket.peer_ = address;
  if (::connect(socket.fd(), address.raw(), address.rawSize()) != 0 && errno != EINPROGRESS)
    return lastError();
  return socket;
}

Result<Io> Socket::connected() {
  pollfd writable = {.fd = fd(), .events = POLLOUT, .revents = 0};
  if (::poll(&writable, 1, 0) <= 0) return Io::kAgain;
  int error = 0;
  socklen_t size = sizeof error;
  if (getsockopt(fd(), SOL_SOCKET, SO_ERROR, &error, &size) != 0) return lastError();
  if (error != 0) return Status{Code::kSystem, error};
  return Io::kDone;
}

Result<Socket> Socket::accept() {
  sockaddr_storage storage = {};
  socklen_t size = sizeof storage;
  const int accepted =
      accept4(fd(), reinterpret_cast<sockaddr*>(&storage), &size, SOCK_NONBLOCK | SOCK_CLOEXEC);
  if (accepted >= 0) {
    setNoDelay(accepted);
    Socket socket(accepted);
    socket.peer_ = SocketAddress(reinterpret_cast<const sockaddr&>(storage));
    return socket;
  }
  // Accept(2) also reports errors that were already pending on the new connection; these are not errors of
  // the listening socket.
  switch (errno) {
    case EAGAIN:
    case EINTR:
    case ECONNABORTED:
    case EPROTO:
    case ENETDOWN:
    case ENETUNREACH:
    case EHOSTDOWN:
    case EHOSTUNREACH:
    case ENONET:
    case ENOPROTOOPT:
    case EOPNOTSUPP:
    case EPERM:
      return Socket();
    default:
      return lastError();
  }
}

// Moves what is left by `call`, a send or receive that does not wait.
template <typename Call>
static Result<Io> moveAll(Transfer& transfer, const Call& call) {
  while (!transfer.complete()) {
    const auto rest = transfer.bytes.subspan(transfer.moved);
    const ssize_t moved = call(rest.data(), rest.size());
    if (moved < 0 && errno == EINTR) continue;
    if (moved < 0 && errno == EAGAIN) return Io::kAgain;
    if (moved == 0 || (moved < 0 && peerGone(errno))) return Io::kClosed;
    if (moved < 0) return lastError();
    transfer.moved += static_cast<std::size_t>(moved);
  }
  return Io::kDone;
}

Result<Io> Socket::send(Transfer& transfer) {
  return moveAll(transfer, [this](const void* from, std::size_t bytes) {
    return ::send(fd(), from, bytes, MSG_DONTWAIT | MSG_NOSIGNAL);
  });
}

Result<Io> Socket::receive(Transfer& transfer) {
  return moveAll(transfer,
                 [this](void* to, std::size_t bytes) { return ::recv(fd(), to, bytes, MSG_DONTWAIT); });
}

Io Socket::peek() {
  char byte = 0;
  const ssize_t got = ::recv(fd(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  if (got == 0) return Io::kClosed;
  if (got < 0 && peerGone(errno)) return Io::kClosed;
  return Io::kAgain;
}

void Socket::keepAlive(int idle_s, int interval_s, int unanswered_ms) {
  const auto set = [&](int level, int option, int value) {
    (void)setsockopt(fd(), level, option, &value, sizeof value);
  };
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, idle_s);
  set(IPPROTO_TCP, TCP_KEEPINTVL, interval_s);
  set(IPPROTO_TCP, TCP_KEEPCNT, 3);
  set(IPPROTO_TCP, TCP_USER_TIMEOUT, unanswered_ms);
}

void Socket::shutdown() {
  if (valid()) (void)::shutdown(fd(), SHUT_RDWR);
}

SocketAddress Socket::localAddress() const {
  sockaddr_storage storage = {};
  socklen_t size = sizeof storage;
  if (getsockname(fd(), reinterpret_cast<sockaddr*>(&storage), &size) != 0) return {};
  return SocketAddress(reinterpret_cast<const sockaddr&>(storage));
}

}  // namespace railwise
