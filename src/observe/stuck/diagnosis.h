// Who waits for whom, why, and who is waited for without waiting: the answer of `railwise stuck`. Pure;
// thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "observe/stuck/facts.h"
#include "observe/stuck/job.h"

namespace railwise::observe {

// Why a connection waits, as both ends together tell.
#define RAILWISE_WHYS(X)                                                                         \
  X(Why, kNoReceive, "no receive is posted there", "no_receive")                                 \
  X(Why, kNoSend, "no send is posted there", "no_send")                                          \
  X(Why, kSilentPath, "all is posted, and nothing arrives", "silent_path")                       \
  X(Why, kNoPath, "no rail pair works", "no_path")                                               \
  X(Why, kReconnects, "the ends agree on new queue pairs", "reconnects")                         \
  X(Why, kFailed, "the connection has failed for good", "failed")                                \
  X(Why, kDoesNotCall, "NCCL does not call for its open messages", "does_not_call")              \
  X(Why, kHangingCall, "a call of its network plugin or driver does not return", "hanging_call") \
  X(Why, kPeerUnnamed, "nothing comes of a peer that the spy cannot name", "peer_unnamed")       \
  X(Why, kHandshake, "the handshake does not end", "handshake")                                  \
  X(Why, kListens, "no peer has called", "listens")                                              \
  X(Why, kPeerIsGone, "the peer's process is gone", "peer_is_gone")                              \
  X(Why, kPeerIsStopped, "the peer's process is stopped", "peer_is_stopped")                     \
  X(Why, kPeerUnknown, "the peer has no record here", "peer_unknown")                            \
  X(Why, kNoWindow, "its part of a window is not registered there",                              \
    "no_window") /* one-sided, as all below */                                                   \
  X(Why, kNoCredit, "the signals that have come are not taken there", "no_credit")               \
  X(Why, kSignalParts, "a part of a signal has come, and not the rest", "signal_parts")          \
  X(Why, kOwnNic, "its own NIC does not write a signal into GPU memory", "own_nic")
enum class Why : uint8_t { RAILWISE_WHYS(RAILWISE_ENUMERATOR) };
inline constexpr Named<Why> kWhys[] = {RAILWISE_WHYS(RAILWISE_NAMED)};

// A connection that stands still.
struct Wait {
  End end;
  End other;
  Why why = Why::kNoReceive;
  uint64_t since_ms = kNever;
  int culprit = -1;  // place in Diagnosis::culprits; -1: the peer's process, and whom that waits for
};

// With the key in JSON, and a place in the order of culprits: what is seen comes before what is concluded,
// and what is not known comes last.
#define RAILWISE_CULPRITS(X)                                                         \
  X(kDeadProcess, 0, "dead_process")                                                 \
  X(kSilentHost, 0, "silent_host")         /* does not answer */                     \
  X(kStoppedProcess, 0, "stopped_process") /* SIGSTOP, a debugger */                 \
  X(kFailedRail, 0, "failed_rail")                                                   \
  X(kSilentRail, 0, "silent_rail")   /* a black hole */                              \
  X(kIdleCaller, 0, "idle_caller")   /* has open messages, and does not call */      \
  X(kHangingCall, 0, "hanging_call") /* the plugin behind the spy, a driver */       \
  X(kLateProcess, 1, "late_process") /* is waited for, and waits for nothing */      \
  X(kCircle, 1, "circle")            /* processes that wait for each other */        \
  X(kFailedConnection, 2, "failed_connection")                                       \
  X(kHandshake, 2, "handshake")                                                      \
  X(kUnnamedPeers, 2, "unnamed_peers") /* the spy does not know who is waited for */ \
  X(kEndedProcess, 1, "ended_process") /* in order, while others wait for it */      \
  X(kNoRecord, 3, "no_record")         /* of a process on a host that answers */     \
  X(kUnaskedHost, 3, "unasked_host")
#define RAILWISE_CULPRIT_KIND(kind, ...) kind,
enum class CulpritKind : uint8_t { RAILWISE_CULPRITS(RAILWISE_CULPRIT_KIND) };
#undef RAILWISE_CULPRIT_KIND

// What holds up the job: the end of a chain of waits.
struct Culprit {
  CulpritKind kind = CulpritKind::kLateProcess;
  std::string key;   // what makes two culprits one
  std::string name;  // "rank 3 (gpu2:4411)", "gpu1 mlx5_1 port 1 -> gpu2 mlx5_1 port 1"
  std::string what;  // "is dead"
  std::vector<std::string> details;
  std::string advice;
  int process = -1;            // place in the job; -1: no process, or one without a record
  std::vector<int> circle;     // kCircle: places of its processes; each waits for the next one
  uint64_t since_ms = kNever;  // the longest wait for it
  int connections = 0;         // that wait for it, without those that wait through others
  int direct = 0;              // processes of these connections
  std::vector<int> processes;  // that wait for it, also through others
};

// How many connections are up, and for whom the others wait.
struct Census {
  int up = 0;
  int all = 0;
  struct Missing {
    std::string what;  // "gpu7 (3 connections, nothing heard)"
    int connections = 0;
    uint64_t since_ms = kNever;
    std::string reason;
  };
  std::vector<Missing> missing;  // the longest wait first
};

// What a process has heard of a rank that puts to it. Who waits for a signal is not known: the GPU looks at
// the memory.
struct QuietWriter {
  End end;  // the one that is put to
  End writer;
  uint64_t since_ms = kNever;   // the latest signal, or the connection, is so old
  uint64_t newest_ms = kNever;  // the latest signal of any rank
};

struct Diagnosis {
  bool stuck = false;
  std::string verdict;             // one sentence
  std::vector<Culprit> culprits;   // the worst first
  std::vector<Wait> waits;         // the longest first
  std::vector<QuietWriter> quiet;  // for each process that is put to, the longest first
  Census census;
  std::vector<std::string> rails;  // rails that have failed, also where the job goes on without them
  std::string dead_job;  // which process died first in a job of which none lives, beside others; "": none
  std::vector<std::string> notes;  // ranks without a record, records that cannot be read ...
  uint64_t messages_per_s = 0;
  int processes = 0;  // that are alive
};

struct DiagnosisOptions {
  std::vector<uint32_t> pids;  // the person has asked for these: also a dead one is a finding
};

Diagnosis diagnose(const Job& job, const DiagnosisOptions& options);

// A job by itself.
struct JudgedJob {
  Job job;
  Diagnosis diagnosis;
};
// The jobs of `all` that run or are stuck, the stuck ones first.
std::vector<JudgedJob> judgeJobs(const Job& all, const DiagnosisOptions& options);

// Why a connection waits: what both ends together tell. Pure; thread-safe.

// The wait of a connection, and what holds it up if that is no process that may wait in turn.
struct Finding {
  Wait wait;
  std::vector<Culprit> culprits;  // none: the peer's process
};

// Null: the connection does not wait, or it moves.
std::optional<Finding> whyItWaits(const Job& job, End end);

// The kernel does not let the process run (SIGSTOP, a debugger).
bool isStopped(const ProcessFacts& process);
// Waits of `process` for peers that the spy cannot name.
Culprit unnamedPeers(const Job& job, int process);
// A process as a culprit, without what it does. `key`: its number is put behind it.
Culprit processCulprit(const Job& job, int process, CulpritKind kind, const char* key);
Culprit stoppedProcess(const Job& job, int process);
Culprit deadProcess(const Job& job, int process);
// What speaks for it that a dead process had been stopped before it died: a peer showed life for much longer,
// and had a message open with it. "": nothing.
std::string stoppedBeforeText(const Job& job, int process);
Culprit silentHost(const HostFacts& host);
// A process that waits for peers while its connections come up; `why`: what it waits for.
Culprit slowSetup(const Job& job, int process, const std::string& why);

// "gpu1 mlx5_1 port 1"
std::string railName(const ProcessFacts& process, const RailFacts& rail);

// A diagnosis as a text of 80 columns, as JSON, and as a graph for Graphviz. Pure; thread-safe.

// `all`: all processes in one diagnosis; `jobs`: what judgeJobs() makes of them. The text has a section for
// each job where there are several.
std::string stuckText(const Job& all, const Diagnosis& diagnosis, const std::vector<JudgedJob>& jobs);
std::string stuckJson(const Job& all, const Diagnosis& diagnosis, const std::vector<JudgedJob>& jobs);
// For `dot -Tsvg`: processes and culprits, and who waits for whom.
std::string stuckDot(const Job& job, const Diagnosis& diagnosis);

// The record of a process in words, after its end: what it was, what went wrong first, what was open, and the
// last `events` events. Pure; thread-safe.

// One sentence: how the process ended, what it did, and what went wrong first.
std::string postmortemVerdict(const record::Snapshot& snapshot);
// The verdict, then everything, in 80 columns.
// `stopped`: as stoppedBeforeText() says it.
std::string postmortemText(const record::Snapshot& snapshot, std::size_t events,
                           const std::string& stopped = "");
std::string postmortemJson(const record::Snapshot& snapshot, std::size_t events,
                           const std::string& stopped = "");

}  // namespace railwise::observe
