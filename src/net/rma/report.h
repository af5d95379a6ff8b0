// What the writer of puts and the target tell each other, besides the data. docs/develop/rma-protocol.md has
// the protocol. Everything is little-endian with fixed offsets. All of it comes from outside: PutTarget and
// PutWriter check each field before they use it. Plain values, any thread.
#pragma once

#include <cstddef>
#include <cstdint>

#include "net/limits.h"
#include "net/wireup/frames.h"

namespace railwise::net {

// Reports that a queue pair of the target has receives for. A writer has never more under way than the target
// has given credit for, so that silence is a sign of a dead path, not of a busy target.
inline constexpr uint32_t kReports = 128;
// Reports of a queue pair that were posted and not taken. Both ends count them since the queue pair was made,
// and their counts wrap.
constexpr uint32_t reportsUnderWay(uint32_t posted, uint32_t taken) { return posted - taken; }
// A target gives credit, and posts receives anew, for so many reports at once.
inline constexpr uint32_t kReportList = 32;
// Signals of one stream that may be under way and not applied: what all queue pairs have credit for, and what
// a target that applies no more has still given credit for.
inline constexpr uint64_t kOpenSignals = 512;
// With so many signals that are not applied, a target gives no credit.
inline constexpr uint64_t kMostUnapplied = 256;
// Streams of one group: one for each context. A target says for each how far it has come (Words).
inline constexpr uint32_t kMostStreams = 64;

// A send behind the data. On its home queue pair a stream reports its signals. On each other queue pair that
// has carried data since the last signal it reports a mark: what this queue pair has carried up to signal
// `number` is there.
struct Report {
  enum class Kind : uint8_t { kSignal = 1, kMark = 2 };

  uint64_t number;  // of the signal in its stream, from 1
  uint64_t offset;  // of the 8 bytes, in the target's part of the window
  uint64_t value;   // is added to them
  uint32_t window;
  uint32_t owed;   // bit i: queue pair i will bring a mark of this number
  uint32_t epoch;  // its low bits
  uint16_t stream;
  Kind kind;
  uint8_t reserved;
};
static_assert(sizeof(Report) == 40);
inline constexpr std::size_t kReportBuffer = 64;  // a cache line for each receive

// From the target over the side channel: its part of a window, and the keys through the rails of an epoch.
struct RegionFrame {
  uint32_t window;
  uint32_t epoch;  // its low bits: the keys are those of the epoch's rails
  uint64_t reserved;
  uint64_t bytes;  // 0: the part is gone
  uint64_t address;
  uint32_t keys[kMaxRails];
};
static_assert(sizeof(RegionFrame) == kUserFrameBytes);

}  // namespace railwise::net
