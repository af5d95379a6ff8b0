#include "net/wireup/authentication.h"

#include <algorithm>
#include <cstring>
#include <string_view>

#include "base/secrets.h"

namespace railwise::net {
namespace {

// Labels of one length, so that no label and the bytes behind it read like another label.
constexpr std::size_t kLabelBytes = 16;
constexpr std::string_view kHello = "railwise hello  ";
constexpr std::string_view kRequest = "railwise request";
constexpr std::string_view kReply = "railwise reply  ";
constexpr std::string_view kReady = "railwise ready  ";
constexpr std::string_view kPair = "railwise pair   ";
constexpr std::string_view kCall = "railwise rdma cm";
constexpr std::string_view kSender = "railwise sender ";
constexpr std::string_view kReceiver = "railwise receive";
constexpr std::string_view kResume = "railwise resume ";
constexpr std::string_view kPackets = "railwise packets";

// Distance between the first packet numbers of two queue pairs. Multiples of this number are far from each
// other (2^24 by the golden ratio).
constexpr uint64_t kPsnStep = 10368889;
constexpr uint64_t kPsnMask = 0xffffff;

template <typename T>
std::span<const std::byte> bytesOf(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}

// The bytes of a message before its MAC.
template <typename Message>
std::span<const std::byte> beforeMac(const Message& message) {
  static_assert(offsetof(Message, mac) + sizeof(Mac) == sizeof(Message));
  return bytesOf(message).first(offsetof(Message, mac));
}

Hmac begin(const Secret& secret, std::string_view label) {
  static_assert(kHello.size() == kLabelBytes && kRequest.size() == kLabelBytes &&
                kReply.size() == kLabelBytes && kReady.size() == kLabelBytes && kPair.size() == kLabelBytes &&
                kCall.size() == kLabelBytes && kSender.size() == kLabelBytes &&
                kReceiver.size() == kLabelBytes && kResume.size() == kLabelBytes &&
                kPackets.size() == kLabelBytes);
  Hmac mac(bytesOf(secret));
  mac.add(std::as_bytes(std::span(label)));
  return mac;
}

Mac macOf(const Hmac& hmac) {
  const Digest digest = hmac.digest();
  Mac mac;
  std::memcpy(mac.bytes, digest.data(), sizeof mac.bytes);
  return mac;
}

Mac helloOf(const ConnectRequest& request, const Secret& secret) {
  return macOf(begin(secret, kHello).add(bytesOf(request).first(offsetof(ConnectRequest, hello))));
}

Mac macOf(const ConnectRequest& request, const Secret& secret) {
  return macOf(begin(secret, kRequest).add(beforeMac(request)));
}

Mac macOf(const ConnectReply& reply, const ConnectRequest& request, const Secret& secret) {
  return macOf(begin(secret, kReply).add(bytesOf(request.mac)).add(beforeMac(reply)));
}

Mac macOf(const ConnectReady& ready, const ConnectReply& reply, const Secret& secret) {
  return macOf(begin(secret, kReady).add(bytesOf(reply.mac)).add(beforeMac(ready)));
}

// With a key of frames, which begin otherwise.
Hmac beginResume(const Hmac& key) {
  Hmac mac = key;
  mac.add(std::as_bytes(std::span(kResume)));
  return mac;
}

Mac macOf(const ResumeHello& hello, const Hmac& key) { return macOf(beginResume(key).add(beforeMac(hello))); }

Mac macOf(const ResumeAnswer& answer, const ResumeHello& hello, const Hmac& key) {
  return macOf(beginResume(key).add(bytesOf(hello.mac)).add(beforeMac(answer)));
}

Mac macOf(const ResumeProof& proof, const ResumeAnswer& answer, const Hmac& key) {
  return macOf(beginResume(key).add(bytesOf(answer.mac)).add(beforeMac(proof)));
}

}  // namespace

Random randomBytes() {
  Random random;
  fillRandom(std::as_writable_bytes(std::span(random.bytes)));
  return random;
}

Secret makeSecret() {
  Secret secret;
  fillRandom(std::as_writable_bytes(std::span(secret.bytes)));
  secret.bytes[0] |= 1;
  return secret;
}

bool sameSecret(const Secret& one, const Secret& other) {
  return sameInConstantTime(bytesOf(one), bytesOf(other));
}

bool sameMac(const Mac& one, const Mac& other) { return sameInConstantTime(bytesOf(one), bytesOf(other)); }

void seal(ConnectRequest& request, const Secret& secret) {
  request.hello = helloOf(request, secret);
  request.mac = macOf(request, secret);
}

void seal(ConnectReply& reply, const ConnectRequest& request, const Secret& secret) {
  reply.mac = macOf(reply, request, secret);
}

void seal(ConnectReady& ready, const ConnectReply& reply, const Secret& secret) {
  ready.mac = macOf(ready, reply, secret);
}

bool helloIsTrue(const ConnectRequest& request, const Secret& secret) {
  return sameMac(request.hello, helloOf(request, secret));
}

bool isTrue(const ConnectRequest& request, const Secret& secret) {
  return sameMac(request.mac, macOf(request, secret));
}

bool isTrue(const ConnectReply& reply, const ConnectRequest& request, const Secret& secret) {
  return sameMac(reply.mac, macOf(reply, request, secret));
}

bool isTrue(const ConnectReady& ready, const ConnectReply& reply, const Secret& secret) {
  return sameMac(ready.mac, macOf(ready, reply, secret));
}

static uint64_t firstBytes(const Digest& digest) {
  uint64_t number = 0;
  std::memcpy(&number, digest.data(), sizeof number);
  return number;
}

uint64_t pairId(const Secret& secret, uint32_t caller) {
  return firstBytes(begin(secret, kPair).add(std::as_bytes(std::span(&caller, 1))).digest());
}

uint64_t Session::id() const {
  return firstBytes(begin(secret, kPair).add(bytesOf(connector)).add(bytesOf(listener)).digest());
}

uint32_t Session::firstPacket(uint64_t epoch, uint32_t numbers) const {
  const uint64_t own =
      firstBytes(begin(secret, kPackets).add(bytesOf(connector)).add(bytesOf(listener)).digest());
  return static_cast<uint32_t>((own + epoch * kPsnStep + numbers * kPsnStep * 3) & kPsnMask);
}

FrameKeys Session::frameKeys() const {
  const auto key = [&](std::string_view label) {
    return begin(secret, label).add(bytesOf(connector)).add(bytesOf(listener)).digest();
  };
  return {Hmac(key(kSender)), Hmac(key(kReceiver))};
}

Mac Session::callProof(uint64_t epoch, uint32_t index) const {
  return macOf(begin(secret, kCall)
                   .add(bytesOf(connector))
                   .add(bytesOf(listener))
                   .add(bytesOf(epoch))
                   .add(bytesOf(index)));
}

void seal(ResumeHello& hello, const Hmac& key) { hello.mac = macOf(hello, key); }

void seal(ResumeAnswer& answer, const ResumeHello& hello, const Hmac& key) {
  answer.mac = macOf(answer, hello, key);
}

void seal(ResumeProof& proof, const ResumeAnswer& answer, const Hmac& key) {
  proof.mac = macOf(proof, answer, key);
}

bool isTrue(const ResumeHello& hello, const Hmac& key) { return sameMac(hello.mac, macOf(hello, key)); }

bool isTrue(const ResumeAnswer& answer, const ResumeHello& hello, const Hmac& key) {
  return sameMac(answer.mac, macOf(answer, hello, key));
}

bool isTrue(const ResumeProof& proof, const ResumeAnswer& answer, const Hmac& key) {
  return sameMac(proof.mac, macOf(proof, answer, key));
}

FrameSeal sealOf(std::span<const std::byte> frame, uint64_t number, uint64_t heard, const Hmac& key) {
  Hmac mac = key;
  mac.add(frame).add(bytesOf(number)).add(bytesOf(heard));
  return {number, heard, macOf(mac)};
}

const char* checkSeal(std::span<const std::byte> frame, const FrameSeal& seal, uint64_t number,
                      const Hmac& key) {
  if (!sameMac(seal.mac, sealOf(frame, seal.number, seal.heard, key).mac))
    return "a frame that is not its own (the MAC is wrong: somebody changes or adds bytes on the way)";
  if (seal.number != number)
    return "a frame again or out of turn (somebody repeats or drops frames on the way)";
  return "";
}

}  // namespace railwise::net
