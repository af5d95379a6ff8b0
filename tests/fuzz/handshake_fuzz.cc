// Arbitrary bytes as listen handle and as each handshake message: no byte passes for the peer's without the
// secret, and what somebody says who knows the secret must be safe to use once it has passed the checks.
#include <cstdlib>
#include <cstring>

#include "net/wireup/asymmetry.h"
#include "net/wireup/authentication.h"
#include "net/wireup/pairing.h"

namespace {

using namespace railwise::net;

// The bytes, cut or padded with zeroes to a T.
template <typename T>
T as(const uint8_t* data, size_t size) {
  T value = {};
  std::memcpy(&value, data, size < sizeof value ? size : sizeof value);
  return value;
}

void require(bool condition) {
  if (!condition) std::abort();
}

void useEnd(const EndInfo& end) {
  (void)fieldText(end.host);
  if (!checkFirstEnd(end).empty()) return;
  for (int i = 0; i < end.rails; ++i) {
    require(end.rail[i].mtu >= IBV_MTU_256 && end.rail[i].mtu <= IBV_MTU_4096);
    require(fieldText(end.rail[i].device).size() < kDeviceBytes);
    require(fieldText(end.rail[i].nic_firmware).size() < kForeignVersionBytes);
    require(railGids(end.rail[i]).size() == end.rail[i].gid_count);
  }
  for (int i = 0; i < end.queue_pairs; ++i) {
    require(end.queue_pair[i].rail < end.rails);
    require(end.queue_pair[i].number < (1U << 24));
  }
  require(fieldText(end.host).size() < kHostBytes);
}

// Two ends that are each all right by themselves: what one is paired with of the other is there.
void usePairing(const EndInfo& request, const EndInfo& reply) {
  if (!checkFirstEnd(request).empty() || !checkFirstEnd(reply).empty()) return;
  (void)compareEnds(request, reply);
  for (const auto& pair : pairRails(request, reply, request.lanes, 24)) {
    if (!pair) continue;
    require(pair->listener_rail < reply.rails);
    require(pair->listener_gid < reply.rail[pair->listener_rail].gid_count);
  }
  if (!checkFirstPairing(request, reply).empty() || beginsLost(reply)) return;
  for (int i = 0; i < request.queue_pairs; ++i) {
    const QueuePairInfo& pair = reply.queue_pair[i];
    if (pair.used != 0) require(pair.gid < reply.rail[pair.rail].gid_count);
  }
}

constexpr Secret kSecret = {{1, 2, 3}};

// No changed bit passes.
template <typename Message, typename Check>
void changeABit(Message message, size_t bytes, const uint8_t* data, size_t size, Check isTrue) {
  require(isTrue(message));
  const size_t bit = (data[0] | data[size / 2] << 8 | data[size - 1] << 16) % (bytes * 8);
  reinterpret_cast<uint8_t*>(&message)[bit / 8] ^= static_cast<uint8_t>(1 << bit % 8);
  require(!isTrue(message));
}

void proveAndChange(ConnectRequest request, ConnectReply reply, const uint8_t* data, size_t size) {
  const auto request_is = [](const ConnectRequest& one) { return isTrue(one, kSecret); };
  const auto hello_is = [](const ConnectRequest& one) { return helloIsTrue(one, kSecret); };
  require(!request_is(request) && !hello_is(request) && !isTrue(reply, request, kSecret));
  seal(request, kSecret);
  changeABit(request, sizeof request, data, size, request_is);
  changeABit(request, kHelloBytes, data, size, hello_is);
  seal(reply, request, kSecret);
  changeABit(reply, sizeof reply, data, size,
             [&](const ConnectReply& one) { return isTrue(one, request, kSecret); });
  auto ready = as<ConnectReady>(data, size);
  require(!isTrue(ready, reply, kSecret));
  seal(ready, reply, kSecret);
  changeABit(ready, sizeof ready, data, size,
             [&](const ConnectReady& one) { return isTrue(one, reply, kSecret); });
  require(fieldText(ready.reason).size() <= sizeof ready.reason);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  auto handle = as<ListenHandle>(data, size);
  if (checkHandle(handle, ListenerKind::kMessages).empty()) require(handleAddresses(handle).front().valid());
  handle.magic = kMagic;  // so that the fuzzer gets past it
  handle.oldest_version = handle.newest_version = railwise::kProtocol.newest;
  if (checkHandle(handle, ListenerKind::kMessages).empty())
    require(!handleAddresses(handle).front().text().empty());

  const auto request = as<ConnectRequest>(data, size);
  (void)checkHeader(request.header, MessageType::kRequest, sizeof request);
  useEnd(request.end);
  const auto reply = as<ConnectReply>(data, size);
  (void)checkHeader(reply.header, MessageType::kReply, sizeof reply);
  require(fieldText(reply.reason).size() <= sizeof reply.reason);
  useEnd(reply.end);
  usePairing(request.end, reply.end);
  if (size > 0 && data[0] % 16 == 0) proveAndChange(request, reply, data, size);  // slow
  return 0;
}
