// What the processes of a machine do between two reads of their records: rails over all processes,
// processes, connections, and the news, the worst first. The model points into the later read, which must
// outlive it. Pure functions of the two reads, any thread.
#pragma once

#include <array>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

#include "record/snapshot.h"

namespace railwise::observe::top {

// A connection is said to wait when its oldest open message is so old.
inline constexpr uint64_t kWaitNs = 1000000000;
// A wait that is news: RAILWISE_SLOW_CONNECT's default, and longer than a recovery takes.
inline constexpr uint64_t kLongWaitNs = 10 * kWaitNs;

// Per second, between both reads.
struct Traffic {
  bool known = false;  // both reads have it
  double bytes_in = 0;
  double bytes_out = 0;
  double messages_in = 0;
  double messages_out = 0;
};

// A port of this machine, over all processes that live.
struct RailRow : record::RailCounters {
  std::string host;
  std::string device;
  int port = 0;
  uint8_t link = 0;                                       // as record::Rail
  record::RailState state = record::RailState::kUnknown;  // the worst that a process says
  uint64_t state_age_ns = 0;                              // 0: not known
  int rail = -1;
  int plane = -1;
  uint32_t claimed_mbps = 0;
  uint32_t measured_mbps = 0;
  uint64_t processes = 0;
  uint64_t connections = 0;
  record::RailCounters grown;  // between both reads
  Traffic traffic;
  // Between both reads: messages whose time was taken, of connections that send over this port alone.
  uint64_t timed = 0;
  double timed_ns = 0;  // all together, from isend to the completion

  // The busier direction against the claimed speed; negative where the speed is not known.
  double load() const;
  // The mean time of a message; null: too few were timed.
  std::optional<double> messageNs() const;
  bool down() const { return record::isDown(state); }
};

// How a connection stands, the worst first.
#define RAILWISE_STAGES(X)                                                                       \
  X(Stage, kFailed, "failed")                                                                    \
  X(Stage, kNoPath, "no path")     /* it looks for one, or both ends agree on new queue pairs */ \
  X(Stage, kWaiting, "waiting")    /* an open message is older than kWaitNs */                   \
  X(Stage, kComingUp, "coming up") /* a listener, or a connection in its handshake */            \
  X(Stage, kWorking, "working")    /* messages are open */                                       \
  X(Stage, kIdle, "idle")                                                                        \
  X(Stage, kGone, "gone") /* its process is gone */
enum class Stage : uint8_t { RAILWISE_STAGES(RAILWISE_ENUMERATOR) };
inline constexpr Named<Stage> kStageNames[] = {RAILWISE_STAGES(RAILWISE_NAMED)};

struct ConnectionRow {
  const record::Snapshot* snapshot = nullptr;
  const record::Connection* connection = nullptr;
  Stage stage = Stage::kIdle;
  uint64_t age_ns = 0;  // kWaiting, kWorking: of the oldest open message, 0: not known; else of the stage
  uint64_t open = 0;    // messages
  Traffic traffic;
};

struct ProcessRow {
  const record::Snapshot* snapshot = nullptr;
  uint64_t connections = 0;
  uint64_t up = 0;
  uint64_t open = 0;
  uint64_t oldest_age_ns = 0;  // of the oldest open message; 0: none, or not known
  uint64_t still_ns = 0;       // no thread of the plugin has run for so long: it is stopped; 0: it runs
  uint64_t hangs_ns = 0;       // a call of the plugin behind the spy has not returned for so long
  const char* hangs_in = "";   // that call
  uint64_t not_called_ns = 0;  // messages are open, and NCCL has not called for so long; 0: it calls
  record::Totals totals = {};
  Traffic traffic;
  std::optional<ConnectionRow> worst;  // the connection in the worst stage for the longest time
};

#define RAILWISE_SEVERITIES(X)     \
  X(Severity, kBad, "bad")         \
  X(Severity, kWarning, "warning") \
  X(Severity, kGood, "good")
enum class Severity : uint8_t { RAILWISE_SEVERITIES(RAILWISE_ENUMERATOR) };
inline constexpr Named<Severity> kSeverityNames[] = {RAILWISE_SEVERITIES(RAILWISE_NAMED)};
struct News {
  Severity severity = Severity::kGood;
  std::string text;  // not cleaned
};

struct Sums {
  uint64_t rails_down = 0;
  record::RailCounters rails;
  Traffic traffic;
  uint64_t connections = 0;  // of processes that live
  uint64_t up = 0;
  std::array<uint64_t, std::size(kStageNames)> in_stage = {};
  uint64_t degraded = 0;
  uint64_t open = 0;
  uint64_t unrecorded = 0;
  uint64_t processes = 0;  // that live

  uint64_t in(Stage stage) const { return in_stage[static_cast<std::size_t>(stage)]; }
};

struct Model {
  double interval_s = 0;                   // between the reads; 0: no process is in both
  uint64_t unix_ns = 0;                    // of the later read
  std::vector<RailRow> rails;              // by name
  std::vector<ConnectionRow> connections;  // the worst stage first, in it the longest first
  std::vector<ProcessRow> processes;       // by rank, then pid
  std::vector<News> news;                  // the worst first; never empty
  std::vector<std::string> notes;
  Sums sums;

  // "host", where all processes are on one; else "".
  std::string host() const;
};

// `notes`: what else is wrong, as records that cannot be read. `folder`: where records were looked for.
Model makeModel(const std::vector<record::Snapshot>& before, const std::vector<record::Snapshot>& now,
                std::vector<std::string> notes, const std::string& folder);
Model makeModel(const std::vector<record::Snapshot>&, std::vector<record::Snapshot>&&,
                std::vector<std::string>, const std::string&) = delete;  // it would be gone

// What the process waits for, in at most 18 columns; "": nothing worth a word.
std::string waitsText(const ProcessRow& process);
// What the connection waits for, in at most 13 columns.
std::string waitsText(const ConnectionRow& row);
// "process 4211 (rank 3)".
std::string processText(const record::Process& process);
// "mlx5_0:1".
std::string shortRailText(const RailRow& rail);

// What is wrong, the worst first, from everything else in the model. One good sentence where all is well.
std::vector<News> newsOf(const Model& model, const std::string& folder);

}  // namespace railwise::observe::top
