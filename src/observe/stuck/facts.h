// What `railwise stuck` knows of processes: two reads of each record, some seconds apart, in short. Ages are
// milliseconds before the second read, because the clocks of hosts differ. Plain values, any thread.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/text/words.h"
#include "record/snapshot.h"

namespace railwise::observe {

// An age that is not known.
inline constexpr uint64_t kNever = UINT64_MAX;

// A connection that waits looks about every 20 ms, as long as NCCL calls. A busy machine may take longer.
inline constexpr uint64_t kCallsWithinMs = 1000;

struct RailFacts {
  std::string device;
  int port = 0;
  record::RailState state = record::RailState::kUnknown;
  uint64_t state_ms = kNever;
  uint64_t errors = 0;
  std::string error;  // the most frequent kind of error; "" without errors
  uint64_t failovers = 0;
};

// A rail pair of a connection, as this end sees it.
struct PairFacts {
  int rail = -1;  // place in ProcessFacts::rails; -1: not known
  std::string gid;
  std::string peer_gid;
  std::string peer_device;
  int peer_port = 0;
};

struct QueuePairFacts {
  uint32_t number = 0;
  uint32_t peer_number = 0;
  int pair = -1;       // place in ConnectionFacts::pairs
  uint64_t bytes = 0;  // sender: payload posted; receiver: payload arrived
};

struct ConnectionFacts {
  uint32_t slot = 0;
  uint64_t id = 0;
  uint64_t pair_id = 0;
  uint64_t communicator = 0;
  record::Side side = record::Side::kSender;
  record::ConnectionKind kind = record::ConnectionKind::kMessages;
  record::ConnectionState state = record::ConnectionState::kRunning;
  record::WaitsFor waits_for = record::WaitsFor::kNothing;
  std::string device;
  std::string peer;  // "host:pid"; "" while not known
  std::string peer_device;
  std::string reason;
  uint64_t next = 0;  // record::ConnectionNumbers
  uint64_t posted = 0;
  uint64_t given = 0;  // receives that NCCL has given to isend or irecv, and those that are complete
  uint64_t completed = 0;
  uint64_t oldest = 0;  // the oldest open message; 0: none
  uint64_t oldest_bytes = 0;
  uint64_t oldest_ms = kNever;
  uint64_t waits_ms = kNever;
  uint64_t looked_ms = kNever;
  uint64_t state_ms = kNever;
  uint64_t moved = 0;       // messages completed between the two reads
  uint64_t new_epochs = 0;  // how often it got new queue pairs between the two reads
  bool still = false;       // it waits, and nothing has completed between the two reads
  bool degraded = false;
  // One-sided connections (record::OneSided).
  uint64_t gets_open = 0;
  uint64_t signals = 0;
  uint64_t signals_done = 0;
  uint64_t last_signal_ms = kNever;
  int peer_rank = -1;
  std::vector<PairFacts> pairs;
  std::vector<QueuePairFacts> queue_pairs;
};

inline bool isOneSided(const ConnectionFacts& connection) {
  return connection.kind == record::ConnectionKind::kOneSided;
}

struct ProcessFacts {
  std::string host;
  std::string boot_id;
  uint32_t pid = 0;
  uint64_t process_start = 0;
  bool alive = false;
  bool ended = false;  // in order
  bool spy = false;
  char kernel_state = 0;      // of /proc/PID/stat: R, S, D, T, Z ...; 0: not known
  uint64_t gone_ms = kNever;  // dead: age of its end, or of the last sign of life
  uint64_t between_ms = 0;    // between the two reads; 0: read once
  int rank = -1;
  int ranks = -1;
  std::string program;
  uint64_t unrecorded = 0;
  std::string slow_setup;  // for whom its connections that come up slowly wait; "" if none does
  std::vector<RailFacts> rails;
  std::vector<ConnectionFacts> connections;
};

// What a host has answered.
struct HostFacts {
  std::string asked;  // as the person wrote it: "root@gpu7"; "" for the host of the command
  std::string name;   // as it calls itself; "" if it has not answered
  std::string error;  // why it has not answered
  std::vector<std::string> notes;
  std::vector<ProcessFacts> processes;
};

// Makes the facts of two reads of one process. `first` null: the process was read once, and only ages show
// what stands still.
ProcessFacts factsOf(const record::Snapshot* first, const record::Snapshot& second);

// Makes the facts of all processes of a host. Snapshots of `first` that have no second one are left out.
std::vector<ProcessFacts> factsOfAll(std::span<const record::Snapshot> first,
                                     std::span<const record::Snapshot> second);

// Words that stuck and postmortem share: names, ages, sizes, and lines of 80 columns. Pure; thread-safe.

// A text from outside for a terminal: what is not printable ASCII becomes '?', and a long text is cut.
std::string plainText(std::string_view text);

// "rank 3 (gpu2:4411)", or "gpu2:4411" where the rank is not known.
std::string processName(const ProcessFacts& process);
// "gpu2:4411", as a peer names the process.
std::string processKey(const ProcessFacts& process);
// The host of a record. A record may call it "gpu2:4411", as peers are called.
std::string hostName(const record::Process& process);
// "1.0 MiB", "40 bytes"
std::string bytesText(uint64_t bytes);
// "3.2 s"; "an unknown time" for kNever.
std::string ageText(uint64_t ms);

// `text`, broken between words so that no line is wider than 80 columns. `first` stands before the first line
// and `indent` blanks before the others. Ends with a line feed.
std::string wrapped(std::string_view text, std::string_view first = "", std::size_t indent = 0);

}  // namespace railwise::observe
