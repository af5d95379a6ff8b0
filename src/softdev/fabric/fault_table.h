// The fault injector's part of the shared segment: the rules in force and the log of what they did.
// Everything but `armed` and `log_written` is read and written under `lock`, which is taken last of all locks
// (faults.h).
#pragma once

#include <atomic>
#include <cstdint>

#include "softdev/config/fault_rule.h"
#include "softdev/fabric/shared_lock.h"

namespace railwise::softdev {

constexpr uint32_t kMaxFaultRules = 128;
constexpr uint32_t kFaultLogEntries = 8192;  // the latest are kept

enum class FaultState : uint8_t {
  kFree,
  kArmed,
  kSpent,    // it struck as often as it may
  kRemoved,  // came from a configuration, which other processes may bring again: it stays removed, while
             // there is room
};

struct FaultRecord {
  FaultState state;
  uint8_t configured;  // 1: from a configuration
  uint32_t id;         // from 1, never used again
  uint64_t matches;    // operations it applied to
  uint64_t bytes;      // their payload
  uint64_t hits;
  FaultRule rule;
};

// One hit.
struct FaultLogEntry {
  uint64_t sequence;  // from 1
  uint64_t time_ns;   // CLOCK_REALTIME
  uint64_t match;     // which of the rule's matches it was, from 1
  uint64_t wr_id;
  uint32_t rule;       // its id; 0: a command, not a rule
  uint32_t process;    // pid that ran into it
  uint32_t qp;         // 0: none
  uint32_t operation;  // FaultOperation, 0: a verb
  uint32_t verb;       // Verb, when `operation` is 0
  uint32_t port;       // number, 0: none
  char host[64];
  char device[64];
  char action[88];
};

// Bits of `armed`: what must look at the table. 0: nothing, which is all that the data path asks.
enum FaultArmed : uint32_t {
  kArmedWork = 1,   // rules by opcode
  kArmedVerbs = 2,  // rules by verb
};

struct FaultTable {
  alignas(64) std::atomic<uint32_t> armed;
  alignas(64) SharedLock lock;
  uint32_t last_id;
  FaultRecord rules[kMaxFaultRules];
  std::atomic<uint64_t> log_written;  // entries ever written
  FaultLogEntry log[kFaultLogEntries];
};

}  // namespace railwise::softdev
