// The contract between NCCL and a network plugin, as NCCL 2.30.7 keeps it (src/transport/net.cc), and who has
// broken it. Any thread.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "record/layout.h"

namespace railwise::spy {

enum class Breach : uint8_t {
  // By NCCL.
  kTestedAfterDone,
  kNoSuchRequest,
  kClosedBefore,
  kWrongObject,
  kTooManyRequests,
  kGroupTooLarge,
  kNegativeSize,
  kFlushOfNothing,
  kUnknownMemory,
  // By the plugin.
  kNothingMade,
  kNotWritten,
  kRequestTwice,
  kTooMuch,
  kImpossibleSize,
  kSlowCall,
  kBadProperties,
};
inline constexpr int kBreaches = 16;

// A call that takes longer holds up all connections of its thread.
inline constexpr uint64_t kSlowCallNs = 1'000'000'000;

inline bool byNccl(Breach breach) { return breach < Breach::kNothingMade; }
// "tested-after-done"
const char* breachName(Breach breach);

// Counts a breach. The first few of a kind are logged as WARN, and more of them are events in the record.
// `connection`: the connection that it concerns, or null.
[[gnu::format(printf, 3, 4)]] void reportBreach(Breach breach, const record::ConnectionRecord* connection,
                                                const char* format, ...);

std::array<uint64_t, kBreaches> breachCounts();
// The text of the first breach of a kind; "" if there was none.
std::string firstBreach(Breach breach);

}  // namespace railwise::spy
