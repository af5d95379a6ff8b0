#include "net/sender/send_path.h"

#include <algorithm>

#include "net/paths/stripe.h"

namespace railwise::net {
namespace {

// Larger messages are signalled each, also in a batch: for them a completion is cheap.
constexpr std::size_t kUnsignalledBytes = 32768;

// A limit just below a round size is written as that size.
std::string sizeText(uint64_t bytes) {
  bytes += bytes % 1024 == 1023 ? 1 : 0;
  if (bytes >= uint64_t{1} << 20 && bytes % (1 << 20) == 0) return std::to_string(bytes >> 20) + " MiB";
  if (bytes >= 1024 && bytes % 1024 == 0) return std::to_string(bytes >> 10) + " KiB";
  return std::to_string(bytes) + " B";
}

}  // namespace

// Messages are sent as a whole only between the connection's own rails, while nothing better is looked for.
// Of several lanes, lanes in turn carry what is small; from the least segment on a lane is chosen by what it
// still has to deliver (paths/stripe.h).
SendLimits sendLimits(const SendFacts& facts) {
  SendLimits limits;
  limits.then_immediate = facts.adaptive_routing_bytes;
  limits.message = facts.max_message_bytes;
  limits.request = facts.max_request_bytes;
  if (facts.lanes == 0 || !facts.has_immediates || !facts.in_order || !facts.whole) return limits;
  limits.whole =
      std::min<std::size_t>({kImmediateSizeLimit - 1, facts.max_message_bytes, facts.max_request_bytes});
  if (facts.lanes > 1) limits.whole = std::min<std::size_t>(limits.whole, kMinSegmentBytes - 1);
  limits.unsignalled = std::min<uint64_t>({limits.whole, kUnsignalledBytes, facts.adaptive_routing_bytes});
  limits.inlined = std::min<std::size_t>(limits.unsignalled, facts.inline_bytes);
  limits.packed = std::min<std::size_t>(facts.inline_bytes, kPackBytes);
  return limits;
}

std::string pathsText(const SendLimits& limits, std::size_t lanes) {
  const std::string segments = lanes == 1 ? std::string("segments, each signalled")
                                          : "segments over " + std::to_string(lanes) + " lanes";
  if (limits.whole == 0) return "all sizes: " + segments;
  std::string text;
  std::size_t below = 0;
  const auto add = [&](std::size_t bytes, const char* how) {
    if (bytes <= below) return;
    text += ".." + sizeText(bytes) + " " + how + ", ";
    below = bytes;
  };
  add(limits.inlined, "inline");
  add(limits.unsignalled, "one write");
  add(std::min<uint64_t>(limits.whole, limits.then_immediate), "one signalled write");
  add(limits.whole, "one write and its immediate apart");
  return text + "larger: " + segments;
}

}  // namespace railwise::net
