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
  std::array<Breaches, std::size(kBreachNames)> breaches;
};
Kept& kept() {
  static Kept& it = *new Kept;
  return it;
}

}  // namespace

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
    Breaches& its = kept().breaches[kind];
    count = ++its.count;
    if (count == 1) its.first = text;
  }
  const char* const who = byNccl(breach) ? "NCCL" : "the plugin";
  if (count <= kLogged)
    RAILWISE_WARN("%s breaks the contract: %s%s", who, text,
                  count == kLogged ? " (further ones of this kind are counted only)" : "");
  if (count <= kNoted)
    record::noteEvent(record::EventKind::kContract, std::string(who) + ": " + text,
                      {.connection = connection, .numbers = {kind, count, 0}});
}

std::array<Breaches, std::size(kBreachNames)> breaches() {
  const std::lock_guard lock(kept().mutex);
  return kept().breaches;
}

}  // namespace railwise::spy
