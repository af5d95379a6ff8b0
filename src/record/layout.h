// The record of a process: what its connections and rails do, in a file of /dev/shm that outlives the
// process. This file is the layout of the record, version 1. docs/observability.md says what the numbers
// mean. A field that takes a place which was 0 until then needs no new version: 0 says that it is not known,
// and older readers do not look there.
//
//   Header | RailRecord x kMostRails | EventRecord x kEvents | one slot for each connection
//
// A connection's ConnectionPage is at the end of its slot. The thread that owns a number writes it with a
// plain store, and readers copy the file without a lock. Every number of 8 bytes is whole by itself. A block
// of several fields that belong together has a sequence number, which is odd while the block is being
// written; a reader copies the block again when the sequence number was odd or has changed.
//
// Every field of a record that is read comes from outside: reader.h checks it. Numbers are little-endian.
// Times are CLOCK_MONOTONIC, in nanoseconds; 0: never. Text ends with a zero if it does not fill its field.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <iterator>

#include "base/text/words.h"

namespace railwise::record {

// The fence between a sequence number and the fields that it guards, in the writer and in the reader. Neither
// the compiler nor the CPU moves loads or stores of the record over it.
inline void fence() {
#if defined(__SANITIZE_THREAD__)  // gcc's ThreadSanitizer has no fences
  std::atomic_signal_fence(std::memory_order_acq_rel);
#else
  std::atomic_thread_fence(std::memory_order_acq_rel);
#endif
}

inline constexpr uint64_t kMagic = 0x44524f4345525752;  // "RWRECORD" in memory
inline constexpr uint32_t kVersion = 1;

inline constexpr int kMostRails = 128;  // ports of all devices, as many as NCCL can have devices
inline constexpr uint32_t kEvents = 4096;
inline constexpr int kQueuePairs = 32;  // of one connection (net::kMaxQueuePairs)
inline constexpr int kPairs = 8;        // rail pairs of one connection that are described
inline constexpr int kBuckets = 32;     // of a histogram
inline constexpr int kFlushRails = 8;
inline constexpr std::size_t kPageBytes = 4096;  // of a ConnectionPage
inline constexpr uint16_t kNoRail = 0xffff;

// The values of a record, with their words for people and their labels in metrics. Their order is part of the
// layout: a new one is the last one. A value from outside may have no row.

// What has gone wrong on a rail, by kind.
#define RAILWISE_ERROR_KINDS(X)                                                                             \
  X(ErrorKind, kRetryExceeded, "retry exceeded", "retry_exceeded") /* the peer's NIC did not acknowledge */ \
  X(ErrorKind, kReceiverNotReady, "receiver not ready", "receiver_not_ready")                               \
  X(ErrorKind, kRemoteAccess, "remote access", "remote_access") /* the peer refused access to its memory */ \
  X(ErrorKind, kLocal, "local", "local")                        /* protection or length at this end */      \
  X(ErrorKind, kFlushed, "flushed", "flushed")                                                              \
  X(ErrorKind, kPost, "post", "post")          /* a work request could not be posted */                     \
  X(ErrorKind, kPoll, "poll", "poll")          /* a completion queue could not be polled */                 \
  X(ErrorKind, kStalled, "stalled", "stalled") /* nothing has come back for too long */                     \
  X(ErrorKind, kPortDown, "port down", "port_down")                                                         \
  X(ErrorKind, kDeviceFailed, "device failed", "device_failed")                                             \
  X(ErrorKind, kOther, "other", "other")
enum class ErrorKind : uint8_t { RAILWISE_ERROR_KINDS(RAILWISE_ENUMERATOR) };
inline constexpr Named<ErrorKind> kErrorKindNames[] = {RAILWISE_ERROR_KINDS(RAILWISE_NAMED)};
inline constexpr int kErrors = std::size(kErrorKindNames);

#define RAILWISE_RAIL_STATES(X)                \
  X(RailState, kUnknown, "unknown", "unknown") \
  X(RailState, kUp, "up", "up")                \
  X(RailState, kDown, "down", "down")          \
  X(RailState, kFailed, "failed", "failed")
enum class RailState : uint8_t { RAILWISE_RAIL_STATES(RAILWISE_ENUMERATOR) };
inline constexpr Named<RailState> kRailStateNames[] = {RAILWISE_RAIL_STATES(RAILWISE_NAMED)};

// Blocks of counters: structs of nothing but numbers of 64 bits.
template <typename Counters>
using Numbers = std::array<uint64_t, sizeof(Counters) / sizeof(uint64_t)>;

template <typename Counters>
void add(Counters& sum, const Counters& more) {
  auto sums = std::bit_cast<Numbers<Counters>>(sum);
  const auto addends = std::bit_cast<Numbers<Counters>>(more);
  for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += addends[i];
  sum = std::bit_cast<Counters>(sums);
}

// What was counted between two reads. Counters only grow. One that went back was read of something else, and
// says nothing.
template <typename Counters>
Counters growth(const Counters& before, const Counters& now) {
  const auto smaller = std::bit_cast<Numbers<Counters>>(before);
  auto grown = std::bit_cast<Numbers<Counters>>(now);
  for (std::size_t i = 0; i < grown.size(); ++i) grown[i] -= std::min(grown[i], smaller[i]);
  return std::bit_cast<Counters>(grown);
}

// Counts of work that has left a queue pair or a completion queue for good: what was posted by queue pairs
// that are destroyed, and what trials and flushes have done. What living queue pairs have posted is in their
// connection.
struct Totals {
  uint64_t bytes_sent;      // payload of messages in posted work requests; a repeated message counts again
  uint64_t bytes_received;  // payload of messages that have arrived, and of gets
  uint64_t messages_sent;
  uint64_t messages_received;
  uint64_t work_requests;  // accepted by ibv_post_send
  uint64_t control_bytes;  // payload of these work requests that is not a message's: clear-to-sends, records,
                           // reads
  uint64_t completions;    // polled
  uint64_t bytes_got;      // of the bytes received: payload of gets posted
};

// What is counted of a rail.
struct RailCounters {
  uint64_t errors[kErrors] = {};
  uint64_t failovers = 0;     // connections that have left this rail because of a failure
  uint64_t returns = 0;       // connections that have come back to it
  uint64_t device_lives = 0;  // times that its device was opened anew
  Totals totals = {};         // guarded by Header::fold_sequence, not by RailRecord::sequence
};

// A port that this process uses.
struct RailRecord {
  uint32_t sequence;
  RailState state;
  uint8_t port;
  uint8_t link;  // 1 InfiniBand, 2 RoCE, 3 iWARP
  uint8_t reserved;
  char device[64];
  int32_t rail;  // rail of the network; -1: not known
  int32_t plane;
  uint32_t claimed_mbps;  // the port's speed, as verbs reports it
  uint32_t state_changes;
  uint64_t state_since_ns;
  RailCounters counters;
  uint8_t unused[240];
};
static_assert(sizeof(RailRecord) == 512);

#define RAILWISE_EVENT_KINDS(X)                                                                 \
  X(EventKind, kNone, "none")                                                                   \
  X(EventKind, kProcessStarted, "started")                                                      \
  X(EventKind, kProcessEnded, "ended")                                                          \
  X(EventKind, kConnecting, "connecting") /* a connection attempt has begun */                  \
  /* Numbers: microseconds to the TCP call, the reply, the end of the handshake. */             \
  X(EventKind, kConnected, "connected")                                                         \
  X(EventKind, kConnectFailed, "connect failed")                                                \
  X(EventKind, kSlowConnect, "slow connect")                                                    \
  X(EventKind, kPathLost, "path lost")   /* a connection left its queue pairs; number: epoch */ \
  X(EventKind, kPathFound, "path found") /* numbers: epoch, microseconds without a path */      \
  X(EventKind, kWentBack, "went back",                                                          \
    "went_back")                  /* a connection leaves a path that works for a better one */  \
  X(EventKind, kFailed, "failed") /* a connection has failed for good */                        \
  X(EventKind, kClosed, "closed")                                                               \
  X(EventKind, kPortDown, "port down")                                                          \
  X(EventKind, kPortUp, "port up")                                                              \
  X(EventKind, kAddressChanged, "address changed")                                              \
  X(EventKind, kDeviceFailed, "device failed")                                                  \
  X(EventKind, kDeviceBack, "device back")                                                      \
  X(EventKind, kSlowMessage, "slow message") /* numbers: receive, milliseconds so far */        \
  X(EventKind, kSlowMessageEnded, "slow message ended",                                         \
    "slow_message_ended") /* numbers: receive, milliseconds */                                  \
  X(EventKind, kOtherEvent, "other")                                                            \
  X(EventKind, kContract, "contract") /* spy: NCCL or the plugin has broken the contract */
enum class EventKind : uint16_t { RAILWISE_EVENT_KINDS(RAILWISE_ENUMERATOR) };
inline constexpr Named<EventKind> kEventKindNames[] = {RAILWISE_EVENT_KINDS(RAILWISE_NAMED)};

// Events are written one after the other, by one thread at a time. Event number n (from 1) is in place n %
// kEvents.
struct EventRecord {
  uint64_t number;  // 0 while the event is written; else its number
  uint64_t at_ns;
  EventKind kind;
  uint16_t rail;           // place in the table of rails; kNoRail: none
  uint32_t connection;     // its slot plus 1; 0: none
  uint64_t connection_id;  // ConnectionRecord::id of that connection
  uint64_t numbers[3];
  char text[160];
};
static_assert(sizeof(EventRecord) == 216);

#define RAILWISE_CONNECTION_STATES(X)                                                                        \
  X(ConnectionState, kFree, "free", "free")                                                                  \
  X(ConnectionState, kListening, "listening", "listening")    /* a listener: no peer has called yet */       \
  X(ConnectionState, kConnecting, "connecting", "connecting") /* the handshake is under way */               \
  X(ConnectionState, kRunning, "running", "running")                                                         \
  X(ConnectionState, kLost, "looking for a path", "lost")                                                    \
  X(ConnectionState, kReconnecting, "reconnecting", "reconnecting") /* both ends agree on new queue pairs */ \
  X(ConnectionState, kFailed, "failed", "failed")                                                            \
  X(ConnectionState, kClosed, "closed", "closed")
enum class ConnectionState : uint8_t { RAILWISE_CONNECTION_STATES(RAILWISE_ENUMERATOR) };
inline constexpr Named<ConnectionState> kConnectionStateNames[] = {
    RAILWISE_CONNECTION_STATES(RAILWISE_NAMED)};

// Does a connection go over to another rail when its own fails? Both ends must want it (RAILWISE_FAILOVER).
#define RAILWISE_FAILOVERS(X)                 \
  X(Failover, kUnknown, "unknown", "unknown") \
  X(Failover, kOff, "off", "off")             \
  X(Failover, kOn, "on", "on")
enum class Failover : uint8_t { RAILWISE_FAILOVERS(RAILWISE_ENUMERATOR) };
inline constexpr Named<Failover> kFailoverNames[] = {RAILWISE_FAILOVERS(RAILWISE_NAMED)};

enum class Side : uint8_t { kSender = 0, kReceiver = 1, kListener = 2 };

// What a connection is for. The sender of a one-sided connection puts and gets, and the receiver is put to.
enum class ConnectionKind : uint8_t { kMessages = 0, kOneSided = 1 };

// What a connection waited for at its last look.
#define RAILWISE_WAITS_FOR(X)                                                                            \
  X(WaitsFor, kNothing, "nothing", "nothing") /* nothing is open */                                      \
  /* Sender: the peer has posted no receive. */                                                          \
  X(WaitsFor, kClearToSend, "clear-to-send of the peer", "clear_to_send")                                \
  X(WaitsFor, kCompletion, "completion of the NIC", "completion") /* sender: the NIC owes a message's */ \
  X(WaitsFor, kData, "data of the peer",                                                                 \
    "data") /* receiver: the peer has sent nothing into an open receive */                               \
  X(WaitsFor, kPath, "a path that works", "path")  /* no rail pair works */                              \
  X(WaitsFor, kPeer, "answer of the peer", "peer") /* in the handshake or in a recovery */               \
  /* One-sided sender: the peer has not told of a window that an operation names. */                     \
  X(WaitsFor, kWindow, "window of the peer", "window")                                                   \
  /* One-sided sender: the peer has not taken the reports that are under way. */                         \
  X(WaitsFor, kCredit, "progress of the peer", "credit")                                                 \
  /* One-sided receiver: a report or a mark of a signal has come, and another one has not. */            \
  X(WaitsFor, kSignalParts, "rest of a signal", "signal_parts")                                          \
  /* One-sided receiver: a NIC of this rank owes the write of a signal into GPU memory. */               \
  X(WaitsFor, kOwnNic, "write of a signal by its own NIC", "own_nic")
enum class WaitsFor : uint8_t { RAILWISE_WAITS_FOR(RAILWISE_ENUMERATOR) };
inline constexpr Named<WaitsFor> kWaitsForNames[] = {RAILWISE_WAITS_FOR(RAILWISE_NAMED)};

// The numbers of a connection that every message changes. They lie here and nowhere else: the data path
// counts in the record itself. Receives are counted from 1, and both ends count alike.
//
// A one-sided sender counts operations (puts and gets) in the place of receives: `next` is one more than
// those that were given, and `arrived` stays 0. A one-sided receiver counts signals: `arrived` are those that
// it has applied. It does not see puts without a signal.
struct ConnectionNumbers {
  uint64_t next;    // sender: the receive that is being matched; receiver: the receive that irecv opens next
  uint64_t posted;  // sender: the oldest receive for which not all work requests are posted; receiver: the
                    // first receive whose clear-to-send is not posted
  uint64_t complete;     // the latest receive whose completion, here or of its messages, test() has reported
  uint64_t arrived;      // all receives up to this one are complete; a sender knows it from its receiver only
  uint64_t completions;  // polled from the first completion queue
  uint64_t unused;       // 0
  uint64_t spread_bytes;  // receiver: payload of messages that came in segments with a record. It does not
                          // say how many of these bytes came over each queue pair: they count in proportion
                          // to the segments
  uint64_t reserved;
};
static_assert(sizeof(ConnectionNumbers) == 64);

// One queue pair of a connection. Its counts begin when it is made; `used` 0: no queue pair.
struct QueuePairRecord {
  uint64_t posted;        // work requests
  uint64_t bytes;         // sender: payload posted; receiver: payload arrived
  int64_t control_extra;  // control bytes = control_each * posted + control_extra
  uint64_t segments;      // sender: parts of messages posted, where messages are cut
  uint32_t control_each;
  uint32_t number;  // of the queue pair
  uint32_t peer_number;
  uint32_t measured_mbps;   // what the lane delivers, where several lanes share messages; 0: not measured
  uint16_t rail;            // place in the table of rails
  uint16_t share_permille;  // of a message that is spread over lanes; 0: not spread
  uint8_t used;
  uint8_t pair;  // place in ConnectionRecord::pairs
  uint8_t lane;
  uint8_t reserved;
  uint64_t got;  // one-sided sender: payload of gets posted, which is not in `bytes`
};
static_assert(sizeof(QueuePairRecord) == 64);

// A rail pair of a connection's epoch.
struct PairRecord {
  uint16_t rail;  // place in the table of rails
  uint8_t peer_port;
  uint8_t gid_index;
  char peer_device[28];
  uint8_t gid[16];
  uint8_t peer_gid[16];
};
static_assert(sizeof(PairRecord) == 64);

struct FlushCounts {
  uint64_t reads;  // posted, of 1 byte each
  uint64_t completions;
  uint32_t rail;    // place in the table of rails
  uint32_t in_use;  // 1: `rail` is valid
};

// The spy: calls of one function on one connection, and the time spent in them.
enum class CallKind : uint8_t { kIsend, kIrecv, kIflush, kTest };
inline constexpr const char* kCallNames[] = {"isend", "irecv", "iflush", "test"};
inline constexpr int kCalls = std::size(kCallNames);
struct CallCounts {
  uint64_t calls;
  uint64_t idle;  // that returned no request, or "not done"
  uint64_t ns;
};

// One-sided communication: what ConnectionNumbers does not tell. Written at looks and at the end, except
// `gets`, which is counted as operations are given.
struct OneSidedRecord {
  uint64_t put_bytes;       // sender: payload that was posted over queue pairs that are destroyed; what is
  uint64_t get_bytes;       // repeated counts again
  uint64_t gets;            // sender: operations that are gets
  uint64_t gets_open;       // sender: of these, those that are not done
  uint64_t signals;         // sender: numbered. receiver: signals of which a report or a mark has come
  uint64_t signals_done;    // sender: signals of operations that are done
  uint64_t signals_seen;    // receiver: ConnectionNumbers::arrived at the last look
  uint64_t last_signal_ns;  // receiver: the look that first saw the latest signal applied
  uint32_t peer_rank_plus_one;  // of the peer in its group; 0: not known
  uint32_t reserved;
};
static_assert(sizeof(OneSidedRecord) == 72);

// What is counted of a connection by and by.
struct ConnectionCounters {
  uint64_t failovers = 0;
  uint64_t slow_messages = 0;
  uint64_t lost_ns = 0;      // time without a path, up to ConnectionRecord::state_since_ns
  uint64_t degraded_ns = 0;  // time with fewer or other rails than at first, finished times only
};

// `sequence` guards the fields from `state` to `pairs`. Bucket b of a histogram counts values v with
// 2^b <= v < 2^(b+1), the last one everything larger.
struct ConnectionRecord {
  ConnectionNumbers numbers;

