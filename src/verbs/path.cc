#include "verbs/path.h"

#include "verbs/gid.h"

namespace railwise::verbs {
namespace {

constexpr uint32_t kPortBits = 14;  // bits of the offset from UDP port 0xc000
constexpr uint32_t kPortMask = (1U << kPortBits) - 1;
constexpr uint32_t kHighMask = (1U << (20 - kPortBits)) - 1;  // the bits of a label above kPortBits
constexpr uint16_t kFirstPort = 0xc000;                       // the dynamic ports, RoCE v2 annex A17.9.2

// Odd, so that the sequence reaches every port before it repeats. Large, so that the flow labels of
// neighbouring lanes differ in many of the bits that a switch hashes.
constexpr uint32_t kLaneStride = 0x1a2b;
static_assert(kLaneStride % 2 == 1 && kLaneStride <= kPortMask);

// Every bit of the result depends on every bit of `value` (the finalizer of MurmurHash3).
uint32_t mix(uint32_t value) {
  value = (value ^ value >> 16) * 0x85ebca6b;
  value = (value ^ value >> 13) * 0xc2b2ae35;
  return value ^ value >> 16;
}

uint16_t subnetNumber(const ibv_gid& gid) { return static_cast<uint16_t>(gid.raw[6] << 8 | gid.raw[7]); }

}  // namespace

uint16_t udpSourcePort(uint32_t flow_label) {
  const uint32_t low = flow_label & kPortMask;
  const uint32_t high = flow_label >> kPortBits & kHighMask;
  return static_cast<uint16_t>(kFirstPort | (low ^ high));
}

uint32_t laneFlowLabel(uint32_t entropy, uint32_t lane) {
  const uint32_t mixed = mix(entropy);
  const uint32_t port = (mixed + lane * kLaneStride) & kPortMask;
  const uint32_t high = 1 + (mixed >> kPortBits) % kHighMask;  // 1 to 63: the label is not 0
  return high << kPortBits | (port ^ high);
}

bool onOtherSubnet(const ibv_gid& local, const ibv_gid& remote) {
  if (routableLid(local) != 0 || routableLid(remote) != 0) return subnetNumber(local) != subnetNumber(remote);
  return local.global.subnet_prefix != remote.global.subnet_prefix;
}

}  // namespace railwise::verbs
