#include "cli/http/server.h"

#include <arpa/inet.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <vector>

#include "cli/options/options.h"

namespace railwise::cli {
namespace {

// Clients at a time. A further one takes the place of that which has been silent longest, so that idle
// clients cannot keep Prometheus out.
constexpr std::size_t kMostClients = 64;
constexpr int kBacklog = 64;
// For a client between requests, and for one that is slow: several times Prometheus' usual interval.
constexpr auto kPatience = std::chrono::seconds(90);
// For what a client sends after its last answer. Closing at once would make the kernel drop the answer.
constexpr auto kDrainTime = std::chrono::seconds(2);
// How long the listener rests when a client cannot be accepted, because there are no descriptors left.
constexpr int kRestMs = 200;

}  // namespace

Outcome<SocketAddress> parseListenAddress(const std::string& text) {
  const Error error{"'" + text +
                    "' is no address to listen at: ADDR:PORT, [IPV6]:PORT, or :PORT for all addresses"};
  const std::size_t colon = text.rfind(':');
  if (colon == std::string::npos) return error;
  const auto port = parseInt(text.substr(colon + 1), 0, 65535);
  if (!port) return error;
  std::string host = text.substr(0, colon);
  std::array<uint8_t, 16> bytes = {};  // all addresses
  int family = AF_INET6;
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
    if (inet_pton(AF_INET6, host.c_str(), bytes.data()) != 1) return error;
  } else if (!host.empty()) {
    family = AF_INET;
    if (inet_pton(AF_INET, host == "localhost" ? "127.0.0.1" : host.c_str(), bytes.data()) != 1) return error;
  }
  return SocketAddress(family, bytes, static_cast<uint16_t>(*port), 0);
}

int endSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  sigprocmask(SIG_BLOCK, &signals, nullptr);
  return signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
}

Outcome<HttpServer> HttpServer::create(const std::string& address, Pages pages) {
  auto wanted = parseListenAddress(address);
  if (!wanted.ok()) return wanted.failure();
  auto listener = Socket::listen(*wanted, kBacklog);
  if (!listener.ok() && listener.status().sys_errno == EAFNOSUPPORT && address.front() == ':') {
    // A kernel without IPv6.
    const std::array<uint8_t, 4> all = {};
    listener = Socket::listen(SocketAddress(AF_INET, all, wanted->port(), 0), kBacklog);
  }
  if (!listener.ok())
    return Error{"cannot listen at " + address + ": " + std::strerror(listener.status().sys_errno)};
  return HttpServer(std::move(*listener), std::move(pages));
}

bool HttpServer::serve(int stop_fd, Clock::time_point until) {
  bool rest = false;  // the listener, for want of descriptors
  for (;;) {
    const auto now = Clock::now();
    std::erase_if(clients_, [&](const Client& client) { return client.deadline <= now; });
    if (now >= until) return false;
    auto wake = until;
    std::vector<pollfd> polled = {{.fd = stop_fd, .events = POLLIN, .revents = 0},
                                  {.fd = rest ? -1 : listener_.fd(), .events = POLLIN, .revents = 0}};
    for (const Client& client : clients_) {
      const bool sends = client.sent < client.out.size();
      polled.push_back(
          {.fd = client.socket.fd(), .events = static_cast<short>(sends ? POLLOUT : POLLIN), .revents = 0});
      wake = std::min(wake, client.deadline);
    }
    // Rounded up: at 0 ms the loop would spin until the deadline.
    const auto ms = std::chrono::ceil<std::chrono::milliseconds>(wake - now).count();
    const int timeout = static_cast<int>(std::clamp<int64_t>(ms, 0, rest ? kRestMs : 60000));
    rest = false;
    if (poll(polled.data(), polled.size(), timeout) < 0 && errno != EINTR) return false;
    if (polled[0].revents != 0) return true;
    auto client = clients_.begin();
    for (std::size_t i = 2; i < polled.size(); ++i) {
      const auto current = client++;
      if (polled[i].revents == 0) continue;
      if (!advance(*current)) clients_.erase(current);
      else clients_.splice(clients_.end(), clients_, current);
    }
    if (polled[1].revents != 0) rest = !accept();
  }
}

bool HttpServer::accept() {
  auto socket = listener_.accept(nullptr);
  if (!socket.ok()) return false;
  if (!socket->valid()) return true;
  if (clients_.size() >= kMostClients) clients_.pop_front();
  clients_.push_back(
      {.socket = std::move(*socket), .deadline = Clock::now() + kPatience, .in = {}, .out = {}});
  return true;
}

bool HttpServer::receive(Client& client) {
  char bytes[4096];
  const ssize_t got = recv(client.socket.fd(), bytes, sizeof bytes, 0);
  if (got < 0) return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
  if (got == 0) return false;
  if (!client.drained) client.in.append(bytes, static_cast<std::size_t>(got));
  return true;
}

bool HttpServer::advance(Client& client) {
  if (client.sent == client.out.size() && !receive(client)) return false;
  if (client.drained) return true;
  for (;;) {
    if (client.out.empty()) answer(client);
    if (client.out.empty()) return true;
    const ssize_t sent = send(client.socket.fd(), client.out.data() + client.sent,
                              client.out.size() - client.sent, MSG_NOSIGNAL);
    if (sent < 0) return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
    client.sent += static_cast<std::size_t>(sent);
    if (client.sent < client.out.size()) return true;
    client.out.clear();
    client.out.shrink_to_fit();
    client.sent = 0;
    if (!client.closing) continue;
    client.drained = true;
    client.deadline = Clock::now() + kDrainTime;
    return ::shutdown(client.socket.fd(), SHUT_WR) == 0;
  }
}

void HttpServer::answer(Client& client) {
  const HttpRequest request = readRequest(client.in);
  if (request.state == HttpRequest::State::kIncomplete) return;
  client.closing = request.close;
  HttpAnswer answer = {.status = request.status};
  if (request.state == HttpRequest::State::kWhole) answer = pages_(request.path);
  else answer.body = "status " + std::to_string(request.status) + "\n";
  client.in.erase(0, client.closing ? client.in.size() : request.length);
  client.out = answerText(answer, request.head, client.closing);
  client.deadline = Clock::now() + kPatience;
}

}  // namespace railwise::cli
