// Turns the bytes of a record into a Snapshot. Nothing in a record is trusted, and its process may write it
// meanwhile.
#include "record/reader.h"

#include <arpa/inet.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <span>
#include <utility>

#include "base/clock.h"
#include "base/process.h"
#include "base/text/printable.h"
#include "record/page_counts.h"

namespace railwise::record {
namespace {

// Repetitions of all blocks of a record together, 100 us apart. A writer needs microseconds for a block, so
// that only a writer that has lost its CPU, or a hostile one, uses them up.
constexpr int kMostWaits = 200;
constexpr int kWaitUs = 100;
// Repetitions of the whole record, because counts moved from connections to rails while it was copied.
constexpr int kMostRounds = 4;
constexpr uint32_t kLargestSlot = 64 * 1024;  // the largest page of a kernel that NCCL runs on
constexpr uint32_t kMostSlots = 65536;        // the largest RAILWISE_METRICS_CONNECTIONS
constexpr std::size_t kMostRanks = 1 << 24;   // more than a group of ranks will have

// Text of a record. It goes to terminals: what is not printable ASCII becomes '?'.
template <std::size_t size>
std::string textOf(const char (&field)[size]) {
  return printableAscii({field, strnlen(field, size)});
}

std::string gidText(const uint8_t (&gid)[16]) {
  if (std::all_of(gid, gid + sizeof gid, [](uint8_t byte) { return byte == 0; })) return "";
  char text[INET6_ADDRSTRLEN] = {};
  return inet_ntop(AF_INET6, gid, text, sizeof text) != nullptr ? text : "";
}

template <typename Enum>
Enum checkedEnum(Enum value, Enum last, Enum otherwise) {
  return value <= last ? value : otherwise;
}

// A place in a table of `size` entries; -1: none.
int placeIn(uint32_t place, std::size_t size) { return place < size ? static_cast<int>(place) : -1; }

// Calls visit() with each time in a snapshot, which may be const.
template <typename AnySnapshot, typename Visit>
void visitTimes(AnySnapshot& snapshot, Visit visit) {
  visit(snapshot.process.started_ns);
  visit(snapshot.process.ended_ns);
  visit(snapshot.process.alive_ns);
  for (auto& rail : snapshot.rails) visit(rail.state_since_ns);
  for (auto& event : snapshot.events) visit(event.at_ns);
  for (auto& connection : snapshot.connections)
    for (auto* const time : {&connection.opened_ns, &connection.state_since_ns, &connection.looked_ns,
                             &connection.oldest_since_ns, &connection.waits_since_ns,
                             &connection.degraded_since_ns, &connection.one_sided.last_signal_ns})
      visit(*time);
}

class Parser {
 public:
  Parser(uint64_t size, const CopyBytes& copy, bool alive, const std::string& name)
      : size_(size), copy_(copy), waits_left_(alive ? kMostWaits : 0) {
    snapshot_.file = name;
    snapshot_.process.alive = alive;
  }

  Outcome<Snapshot> parse() {
    for (int round = 1;; ++round) {
      if (auto header = readHeader(); !header.ok()) return header.failure();
      const uint64_t before = number(offsetof(Header, fold_sequence));
      if (!readRails()) return cut(railsEnd());
      (void)copy_(offsetof(Header, closed), &snapshot_.closed, sizeof snapshot_.closed);
      readConnections();
      const uint64_t after = number(offsetof(Header, fold_sequence));
      if (before == after && before % 2 == 0) break;
      if (round < kMostRounds && wait()) continue;
      torn_ = true;
      break;
    }
    if (!readEvents()) return cut(eventsEnd());
    readProcess();
    snapshot_.torn = torn_;
    placeInTime();
    return std::move(snapshot_);
  }

 private:
  Error error(const std::string& what) const { return Error{snapshot_.file + ": " + what}; }
  Error cut(uint64_t needed) const {
    return error("cut: it has " + std::to_string(size_) + " bytes, and its tables need " +
                 std::to_string(needed));
  }
  uint64_t railsEnd() const {
    return header_.rails_at + static_cast<uint64_t>(header_.rails) * header_.rail_bytes;
  }
  uint64_t eventsEnd() const {
    return header_.events_at + static_cast<uint64_t>(header_.event_places) * header_.event_bytes;
  }

