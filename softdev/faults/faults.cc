#include "softdev/faults/faults.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>

#include "base/log.h"
#include "softdev/config/fault_names.h"

namespace railwise::softdev {
namespace {

bool applies(const FaultRule& rule, const FaultSite& site) {
  const bool operation = site.operation != 0 ? (rule.operations & site.operation) != 0
                                             : (rule.verbs >> static_cast<uint32_t>(site.verb) & 1) != 0;
  return operation && (rule.port == 0 || rule.port == site.port) && (rule.qp == 0 || rule.qp == site.qp) &&
         (rule.process == 0 || rule.process == site.process) && matchesName(rule.host, site.host) &&
         matchesName(rule.device, site.device) && matchesName(rule.peer, site.peer) &&
         matchesName(rule.peer_device, site.peer_device);
}

// splitmix64: every bit of the result depends on every bit of `x`.
constexpr uint64_t mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ x >> 27) * 0x94d049bb133111ebULL;
  return x ^ x >> 31;
}

bool chance(const FaultRule& rule, uint64_t stream, uint64_t ordinal) {
  constexpr double kUnit = 1.0 / (uint64_t{1} << 53);
  const uint64_t random = mix(mix(mix(rule.seed) ^ stream) ^ ordinal);
  return static_cast<double>(random >> 11) * kUnit < rule.probability;
}

// Does the rule select match number `n` (from 1)?
bool due(const FaultRule& rule, uint64_t n) {
  const uint64_t first = std::max<uint64_t>(rule.nth, 1);
  if (n < first) return false;
  if (rule.every != 0) return (n - first) % rule.every == 0;
  return rule.nth == 0 || rule.probability > 0 || n == first;
}

// Counts one operation. True if the rule strikes.
bool count(FaultRecord& record, const FaultSite& site) {
  const uint64_t bytes_before = record.bytes;
  record.bytes += site.bytes;
  if (bytes_before < record.rule.after_bytes) return false;
  const uint64_t n = ++record.matches;
  if (!due(record.rule, n)) return false;
  if (record.rule.probability > 0 && !chance(record.rule, site.stream, site.stream != 0 ? site.ordinal : n))
    return false;
  ++record.hits;
  const bool once = record.rule.nth != 0 && record.rule.every == 0 && record.rule.probability == 0;
  if (once || record.hits == record.rule.count) record.state = FaultState::kSpent;
  return true;
}

// Recomputes `armed` from the rules. The caller holds the lock of the table.
void rearm(FaultTable& table) {
  uint32_t armed = 0;
  for (const FaultRecord& record : table.rules) {
    if (record.state != FaultState::kArmed) continue;
    if (record.rule.operations != 0) armed |= kArmedWork;
    if (record.rule.verbs != 0) armed |= kArmedVerbs;
  }
  table.armed.store(armed, std::memory_order_release);
}

// Holds the lock of the table. If the last owner died with the lock, this first completes what it left
// unfinished.
class TableGuard {
 public:
  TableGuard(FaultTable& table, const LockOwner& self) : table_(table) {
    if (table_.lock.lock(self)) rearm(table_);
  }
  ~TableGuard() { table_.lock.unlock(); }
  TableGuard(const TableGuard&) = delete;
  TableGuard& operator=(const TableGuard&) = delete;

 private:
  FaultTable& table_;
};

uint64_t realtimeNs() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

template <size_t size>
void storeText(char (&target)[size], const std::string& text) {
  std::snprintf(target, size, "%.*s", static_cast<int>(size - 1), text.c_str());
}

