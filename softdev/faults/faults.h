// The fault injector: rules in the shared segment (fault_table.h) that every process of the fabric obeys, and
// the log of what the rules did. Thread-safe, and safe against the death of any process. The same operations
// give the same hits: chance comes from the rule's seed, the queue pair's number and the number of its send,
// never from time or from other queue pairs. The queue pair's number includes its generation, so a later
// queue pair in the same record gets different hits.
#pragma once

#include <string>
#include <vector>

#include "softdev/fabric/fabric.h"

namespace railwise::softdev {

// An operation that is about to happen.
struct FaultSite {
  uint32_t operation = 0;  // FaultOperation; 0: the operation is `verb`
  Verb verb = Verb::kCount;
  const char* host = "";
  const char* device = "";
  const char* peer = "";         // host of the peer
  const char* peer_device = "";  // of the peer
  uint32_t port = 0;             // number
  uint32_t process = 0;          // pid
  uint32_t qp = 0;               // number
  uint64_t wr_id = 0;
  uint64_t bytes = 0;
  // Chance is drawn for operation number `ordinal` of this stream; 0: for the number of the rule's match.
  uint64_t stream = 0;
  uint64_t ordinal = 0;  // see `stream`
};

struct FaultHit {
  uint32_t id = 0;
  FaultRule rule{};
};

// Relaxed: who finds a bit set reads the rules under the lock of the table.
inline uint32_t faultsArmed(const Fabric& fabric) {
  return fabric.segment->faults.armed.load(std::memory_order_relaxed);
}

// Counts the operation for every rule that applies to it. Logs and returns the rules that strike.
std::vector<FaultHit> strike(Fabric& fabric, const FaultSite& site);

// A rule with its state in the table.
struct FaultStatus {
  uint32_t id = 0;
  FaultState state = FaultState::kFree;
  bool configured = false;
  uint64_t matches = 0;
  uint64_t hits = 0;
  FaultRule rule{};
};

// Returns the id of the new rule. kSystem with ENOSPC: the table is full.
Result<uint32_t> addFault(Fabric& fabric, const FaultRule& rule);
// Adds those rules of a configuration that are not in the table yet. Rules without a seed get `seed`.
Status addConfiguredFaults(Fabric& fabric, const std::vector<std::string>& texts, uint64_t seed);
std::vector<FaultStatus> listFaults(Fabric& fabric);
bool removeFault(Fabric& fabric, uint32_t id);
// Returns the number of removed rules. The log stays.
uint32_t clearFaults(Fabric& fabric);

// The log entries after number `after` that still exist, oldest first.
std::vector<FaultLogEntry> readFaultLog(Fabric& fabric, uint64_t after = 0);
// Logs what a command did.
void logCommand(Fabric& fabric, const FaultSite& site, const std::string& action);

}  // namespace railwise::softdev