  uint32_t sequence;
  uint32_t life;  // grows each time that the slot is taken
  ConnectionState state;
  Side side;
  uint8_t queue_pairs;  // places of QueuePairRecords that may be used
  uint8_t lanes;
  uint8_t pair_count;
  uint8_t degraded;       // 1: it uses fewer or other rails than at first
  uint16_t device_rail;   // first rail of its device: place in the table of rails
  uint64_t id;            // of this end, unique on this machine
  uint64_t pair_id;       // both ends of a connection have the same; 0: not known
  uint64_t communicator;  // NCCL's hash of the communicator; 0: not known
  uint64_t epoch;
  uint64_t opened_ns;
  uint64_t state_since_ns;
  uint64_t first_message;  // ConnectionNumbers::posted when the queue pairs of this epoch were taken into use
  char device[64];
  char peer[64];  // "host:pid"; "" while not known
  char peer_device[64];
  char reason[160];  // why it has no path, or has failed; "" while all is well
  PairRecord pairs[kPairs];
  uint32_t slot_plus_one;  // 0: not in the record

  // Written at each look, about every 20 ms while the connection waits, by its thread.
  uint64_t looked_ns;        // the last look; old: NCCL does not call
  uint64_t oldest;           // number of the oldest open receive or message; 0: none
  uint64_t oldest_since_ns;  // since when it is the oldest, to 20 ms
  uint64_t oldest_bytes;
  WaitsFor waits_for;
  uint8_t slow_noted;
  ConnectionKind kind;
  Failover failover;
  uint8_t in_call;  // spy: the plugin's call that has not returned since `looked_ns`, a CallKind + 1; 0: none
  uint8_t reserved[3];
  uint64_t waits_since_ns;

