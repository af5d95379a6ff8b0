// The paths that a message can take through the sender, and the limits that decide which. The limits are
// computed once per epoch; docs/develop/hot-path.md has the paths with their costs. Pure functions, any
// thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "net/protocol/wire.h"

namespace railwise::net {

enum class SendPath : uint8_t {
  kInline,         // one write with an immediate; the bytes lie in the work request
  kUnsignalled,    // one write with an immediate; signalled at the end of a batch or for the queue's sake
  kSignalled,      // one write with an immediate, signalled
  kThenImmediate,  // one write, and an empty write with the immediate: switches may reorder the data
  kBatch,          // a group: one write for each message, the last one, or one more, with the immediate
  kPacked,         // a group: one write of all messages into the receiver's window
  kSegments,       // cut into segments, one for each lane, each signalled; also all groups with a record
};

// The facts of an epoch that decide which paths its messages can take.
struct SendFacts {
  std::size_t lanes = 1;
  bool has_immediates = true;      // not iWARP (transport_rules.h)
  bool in_order = true;            // queue pairs take messages in their order (NCCL_IB_OOO_RQ is off)
  bool whole = true;               // the epoch runs on the connection's own rails, all of them
  uint32_t inline_bytes = 0;       // bytes that fit into a work request, on every queue pair
  uint32_t max_request_bytes = 0;  // the largest work request that all ports take
  uint64_t adaptive_routing_bytes = UINT64_MAX;  // larger writes may be reordered by switches
  std::size_t max_message_bytes = 0;             // the device's limit
};

// The largest message on each path, in bytes. 0: nothing takes the path. `inlined` is at most `unsignalled`,
// which is at most `whole` and at most `then_immediate`.
struct SendLimits {
  std::size_t inlined = 0;
  std::size_t unsignalled = 0;
  std::size_t whole = 0;                   // the largest message that is not cut into segments
  std::size_t request = 0;                 // the largest work request that all ports take
  uint64_t then_immediate = UINT64_MAX;    // a larger message has its immediate in a work request of its own
  std::size_t packed = 0;                  // a whole group
  std::size_t message = kMaxMessageBytes;  // a larger message is refused

  // The path of a message that is alone in its receive.
  SendPath pathOf(std::size_t bytes) const {
    if (bytes - 1 >= whole) return SendPath::kSegments;  // an empty message has a record
    if (bytes > then_immediate) return SendPath::kThenImmediate;
    if (bytes > unsignalled) return SendPath::kSignalled;
    return bytes <= inlined ? SendPath::kInline : SendPath::kUnsignalled;
  }
  // The path of a group of `count` messages of `bytes` each. `host`: all memory at both ends is host memory.
  SendPath pathOfGroup(std::size_t bytes, std::size_t count, bool host) const {
    if (bytes * count - 1 >= whole) return SendPath::kSegments;
    return host && count > 1 && bytes * count <= packed ? SendPath::kPacked : SendPath::kBatch;
  }
};

SendLimits sendLimits(const SendFacts& facts);

// "..220 B inline, ..32 KiB one write, ..32 MiB one signalled write, larger: segments over 2 lanes"
std::string pathsText(const SendLimits& limits, std::size_t lanes);

}  // namespace railwise::net
