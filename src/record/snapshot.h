// What a record says (layout.h), checked and in the reader's own types. Plain values, any thread.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "record/layout.h"

namespace railwise::record {

// A port that the process uses. Its totals are complete: they include what living queue pairs have posted and
// what completion queues have delivered so far.
struct Rail : RailCounters {
  std::string device;
  int port = 0;
  uint8_t link = 0;  // 1 InfiniBand, 2 RoCE, 3 iWARP
  RailState state = RailState::kUnknown;
  int rail = -1;  // rail and plane of the network; -1: not known
  int plane = -1;
  uint32_t claimed_mbps = 0;
  uint32_t measured_mbps = 0;  // what the fastest lane of a connection delivers over it; 0: not measured
  uint32_t state_changes = 0;
  uint64_t state_since_ns = 0;
  uint32_t connections = 0;  // connections that have a queue pair on it now
};

struct Pair {
  int rail = -1;  // place in Snapshot::rails; -1: not known
  int gid_index = 0;
  std::string gid;
  std::string peer_gid;
  std::string peer_device;
  int peer_port = 0;
};

struct QueuePair {
  uint32_t number = 0;
  uint32_t peer_number = 0;
  int rail = -1;  // place in Snapshot::rails
  int pair = -1;  // place in Connection::pairs
  int lane = 0;
  uint64_t work_requests = 0;
  uint64_t bytes = 0;  // sender: payload posted; receiver: payload arrived
  uint64_t got = 0;    // one-sided sender: payload of gets posted
  uint64_t control_bytes = 0;
  uint64_t segments = 0;
  uint32_t measured_mbps = 0;   // 0: not measured
  uint32_t share_permille = 0;  // 0: messages are not spread
};

// Of a one-sided connection.
struct OneSided {
  OneSidedTotals totals = {};
  uint64_t gets_open = 0;
  uint64_t signals = 0;         // sender: numbered; receiver: those that have come in part or as a whole
  uint64_t signals_done = 0;    // sender: acknowledged; receiver: applied
  uint64_t last_signal_ns = 0;  // receiver: when the latest signal was applied, to 20 ms; 0: none was
  int peer_rank = -1;           // in its group; -1: not known
};

struct Connection : ConnectionCounters {
  uint32_t slot = 0;
  uint64_t id = 0;
  uint64_t pair_id = 0;  // both ends have the same; 0: not known
  uint64_t communicator = 0;
  Side side = Side::kSender;
  ConnectionKind kind = ConnectionKind::kMessages;
  ConnectionState state = ConnectionState::kFree;
  std::string device;
  std::string peer;         // "host:pid"; "" while not known
  std::string peer_device;  // "mlx5_0+mlx5_1"
  std::string reason;       // why it has no path, or has failed
  uint64_t epoch = 0;
  uint64_t opened_ns = 0;
  uint64_t state_since_ns = 0;
  ConnectionNumbers numbers = {};
  // By receives, which both ends count alike: given by NCCL to isend or irecv, and complete. One-sided
  // sender: by operations. One-sided receiver: by signals, those that have come at least in part, and those
  // that are in their place.
  uint64_t posted = 0;
  uint64_t completed = 0;
  uint64_t looked_ns = 0;
  int in_call = 0;      // spy: a CallKind + 1, not returned since looked_ns; 0: none
  uint64_t oldest = 0;  // oldest open message; 0: none
  uint64_t oldest_since_ns = 0;
  uint64_t oldest_bytes = 0;
  WaitsFor waits_for = WaitsFor::kNothing;
  uint64_t waits_since_ns = 0;
  Failover failover = Failover::kUnknown;
  bool degraded = false;
  uint64_t degraded_since_ns = 0;
  std::vector<Pair> pairs;
  std::vector<QueuePair> queue_pairs;
  std::array<uint32_t, kBuckets> latency = {};
  std::array<uint32_t, kBuckets> size = {};
  std::array<CallCounts, kCalls> calls = {};
  std::array<uint32_t, 8> group_sizes = {};
  OneSided one_sided;
};

struct Event {
  uint64_t number = 0;
  uint64_t at_ns = 0;
  EventKind kind = EventKind::kNone;
  int rail = -1;
  int64_t slot = -1;  // of its connection; -1: none
  uint64_t connection_id = 0;
  std::array<uint64_t, 3> numbers = {};
  std::string text;
};

struct Process {
  uint32_t pid = 0;
  uint64_t process_start = 0;
  bool alive = false;  // the process still holds its record
  bool spy = false;
  uint64_t started_ns = 0;
  uint64_t started_unix_ns = 0;
  uint64_t ended_ns = 0;
  uint64_t alive_ns = 0;  // one of the plugin's threads ran; 0: not told
  int rank = -1;
  int ranks = -1;
  std::string boot_id;
  std::string host;
  std::string program;
  std::string plugin;
  std::string plugin_file;
};

struct Snapshot {
  std::string file;
  uint64_t read_ns =
      0;  // CLOCK_MONOTONIC, when it was read; of a record of another boot: the last time in it
  uint64_t read_unix_ns = 0;
  Process process;
  std::vector<Rail> rails;
  std::vector<Connection> connections;  // those in use, by slot; closed and free slots are left out
  std::vector<Event> events;            // the last kEvents, oldest first
  ClosedConnections closed = {};        // counts of connections that are closed, and so not in `connections`
  uint64_t unrecorded = 0;              // connections beyond the cap, so far
  bool torn = false;  // some block changed whenever it was read, so some numbers may not fit together
};

// The rail at a place, as a pair or an event names it; null: not known.
const Rail* railAt(const Snapshot& snapshot, int place);
// An earlier read of a process, and an earlier state of a connection; null: it was not there.
const Snapshot* earlierRead(const std::vector<Snapshot>& earlier, const Snapshot& now);
const Connection* earlierState(const Snapshot* earlier, const Connection& now);
// The last time in a snapshot: when its process last did something.
uint64_t lastTimeNs(const Snapshot& snapshot);
inline bool isDown(RailState state) { return state == RailState::kDown || state == RailState::kFailed; }
// Of two reads of one process, or two records of it: the plugin's and a spy's.
inline bool isOneProcess(const Process& a, const Process& b) {
  return a.pid == b.pid && a.process_start == b.process_start;
}
inline bool isOneSided(const Connection& connection) { return connection.kind == ConnectionKind::kOneSided; }
// NCCL's proxy thread calls for open messages all the time: after so long without a look it does not call.
inline constexpr uint64_t kNotCalledNs = 3'000'000'000;
// The message that a connection waits for. A look is written only while NCCL waits: the last one may be of a
// message that is complete by now.
inline bool hasOpenMessage(const Connection& connection) {
  return connection.oldest > connection.completed ||
         (connection.side == Side::kReceiver && connection.posted > connection.completed);
}
// Since when a connection has not run, or has waited; 0: not known.
inline uint64_t waitsSinceNs(const Connection& connection) {
  if (connection.state != ConnectionState::kRunning) return connection.state_since_ns;
  return connection.oldest != 0 ? connection.oldest_since_ns : connection.waits_since_ns;
}

uint64_t errorSum(const RailCounters& counters);
// Calls visit(words, number) for each kind of error that has happened.
template <typename Visit>
void visitErrors(const RailCounters& counters, Visit visit) {
  for (const Named<ErrorKind>& kind : kErrorKindNames)
    if (const uint64_t number = counters.errors[static_cast<std::size_t>(kind.value)]; number != 0)
      visit(kind.words, number);
}

// Milliseconds or seconds between two times in words: "3.2 s", "140 ms"; "0 ms" where `until` is before
// `since`.
std::string durationText(uint64_t since_ns, uint64_t until_ns);
// Of Rail::link.
inline constexpr Named<uint8_t> kLinkNames[] = {
    {0, "unknown", "unknown"}, {1, "InfiniBand", "infiniband"}, {2, "RoCE", "roce"}, {3, "iWARP", "iwarp"}};

const char* sideText(Side side);  // "sender", "receiver", "listener"
inline const char* stateText(ConnectionState state) { return rowOf(kConnectionStateNames, state).words; }
inline const char* waitsForText(WaitsFor waits_for) { return rowOf(kWaitsForNames, waits_for).words; }
// "send", "receive", "listener"; of one-sided connections "put" and "target".
const char* endText(ConnectionKind kind, Side side);
// What the numbers of a connection count: "message", "receive"; of one-sided connections "operation" and
// "signal".
const char* unitText(ConnectionKind kind, Side side);
inline const char* railStateText(RailState state) { return rowOf(kRailStateNames, state).words; }
inline const char* eventText(EventKind kind) { return rowOf(kEventKindNames, kind).words; }
// The host of a process, without the process number that the writer puts behind it ("host:pid").
std::string hostOf(const Process& process);
// "mlx5_0 port 1"
std::string railText(const Rail& rail);

}  // namespace railwise::record
