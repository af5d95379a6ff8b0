// The bytes of the handshake: the listen handle that NCCL carries to the peer, and three TCP messages. Each
// message has MACs (authentication.h), which prove that its sender knows the secret of the handle.
//
//   connector                                   listener
//   ConnectRequest  ------------------------->  pairs the rails, makes its queue pairs, ready to send
//   its queue pairs ready to send  <----------  ConnectReply (or a refusal with the reason)
//   ConnectReady    ------------------------->  the connection stands (or the connector gives up)
//
// Everything is little-endian with fixed offsets. All of it comes from outside: the check functions below
// check every field before any other code uses one. Plain values, any thread.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/protocol_version.h"
#include "base/socket.h"
#include "net/limits.h"
#include "verbs/queue_pair.h"

namespace railwise::net {

static_assert(std::endian::native == std::endian::little,
              "the wire format is the memory of a little-endian machine");

inline constexpr uint64_t kMagic = 0x455349574c494152;  // "RAILWISE" in memory
inline constexpr std::size_t kHostBytes = 64;           // "host:pid", with its final zero
inline constexpr std::size_t kHandleHostBytes = 30;     // the same in a handle, which has less room
inline constexpr std::size_t kDeviceBytes = 64;         // verbs' own limit for device names
inline constexpr std::size_t kVersionBytes = 16;
// The version of a NIC's firmware or of a GPU driver. "NVIDIA 550.90.07" has 16 characters; a text that is
// too long is cut, at both ends alike.
inline constexpr std::size_t kForeignVersionBytes = 24;
inline constexpr int kCandidates = 3;  // number of TCP addresses in a handle
inline constexpr int kRailGids = 3;    // number of GIDs that a rail offers

struct HandleAddress {
  uint8_t bytes[16];  // IPv4 as ::ffff:a.b.c.d
  uint32_t scope_id;
};
static_assert(sizeof(HandleAddress) == 20);

// What a caller must know to be the peer. It never travels over the connection.
struct Secret {
  uint8_t bytes[16];
};
struct Random {
  uint8_t bytes[16];
};
// HMAC-SHA-256, cut to half (RFC 2104, 5).
struct Mac {
  uint8_t bytes[16];
};

// What a listener listens for. A handle of one kind is no good for the other.
enum class ListenerKind : uint8_t { kMessages = 0, kOneSided = 1 };

struct ListenHandle {
  uint64_t magic;
  uint16_t oldest_version;  // of the protocol, that the listener speaks
  uint16_t port;
  uint8_t candidates;    // number of valid addresses; the first one is tried first
  uint8_t rails;         // number of rails of the listener's device
  uint8_t out_of_order;  // 1: the listener's queue pairs can take messages in any order
  ListenerKind kind;
  Secret secret;
  HandleAddress addresses[kCandidates];
  // Number of the connection attempt; connect() writes it into the caller's copy; 0 in transit.
  uint32_t connecting;
  char host[kHandleHostBytes];  // "host:pid"; a long host name is cut
  uint16_t newest_version;
};
static_assert(sizeof(ListenHandle) == kHandleBytes);

enum class MessageType : uint16_t {
  kRequest = 1,
  kReply = 2,
  kReady = 3,
  // Frames of the side channel (frames.h).
  kBreak = 4,
  kReconcile = 5,
  kPropose = 6,
  kAccept = 7,
  kBegin = 8,
  kArrived = 9,
  kAskRails = 10,
  kRails = 11,
  kTrial = 12,
  kTrialReply = 13,
  kClose = 14,
  kUnposted = 15,
  kSearching = 16,
  // A side channel that has broken is resumed (resumer.h).
  kResumeHello = 17,
  kResumeAnswer = 18,
  kResumeProof = 19,
  kUser = 20,  // a frame of the side channel, too
};

struct MessageHeader {
  uint64_t magic;
  // In a request: the newest version of the protocol that both ends speak. Both know it then, and nobody
  // reads the field in other messages.
  uint16_t version;
  MessageType type;
  uint32_t bytes;  // length of the whole message
};
static_assert(sizeof(MessageHeader) == 16);

enum class LinkLayer : uint8_t { kInfiniBand = 1, kRoce = 2, kIwarp = 3 };

// One rail of an end.
struct RailInfo {
  uint16_t lid;
  LinkLayer link_layer;
  uint8_t mtu;  // verbs code, 1 (256) to 5 (4096)
  uint8_t port;
  uint8_t gid_count;
  uint8_t reads;  // reads that a queue pair can have under way and answer at once; 0: one
  uint8_t reserved;
  int16_t rail;  // rail of the network; -1: not known
  int16_t plane;
  uint32_t speed_mbps;
  uint32_t max_request_bytes;       // largest work request that this port takes
  uint32_t window_key;              // remote key of the end's window through this rail
  uint8_t gids[kRailGids][16];      // with RDMA CM: addresses, IPv4 as ::ffff:a.b.c.d
  uint8_t gid_versions[kRailGids];  // RoCE: 1 or 2; 0: not known
  uint8_t gid_index[kRailGids];     // index in the port's GID table, for log messages
  uint8_t reserved2[2];
  // In a reply: the port at which RDMA CM listens, for each of `gids`; 0: none.
  uint16_t cm_ports[kRailGids];
  uint16_t reserved3;
  char device[kDeviceBytes];
  uint32_t nic_vendor;  // vendor_id and vendor_part_id of verbs: the type of the NIC
  uint32_t nic_part;
  char nic_firmware[kForeignVersionBytes];  // fw_ver of verbs; "": not known
};
static_assert(sizeof(RailInfo) == 184);
// Reads that a queue pair between two rails has under way at most, in both directions.
inline uint8_t readsBetween(const RailInfo& one, const RailInfo& other) {
  return std::max<uint8_t>(1, std::min(one.reads, other.reads));
}

// One queue pair of an end. A reply also has the pairing: `rail` is the listener's rail, `gid` the entry in
// that rail's list, and `peer_gid` the entry in the list of the connector's rail.
struct QueuePairInfo {
  uint32_t number;  // 0: this queue pair is not used
  uint8_t rail;
  uint8_t gid;
  uint8_t peer_gid;
  uint8_t used;  // in a reply: 0: no rail of the listener can be reached from `rail`
  uint32_t ece_vendor;
  uint32_t ece_options;
  uint32_t ece_mask;
};
static_assert(sizeof(QueuePairInfo) == 20);

// One end of a connection.
struct EndInfo {
  char host[kHostBytes];
  uint64_t fabric;          // for a software device: the fabric that it belongs to; 0: a real device
  uint64_t window_address;  // begin of the window
  uint8_t rails;
  uint8_t queue_pairs;
  uint8_t lanes;  // queue pair i belongs to lane i mod lanes
  uint8_t service_level;
  uint8_t traffic_class;
  uint8_t connection_manager;  // 1: queue pairs are connected by RDMA CM
  uint8_t out_of_order;        // 1: queue pairs take messages in any order
  uint8_t failover;            // 1: this end can fail over to another path
  uint8_t devices;             // number of physical devices of the process
  uint8_t reserved;
  uint16_t resume_port;         // TCP port at which this end resumes side channels; 0: it does not
  uint32_t user_word;           // what the user of the link says of this end (ConnectionOptions::user_word)
  char version[kVersionBytes];  // version of Railwise
  char gpu_driver[kForeignVersionBytes];  // "NVIDIA 550.90.07"; "": no driver, or its version is not known
  RailInfo rail[kMaxRails];
  QueuePairInfo queue_pair[kMaxQueuePairs];
};
static_assert(sizeof(EndInfo) == 136 + 8 * 184 + 32 * 20);

inline constexpr std::size_t kRefusalBytes = 256;

struct ConnectRequest {
  MessageHeader header;
  Random random;
  Mac hello;
  EndInfo end;
  Mac mac;
};
static_assert(sizeof(ConnectRequest) == 48 + sizeof(EndInfo) + 16);

struct ConnectReply {
  MessageHeader header;
  Random random;
  uint32_t accepted;  // 1: accepted; 0: refused, see `reason`
  uint32_t reserved;
  char reason[kRefusalBytes];
  EndInfo end;
  Mac mac;
};
static_assert(sizeof(ConnectReply) == 40 + kRefusalBytes + sizeof(EndInfo) + 16);

struct ConnectReady {
  MessageHeader header;
  uint32_t accepted;  // 1: the connection stands; 0: the connector gives it up, see `reason`
  uint32_t reserved;
  char reason[kRefusalBytes];
  Mac mac;
};
static_assert(sizeof(ConnectReady) == 24 + kRefusalBytes + 16);

// Private data of a connection manager's request: the proof that it comes from the peer
// (Session::callProof()), the epoch and the index of the sender's queue pair. For a trial: the trial's
// number, and kTrialCall.
struct CmPrivate {
  Mac proof;
  uint64_t epoch;
  uint32_t queue_pair;
  uint32_t reserved;
};
inline constexpr uint32_t kTrialCall = UINT32_MAX;
static_assert(sizeof(CmPrivate) <= 56);

// ---- How a side channel that has broken is resumed over a new TCP connection (resumer.h)

// From either end of the connection. From the sender: resumes the channel. From the receiver: asks whether
// the peer still has the connection, and whether it knows that the channel has broken.
struct ResumeHello {
  MessageHeader header;
  Random random;
  uint64_t id;          // Session::id()
  uint8_t from_sender;  // 1: the caller is the connection's sender
  uint8_t reserved[3];
  uint32_t call;  // the caller counts its calls for this connection, from 1
  Mac mac;
};
static_assert(sizeof(ResumeHello) == 64);

struct ResumeAnswer {
  MessageHeader header;
  Random random;
  uint64_t known;  // 1; 0: the process has no such connection (then there is no key, and no MAC)
  uint64_t heard;  // number of the last frame that this end has
  Mac mac;
};
static_assert(sizeof(ResumeAnswer) == 64);

struct ResumeProof {
  MessageHeader header;
  uint64_t heard;
  Mac mac;
};
static_assert(sizeof(ResumeProof) == 40);

template <typename Message>
Message makeMessage(MessageType type) {
  Message message = {};
  message.header = {kMagic, kProtocol.newest, type, sizeof(Message)};
  return message;
}

// The addresses in a handle, the preferred one first; none if a field is impossible.
std::vector<SocketAddress> handleAddresses(const ListenHandle& handle);
// Puts up to kCandidates addresses of one port into a handle.
void setHandleAddresses(ListenHandle& handle, std::span<const SocketAddress> addresses, uint16_t port);

// These functions return what is wrong, in words for a log line, or "" if nothing is.
// `expected`: the kind of listener that the caller wants to reach.
std::string checkHandle(const ListenHandle& handle, ListenerKind expected);
std::string checkHeader(const MessageHeader& header, MessageType type, std::size_t bytes);
// The newest version of the protocol that this end and the listener of a handle that is right speak.
inline uint16_t commonVersion(const ListenHandle& handle) {
  return std::min(handle.newest_version, kProtocol.newest);
}
std::string checkEnd(const EndInfo& end);
// Of a request or a reply: does this end have no queue pairs, because no port works or a device has failed?
// The connection then begins in the state of one that has lost all its paths (docs/develop/wireup.md).
inline bool beginsLost(const EndInfo& end) { return end.queue_pairs == 0; }
// Like checkEnd(), for the end in a request or a reply, which may have no queue pairs.
std::string checkFirstEnd(const EndInfo& end);
// Does a rail have an address; does any rail of an end, or do all? A port that is down offers none.
inline bool reachable(const RailInfo& rail) { return rail.gid_count > 0; }
inline bool anyReachable(const EndInfo& end) {
  return std::any_of(end.rail, end.rail + end.rails, reachable);
}
inline bool allReachable(const EndInfo& end) {
  return std::all_of(end.rail, end.rail + end.rails, reachable);
}
// Like checkEnd(), without the fields of queue pairs and windows. There may be no rail.
std::string checkRails(const EndInfo& end);
// Checks the pairing in a reply against the request.
std::string checkPairing(const EndInfo& request, const EndInfo& reply);
// Like checkPairing(), for a handshake's reply, which may have no queue pairs.
std::string checkFirstPairing(const EndInfo& request, const EndInfo& reply);
// Checks whether the devices of the two ends can reach each other at all: a software device reaches only
// processes of its own fabric. The answer names both hosts.
std::string checkFabric(const EndInfo& here, const EndInfo& there);

// The bytes of a message, ready to be sent or received.
template <typename Message>
Transfer transferOf(Message& message) {
  return {std::as_writable_bytes(std::span(&message, 1)), 0};
}

// The text of a fixed field; the field may have no final zero.
std::string fieldText(std::span<const char> field);
// Copies `text` into a fixed field. The text is cut if it is too long, and always ends with a zero.
void copyText(std::span<char> field, std::string_view text);

// "host:pid" of this process. `played`: the host of a software machine that the process plays; "": it is on
// this computer.
std::string localHostName(const std::string& played);
// The same in at most `size` - 1 characters: of a long host name the end is cut, never the process id.
std::string shortHostName(const std::string& host, std::size_t size);

}  // namespace railwise::net
