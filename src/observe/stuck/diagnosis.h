// Who waits for whom, why, and who is waited for without waiting: the answer of `railwise stuck`. Pure;
// thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "observe/stuck/facts.h"
#include "observe/stuck/job.h"

namespace railwise::observe {

// Why a connection waits, as both ends together tell.
enum class Why : uint8_t {
  kNoReceive,      // the receiver's NCCL has posted no receive
  kNoSend,         // the sender's NCCL has posted no send
  kSilentPath,     // everything is posted, and nothing arrives: the network between the ends
  kNoPath,         // no rail pair works
  kReconnects,     // the ends agree on new queue pairs
  kFailed,         // the connection has failed for good
  kDoesNotCall,    // the waiting process itself does not call its network plugin
  kHandshake,      // the handshake does not end
  kListens,        // no peer has called
  kPeerIsGone,     // the peer's process has died or ended
  kPeerIsStopped,  // the kernel does not let the peer's process run
  kPeerUnknown,    // there is no record of the peer
  kNoWindow,       // one-sided: the peer has not registered its part of a window
  kNoCredit,       // one-sided: the peer does not take the signals that have come
  kSignalParts,    // one-sided: a part of a signal has come, and the rest has not
  kOwnNic,         // one-sided: a NIC of the waiting process does not write a signal into its GPU's memory
};

// A connection that stands still.
struct Wait {
  End end;
  End other;
  Why why = Why::kNoReceive;
  uint64_t since_ms = kNever;
  int culprit = -1;  // place in Diagnosis::culprits; -1: the peer's process, and whom that waits for
};

enum class CulpritKind : uint8_t {
  kDeadProcess,
  kSilentHost,      // does not answer
  kStoppedProcess,  // SIGSTOP, a debugger
  kFailedRail,
  kSilentRail,   // a black hole
  kIdleCaller,   // has open messages, and does not call
  kLateProcess,  // is waited for, and waits for nothing
  kCircle,       // processes that wait for each other
  kFailedConnection,
  kHandshake,
  kEndedProcess,  // has ended in order while others wait for it
  kNoRecord,      // of a process on a host that has answered
  kUnaskedHost,
};

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
  std::vector<std::string> notes;  // ranks without a record, records that cannot be read ...
  uint64_t messages_per_s = 0;
  int processes = 0;  // that are alive
};

struct DiagnosisOptions {
  std::vector<uint32_t> pids;  // the person has asked for these: also a dead one is a finding
};

Diagnosis diagnose(const Job& job, const DiagnosisOptions& options);

// A diagnosis as a text of 80 columns, as JSON, and as a graph for Graphviz. Pure; thread-safe.

std::string stuckText(const Job& job, const Diagnosis& diagnosis);
std::string stuckJson(const Job& job, const Diagnosis& diagnosis);
// For `dot -Tsvg`: processes and culprits, and who waits for whom.
std::string stuckDot(const Job& job, const Diagnosis& diagnosis);

}  // namespace railwise::observe
