// Arbitrary bytes as listen handle and as each handshake message: whatever passes the checks must be safe to
// use.
#include <cstdlib>
#include <cstring>

#include "net/wireup/asymmetry.h"
#include "net/wireup/handshake.h"
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

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  auto handle = as<ListenHandle>(data, size);
  if (checkHandle(handle).empty()) require(handleAddresses(handle).front().valid());
  handle.magic = kMagic;  // so that the fuzzer gets past it
  handle.version = kProtocolVersion;
  if (checkHandle(handle).empty()) require(!handleAddresses(handle).front().text().empty());

  const auto request = as<ConnectRequest>(data, size);
  (void)checkHeader(request.header, MessageType::kRequest, sizeof request);
  useEnd(request.end);
  const auto reply = as<ConnectReply>(data, size);
  (void)checkHeader(reply.header, MessageType::kReply, sizeof reply);
  require(fieldText(reply.reason).size() <= sizeof reply.reason);
  useEnd(reply.end);
  usePairing(request.end, reply.end);
  return 0;
}
