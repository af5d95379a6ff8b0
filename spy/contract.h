// The contract between NCCL and a network plugin, as NCCL 2.30.7 keeps it (src/transport/net.cc), and who has
// broken it. Any thread.
#pragma once

#include <array>
#include <cstdint>
#include <iterator>
#include <string>

#include "base/text/words.h"
#include "record/layout.h"

namespace railwise::spy {

// The first ones are NCCL's, and those from kNothingMade on are the plugin's.
#define RAILWISE_BREACHES(X)                       \
  X(Breach, kTestedAfterDone, "tested-after-done") \
  X(Breach, kNoSuchRequest, "no-such-request")     \
  X(Breach, kClosedBefore, "closed-before")        \
  X(Breach, kWrongObject, "wrong-object")          \
  X(Breach, kTooManyRequests, "too-many-requests") \
  X(Breach, kGroupTooLarge, "group-too-large")     \
  X(Breach, kNegativeSize, "negative-size")        \
  X(Breach, kFlushOfNothing, "flush-of-nothing")   \
  X(Breach, kUnknownMemory, "unknown-memory")      \
  X(Breach, kNothingMade, "nothing-made")          \
  X(Breach, kNotWritten, "not-written")            \
  X(Breach, kRequestTwice, "request-twice")        \
  X(Breach, kTooMuch, "too-much")                  \
  X(Breach, kImpossibleSize, "impossible-size")    \
  X(Breach, kSlowCall, "slow-call")                \
  X(Breach, kBadProperties, "bad-properties")
enum class Breach : uint8_t { RAILWISE_BREACHES(RAILWISE_ENUMERATOR) };
inline constexpr Named<Breach> kBreachNames[] = {RAILWISE_BREACHES(RAILWISE_NAMED)};

// A call that takes longer holds up all connections of its thread.
inline constexpr uint64_t kSlowCallNs = 1'000'000'000;

inline bool byNccl(Breach breach) { return breach < Breach::kNothingMade; }
// Counts a breach. The first few of a kind are logged as WARN, and more of them are events in the record.
// `connection`: the connection that it concerns, or null.
[[gnu::format(printf, 3, 4)]] void reportBreach(Breach breach, const record::ConnectionRecord* connection,
                                                const char* format, ...);

// What there was of each kind.
struct Breaches {
  uint64_t count = 0;
  std::string first;  // the text of the first one
};
std::array<Breaches, std::size(kBreachNames)> breaches();

}  // namespace railwise::spy