  // Lets the writer finish a block. False: there is no process that writes, or it has had its time.
  bool wait() {
    if (waits_left_ == 0) return false;
    --waits_left_;
    usleep(kWaitUs);
    return true;
  }

  // A number of the header as it is now.
  uint64_t number(std::size_t at) const {
    fence();
    uint64_t value = 0;
    (void)copy_(at, &value, sizeof value);
    fence();
    return value;
  }

  // Copies `block` from offset `at`, again while its sequence number, a member of it, shows that it is being
  // written. False: the source has no such block.
  template <typename Block, typename Sequence>
  bool copyBlock(uint64_t at, Block* block, const Sequence* sequence) {
    const auto sequence_at = at + static_cast<uint64_t>(reinterpret_cast<const char*>(sequence) -
                                                        reinterpret_cast<const char*>(block));
    for (;;) {
      Sequence before = 0;
      Sequence after = 0;
      if (!copy_(sequence_at, &before, sizeof before)) return false;
      fence();
      if (!copy_(at, block, sizeof *block)) return false;
      fence();
      if (!copy_(sequence_at, &after, sizeof after)) return false;
      if (before == after && before == *sequence && before % 2 == 0) return true;
      if (wait()) continue;
      torn_ = true;
      return true;
    }
  }

  Outcome<void> readHeader() {
    struct Beginning {
      uint64_t magic;
      uint32_t version;
    } beginning = {};
    if (!copy_(0, &beginning, sizeof beginning) || beginning.magic == 0)
      return error("not complete: its process has only begun to write it, or died then");
    if (beginning.magic != kMagic) return error("not a record of Railwise");
    fence();  // the writer stores the magic last
    if (beginning.version != kVersion)
      return error("a record of version " + std::to_string(beginning.version) + ", and railwise " +
                   RAILWISE_VERSION + " reads version " + std::to_string(kVersion) +
                   ": use the railwise that belongs to the plugin");
    Header& header = header_;
    if (!copyBlock(0, &header, &header.setup_sequence)) return cut(sizeof header);
    const auto damaged = [&](const char* field, uint64_t value) {
      return error(std::string("damaged: ") + field + " is " + std::to_string(value));
    };
    if (header.header_bytes != sizeof header) return damaged("header_bytes", header.header_bytes);
    if (header.rail_bytes != sizeof(RailRecord)) return damaged("rail_bytes", header.rail_bytes);
    if (header.event_bytes != sizeof(EventRecord)) return damaged("event_bytes", header.event_bytes);
    if (header.rails > kMostRails) return damaged("rails", header.rails);
    if (header.event_places > kEvents) return damaged("event_places", header.event_places);
    if (header.rails_at < sizeof header) return damaged("rails_at", header.rails_at);
    if (header.events_at < railsEnd()) return damaged("events_at", header.events_at);
    if (header.slots_at < eventsEnd()) return damaged("slots_at", header.slots_at);
    if (header.slot_bytes < kPageBytes || header.slot_bytes > kLargestSlot ||
        header.slot_bytes % kPageBytes != 0)
      return damaged("slot_bytes", header.slot_bytes);
    if (header.most_slots > kMostSlots) return damaged("most_slots", header.most_slots);
    if (header.slots > header.most_slots) return damaged("slots", header.slots);
    if (eventsEnd() > size_) return cut(eventsEnd());
    return {};
  }

  bool readRails() {
    snapshot_.rails.clear();
    for (uint32_t i = 0; i < header_.rails; ++i) {
      RailRecord record = {};
      const uint64_t at = header_.rails_at + static_cast<uint64_t>(i) * sizeof record;
      if (!copyBlock(at, &record, &record.sequence)) return false;
      Rail& rail = snapshot_.rails.emplace_back();
      rail.device = textOf(record.device);
      rail.port = record.port;
      rail.link = record.link <= 3 ? record.link : 0;
      rail.state = checkedEnum(record.state, RailState::kFailed, RailState::kUnknown);
      rail.rail = record.rail >= 0 ? record.rail : -1;
      rail.plane = record.plane >= 0 ? record.plane : -1;
      rail.claimed_mbps = record.claimed_mbps;
      rail.state_changes = record.state_changes;
      rail.state_since_ns = record.state_since_ns;
      static_cast<RailCounters&>(rail) = record.counters;
    }
    return true;
  }