// Adds an entry to the log. The caller holds the lock of the table.
void write(FaultTable& table, const FaultSite& site, uint32_t rule, uint64_t match,
           const std::string& action) {
  const uint64_t written = table.log_written.load(std::memory_order_relaxed);
  FaultLogEntry& entry = table.log[written % kFaultLogEntries];
  entry = {};
  entry.sequence = written + 1;
  entry.time_ns = realtimeNs();
  entry.match = match;
  entry.wr_id = site.wr_id;
  entry.rule = rule;
  entry.process = site.process;
  entry.qp = site.qp;
  entry.operation = site.operation;
  entry.verb = static_cast<uint32_t>(site.verb);
  entry.port = site.port;
  storeText(entry.host, site.host);
  storeText(entry.device, site.device);
  storeText(entry.action, action);
  table.log_written.store(written + 1, std::memory_order_release);
}

// The oldest record in `state` that came from a configuration and is not in `kept`. Null if there is none.
FaultRecord* oldestConfigured(FaultTable& table, FaultState state, const std::vector<uint32_t>& kept) {
  FaultRecord* oldest = nullptr;
  for (FaultRecord& record : table.rules) {
    if (record.state != state || record.configured == 0) continue;
    if (std::find(kept.begin(), kept.end(), record.id) != kept.end()) continue;
    if (oldest == nullptr || record.id < oldest->id) oldest = &record;
  }
  return oldest;
}

// Finds a free record, or null. Removed and spent rules of a configuration stay as long as there is room,
// because the same text would arm such a rule again. The caller holds the lock of the table.
FaultRecord* place(FaultTable& table, const std::vector<uint32_t>& kept) {
  for (const FaultState state : {FaultState::kFree, FaultState::kSpent}) {
    for (FaultRecord& record : table.rules) {
      if (record.state == state && (state == FaultState::kFree || record.configured == 0)) return &record;
    }
  }
  FaultRecord* removed = oldestConfigured(table, FaultState::kRemoved, kept);
  return removed != nullptr ? removed : oldestConfigured(table, FaultState::kSpent, kept);
}

// `kept`: ids of rules whose records must not be reused.
uint32_t arm(FaultTable& table, const FaultRule& rule, bool configured,
             const std::vector<uint32_t>& kept = {}) {
  FaultRecord* record = place(table, kept);
  if (record == nullptr) return 0;
  record->state = FaultState::kFree;  // free until it is complete, because we may die at any instruction
  record->configured = configured ? 1 : 0;
  record->matches = record->bytes = record->hits = 0;
  record->rule = rule;
  if (rule.probability > 0 && rule.seed == 0) record->rule.seed = 1;
  record->id = ++table.last_id;
  record->state = FaultState::kArmed;
  rearm(table);
  return record->id;
}

bool listed(const FaultRecord& record) {
  return record.state == FaultState::kArmed || record.state == FaultState::kSpent;
}

// The record of a rule of a configuration, in any state. Null if there is none.
const FaultRecord* findConfigured(const FaultTable& table, const std::string& canonical) {
  for (const FaultRecord& record : table.rules) {
    if (record.state != FaultState::kFree && record.configured != 0 &&
        faultRuleText(record.rule) == canonical)
      return &record;
  }
  return nullptr;
}

// Parses the rules of `texts`. False, after a warning, if a rule is wrong.
bool parseConfigured(const std::vector<std::string>& texts, uint64_t seed, std::vector<FaultRule>* rules) {
  for (const std::string& text : texts) {
    const auto parsed = parseFaultRule(text);
    if (!parsed.ok()) {
      RAILWISE_WARN("software device: %s", parsed.error().c_str());
      return false;
    }
    FaultRule& rule = rules->emplace_back(*parsed);
    if (rule.probability > 0 && rule.seed == 0) rule.seed = seed;
  }
  return true;
}

void drop(FaultRecord& record) {
  record.state = record.configured != 0 ? FaultState::kRemoved : FaultState::kFree;
}

}  // namespace

