#include "spy/contract.h"

#include <cstdarg>
#include <cstdio>
#include <mutex>

#include "base/log.h"
#include "record/writer.h"

namespace railwise::spy {
namespace {

constexpr uint64_t kLogged = 3;   // of a kind: a broken caller repeats itself at every message
constexpr uint64_t kNoted = 100;  // of a kind: the record has room for events of other kinds

struct Kept {
  std::mutex mutex;
  std::array<uint64_t, kBreaches> counts = {};
  std::array<std::string, kBreaches> first;
};
Kept& kept() {
  static Kept& it = *new Kept;
  return it;
}

}  // namespace

const char* breachName(Breach breach) {
  switch (breach) {
    case Breach::kTestedAfterDone:
      return "tested-after-done";
    case Breach::kNoSuchRequest:
      return "no-such-request";
    case Breach::kClosedBefore:
      return "closed-before";
    case Breach::kWrongObject:
      return "wrong-object";
    case Breach::kTooManyRequests:
      return "too-many-requests";
    case Breach::kGroupTooLarge:
      return "group-too-large";
    case Breach::kNegativeSize:
      return "negative-size";
    case Breach::kFlushOfNothing:
      return "flush-of-nothing";
    case Breach::kUnknownMemory:
      return "unknown-memory";
    case Breach::kNothingMade:
      return "nothing-made";
    case Breach::kNotWritten:
      return "not-written";
    case Breach::kRequestTwice:
      return "request-twice";
    case Breach::kTooMuch:
      return "too-much";
    case Breach::kImpossibleSize:
      return "impossible-size";
    case Breach::kSlowCall:
      return "slow-call";
    case Breach::kBadProperties:
      return "bad-properties";
  }
  return "unknown";
}

void reportBreach(Breach breach, const record::ConnectionRecord* connection, const char* format, ...) {
  char text[512];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  const auto kind = static_cast<std::size_t>(breach);
  uint64_t count = 0;
  {
    const std::lock_guard lock(kept().mutex);
    count = ++kept().counts[kind];
    if (count == 1) kept().first[kind] = text;
  }
  const char* const who = byNccl(breach) ? "NCCL" : "the plugin";
  if (count <= kLogged)
    RAILWISE_WARN("%s breaks the contract: %s%s", who, text,
                  count == kLogged ? " (further ones of this kind are counted only)" : "");
  if (count <= kNoted)
    record::noteEvent(record::EventKind::kContract, std::string(who) + ": " + text,
                      {.connection = connection, .numbers = {kind, count, 0}});
}

std::array<uint64_t, kBreaches> breachCounts() {
  const std::lock_guard lock(kept().mutex);
  return kept().counts;
}

std::string firstBreach(Breach breach) {
  const std::lock_guard lock(kept().mutex);
  return kept().first[static_cast<std::size_t>(breach)];
}

}  // namespace railwise::spy
