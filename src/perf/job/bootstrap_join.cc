#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "base/process.h"
#include "base/text/words.h"
#include "cli/options/message.h"
#include "perf/job/bootstrap.h"

namespace railwise::cli {
namespace {

using std::chrono::milliseconds;
// Pause between attempts to connect, if this rank or rank 0 was started late.
constexpr milliseconds kRetryPause{20};
constexpr milliseconds kSendTimeout{5'000};
constexpr Clock::duration kWaitingNote = std::chrono::seconds(2);

Peer myself(int rank) {
  // On a software machine, the host that this process stands for.
  if (const char* played = std::getenv("RAILWISE_HOST"); played != nullptr && *played != '\0')
    return {rank, getpid(), played};
  return {rank, getpid(), hostName()};
}

Bytes hello(const BootstrapOptions& options) {
  const Peer me = myself(options.rank);
  return ByteWriter()
      .text(options.secret)
      .u32(static_cast<uint32_t>(options.rank))
      .u32(static_cast<uint32_t>(options.size))
      .u32(static_cast<uint32_t>(me.pid))
      .text(me.host)
      .text(options.agreement)
      .take();
}

// The state of rank 0 while the other ranks join.
class Reception {
 public:
  Reception(const BootstrapOptions& options, Socket listener)
      : options_(options), callers_(std::move(listener)) {
    joined_.channels.resize(static_cast<std::size_t>(options.size));
    joined_.peers.resize(static_cast<std::size_t>(options.size));
    joined_.peers[0] = myself(0);
  }

  Outcome<Joined> run() {
    const Deadline deadline = Deadline::after(options_.timeout);
    const Deadline note_at = Deadline::after(kWaitingNote);
    while (missing_ > 0) {
      if (deadline.passed()) return timedOut();
      callers_.wait();
      for (Callers::Greeting& caller : callers_.greetings())
        if (const auto greeted = greet(std::move(caller.channel), caller.hello); !greeted.ok())
          return greeted.failure();
      if (const auto watched = watchJoined(); !watched.ok()) return watched.failure();
      if (missing_ > 0 && !noted_ && note_at.passed()) options_.on_waiting(missing_), noted_ = true;
    }
    return welcomeAll();
  }

 private:
  Outcome<void> greet(std::unique_ptr<FrameChannel> channel, const Bytes& payload) {
    ByteReader reader(payload);
    if (reader.text() != options_.secret) return {};  // a rank of another job
    const auto rank = static_cast<int>(reader.u32());
    const auto size = static_cast<int>(reader.u32());
    Peer peer{rank, static_cast<pid_t>(reader.u32()), reader.text()};
    const std::string agreement = reader.text();
    if (!reader.ok()) return {};
    if (const std::string reason = objection(peer, size, agreement); !reason.empty()) {
      (void)channel->send(FrameType::kReject, toBytes(reason), Deadline::after(kSendTimeout));
      if (!options_.on_refused) return Error{reason};
      options_.on_refused(reason);
      return {};
    }
    channel->keepAlive();
    joined_.channels[static_cast<std::size_t>(rank)] = std::move(channel);
    joined_.peers[static_cast<std::size_t>(rank)] = std::move(peer);
    --missing_;
    return {};
  }

  std::string objection(const Peer& peer, int size, const std::string& agreement) const {
    if (size != options_.size)
      return textOf("%s says that the job has %d ranks, rank 0 says %d", peer.text().c_str(), size,
                    options_.size);
    if (peer.rank < 1 || peer.rank >= size)
      return textOf("%s does not belong to a job of %d ranks", peer.text().c_str(), size);
    if (joined_.channels[static_cast<std::size_t>(peer.rank)] != nullptr)
      return textOf("rank %d is there twice: %s and %s", peer.rank,
                    joined_.peers[static_cast<std::size_t>(peer.rank)].text().c_str(), peer.text().c_str());
    if (agreement != options_.agreement)
      return textOf("%s was started with other options than rank 0: '%s', rank 0: '%s'", peer.text().c_str(),
                    agreement.c_str(), options_.agreement.c_str());
    return {};
  }

  // A rank that has joined sends nothing until all ranks are there. So the only possible event is the end of
  // its connection.
  Outcome<void> watchJoined() {
    for (std::size_t rank = 1; rank < joined_.channels.size(); ++rank) {
      Frame frame;
      if (joined_.channels[rank] == nullptr ||
          joined_.channels[rank]->receive(frame, 0) == Received::kNothing)
        continue;
      return Error{joined_.peers[rank].text() + " is gone"};
    }
    return {};
  }

  Error timedOut() {
    std::vector<std::string> missing;
    for (int rank = 1; rank < options_.size; ++rank)
      if (joined_.channels[static_cast<std::size_t>(rank)] == nullptr)
        missing.push_back(std::to_string(rank));
    return {"rank " + firstItems(missing, 8) + " did not connect to " + callers_.address().text() +
            " in time"};
  }

  Outcome<Joined> welcomeAll() {
    ByteWriter table;
    for (const Peer& peer : joined_.peers) table.u32(static_cast<uint32_t>(peer.pid)).text(peer.host);
    const Bytes payload = table.take();
    for (std::size_t rank = 1; rank < joined_.channels.size(); ++rank) {
      if (joined_.channels[rank]->send(FrameType::kWelcome, payload, Deadline::after(kSendTimeout)).ok())
        continue;
      return Error{joined_.peers[rank].text() + " is gone"};
    }
    return std::move(joined_);
  }

  const BootstrapOptions& options_;
  Callers callers_;
  Joined joined_;
  int missing_ = options_.size - 1;
  bool noted_ = false;
};

// The state of every other rank while it joins.
class Newcomer {
 public:
  explicit Newcomer(const BootstrapOptions& options) : options_(options) {}

  Outcome<Joined> run() {
    const Deadline deadline = Deadline::after(options_.timeout);
    const char* why = "nobody answers";
    while (!deadline.passed()) {
      if (auto channel = connectOnce(); channel != nullptr) {
        auto joined = waitForWelcome(std::move(channel), deadline);
        if (joined.ok() || joined.failure().code != Code::kSystem) return joined;
        why = "it closed the connection (another program, or another job?)";
      }
      std::this_thread::sleep_for(kRetryPause);
    }
    return Error{"rank 0 at " + options_.address.text() + " is not there: " + why};
  }

 private:
  std::unique_ptr<FrameChannel> connectOnce() {
    auto socket = Socket::connect(options_.address);
    if (!socket.ok()) return nullptr;
    pollfd writable = {.fd = socket->fd(), .events = POLLOUT, .revents = 0};
    poll(&writable, 1, 1'000);
    const auto io = socket->connected();
    if (!io.ok() || *io != Io::kDone) return nullptr;
    auto channel = std::make_unique<FrameChannel>(std::move(*socket));
    const Status sent = channel->send(FrameType::kHello, hello(options_), Deadline::after(kSendTimeout));
    return sent.ok() ? std::move(channel) : nullptr;
  }

  // kSystem: rank 0 closed the connection without an answer.
  Outcome<Joined> waitForWelcome(std::unique_ptr<FrameChannel> channel, Deadline deadline) {
    while (!deadline.passed()) {
      pollfd readable = {.fd = channel->fd(), .events = POLLIN, .revents = 0};
      poll(&readable, 1, 100);
      Frame frame;
      const Received received = channel->receive(frame, kMaxPayload);
      if (received == Received::kNothing) continue;
      if (received != Received::kFrame) return Error{"", Code::kSystem};
      if (frame.type == FrameType::kReject) return Error{toText(frame.payload), Code::kRemote};
      if (frame.type == FrameType::kWelcome) return welcomed(std::move(channel), frame.payload);
    }
    return Error{"rank 0 at " + options_.address.text() + " still waits for other ranks", Code::kRemote};
  }

  Outcome<Joined> welcomed(std::unique_ptr<FrameChannel> channel, const Bytes& table) {
    Joined joined;
    ByteReader reader(table);
    for (int rank = 0; rank < options_.size; ++rank) {
      const auto pid = static_cast<pid_t>(reader.u32());
      joined.peers.push_back({rank, pid, reader.text()});
    }
    if (!reader.ok()) return Error{"rank 0 sent a table of ranks that makes no sense", Code::kRemote};
    channel->keepAlive();
    joined.channels.resize(static_cast<std::size_t>(options_.size));
    joined.channels[0] = std::move(channel);
    return joined;
  }

  const BootstrapOptions& options_;
};

// Listens only on this host if rank 0's address is a loopback address, otherwise on all interfaces.
Outcome<Socket> listenFor(const SocketAddress& address, int size) {
  const auto bytes = address.bytes();
  const bool v4 = address.family() == AF_INET;
  const bool loopback =
      v4 ? bytes[0] == 127 : bytes[15] == 1 && std::count(bytes.begin(), bytes.end(), 0) == 15;
  const std::vector<uint8_t> any(bytes.size(), 0);
  const SocketAddress local = loopback ? address : SocketAddress(address.family(), any, address.port(), 0);
  auto listener = Socket::listen(local, size + static_cast<int>(Callers::kMost));
  if (!listener.ok())
    return Error{"cannot listen on " + local.text() + ": " + std::strerror(listener.status().sys_errno) +
                 " (--address HOST:PORT chooses another)"};
  return std::move(*listener);
}

}  // namespace

Outcome<Joined> joinJob(const BootstrapOptions& options, Socket listener) {
  if (options.rank != 0) return Newcomer(options).run();
  if (!listener.valid() && options.size > 1) {
    auto opened = listenFor(options.address, options.size);
    if (!opened.ok()) return opened.failure();
    listener = std::move(*opened);
  }
  return Reception(options, std::move(listener)).run();
}

}  // namespace railwise::cli
