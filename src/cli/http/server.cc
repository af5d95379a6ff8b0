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
#include <optional>
#include <vector>

#include "base/text/words.h"
#include "cli/options/options.h"

namespace railwise::cli {
namespace {

HttpRequest wrong(int status) {
  return {.state = HttpRequest::State::kWrong, .status = status, .close = true};
}

// Takes a line with its end, LF or CR LF, from the front of `text`. Null: there is no whole line yet.
std::optional<std::string_view> takeLine(std::string_view& text) {
  const std::size_t end = text.find('\n');
  if (end == std::string_view::npos) return std::nullopt;
  std::string_view line = text.substr(0, end);
  text.remove_prefix(end + 1);
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

bool isToken(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("!#$%&'*+-.^_`|~").find(c) != std::string_view::npos;
  });
}

// "/metrics?x", or "http://host/metrics" as a proxy is sent it. Empty: no target.
std::string pathOf(std::string_view target) {
  if (lowerCase(target.substr(0, 7)) == "http://") {
    const std::size_t slash = target.find('/', 7);
    target = slash == std::string_view::npos ? "/" : target.substr(slash);
  }
  if (!target.starts_with('/')) return "";
  return std::string(target.substr(0, target.find_first_of("?#")));
}

// Is `option` in a list like "close, te"?
bool lists(std::string_view value, std::string_view option) {
  while (!value.empty()) {
    const std::size_t comma = std::min(value.find(','), value.size());
    if (lowerCase(trimmed(value.substr(0, comma), " \t")) == option) return true;
    value.remove_prefix(std::min(comma + 1, value.size()));
  }
  return false;
}

// Reads the fields up to the empty line into `request`. The status of what is wrong; 0: nothing; -1: the
// empty line has not come.
int readFields(std::string_view& text, bool newest, HttpRequest& request) {
  int hosts = 0;
  bool keep = false;
  for (;;) {
    const auto line = takeLine(text);
    if (!line) return -1;
    if (line->empty()) break;
    const std::size_t colon = line->find(':');
    if (colon == std::string_view::npos || !isToken(line->substr(0, colon))) return 400;
    const std::string name = lowerCase(line->substr(0, colon));
    const std::string_view value = trimmed(line->substr(colon + 1), " \t");
    if (std::ranges::any_of(value, [](unsigned char c) { return (c < ' ' && c != '\t') || c == 127; }))
      return 400;
    if (name == "host") ++hosts;
    if (name == "connection") {
      request.close |= lists(value, "close");
      keep |= lists(value, "keep-alive");
    }
    // A body is not read, so what follows the request is not known to be the next one.
    if (name == "transfer-encoding" || (name == "content-length" && value != "0")) request.close = true;
  }
  if (!newest && !keep) request.close = true;
  return newest && hosts != 1 ? 400 : 0;
}

const char* reason(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 400:
      return "Bad Request";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 431:
      return "Request Header Fields Too Large";
    case 505:
      return "HTTP Version Not Supported";
    default:
      return "Service Unavailable";
  }
}

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

HttpRequest readRequest(std::string_view text) {
  const bool full = text.size() >= kMostRequestBytes;
  text = text.substr(0, kMostRequestBytes);
  std::string_view rest = text;
  const HttpRequest incomplete = full ? wrong(431) : HttpRequest{};
  auto line = takeLine(rest);
  while (line && line->empty()) line = takeLine(rest);  // what some clients send behind a body
  if (!line) return incomplete;
  const std::size_t first = line->find(' ');
  const std::size_t last = line->rfind(' ');
  if (first == std::string_view::npos || first == last || !isToken(line->substr(0, first))) return wrong(400);
  const std::string_view method = line->substr(0, first);
  const std::string_view target = line->substr(first + 1, last - first - 1);
  const std::string_view version = line->substr(last + 1);
  if (std::ranges::any_of(target, [](char c) { return c <= ' ' || c > '~'; })) return wrong(400);
  if (version != "HTTP/1.1" && version != "HTTP/1.0") return wrong(version.starts_with("HTTP/") ? 505 : 400);
  HttpRequest request = {
      .state = HttpRequest::State::kWhole, .head = method == "HEAD", .path = pathOf(target)};
  const int status = readFields(rest, version == "HTTP/1.1", request);
  if (status < 0) return incomplete;
  if (status > 0) return wrong(status);
  if (method != "GET" && method != "HEAD") return wrong(405);
  if (request.path.empty()) return wrong(400);
  request.length = text.size() - rest.size();
  return request;
}

std::string answerText(const HttpAnswer& answer, bool head, bool close) {
  std::string text = "HTTP/1.1 " + std::to_string(answer.status) + " " + reason(answer.status) + "\r\n";
  text += "Content-Type: " + answer.type + "\r\n";
  text += "Content-Length: " + std::to_string(answer.body.size()) + "\r\n";
  if (answer.status == 405) text += "Allow: GET, HEAD\r\n";
  text += close ? "Connection: close\r\n" : "Connection: keep-alive\r\n";
  return text + "\r\n" + (head ? "" : answer.body);
}

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
  auto socket = listener_.accept();
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