  void readConnections() {
    snapshot_.connections.clear();
    for (uint32_t slot = 0; slot < header_.slots; ++slot) {
      // The page is the end of the slot.
      const uint64_t page_at =
          header_.slots_at + static_cast<uint64_t>(slot + 1) * header_.slot_bytes - sizeof(ConnectionPage);
      if (!copyBlock(page_at, &page_, &page_.connection.sequence)) {
        torn_ = true;  // the file ends before its slots do
        return;
      }
      addConnection(slot);
    }
  }

  // Reads page_. The counts of a closed connection are in the totals of its rails already.
  void addConnection(uint32_t slot) {
    const ConnectionRecord& record = page_.connection;
    if (record.state == ConnectionState::kFree || record.state >= ConnectionState::kClosed ||
        record.side > Side::kListener)
      return;
    Connection& connection = snapshot_.connections.emplace_back();
    connection.slot = slot;
    connection.id = record.id;
    connection.pair_id = record.pair_id;
    connection.communicator = record.communicator;
    connection.side = record.side;
    connection.kind = checkedEnum(record.kind, ConnectionKind::kOneSided, ConnectionKind::kMessages);
    connection.state = record.state;
    connection.device = textOf(record.device);
    connection.peer = textOf(record.peer);
    connection.peer_device = textOf(record.peer_device);
    connection.reason = textOf(record.reason);
    connection.epoch = record.epoch;
    connection.opened_ns = record.opened_ns;
    connection.state_since_ns = record.state_since_ns;
    connection.numbers = record.numbers;
    connection.looked_ns = record.looked_ns;
    connection.in_call = record.in_call <= kCalls ? record.in_call : 0;
    connection.oldest = record.oldest;
    connection.oldest_since_ns = record.oldest_since_ns;
    connection.oldest_bytes = record.oldest_bytes;
    connection.waits_for = checkedEnum(record.waits_for, WaitsFor::kOwnNic, WaitsFor::kNothing);
    countUnits(connection);
    connection.waits_since_ns = record.waits_since_ns;
    static_cast<ConnectionCounters&>(connection) = record.counters;
    connection.failover = checkedEnum(record.failover, Failover::kOn, Failover::kUnknown);
    connection.degraded = record.degraded != 0;
    connection.degraded_since_ns = record.degraded_since_ns;
    connection.latency = std::to_array(record.latency);
    connection.size = std::to_array(record.size);
    connection.calls = std::to_array(record.calls);
    connection.group_sizes = std::to_array(record.group_sizes);
    if (isOneSided(connection)) addOneSided(connection);
    addPairs(connection);
    addQueuePairs(connection);
    const auto addToRail = [this](uint32_t place, const Totals& totals) {
      if (place < snapshot_.rails.size()) add(snapshot_.rails[place].totals, totals);
    };
    visitCompletions(record, addToRail);
    visitFlushes(record, addToRail);
  }

  void countUnits(Connection& connection) const {
    const ConnectionNumbers& numbers = connection.numbers;
    if (isOneSided(connection) && connection.side == Side::kReceiver) {
      // A NIC that owes the write of a signal owes at least that of the latest one.
      const bool owed = connection.waits_for == WaitsFor::kOwnNic && connection.oldest != 0;
      connection.completed = owed ? std::min(connection.oldest - 1, numbers.arrived) : numbers.arrived;
      connection.posted = std::max(connection.completed + (owed ? 1 : 0), page_.connection.one_sided.signals);
      return;
    }
    connection.posted = growth(uint64_t{1}, numbers.next);
    const uint64_t completed =
        connection.side == Side::kSender ? std::max(numbers.complete, numbers.arrived) : numbers.arrived;
    connection.completed = std::min(completed, connection.posted);
  }

