// Frames on the bootstrap network: a fixed header with magic, version, type and a bounded length, then the
// bytes. Everything that arrives is checked before it is believed: a frame that is not ours ends the
// connection. A FrameReader or FrameChannel belongs to one thread at a time, except send(), which any thread
// may call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/socket.h"
#include "base/status.h"

namespace railwise::tools {

using Bytes = std::vector<std::byte>;

enum class FrameType : uint16_t {
  kHello = 1,    // rank -> 0: who I am
  kWelcome = 2,  // 0 -> rank: everybody who has joined
  kReject = 3,   // 0 -> rank: text, why you cannot join
  kData = 4,     // a block of a collective call
  kFailure = 5,  // rank u32 (whose), text
  kGone = 6,     // rank u32 (who has left without a word)
  kPulse = 7,    // somebody has made progress since the last one
  kBye = 8,      // I have finished
};

struct Frame {
  FrameType type = FrameType::kBye;
  Bytes payload;
};

// A rank exchanges at most 1024 peers x 16 channels x 128 bytes of handles at once, rank 0 one such block per
// rank.
inline constexpr std::size_t kMaxPayload = std::size_t{16} << 20;
// What somebody who has not said who he is may send.
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

// Reading past the end gives zeros and empty texts, and ok() turns false.
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

  // One frame, if a whole one has arrived. `max_payload` bounds what is accepted.
  Received receive(Frame& frame, std::size_t max_payload);
  // Sends the whole frame, waiting for room until `deadline`. Errors: kRemote when the peer has gone or is
  // stuck.
  Status send(FrameType type, std::span<const std::byte> payload, Deadline deadline);
  // A frame without bytes, only if it can go at once; never waits.
  void sendIfIdle(FrameType type);
  // Notice a host that vanishes without a word within some 9 s.
  void keepAlive();
  // Nothing more will be sent.
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

// "host:port", "1.2.3.4:5", "[::1]:5".
Result<SocketAddress> resolveAddress(const std::string& text, std::string* error);

}  // namespace railwise::tools
