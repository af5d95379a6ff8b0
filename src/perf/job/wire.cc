#include "perf/job/wire.h"

#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>

#include <cstring>

#include "cli/options/options.h"

namespace railwise::cli {
namespace {

// Of a connection that has not yet sent a valid hello: a stranger, or a rank that is still joining.
constexpr Clock::duration kHelloTimeout = std::chrono::seconds(10);

}  // namespace

ByteWriter& ByteWriter::u32(uint32_t value) {
  for (int shift = 0; shift < 32; shift += 8) bytes_.push_back(static_cast<std::byte>(value >> shift & 0xff));
  return *this;
}

ByteWriter& ByteWriter::u64(uint64_t value) {
  return u32(static_cast<uint32_t>(value)).u32(static_cast<uint32_t>(value >> 32));
}

ByteWriter& ByteWriter::text(const std::string& value) {
  u32(static_cast<uint32_t>(value.size()));
  const Bytes bytes = toBytes(value);
  bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
  return *this;
}

uint32_t ByteReader::u32() {
  if (rest_.size() < 4) {
    ok_ = false;
    rest_ = {};
    return 0;
  }
  uint32_t value = 0;
  for (unsigned i = 0; i < 4; ++i) value |= std::to_integer<uint32_t>(rest_[i]) << (8 * i);
  rest_ = rest_.subspan(4);
  return value;
}

uint64_t ByteReader::u64() {
  const uint64_t low = u32();
  return low | static_cast<uint64_t>(u32()) << 32;
}

std::string ByteReader::text() {
  const std::size_t size = u32();
  if (size > rest_.size()) {
    ok_ = false;
    rest_ = {};
    return {};
  }
  std::string value = toText(rest_.first(size));
  rest_ = rest_.subspan(size);
  return value;
}

Bytes toBytes(const std::string& text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

std::string toText(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

Received FrameChannel::receive(Frame& frame, std::size_t max_payload) {
  if (header_moved_ < sizeof header_) {
    Transfer transfer{std::as_writable_bytes(std::span(&header_, 1)), header_moved_};
    const auto io = socket_.receive(transfer);
    header_moved_ = transfer.moved;
    if (!io.ok() || *io == Io::kClosed) return Received::kClosed;
    if (*io == Io::kAgain) return Received::kNothing;
    const bool ours = header_.magic == kMagic && header_.version == kVersion && header_.bytes <= max_payload;
    if (!ours) return Received::kNotOurs;
    payload_.resize(header_.bytes);
    payload_moved_ = 0;
  }
  Transfer transfer{payload_, payload_moved_};
  const auto io = socket_.receive(transfer);
  payload_moved_ = transfer.moved;
  if (!io.ok() || *io == Io::kClosed) return Received::kClosed;
  if (*io == Io::kAgain) return Received::kNothing;
  frame = {static_cast<FrameType>(header_.type), std::move(payload_)};
  payload_ = {};
  header_moved_ = 0;
  return Received::kFrame;
}

Status FrameChannel::sendAll(std::span<const std::byte> bytes, Deadline deadline) {
  // Transfer needs mutable bytes, although sending only reads them.
  Transfer transfer{{const_cast<std::byte*>(bytes.data()), bytes.size()}};
  while (true) {
    const auto io = socket_.send(transfer);
    if (!io.ok()) return io.status();
    if (*io == Io::kDone) return Status::success();
    if (*io == Io::kClosed || deadline.passed()) return {Code::kRemote};
    pollfd writable = {.fd = socket_.fd(), .events = POLLOUT, .revents = 0};
    poll(&writable, 1, 50);
  }
}

Status FrameChannel::send(FrameType type, std::span<const std::byte> payload, Deadline deadline) {
  const std::lock_guard lock(send_mutex_);
  const Header header = {kMagic, kVersion, static_cast<uint16_t>(type), payload.size()};
  RAILWISE_TRY(sendAll(std::as_bytes(std::span(&header, 1)), deadline));
  return sendAll(payload, deadline);
}

void FrameChannel::sendIfIdle(FrameType type) {
  const std::unique_lock lock(send_mutex_, std::try_to_lock);
  pollfd writable = {.fd = socket_.fd(), .events = POLLOUT, .revents = 0};
  if (!lock.owns_lock() || poll(&writable, 1, 0) != 1 || (writable.revents & POLLOUT) == 0) return;
  const Header header = {kMagic, kVersion, static_cast<uint16_t>(type), 0};
  // A writable socket has a third of its send buffer free, so the header is sent as a whole.
  (void)sendAll(std::as_bytes(std::span(&header, 1)), Deadline::after(std::chrono::milliseconds(10)));
}

void FrameChannel::finishSending() { (void)shutdown(socket_.fd(), SHUT_WR); }

Outcome<SocketAddress> resolveAddress(const std::string& text) {
  const auto colon = text.rfind(':');
  const auto port = colon == std::string::npos ? std::nullopt : parseInt(text.substr(colon + 1), 1, 65535);
  std::string host = text.substr(0, colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  if (!port || host.empty()) return Error{"'" + text + "' is not HOST:PORT with a port from 1 to 65535"};
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const std::string service = std::to_string(*port);
  if (const int failure = getaddrinfo(host.c_str(), service.c_str(), &hints, &found); failure != 0)
    return Error{"cannot find the address of '" + host + "': " + gai_strerror(failure)};
  const SocketAddress address(*found->ai_addr);
  freeaddrinfo(found);
  return address;
}

void Callers::wait(std::span<const int> others) {
  std::vector<pollfd> fds = {{.fd = listener_.fd(), .events = POLLIN, .revents = 0}};
  for (const Unknown& unknown : unknown_)
    fds.push_back({.fd = unknown.channel->fd(), .events = POLLIN, .revents = 0});
  for (const int fd : others) fds.push_back({.fd = fd, .events = POLLIN, .revents = 0});
  poll(fds.data(), fds.size(), 100);
}

std::vector<Callers::Greeting> Callers::greetings() {
  acceptNew();
  std::vector<Greeting> greetings;
  std::erase_if(unknown_, [&](Unknown& unknown) {
    Frame frame;
    const Received received = unknown.channel->receive(frame, kMaxHello);
    if (received == Received::kNothing) return unknown.deadline.passed();
    if (received == Received::kFrame && frame.type == FrameType::kHello)
      greetings.push_back({std::move(unknown.channel), std::move(frame.payload)});
    return true;
  });
  return greetings;
}

void Callers::acceptNew() {
  // All of them have been read since they came, and a rank greets at once. So the oldest are strangers: they
  // make room for callers that wait. A rank that this hits connects again.
  constexpr std::ptrdiff_t kEvicted = 16;
  if (unknown_.size() >= kMost) unknown_.erase(unknown_.begin(), unknown_.begin() + kEvicted);
  while (unknown_.size() < kMost) {
    auto socket = listener_.accept();
    if (!socket.ok() || !socket->valid()) return;
    unknown_.push_back({std::make_unique<FrameChannel>(std::move(*socket)), Deadline::after(kHelloTimeout)});
  }
}

}  // namespace railwise::cli