  void addOneSided(Connection& connection) const {
    const OneSidedRecord& record = page_.connection.one_sided;
    const bool sender = connection.side == Side::kSender;
    OneSided& its = connection.one_sided;
    its.totals = oneSidedTotals(page_);
    its.gets_open = record.gets_open;
    its.signals = record.signals;
    its.signals_done = sender ? record.signals_done : connection.numbers.arrived;
    its.last_signal_ns = record.last_signal_ns;
    its.peer_rank = placeIn(record.peer_rank_plus_one - 1, kMostRanks);
  }

  void addPairs(Connection& connection) const {
    const ConnectionRecord& record = page_.connection;
    for (int i = 0; i < std::min<int>(record.pair_count, kPairs); ++i) {
      const PairRecord& pair = record.pairs[i];
      connection.pairs.push_back({.rail = placeIn(pair.rail, snapshot_.rails.size()),
                                  .gid_index = pair.gid_index,
                                  .gid = gidText(pair.gid),
                                  .peer_gid = gidText(pair.peer_gid),
                                  .peer_device = textOf(pair.peer_device),
                                  .peer_port = pair.peer_port});
    }
  }

  // Adds what the living queue pairs have done, to the connection and to the totals of its rails.
  void addQueuePairs(Connection& connection) {
    uint8_t counted[kMostRails] = {};  // 1: the rail knows of this connection
    visitQueuePairs(page_, [&](const QueuePairRecord& queue_pair, const Totals& totals) {
      const QueuePair& added = connection.queue_pairs.emplace_back(
          QueuePair{.number = queue_pair.number,
                    .peer_number = queue_pair.peer_number,
                    .rail = placeIn(queue_pair.rail, snapshot_.rails.size()),
                    .pair = placeIn(queue_pair.pair, connection.pairs.size()),
                    .lane = queue_pair.lane,
                    .work_requests = totals.work_requests,
                    .bytes = totals.bytes_sent + totals.bytes_received - totals.bytes_got,
                    .got = totals.bytes_got,
                    .control_bytes = totals.control_bytes,
                    .segments = queue_pair.segments,
                    .measured_mbps = queue_pair.measured_mbps,
                    .share_permille = std::min<uint32_t>(queue_pair.share_permille, 1000)});
      if (added.rail < 0) return;
      Rail& rail = snapshot_.rails[static_cast<std::size_t>(added.rail)];
      add(rail.totals, totals);
      rail.measured_mbps = std::max(rail.measured_mbps, added.measured_mbps);
      rail.connections += 1U - std::exchange(counted[added.rail], uint8_t{1});
    });
  }

  // False: the file has become shorter. An event is taken when two copies of it are alike: its number, which
  // is 0 while the event is written, was there before the second copy began.
  bool readEvents() {
    const uint32_t places = header_.event_places;
    if (places == 0) return true;
    const auto used = std::min<uint64_t>(number(offsetof(Header, events)), places);
    std::vector<EventRecord> first(std::min<uint64_t>(used + 1, places));
    std::vector<EventRecord> second(first.size());
    const std::size_t bytes = first.size() * sizeof(EventRecord);
    if (!copy_(header_.events_at, first.data(), bytes)) return false;
    fence();
    if (!copy_(header_.events_at, second.data(), bytes)) return false;
    const uint64_t last = number(offsetof(Header, events));
    for (std::size_t place = 0; place < first.size(); ++place) {
      const uint64_t at = header_.events_at + place * sizeof(EventRecord);
      while (std::memcmp(&first[place], &second[place], sizeof(EventRecord)) != 0) {
        if (!wait()) {
          torn_ = true;
          second[place].number = 0;
          break;
        }
        first[place] = second[place];
        if (!copy_(at, &second[place], sizeof(EventRecord))) return false;
      }
      const uint64_t number = second[place].number;
      if (number != 0 && number % places == place && number <= last && last - number < places)
        addEvent(second[place]);
    }
    std::sort(snapshot_.events.begin(), snapshot_.events.end(),
              [](const Event& a, const Event& b) { return a.number < b.number; });
    return true;
  }