std::vector<FaultHit> strike(Fabric& fabric, const FaultSite& site) {
  FaultTable& table = fabric.segment->faults;
  std::vector<FaultHit> hits;
  const TableGuard guard(table, fabric.self);
  for (FaultRecord& record : table.rules) {
    if (record.state != FaultState::kArmed || !applies(record.rule, site) || !count(record, site)) continue;
    hits.push_back({record.id, record.rule});
    write(table, site, record.id, record.matches, faultActionText(record.rule));
  }
  if (!hits.empty()) rearm(table);
  std::sort(hits.begin(), hits.end(), [](const auto& a, const auto& b) { return a.id < b.id; });
  return hits;
}

Result<uint32_t> addFault(Fabric& fabric, const FaultRule& rule) {
  FaultTable& table = fabric.segment->faults;
  const TableGuard guard(table, fabric.self);
  const uint32_t id = arm(table, rule, false);
  if (id == 0) return Status{Code::kSystem, ENOSPC};
  return id;
}

Status addConfiguredFaults(Fabric& fabric, const std::vector<std::string>& texts, uint64_t seed) {
  FaultTable& table = fabric.segment->faults;
  std::vector<FaultRule> rules;
  if (!parseConfigured(texts, seed, &rules)) return {Code::kInvalidUsage, EINVAL};
  const TableGuard guard(table, fabric.self);
  // Records not to reuse: otherwise arming one rule could reuse the record of another, which would then be
  // armed again.
  std::vector<uint32_t> kept;
  for (const FaultRule& rule : rules) {
    if (const FaultRecord* record = findConfigured(table, faultRuleText(rule)); record != nullptr)
      kept.push_back(record->id);
  }
  for (const FaultRule& rule : rules) {
    const std::string canonical = faultRuleText(rule);
    if (findConfigured(table, canonical) != nullptr || arm(table, rule, true, kept) != 0) continue;
    RAILWISE_WARN("software device: no room for the fault rule \"%s\": at most %u", canonical.c_str(),
                  kMaxFaultRules);
    return {Code::kInvalidUsage, ENOSPC};
  }
  return Status::success();
}

std::vector<FaultStatus> listFaults(Fabric& fabric) {
  FaultTable& table = fabric.segment->faults;
  std::vector<FaultStatus> rules;
  const TableGuard guard(table, fabric.self);
  for (const FaultRecord& record : table.rules) {
    if (listed(record))
      rules.push_back(
          {record.id, record.state, record.configured != 0, record.matches, record.hits, record.rule});
  }
  std::sort(rules.begin(), rules.end(), [](const auto& a, const auto& b) { return a.id < b.id; });
  return rules;
}

bool removeFault(Fabric& fabric, uint32_t id) {
  FaultTable& table = fabric.segment->faults;
  const TableGuard guard(table, fabric.self);
  for (FaultRecord& record : table.rules) {
    if (!listed(record) || record.id != id) continue;
    drop(record);
    rearm(table);
    return true;
  }
  return false;
}

uint32_t clearFaults(Fabric& fabric) {
  FaultTable& table = fabric.segment->faults;
  const TableGuard guard(table, fabric.self);
  uint32_t removed = 0;
  for (FaultRecord& record : table.rules) {
    if (!listed(record)) continue;
    drop(record);
    ++removed;
  }
  rearm(table);
  return removed;
}

std::vector<FaultLogEntry> readFaultLog(Fabric& fabric, uint64_t after) {
  FaultTable& table = fabric.segment->faults;
  std::vector<FaultLogEntry> entries;
  if (table.log_written.load(std::memory_order_acquire) <= after) return entries;
  const TableGuard guard(table, fabric.self);
  const uint64_t written = table.log_written.load(std::memory_order_relaxed);
  const uint64_t oldest = written > kFaultLogEntries ? written - kFaultLogEntries : 0;
  for (uint64_t at = std::max(after, oldest); at < written; ++at)
    entries.push_back(table.log[at % kFaultLogEntries]);
  return entries;
}

void logCommand(Fabric& fabric, const FaultSite& site, const std::string& action) {
  FaultTable& table = fabric.segment->faults;
  const TableGuard guard(table, fabric.self);
  write(table, site, 0, 0, action);
}

}  // namespace railwise::softdev
