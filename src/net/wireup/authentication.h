// How the two ends of a connection prove to each other that they know the secret of the listen handle,
// without sending it, and the MACs of what they send each other afterwards. docs/security.md says against
// whom.
//
// All MACs are HMAC-SHA-256, cut to 16 bytes, over a label and the bytes. Each end adds 16 random bytes to
// the handshake, so no MAC of an earlier handshake is right in a later one:
//
//   ConnectRequest   random of the connector, hello: MAC of header and random, mac: MAC of the rest
//   ConnectReply     random of the listener,  mac: MAC of the request's mac and the reply
//   ConnectReady                              mac: MAC of the reply's mac and the message
//
// The messages that resume a side channel have MACs with the keys of its frames:
//
//   ResumeHello      random of the caller, mac: MAC of the rest
//   ResumeAnswer     random of the called end, mac: MAC of the hello's mac and the rest
//   ResumeProof                            mac: MAC of the answer's mac and the rest
//
// The hello alone shows that the caller knows the secret. It is in the first packet, so the listener tells
// strangers from the peer before it keeps anything for the caller. A hello that the listener has heard before
// is a replay: the secret is of one listener, which remembers the randoms that it has heard.
// Plain values, any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/secrets.h"
#include "net/wireup/handshake.h"

namespace railwise::net {

// Random bytes of the kernel.
Random randomBytes();
// The secret of a new handle: never all zeros.
Secret makeSecret();
bool sameSecret(const Secret& one, const Secret& other);
bool sameMac(const Mac& one, const Mac& other);

// Writes the MACs of a message whose other fields are complete. The reply is complete with its random, the
// request with its own.
void seal(ConnectRequest& request, const Secret& secret);
void seal(ConnectReply& reply, const ConnectRequest& request, const Secret& secret);
void seal(ConnectReady& ready, const ConnectReply& reply, const Secret& secret);

// Is the hello right? Only the first kHelloBytes of the request are looked at.
inline constexpr std::size_t kHelloBytes = offsetof(ConnectRequest, end);
bool helloIsTrue(const ConnectRequest& request, const Secret& secret);
// Is the MAC right?
bool isTrue(const ConnectRequest& request, const Secret& secret);
bool isTrue(const ConnectReply& reply, const ConnectRequest& request, const Secret& secret);
bool isTrue(const ConnectReady& ready, const ConnectReply& reply, const Secret& secret);

// The number that the records of both ends show for their connection. It tells nothing of the secret.
// `caller`: the user word of the end that called, which tells apart the callers of one listener.
uint64_t pairId(const Secret& secret, uint32_t caller);

// The keys of the side channel's frames, one for each direction.
struct FrameKeys {
  Hmac from_sender;
  Hmac from_receiver;
};

// What both ends know once the reply is there.
struct Session {
  Secret secret = {};
  Random connector = {};
  Random listener = {};
  FrameKeys frameKeys() const;
  // Names the connection when its side channel is resumed. It tells nothing of the secret.
  uint64_t id() const;
  // The first packet number (24 bits) of two queue pairs that are connected in `epoch`. `numbers`: XOR of
  // their numbers. Each epoch and connection has packet numbers of its own, which nobody else can compute: a
  // late packet must not reach a queue pair that has got the number of an earlier queue pair.
  uint32_t firstPacket(uint64_t epoch, uint32_t numbers) const;
  // Proves an RDMA CM request for queue pair `index` of the sender in an epoch (CmPrivate).
  Mac callProof(uint64_t epoch, uint32_t index) const;
};

// Write and check the MACs of the messages that resume a side channel. `key`: of the end that sends the
// message.
void seal(ResumeHello& hello, const Hmac& key);
void seal(ResumeAnswer& answer, const ResumeHello& hello, const Hmac& key);
void seal(ResumeProof& proof, const ResumeAnswer& answer, const Hmac& key);
bool isTrue(const ResumeHello& hello, const Hmac& key);
bool isTrue(const ResumeAnswer& answer, const ResumeHello& hello, const Hmac& key);
bool isTrue(const ResumeProof& proof, const ResumeAnswer& answer, const Hmac& key);

// Follows each frame of the side channel.
struct FrameSeal {
  uint64_t number;  // the sender of the frames counts them, from 1
  uint64_t heard;   // number of the last frame that the sender of this frame had from its peer
  Mac mac;          // of the frame and the two numbers
};
static_assert(sizeof(FrameSeal) == 32);
FrameSeal sealOf(std::span<const std::byte> frame, uint64_t number, uint64_t heard, const Hmac& key);
// What is wrong with a frame and its seal, in words; "": nothing. `number`: the number that is due.
const char* checkSeal(std::span<const std::byte> frame, const FrameSeal& seal, uint64_t number,
                      const Hmac& key);

}  // namespace railwise::net
