// The fault injector: rules in the shared segment (fault_table.h) that every process of the fabric obeys, and
// the log of what they did. Thread-safe, and safe against the death of any process. The same operations give
// the same hits: chance is drawn from the rule's seed, the queue pair's number, which holds its generation (a
// successor in its place has another fate), and the number of its send, never from time or from what other
// queue pairs do.
#pragma once

#include <string>
#include <vector>

#include "softdev/fabric/fabric.h"

namespace railwise::softdev {

// An operation that is about to happen.
struct FaultSite {
  uint32_t operation = 0;  // FaultOperation, 0: `verb`
  Verb verb = Verb::kCount;
  const char* host = "";
  const char* device = "";
  const char* peer = "";  // the peer's host
  uint32_t port = 0;      // number
  uint32_t process = 0;   // pid
  uint32_t qp = 0;        // number
  uint64_t wr_id = 0;
  uint64_t bytes = 0;
  uint64_t stream = 0;   // chance is drawn for the `ordinal`-th operation of a stream; 0: the rule's matches
  uint64_t ordinal = 0;  // are counted instead
};

struct FaultHit {
  uint32_t id = 0;
  FaultRule rule{};
};

inline uint32_t faultsArmed(const Fabric& fabric) {
  return fabric.segment->faults.armed.load(std::memory_order_relaxed);
}

// Counts the operation for every rule that applies to it; those that strike are logged and returned.
std::vector<FaultHit> strike(Fabric& fabric, const FaultSite& site);

// A rule as the table has it.
struct FaultStatus {
  uint32_t id = 0;
  FaultState state = FaultState::kFree;
  bool configured = false;
  uint64_t matches = 0;
  uint64_t hits = 0;
  FaultRule rule{};
};

// The new rule's id; kSystem with ENOSPC when the table is full.
Result<uint32_t> addFault(Fabric& fabric, const FaultRule& rule);
// The rules of a configuration, those that are not there already; `seed` is for rules that name none.
Status addConfiguredFaults(Fabric& fabric, const std::vector<std::string>& texts, uint64_t seed);
std::vector<FaultStatus> listFaults(Fabric& fabric);
bool removeFault(Fabric& fabric, uint32_t id);
// The number of rules removed. The log stays.
uint32_t clearFaults(Fabric& fabric);

// The entries after number `after` that are still there, oldest first.
std::vector<FaultLogEntry> readFaultLog(Fabric& fabric, uint64_t after = 0);
// Notes what was done at somebody's command.
void logCommand(Fabric& fabric, const FaultSite& site, const std::string& action);

}  // namespace railwise::softdev