  ConnectionCounters counters;
  uint64_t degraded_since_ns;  // 0: not degraded now

  // Completions of the further completion queues (the first queue: numbers.completions), and a rail of the
  // device of each queue.
  uint64_t more_completions[kPairs - 1];
  uint16_t queue_rail[kPairs];
  FlushCounts flushes[kFlushRails];

  uint32_t latency[kBuckets];  // sender: nanoseconds from isend to the completion, of one message in kSample
  uint32_t size[kBuckets];     // bytes of these messages

  CallCounts calls[kCalls];  // spy only
  uint32_t group_sizes[8];   // spy: irecv calls with 1 to 8 buffers

  OneSidedRecord one_sided;  // of a one-sided connection, else 0
};

inline constexpr uint64_t kSample = 256;

// The page of one connection. The counts of queue pair i are kPageBytes in front of the queue pair's own
// memory, and the ConnectionRecord as far in front of the connection (net/paths/link_memory.h).
struct ConnectionPage {
  QueuePairRecord queue_pairs[kQueuePairs];
  ConnectionRecord connection;
  uint8_t unused[kPageBytes - sizeof(QueuePairRecord) * kQueuePairs - sizeof(ConnectionRecord)];
};
static_assert(sizeof(ConnectionPage) == kPageBytes);

// What one-sided connections have done.
struct OneSidedTotals {
  uint64_t puts;  // also those without data, which are signals alone
  uint64_t put_bytes;
  uint64_t gets;
  uint64_t get_bytes;
  uint64_t signals_sent;
  uint64_t signals_applied;
};

// Counts of connections that are closed: the slot of a closed connection is given to the next one.
struct ClosedConnections {
  uint64_t connections;
  ConnectionCounters counters;
  uint64_t latency[kBuckets];
  uint64_t size[kBuckets];
  CallCounts calls[kCalls];
  uint64_t group_sizes[8];
  OneSidedTotals one_sided;
};

// A living process writes Header::alive_ns so often.
inline constexpr std::chrono::milliseconds kBeat{500};

struct Header {
  uint64_t magic;
  uint32_t version;
  uint32_t header_bytes;
  uint32_t rails_at;    // where the tables begin in the file, bytes
  uint32_t rail_bytes;  // size of one entry
  uint32_t events_at;
  uint32_t event_bytes;
  uint32_t event_places;
  uint32_t slots_at;
  uint32_t slot_bytes;  // 4096, or the page size of a kernel with larger pages
  uint32_t most_slots;  // the cap: connections beyond it are not recorded
  uint32_t slots;       // slots that exist so far
  uint32_t rails;       // entries of the table of rails that are used
  uint32_t spy;         // 1: written by the spy
  uint32_t pid;
  uint64_t process_start;  // field 22 of /proc/PID/stat, clock ticks after boot
  uint64_t started_ns;
  uint64_t started_unix_ns;  // the same moment by CLOCK_REALTIME
  uint64_t ended_ns;         // the plugin has ended in order; 0: it has not
  int32_t rank;              // as the launcher's environment tells; -1: not known
  int32_t ranks;
  char boot_id[40];
  char host[64];  // "host:pid"
  char program[64];
  char plugin[64];        // "Railwise 0.1.0"
  char plugin_file[256];  // spy: the plugin behind it

  uint64_t events;           // events so far; the last event's number
  uint64_t unrecorded;       // connections beyond the cap, so far
  uint64_t fold_sequence;    // odd while counts move from a connection to the totals of a rail
  uint64_t setup_sequence;   // odd while the table of rails grows
  ClosedConnections closed;  // guarded by fold_sequence
  uint64_t alive_ns;         // one of the plugin's threads ran then, at least every kBeat; 0: not told
  uint8_t unused[4096 - 632 - sizeof(ClosedConnections)];
};
static_assert(sizeof(Header) == 4096);

inline constexpr uint32_t kRailsAt = sizeof(Header);
inline constexpr uint32_t kEventsAt = kRailsAt + sizeof(RailRecord) * kMostRails;
inline constexpr uint32_t kSlotsAt = 1024 * 1024;
static_assert(kEventsAt + sizeof(EventRecord) * kEvents <= kSlotsAt);

}  // namespace railwise::record
