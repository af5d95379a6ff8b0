// The connection protocol's bytes: the listen handle that NCCL carries to the peer, and three TCP messages.
//
//   connector                                   listener
//   ConnectRequest  ------------------------->  makes its queue pair, ready to send and receive
//   makes its own ready  <---------------------  ConnectReply (or a refusal with the reason)
//   ConnectReady    ------------------------->  the connection stands
//
// Everything is little-endian with fixed offsets. All of it comes from outside: the check functions below
// look at every field before anyone uses one. Plain values, any thread.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "base/socket.h"
#include "net/limits.h"
#include "verbs/queue_pair.h"

namespace railwise::net {

static_assert(std::endian::native == std::endian::little,
              "the wire format is the memory of a little-endian machine");

inline constexpr uint64_t kMagic = 0x455349574c494152;  // "RAILWISE" in memory
inline constexpr uint16_t kProtocolVersion = 2;
inline constexpr std::size_t kHostBytes = 64;    // "host:pid", with its final zero
inline constexpr std::size_t kDeviceBytes = 64;  // verbs' own limit for device names

struct ListenHandle {
  uint64_t magic;
  uint16_t version;
  uint16_t family;  // 4 or 6
  uint16_t port;
  uint16_t reserved;
  uint64_t nonce;  // the secret that tells the peer from a stranger
  uint32_t scope_id;
  uint32_t reserved2;
  uint8_t address[16];
  char host[72];
  uint64_t connecting;  // written by connect() into the caller's copy: which attempt this is; 0 in transit
};
static_assert(sizeof(ListenHandle) == kHandleBytes);

enum class MessageType : uint16_t { kRequest = 1, kReply = 2, kReady = 3 };

struct MessageHeader {
  uint64_t magic;
  uint16_t version;
  MessageType type;
  uint32_t bytes;  // of the whole message
};
static_assert(sizeof(MessageHeader) == 16);

// One end of a connection.
struct EndInfo {
  uint32_t qp_number;
  uint16_t lid;
  uint8_t link_layer;  // 1 InfiniBand, 2 Ethernet
  uint8_t mtu;         // verbs code, 1 (256) to 5 (4096)
  uint8_t gid[16];
  uint64_t
      window_address;  // where the other end writes: clear-to-send ring (connector), size records (listener)
  uint32_t window_key;
  uint32_t piece_bytes;  // largest work request this port takes
  uint8_t service_level;
  uint8_t traffic_class;
  uint8_t reserved[6];
  char host[kHostBytes];
  char device[kDeviceBytes];
  uint64_t fabric;  // of a software device: which processes it reaches; 0: a real device
};
static_assert(sizeof(EndInfo) == 184);

struct ConnectRequest {
  MessageHeader header;
  uint64_t nonce;
  EndInfo end;
};
static_assert(sizeof(ConnectRequest) == 208);

struct ConnectReply {
  MessageHeader header;
  uint32_t accepted;  // 1, or 0 with the reason
  uint32_t reserved;
  char reason[160];
  EndInfo end;
};
static_assert(sizeof(ConnectReply) == 368);

struct ConnectReady {
  MessageHeader header;
};

template <typename Message>
Message makeMessage(MessageType type) {
  Message message = {};
  message.header = {kMagic, kProtocolVersion, type, sizeof(Message)};
  return message;
}

// The address in a handle, or no value when a field is impossible.
std::optional<SocketAddress> handleAddress(const ListenHandle& handle);

// What is wrong, in words for a log line, or "" when nothing is.
std::string checkHandle(const ListenHandle& handle);
std::string checkHeader(const MessageHeader& header, MessageType type, std::size_t bytes);
std::string checkEnd(const EndInfo& end);
// Whether the two ends' devices can reach each other at all: software devices reach only processes of their
// own machine. Names both hosts otherwise.
std::string checkFabric(const EndInfo& here, const EndInfo& there);

verbs::PathAddress pathAddress(const EndInfo& end);

// The bytes of a message, ready to be sent or received.
template <typename Message>
Transfer transferOf(Message& message) {
  return {std::as_writable_bytes(std::span(&message, 1)), 0};
}

// The text of a fixed field, which may lack its final zero.
std::string fieldText(std::span<const char> field);
// Copies `text` into a fixed field, cut if need be, always zero-terminated.
void copyText(std::span<char> field, std::string_view text);

// "host:pid" of this process, and a random number for a handle.
std::string localHostName();
uint64_t randomNonce();

}  // namespace railwise::net