  void addEvent(const EventRecord& record) {
    Event& event = snapshot_.events.emplace_back();
    event.number = record.number;
    event.at_ns = record.at_ns;
    event.kind = checkedEnum(record.kind, EventKind::kContract, EventKind::kOtherEvent);
    event.rail = placeIn(record.rail, snapshot_.rails.size());
    event.slot = placeIn(record.connection - 1, header_.most_slots);
    event.connection_id = record.connection_id;
    event.numbers = std::to_array(record.numbers);
    event.text = textOf(record.text);
  }

  // What of the header may have changed since it was read is read again.
  void readProcess() {
    Process& process = snapshot_.process;
    process.pid = header_.pid;
    process.process_start = header_.process_start;
    process.spy = header_.spy != 0;
    process.started_ns = header_.started_ns;
    process.started_unix_ns = header_.started_unix_ns;
    process.ended_ns = number(offsetof(Header, ended_ns));
    process.alive_ns = number(offsetof(Header, alive_ns));
    process.rank = header_.rank >= 0 ? header_.rank : -1;
    process.ranks = header_.ranks >= 0 ? header_.ranks : -1;
    process.boot_id = textOf(header_.boot_id);
    process.host = textOf(header_.host);
    process.program = textOf(header_.program);
    process.plugin = textOf(header_.plugin);
    process.plugin_file = textOf(header_.plugin_file);
    snapshot_.unrecorded = number(offsetof(Header, unrecorded));
  }

  // Sets read_ns and read_unix_ns. No time of the snapshot is later.
  void placeInTime() {
    const Process& process = snapshot_.process;
    snapshot_.read_ns = nowNs();
    snapshot_.read_unix_ns = unixNs();
    if (process.boot_id.empty() || process.boot_id != bootId()) {
      snapshot_.read_ns = lastTimeNs(snapshot_);
      snapshot_.read_unix_ns = process.started_unix_ns + (snapshot_.read_ns - process.started_ns);
    }
    visitTimes(snapshot_, [&](uint64_t& time) { time = std::min(time, snapshot_.read_ns); });
  }

  const uint64_t size_;
  const CopyBytes& copy_;
  int waits_left_;
  bool torn_ = false;
  Header header_ = {};
  ConnectionPage page_ = {};  // of the slot that is being read
  Snapshot snapshot_;
};

}  // namespace

uint64_t lastTimeNs(const Snapshot& snapshot) {
  uint64_t last = 0;
  visitTimes(snapshot, [&](uint64_t time) { last = std::max(last, time); });
  return last;
}

Outcome<Snapshot> readBytes(uint64_t size, const CopyBytes& copy, bool alive, const std::string& name) {
  return Parser(size, copy, alive, name).parse();
}

Outcome<Snapshot> parseRecord(std::span<const std::byte> bytes, bool alive, const std::string& name) {
  const auto copy = [bytes](uint64_t at, void* to, std::size_t length) {
    if (at > bytes.size() || length > bytes.size() - at) return false;
    std::memcpy(to, bytes.data() + at, length);
    return true;
  };
  return readBytes(bytes.size(), copy, alive, name);
}

namespace {

// What no record exceeds: tables and 65536 slots of 64 KiB.
constexpr off_t kMostBytes = kSlotsAt + off_t{65536} * 65536;

}  // namespace

Outcome<Snapshot> readRecord(const std::string& path, std::optional<uint32_t> owner) {
  const File file(path);
  if (!file.valid()) return Error{path + ": " + file.problem()};
  if (owner && file.status().st_uid != *owner)
    return Error{path + ": belongs to user " + std::to_string(file.status().st_uid) + ", not to user " +
                 std::to_string(*owner)};
  if (file.status().st_size > kMostBytes)
    return Error{path + ": " + std::to_string(file.status().st_size) + " bytes are too many for a record"};
  const bool alive = file.held();  // asked first: what a process that is gone has written is complete
  const auto copy = [&](uint64_t at, void* to, std::size_t bytes) { return file.copy(at, to, bytes); };
  return readBytes(static_cast<uint64_t>(file.status().st_size), copy, alive, path);
}

}  // namespace railwise::record
