// Arbitrary bytes as listen handle and as each handshake message: whatever passes the checks must be safe to
// use.
#include <cstdlib>
#include <cstring>

#include "net/handshake.h"

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
  (void)fieldText(end.device);
  if (!checkEnd(end).empty()) return;
  const auto address = pathAddress(end);
  require(address.mtu >= IBV_MTU_256 && address.mtu <= IBV_MTU_4096);
  require(address.qp_number != 0 && address.qp_number < (1U << 24));
  require(fieldText(end.host).size() < kHostBytes);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  auto handle = as<ListenHandle>(data, size);
  if (checkHandle(handle).empty()) require(handleAddress(handle)->valid());
  handle.magic = kMagic;  // so that the fuzzer gets past it
  handle.version = kProtocolVersion;
  if (checkHandle(handle).empty()) require(!handleAddress(handle)->text().empty());

  const auto request = as<ConnectRequest>(data, size);
  (void)checkHeader(request.header, MessageType::kRequest, sizeof request);
  useEnd(request.end);
  const auto reply = as<ConnectReply>(data, size);
  (void)checkHeader(reply.header, MessageType::kReply, sizeof reply);
  require(fieldText(reply.reason).size() <= sizeof reply.reason);
  useEnd(reply.end);
  return 0;
}
