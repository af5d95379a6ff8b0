// The fault injector's part of the shared segment: the rules in force and the log of what the rules did.
// `lock` guards everything but `armed` and `log_written`. It comes last in the lock order (faults.h).
#pragma once

#include <atomic>
#include <cstdint>

#include "softdev/config/fault_rule.h"
#include "softdev/fabric/shared_lock.h"

namespace railwise::softdev {

constexpr uint32_t kMaxFaultRules = 128;
constexpr uint32_t kFaultLogEntries = 8192;  // the log keeps the latest entries

enum class FaultState : uint8_t {
  kFree,
  kArmed,
  kSpent,  // has struck as often as it may
  // Removed, but from a configuration. Other processes may bring the same rule again, so the record stays
  // while there is room, and keeps the rule removed.
  kRemoved,
};

struct FaultRecord {
  FaultState state;
  uint8_t configured;  // 1: comes from a configuration
  uint32_t id;         // counts from 1; an id is never used again
  uint64_t matches;    // operations that the rule applied to
  uint64_t bytes;      // payload of these operations
  uint64_t hits;
  FaultRule rule;
};

// One hit of a rule, or one command.
struct FaultLogEntry {
  uint64_t sequence;  // counts from 1
  uint64_t time_ns;   // CLOCK_REALTIME
  uint64_t match;     // which match of the rule struck, from 1
  uint64_t wr_id;
  uint32_t rule;       // id of the rule; 0: a command, no rule
  uint32_t process;    // pid of the process that the rule struck
  uint32_t qp;         // number; 0: none
  uint32_t operation;  // FaultOperation; 0: a verb
  uint32_t verb;       // Verb, if `operation` is 0
  uint32_t port;       // number; 0: none
  char host[64];
  char device[64];
  char action[88];
};

// Bits of `armed`: which code must look at the table. 0: none; then the data path reads nothing else of the
// table.
enum FaultArmed : uint32_t {
  kArmedWork = 1,   // there are rules by opcode
  kArmedVerbs = 2,  // there are rules by verb
};

struct FaultTable {
  alignas(64) std::atomic<uint32_t> armed;
  alignas(64) SharedLock lock;
  uint32_t last_id;
  FaultRecord rules[kMaxFaultRules];
  std::atomic<uint64_t> log_written;  // number of entries ever written
  FaultLogEntry log[kFaultLogEntries];
};

}  // namespace railwise::softdev
