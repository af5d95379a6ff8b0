// Frames on the bootstrap network: a fixed header with magic, version, type and a bounded length, then the
// bytes. Everything that arrives is checked before it is used; a frame of another form ends the connection. A
// ByteReader or FrameChannel belongs to one thread at a time, but any thread may call send().
//
// This framing is separate from that of net/wireup (structs of one length per type) and of benchmarks/bench
// (one struct over a local SOCK_SEQPACKET). Each of them is about 20 lines, and one codec for all would be
// more.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/outcome.h"
#include "base/socket.h"
#include "base/status.h"

namespace railwise::cli {

using Bytes = std::vector<std::byte>;

enum class FrameType : uint16_t {
  kHello = 1,    // rank -> rank 0: who the rank is
  kWelcome = 2,  // rank 0 -> rank: all ranks that have joined
  kReject = 3,   // rank 0 -> rank: text, why the rank cannot join
  kData = 4,     // a block of a collective call
  kFailure = 5,  // u32 rank that has failed, text
  kGone = 6,     // u32 rank that has gone without a message
  kPulse = 7,    // some rank has made progress since the last pulse
  kBye = 8,      // the rank has finished
};

struct Frame {
  FrameType type = FrameType::kBye;
  Bytes payload;
};

// A rank exchanges at most 1024 peers x 16 channels x 128 bytes of handles at once. Rank 0 exchanges one such
// block per rank.
inline constexpr std::size_t kMaxPayload = std::size_t{16} << 20;
// How many bytes a connection may send before its rank is known.
inline constexpr std::size_t kMaxHello = 8192;

class ByteWriter {
 public:
  ByteWriter& u32(uint32_t value);
  ByteWriter& u64(uint64_t value);
  ByteWriter& text(const std::string& value);
  Bytes take() { return std::move(bytes_); }

 private:
  Bytes bytes_;
};

// Reading past the end returns zeros and empty texts, and makes ok() false.
class ByteReader {
 public:
  explicit ByteReader(std::span<const std::byte> bytes) : rest_(bytes) {}
  uint32_t u32();
  uint64_t u64();
  std::string text();
  bool ok() const { return ok_; }
  bool atEnd() const { return rest_.empty(); }

 private:
  std::span<const std::byte> rest_;
  bool ok_ = true;
};

Bytes toBytes(const std::string& text);
std::string toText(std::span<const std::byte> bytes);

enum class Received { kFrame, kNothing, kClosed, kNotOurs };

class FrameChannel {
 public:
  explicit FrameChannel(Socket socket) : socket_(std::move(socket)) {}

  // Returns one frame if a whole one has arrived. A frame larger than `max_payload` is refused.
  Received receive(Frame& frame, std::size_t max_payload);
  // Sends the whole frame, and waits for room until `deadline`. Errors: kRemote if the peer has gone or does
  // not read.
  Status send(FrameType type, std::span<const std::byte> payload, Deadline deadline);
  // Sends a frame without bytes if that is possible at once. Never waits.
  void sendIfIdle(FrameType type);
  // Makes the kernel notice within about 9 s that the peer's host has vanished.
  void keepAlive() { socket_.keepAlive(3, 2, 9'000); }
  // Ends the sending direction.
  void finishSending();
  int fd() const { return socket_.fd(); }

 private:
  struct Header {
    uint32_t magic;
    uint16_t version;
    uint16_t type;
    uint64_t bytes;
  };
  static_assert(sizeof(Header) == 16);
  static constexpr uint32_t kMagic = 0x52575442;  // "RWTB"
  static constexpr uint16_t kVersion = 1;

  Status sendAll(std::span<const std::byte> bytes, Deadline deadline);

  Socket socket_;
  std::mutex send_mutex_;
  Header header_ = {};
  std::size_t header_moved_ = 0;
  Bytes payload_;
  std::size_t payload_moved_ = 0;
};

// Accepts "host:port", "1.2.3.4:5" and "[::1]:5".
Outcome<SocketAddress> resolveAddress(const std::string& text);

// Rank 0's listener, and the callers that have not yet said who they are: strangers, too, may reach it. One
// thread.
class Callers {
 public:
  static constexpr std::size_t kMost = 64;

  explicit Callers(Socket listener) : listener_(std::move(listener)) {}

  struct Greeting {
    std::unique_ptr<FrameChannel> channel;
    Bytes hello;  // the payload of a frame kHello
  };
  // Waits a tenth of a second at most for a caller, or for bytes of one; also of `others`.
  void wait(std::span<const int> others = {});
  // Takes callers that wait. Returns those whose hello has come; who sends anything else, or nothing for ten
  // seconds, is dropped.
  std::vector<Greeting> greetings();
  SocketAddress address() const { return listener_.localAddress(); }

 private:
  struct Unknown {
    std::unique_ptr<FrameChannel> channel;
    Deadline deadline;
  };

  void acceptNew();

  Socket listener_;
  std::vector<Unknown> unknown_;
};

}  // namespace railwise::cli
