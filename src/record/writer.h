// Writes the record of this process (layout.h). One record for the process, from start() to stop(): as with
// the log, everything in the process writes to it, and nothing happens where there is none
// (RAILWISE_METRICS=0, no room in the folder). The data path does not come here: it counts in the pages of
// its connections (PageMemory).
//
// Threads: any thread; events and rails have locks of their own. stop() runs when no other thread uses the
// record any more. A child of fork() has no record.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "record/layout.h"

namespace railwise::record {

class Record;

struct WriterSettings {
  std::string folder;
  uint32_t most_connections = 0;
  std::chrono::seconds keep = {};  // of the records of processes that are gone
  std::string host;                // "host:pid"
  std::string plugin;              // "Railwise 0.1.0"
  std::string plugin_file;         // spy: the plugin behind it
  bool spy = false;
  int rank = -1;
  int ranks = -1;
};

// Makes the record, and removes those of this user whose process is gone for longer than `keep`. Where there
// is no room for it, logs one line, and nothing is recorded. Call it once before stop().
void start(const WriterSettings& settings);
// Ends the record. The file is removed if no rail has errors and no connection has failed, else it stays for
// a reader.
void stop();
// A thread of the plugin says every kBeat that the process runs.
void beat();
// The path of the record; "": there is none.
std::string recordPath();

// ---- rails

struct RailDescription {
  std::string_view device;
  int port = 1;
  uint8_t link = 0;  // 1 InfiniBand, 2 RoCE, 3 iWARP
  int rail = -1;
  int plane = -1;
  uint32_t claimed_mbps = 0;
};
// The place of a port in the table of rails; it is added if it is not there. kNoRail: no record, or the table
// is full.
uint16_t addRail(const RailDescription& rail);
// The place of a port that was added; kNoRail: none.
uint16_t railOf(std::string_view device, int port);

void setRailState(uint16_t rail, RailState state);
void setClaimedSpeed(uint16_t rail, uint32_t mbps);
void setNetworkRail(uint16_t rail, int number);
void countError(uint16_t rail, ErrorKind kind);
void countFailover(uint16_t rail);
void countReturn(uint16_t rail);
void countDeviceLife(std::string_view device);

// Adds to the totals of a rail.
void addTotals(uint16_t rail, const Totals& totals);
// Adds to what one-sided connections that are closed have done.
void addOneSided(const OneSidedTotals& totals);

// ---- events

struct EventDetails {
  uint16_t rail = kNoRail;
  const ConnectionRecord* connection = nullptr;
  std::array<uint64_t, 3> numbers = {};
};
void noteEvent(EventKind kind, std::string_view text, const EventDetails& details = {});

// ---- connections

// The page of a connection, in the record if there is room, else in private memory; and private memory
// directly behind it, so that an object there finds its page at a fixed distance. Plain functions: operator
// new and delete of the object call them.
class PageMemory {
 public:
  // Returns `bytes` of private memory, aligned to kPageBytes, with a ConnectionPage of zeroes in front of it.
  // Null: no memory.
  static void* allocate(std::size_t bytes);
  // Frees what allocate(bytes) has returned.
  static void free(void* memory, std::size_t bytes);
  static ConnectionPage& pageOf(void* memory) { return static_cast<ConnectionPage*>(memory)[-1]; }
};

// The page of a listener that no peer has called yet.
class ListenerPage {
 public:
  ListenerPage(std::string_view device, uint16_t rail);
  ~ListenerPage();
  ListenerPage(const ListenerPage&) = delete;
  ListenerPage& operator=(const ListenerPage&) = delete;

 private:
  Record* const record_;      // null: there is none
  std::byte* end_ = nullptr;  // of the page
  int64_t slot_ = -1;         // negative: the page is not recorded
};

// Opens the record of a connection: a life, an identity, and the time. Its counts are zero.
void openConnection(ConnectionRecord& connection, Side side, ConnectionState state);
// Before and after the fields that ConnectionRecord::sequence guards are written.
void beginChange(ConnectionRecord& connection);
void endChange(ConnectionRecord& connection);
// Enters a state, and adds the time in the old one to lost_ns and degraded_ns if it belongs there. Call it
// between beginChange() and endChange().
void enterState(ConnectionRecord& connection, ConnectionState state);
// Enters a state; `reason` replaces the reason if it is given. kClosed also moves what the connection has
// counted for itself to the counts of closed connections.
void setState(ConnectionRecord& connection, ConnectionState state,
              std::optional<std::string_view> reason = std::nullopt);

// Moves the counts of the living queue pairs and completion queues of a connection to the totals of their
// rails, and leaves the queue pairs unused.
void foldQueuePairs(ConnectionPage& page);
void foldFlushes(ConnectionPage& page);

// The bucket of a value.
inline int bucketOf(uint64_t value) {
  return std::min(static_cast<int>(std::bit_width(value | 1)) - 1, kBuckets - 1);
}
inline void count(uint32_t (&histogram)[kBuckets], uint64_t value) { ++histogram[bucketOf(value)]; }

// Copies a text into a field of the record; it is cut if it is too long.
void setText(char* field, std::size_t bytes, std::string_view text);
template <std::size_t N>
void setText(char (&field)[N], std::string_view text) {
  setText(field, N, text);
}

}  // namespace railwise::record
