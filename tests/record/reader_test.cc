// What the reader makes of good, cut, damaged and hostile records, and of the files around them.
#include "record/reader.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstring>
#include <filesystem>
#include <functional>

#include "ok.h"
#include "record/file.h"
#include "record/held_record.h"
#include "record/record_builder.h"
#include "scratch.h"

namespace railwise::record {
namespace {

using test::HeldRecord;
using test::RecordBuilder;
using test::Scratch;

Outcome<Snapshot> parse(const RecordBuilder& record) { return parseRecord(record.bytes(), false, "test"); }

// A process with two rails, a sender and a receiver.
struct TwoRails : RecordBuilder {
  RailRecord& first = rail("mlx5_0");
  RailRecord& second = rail("mlx5_1", 200000);
  ConnectionPage& sender = connection(Side::kSender);
  ConnectionPage& receiver = connection(Side::kReceiver);
};

TEST(RecordReader, TellsOfTheProcess) {
  RecordBuilder record;
  record.header().unrecorded = 5;
  const auto snapshot = parse(record);
  ASSERT_OK(snapshot);
  EXPECT_EQ(snapshot->process.pid, 4242U);
  EXPECT_EQ(snapshot->process.rank, 3);
  EXPECT_EQ(snapshot->process.ranks, 8);
  EXPECT_EQ(snapshot->process.host, "node1");
  EXPECT_EQ(snapshot->process.program, "all_reduce_perf");
  EXPECT_EQ(snapshot->process.started_ns, record.header().started_ns);
  EXPECT_GE(snapshot->read_ns, record.now_ns);
  EXPECT_EQ(snapshot->unrecorded, 5U);
  EXPECT_FALSE(snapshot->process.alive);
  EXPECT_FALSE(snapshot->process.spy);
  EXPECT_FALSE(snapshot->torn);
}

TEST(RecordReader, TellsOfRails) {
  RecordBuilder record;
  RailRecord& rail = record.rail("mlx5_0", 400000, 2);
  rail.state = RailState::kDown;
  rail.counters.errors[static_cast<int>(ErrorKind::kPortDown)] = 7;
  rail.counters.failovers = 3;
  rail.counters.totals.bytes_sent = 1000;
  const auto snapshot = parse(record);
  ASSERT_OK(snapshot);
  ASSERT_EQ(snapshot->rails.size(), 1U);
  const Rail& read = snapshot->rails[0];
  EXPECT_EQ(railText(read), "mlx5_0 port 2");
  EXPECT_EQ(read.state, RailState::kDown);
  EXPECT_EQ(read.errors[static_cast<int>(ErrorKind::kPortDown)], 7U);
  EXPECT_EQ(read.failovers, 3U);
  EXPECT_EQ(read.claimed_mbps, 400000U);
  EXPECT_EQ(read.totals.bytes_sent, 1000U);
  EXPECT_EQ(read.plane, -1);
}

TEST(RecordReader, AddsLivingQueuePairsToTheirRails) {
  TwoRails record;
  record.first.counters.totals = {
      .bytes_sent = 10, .bytes_received = 20, .messages_sent = 1, .work_requests = 2};
  record.sender.connection.numbers = {.next = 9, .posted = 8, .completions = 4};
  record.sender.queue_pairs[0].posted = 7;
  record.sender.queue_pairs[0].bytes = 700;
  record.receiver.connection.numbers = {.next = 4, .arrived = 2, .completions = 5};
  record.receiver.queue_pairs[0].posted = 3;
  record.receiver.queue_pairs[0].bytes = 900;
  record.receiver.queue_pairs[0].control_each = 64;
  record.receiver.queue_pairs[0].control_extra = -10;
  const auto snapshot = parse(record);
  ASSERT_OK(snapshot);
  const Totals& totals = snapshot->rails[0].totals;
  EXPECT_EQ(totals.bytes_sent, 710U);
  EXPECT_EQ(totals.bytes_received, 920U);
  EXPECT_EQ(totals.messages_sent, 1U + 7U);  // 1 to 7
  EXPECT_EQ(totals.messages_received, 2U);
  EXPECT_EQ(totals.work_requests, 2U + 7U + 3U);
  EXPECT_EQ(totals.control_bytes, 3 * 64 - 10U);
  EXPECT_EQ(totals.completions, 9U);
  EXPECT_EQ(snapshot->rails[0].connections, 2U);
  EXPECT_EQ(snapshot->rails[1].connections, 0U);
}

TEST(RecordReader, CountsTheMessagesOfThisEpochOnly) {
  TwoRails record;
  record.sender.connection.numbers = {.next = 20, .posted = 20};
  record.sender.connection.first_message = 15;
  record.receiver.connection.numbers = {.next = 9, .arrived = 6};
  record.receiver.connection.first_message = 5;
  const auto snapshot = parse(record);
  ASSERT_OK(snapshot);
  EXPECT_EQ(snapshot->rails[0].totals.messages_sent, 5U);
  EXPECT_EQ(snapshot->rails[0].totals.messages_received, 2U);
}

TEST(RecordReader, CountsSegmentsWhereThereAreSeveralLanes) {
  TwoRails record;
  record.sender.connection.lanes = 2;
  record.sender.queue_pairs[0].segments = 6;
  QueuePairRecord& other = RecordBuilder::queuePair(record.sender, 1);
  other.segments = 4;
  other.measured_mbps = 150000;
  const auto snapshot = parse(record);
  ASSERT_OK(snapshot);
  EXPECT_EQ(snapshot->rails[0].totals.messages_sent, 6U);
  EXPECT_EQ(snapshot->rails[1].totals.messages_sent, 4U);
  EXPECT_EQ(snapshot->rails[1].measured_mbps, 150000U);
  EXPECT_EQ(snapshot->rails[1].connections, 1U);
}

TEST(RecordReader, AddsFurtherCompletionQueuesAndFlushes) {
  TwoRails record;
  ConnectionRecord& receiver = record.receiver.connection;
  receiver.more_completions[0] = 11;
  receiver.queue_rail[1] = 1;
  receiver.flushes[0] = {.reads = 5, .completions = 4, .rail = 1};
  const auto snapshot = parse(record);
  ASSERT_OK(snapshot);
  EXPECT_EQ(snapshot->rails[1].totals.completions, 15U);
  EXPECT_EQ(snapshot->rails[1].totals.work_requests, 5U);
  EXPECT_EQ(snapshot->rails[1].totals.control_bytes, 5U);
}

TEST(RecordReader, TellsHowFarConnectionsAre) {
  TwoRails record;
  record.sender.connection.numbers = {.next = 11, .posted = 9, .complete = 3, .arrived = 7};
  record.receiver.connection.numbers = {.next = 6, .posted = 6, .complete = 5, .arrived = 4};
  const auto snapshot = parse(record);
  ASSERT_OK(snapshot);
  ASSERT_EQ(snapshot->connections.size(), 2U);
  EXPECT_EQ(snapshot->connections[0].posted, 10U);
  EXPECT_EQ(snapshot->connections[0].completed, 7U);
  EXPECT_EQ(snapshot->connections[1].posted, 5U);
  EXPECT_EQ(snapshot->connections[1].completed, 4U);
  EXPECT_EQ(snapshot->connections[1].slot, 1U);
  EXPECT_EQ(snapshot->connections[1].queue_pairs.size(), 1U);
  EXPECT_EQ(snapshot->connections[1].pairs.at(0).peer_device, "mlx5_0");
}

TEST(RecordReader, LeavesOutFreeAndClosedConnections) {
  TwoRails record;
  record.sender.connection.state = ConnectionState::kClosed;
  record.sender.queue_pairs[0].used = 0;
  record.receiver.connection.state = ConnectionState::kFree;
  record.receiver.queue_pairs[0].bytes = 99;  // of the connection that had the slot before
  const auto snapshot = parse(record);
  ASSERT_OK(snapshot);
  EXPECT_TRUE(snapshot->connections.empty());
  EXPECT_EQ(snapshot->rails[0].totals.bytes_received, 0U);
}

TEST(RecordReader, FindsThePageAtTheEndOfALargeSlot) {
  TwoRails record;
  record.header().slot_bytes = 16384;
  const auto snapshot = parse(record);
  ASSERT_OK(snapshot);
  ASSERT_EQ(snapshot->connections.size(), 2U);
  EXPECT_EQ(snapshot->connections[1].id, 102U);
}

TEST(RecordReader, TellsEventsOldestFirst) {
  RecordBuilder record;
  record.rail("mlx5_0");
  record.event(EventKind::kProcessStarted, "hello", 3);
  EventRecord& lost = record.event(EventKind::kPathLost, "retry exceeded", 2);
  lost.rail = 0;
  lost.connection = 8;
  lost.connection_id = 55;
  lost.numbers[0] = 2;
  const auto snapshot = parse(record);
  ASSERT_OK(snapshot);
  ASSERT_EQ(snapshot->events.size(), 2U);
  EXPECT_EQ(snapshot->events[0].slot, -1);
  EXPECT_EQ(snapshot->events[0].rail, -1);
  EXPECT_EQ(snapshot->events[1].number, 2U);
  EXPECT_EQ(snapshot->events[1].slot, 7);
  EXPECT_EQ(snapshot->events[1].rail, 0);
  EXPECT_EQ(snapshot->events[1].numbers[0], 2U);
  EXPECT_EQ(snapshot->events[1].text, "retry exceeded");
}

TEST(RecordReader, KeepsTheLastEventsOfARingThatHasWrappedAround) {
  RecordBuilder record;
  for (uint32_t i = 0; i < kEvents + 10; ++i) record.event(EventKind::kOtherEvent, std::to_string(i + 1));
  const auto snapshot = parse(record);
  ASSERT_OK(snapshot);
  ASSERT_EQ(snapshot->events.size(), kEvents);
  EXPECT_EQ(snapshot->events.front().text, "11");
  EXPECT_EQ(snapshot->events.back().text, std::to_string(kEvents + 10));
}

TEST(RecordReader, LeavesOutAnEventThatIsBeingWritten) {
  RecordBuilder record;
  record.event(EventKind::kOtherEvent, "whole");
  record.event(EventKind::kOtherEvent, "half").number = 0;
  const auto snapshot = parse(record);
  ASSERT_OK(snapshot);
  ASSERT_EQ(snapshot->events.size(), 1U);
  EXPECT_EQ(snapshot->events[0].text, "whole");
}

TEST(RecordReader, RefusesWhatIsNoRecord) {
  RecordBuilder record;
  record.header().magic = 1;
  EXPECT_EQ(parse(record).error(), "test: not a record of Railwise");
  record.header().magic = 0;
  EXPECT_EQ(parse(record).error(),
            "test: not complete: its process has only begun to write it, or died then");
}

TEST(RecordReader, RefusesAnotherVersion) {
  RecordBuilder record;
  record.header().version = 2;
  EXPECT_EQ(parse(record).error(), "test: a record of version 2, and railwise " RAILWISE_VERSION
                                   " reads version 1: use the railwise that belongs to the plugin");
}

TEST(RecordReader, RefusesTablesThatCannotBe) {
  const std::vector<std::pair<const char*, uint32_t Header::*>> fields = {
      {"header_bytes", &Header::header_bytes}, {"rails_at", &Header::rails_at},
      {"rail_bytes", &Header::rail_bytes},     {"event_bytes", &Header::event_bytes},
      {"events_at", &Header::events_at},       {"slot_bytes", &Header::slot_bytes},
      {"slots_at", &Header::slots_at}};
  for (const auto& [name, field] : fields) {
    RecordBuilder record;
    record.rail("mlx5_0");
    std::vector<std::byte> bytes = record.bytes();
    Header header = record.header();
    header.*field = 100;
    std::memcpy(bytes.data(), &header, sizeof header);
    EXPECT_EQ(parseRecord(bytes, false, "test").error(), std::string("test: damaged: ") + name + " is 100");
  }
}

TEST(RecordReader, RefusesCountsThatCannotBe) {
  const std::vector<std::pair<const char*, uint32_t Header::*>> fields = {
      {"rails", &Header::rails},
      {"event_places", &Header::event_places},
      {"most_slots", &Header::most_slots},
      {"slots", &Header::slots}};
  for (const auto& [name, field] : fields) {
    RecordBuilder record;
    std::vector<std::byte> bytes = record.bytes();
    Header header = record.header();
    header.*field = 0xffffffff;
    std::memcpy(bytes.data(), &header, sizeof header);
    EXPECT_EQ(parseRecord(bytes, false, "test").error(),
              std::string("test: damaged: ") + name + " is 4294967295");
  }
}

TEST(RecordReader, SaysWhereARecordIsCut) {
  TwoRails record;
  record.event(EventKind::kOtherEvent, "one");
  const std::vector<std::byte> whole = record.bytes();
  for (const std::size_t length :
       {std::size_t{0}, std::size_t{11}, std::size_t{100}, sizeof(Header) - 1, sizeof(Header),
        std::size_t{kRailsAt} + 700, std::size_t{kEventsAt}, std::size_t{kEventsAt} + 300}) {
    const auto snapshot = parseRecord(std::span(whole).first(length), false, "test");
    ASSERT_FALSE(snapshot.ok()) << length;
    EXPECT_HAS(snapshot.error(), length < 12 ? "test: not complete" : "test: cut: it has ");
  }
}

TEST(RecordReader, KeepsTheConnectionsInFrontOfTheCut) {
  TwoRails record;
  const std::vector<std::byte> whole = record.bytes();
  const auto one = parseRecord(std::span(whole).first(whole.size() - 1), false, "test");
  ASSERT_OK(one);
  EXPECT_EQ(one->connections.size(), 1U);
  EXPECT_TRUE(one->torn);
  const auto none = parseRecord(std::span(whole).first(kSlotsAt), false, "test");
  ASSERT_OK(none);
  EXPECT_TRUE(none->connections.empty());
}

TEST(RecordReader, ChecksPlacesInTables) {
  TwoRails record;
  ConnectionRecord& sender = record.sender.connection;
  record.sender.queue_pairs[0].rail = 2;
  record.sender.queue_pairs[0].pair = 1;
  record.sender.queue_pairs[0].bytes = 5;
  record.sender.queue_pairs[0].share_permille = 60000;
  sender.pairs[0].rail = 200;
  sender.queue_rail[0] = 2;
  sender.numbers.completions = 9;
  sender.queue_pairs = 255;
  sender.pair_count = 255;
  EventRecord& event = record.event(static_cast<EventKind>(999), "odd");
  event.rail = 2;
  event.connection = 4097;
  const auto snapshot = parse(record);
  ASSERT_OK(snapshot);
  const Connection& connection = snapshot->connections.at(0);
  EXPECT_EQ(connection.queue_pairs.at(0).rail, -1);
  EXPECT_EQ(connection.queue_pairs.at(0).share_permille, 1000U);
  EXPECT_EQ(connection.pairs.size(), std::size_t{kPairs});
  EXPECT_EQ(connection.pairs.at(0).rail, -1);
  EXPECT_EQ(snapshot->events.at(0).rail, -1);
  EXPECT_EQ(snapshot->events.at(0).slot, -1);
  EXPECT_EQ(snapshot->events.at(0).kind, EventKind::kOtherEvent);
  EXPECT_EQ(snapshot->rails[0].totals.bytes_sent + snapshot->rails[1].totals.bytes_sent, 0U);
}

TEST(RecordReader, ChecksStates) {
  TwoRails record;
  record.first.state = static_cast<RailState>(77);
  record.first.link = 9;
  record.sender.connection.state = static_cast<ConnectionState>(8);
  record.receiver.connection.waits_for = static_cast<WaitsFor>(10);
  const auto snapshot = parse(record);
  ASSERT_OK(snapshot);
  EXPECT_EQ(snapshot->rails[0].state, RailState::kUnknown);
  EXPECT_EQ(snapshot->rails[0].link, 0);
  ASSERT_EQ(snapshot->connections.size(), 1U);
  EXPECT_EQ(snapshot->connections[0].waits_for, WaitsFor::kNothing);
}

TEST(RecordReader, TellsOfOneSidedConnections) {
  TwoRails record;
  ConnectionRecord& writer = record.sender.connection;
  writer.kind = ConnectionKind::kOneSided;
  writer.waits_for = WaitsFor::kCredit;
  writer.numbers = {.next = 11, .posted = 9, .complete = 7};
  writer.one_sided = {.put_bytes = 100,
                      .get_bytes = 50,
                      .gets = 3,
                      .gets_open = 1,
                      .signals = 6,
                      .signals_done = 5,
                      .peer_rank_plus_one = 8};
  record.sender.queue_pairs[0].bytes = 1000;
  record.sender.queue_pairs[0].got = 500;
  ConnectionRecord& target = record.receiver.connection;
  target.kind = ConnectionKind::kOneSided;
  target.numbers.arrived = 40;
  target.one_sided = {.signals = 42, .last_signal_ns = record.ago(3)};
  const auto snapshot = parse(record);
  ASSERT_OK(snapshot);
  const Connection& sender = snapshot->connections[0];
  EXPECT_EQ(sender.kind, ConnectionKind::kOneSided);
  EXPECT_EQ(sender.posted, 10U);
  EXPECT_EQ(sender.completed, 7U);
  EXPECT_EQ(sender.one_sided.totals.puts, 7U);
  EXPECT_EQ(sender.one_sided.totals.put_bytes, 1100U);
  EXPECT_EQ(sender.one_sided.totals.gets, 3U);
  EXPECT_EQ(sender.one_sided.totals.get_bytes, 550U);
  EXPECT_EQ(sender.one_sided.totals.signals_sent, 6U);
  EXPECT_EQ(sender.one_sided.gets_open, 1U);
  EXPECT_EQ(sender.one_sided.peer_rank, 7);
  EXPECT_EQ(snapshot->rails[0].totals.bytes_sent, 1000U);
  EXPECT_EQ(snapshot->rails[0].totals.bytes_received, 500U);
  const Connection& receiver = snapshot->connections[1];
  EXPECT_EQ(receiver.posted, 42U);
  EXPECT_EQ(receiver.completed, 40U);
  EXPECT_EQ(receiver.one_sided.totals.signals_applied, 40U);
  EXPECT_EQ(receiver.one_sided.last_signal_ns, record.ago(3));
  EXPECT_EQ(receiver.one_sided.peer_rank, -1) << "not known";
}

// It is applied, and a NIC owes the write of it.
TEST(RecordReader, ASignalThatIsNotWrittenIsOpen) {
  TwoRails record;
  ConnectionRecord& target = record.receiver.connection;
  target.kind = ConnectionKind::kOneSided;
  target.numbers.arrived = target.one_sided.signals = target.oldest = 40;
  target.waits_for = WaitsFor::kOwnNic;
  const auto snapshot = parse(record);
  ASSERT_OK(snapshot);
  EXPECT_EQ(snapshot->connections[1].posted, 40U);
  EXPECT_EQ(snapshot->connections[1].completed, 39U);
}

// The places of the fields were 0 before there was one-sided communication.
TEST(RecordReader, OlderRecordsAreOfMessages) {
  const auto snapshot = parse(TwoRails());
  ASSERT_OK(snapshot);
  for (const Connection& each : snapshot->connections) {
    EXPECT_EQ(each.kind, ConnectionKind::kMessages);
    EXPECT_EQ(each.one_sided.totals.puts, 0U);
  }
}

TEST(RecordReader, SurvivesNumbersThatOverflow) {
  TwoRails record;
  record.sender.queue_pairs[0].posted = UINT64_MAX;
  record.sender.queue_pairs[0].control_each = UINT32_MAX;
  record.receiver.queue_pairs[0].control_extra = INT64_MIN;
  record.sender.connection.numbers = {.next = 0, .posted = 0, .arrived = UINT64_MAX};
  record.receiver.connection.numbers = {.next = 5, .arrived = UINT64_MAX};
  const auto snapshot = parse(record);
  ASSERT_OK(snapshot);
  EXPECT_EQ(snapshot->connections[0].queue_pairs[0].control_bytes, UINT64_MAX);
  EXPECT_EQ(snapshot->connections[0].posted, 0U);
  EXPECT_EQ(snapshot->connections[0].completed, 0U);
  EXPECT_EQ(snapshot->connections[1].queue_pairs[0].control_bytes, 0U);
  EXPECT_EQ(snapshot->connections[1].completed, 4U);
  EXPECT_EQ(snapshot->rails[0].totals.messages_sent, 0U);
}

TEST(RecordReader, CleansText) {
  TwoRails record;
  RecordBuilder::setText(record.header().host, "no\x1b[2Jde\n\x9b");
  RecordBuilder::setText(record.first.device, std::string(64, 'x'));
  const auto snapshot = parse(record);
  ASSERT_OK(snapshot);
  EXPECT_EQ(snapshot->process.host, "no?[2Jde??");
  EXPECT_EQ(snapshot->rails[0].device, std::string(64, 'x'));
}

TEST(RecordReader, HasNoTimeInTheFuture) {
  TwoRails record;
  record.sender.connection.waits_since_ns = UINT64_MAX;
  record.event(EventKind::kOtherEvent, "later").at_ns = UINT64_MAX - 1;
  const auto snapshot = parse(record);
  ASSERT_OK(snapshot);
  EXPECT_EQ(snapshot->connections[0].waits_since_ns, snapshot->read_ns);
  EXPECT_EQ(snapshot->events[0].at_ns, snapshot->read_ns);
}

TEST(RecordReader, ARecordOfAnotherBootEndsAtItsLastTime) {
  RecordBuilder record;
  RecordBuilder::setText(record.header().boot_id, "another");
  record.header().started_ns = 1000;
  record.header().started_unix_ns = 5000;
  record.event(EventKind::kOtherEvent, "last").at_ns = 8000;
  const auto snapshot = parse(record);
  ASSERT_OK(snapshot);
  EXPECT_EQ(snapshot->read_ns, 8000U);
  EXPECT_EQ(snapshot->read_unix_ns, 12000U);
}

TEST(RecordReader, ABlockThatStaysOddIsTorn) {
  for (const auto& damage :
       std::vector<void (*)(TwoRails&)>{[](TwoRails& record) { record.sender.connection.sequence = 7; },
                                        [](TwoRails& record) { record.first.sequence = 7; },
                                        [](TwoRails& record) { record.header().fold_sequence = 7; },
                                        [](TwoRails& record) { record.header().setup_sequence = 7; }}) {
    TwoRails record;
    damage(record);
    const auto snapshot = parse(record);
    ASSERT_OK(snapshot);
    EXPECT_TRUE(snapshot->torn);
    EXPECT_EQ(snapshot->connections.size(), 2U);
    EXPECT_TRUE(parseRecord(record.bytes(), true, "test")->torn);  // also where a process could still write
  }
}

// A record whose process writes meanwhile: `write` is called after each copy, with the offset that was
// copied.
class Changing {
 public:
  Changing(std::vector<std::byte> bytes, std::function<void(Changing&, uint64_t)> write)
      : bytes_(std::move(bytes)), write_(std::move(write)) {}
  bool copy(uint64_t at, void* to, std::size_t bytes) {
    if (at + bytes > bytes_.size()) return false;
    std::memcpy(to, &bytes_[at], bytes);
    write_(*this, at);
    return true;
  }
  Outcome<Snapshot> read() {
    return readBytes(
        bytes_.size(), [this](auto... wanted) { return copy(wanted...); }, true, "test");
  }
  uint64_t get(std::size_t at) const {
    uint64_t value = 0;
    std::memcpy(&value, &bytes_[at], sizeof value);
    return value;
  }
  void put(std::size_t at, uint64_t value) { std::memcpy(&bytes_[at], &value, sizeof value); }
  int times = 0;

 private:
  std::vector<std::byte> bytes_;
  std::function<void(Changing&, uint64_t)> write_;
};

constexpr std::size_t kInRail = kRailsAt + offsetof(RailRecord, counters.totals.bytes_sent);
constexpr std::size_t kInQueuePair = kSlotsAt + offsetof(QueuePairRecord, bytes);
constexpr std::size_t kFolds = offsetof(Header, fold_sequence);

void fold(Changing& record) {
  record.put(kFolds, record.get(kFolds) + 1);
  record.put(kInRail, record.get(kInRail) + record.get(kInQueuePair));
  record.put(kInQueuePair, 0);
  record.put(kFolds, record.get(kFolds) + 1);
}

TEST(RecordReader, ReadsAgainWhenCountsMoveToARail) {
  TwoRails record;
  record.sender.queue_pairs[0].bytes = 1000;
  Changing source(record.bytes(), [](Changing& changing, uint64_t at) {
    if (at == kRailsAt && ++changing.times == 3) fold(changing);  // the rail is read, its connections are not
  });
  const auto snapshot = source.read();
  ASSERT_OK(snapshot);
  EXPECT_EQ(snapshot->rails[0].totals.bytes_sent, 1000U);
  EXPECT_FALSE(snapshot->torn);
}

TEST(RecordReader, ReadsAConnectionAgainThatChanges) {
  constexpr std::size_t kSequence = kSlotsAt + offsetof(ConnectionPage, connection.sequence);
  constexpr std::size_t kEpoch = kSlotsAt + offsetof(ConnectionPage, connection.epoch);
  Changing source(TwoRails().bytes(), [](Changing& changing, uint64_t at) {
    if (at != kSlotsAt || changing.times++ > 0) return;
    changing.put(kEpoch, 9);
    changing.put(kSequence, changing.get(kSequence) + 2);
  });
  const auto snapshot = source.read();
  ASSERT_OK(snapshot);
  EXPECT_EQ(snapshot->connections.at(0).epoch, 9U);
  EXPECT_FALSE(snapshot->torn);
}

TEST(RecordReader, ReadsAnEventAgainThatIsBeingWritten) {
  TwoRails record;
  record.event(EventKind::kOtherEvent, "one");
  Changing source(record.bytes(), [](Changing& changing, uint64_t at) {
    if (at == kEventsAt) changing.put(kEventsAt + sizeof(EventRecord), changing.times++ == 0 ? 0 : 1);
  });
  const auto snapshot = source.read();
  ASSERT_OK(snapshot);
  EXPECT_EQ(snapshot->events.size(), 1U);
  EXPECT_FALSE(snapshot->torn);
}

TEST(RecordReader, GivesUpWhenARecordNeverStandsStill) {
  Changing source(TwoRails().bytes(), [](Changing& changing, uint64_t) { fold(changing); });
  const auto snapshot = source.read();
  ASSERT_OK(snapshot);
  EXPECT_TRUE(snapshot->torn);
}

TEST(RecordFiles, ThereAreNoneWithoutAFolder) {
  EXPECT_TRUE(listRecords("/no/such/folder", geteuid()).empty());
  EXPECT_EQ(removeStaleRecords("/no/such/folder", geteuid(), std::chrono::seconds(0)), 0);
}

TEST(RecordFiles, AreListedByPid) {
  const Scratch scratch;
  RecordBuilder record;
  record.header().pid = 900;
  record.write(scratch.path());
  record.header().pid = 1000;
  record.header().spy = 1;
  const std::string spy = record.write(scratch.path());
  const auto files = listRecords(scratch.path(), geteuid());
  ASSERT_EQ(files.size(), 2U);
  EXPECT_EQ(files[0].pid, 900U);
  EXPECT_FALSE(files[0].spy);
  EXPECT_EQ(files[1].pid, 1000U);
  EXPECT_TRUE(files[1].spy);
  EXPECT_TRUE(std::filesystem::equivalent(files[1].path, spy));
}

TEST(RecordFiles, OthersAreLeftOut) {
  const Scratch scratch;
  const std::string user = std::to_string(geteuid());
  for (const std::string& name :
       {"railwise-" + user, "railwise-" + user + "-12", "railwise-" + user + "-12-13-14",
        "railwise-" + user + "-012-13", "railwise-" + user + "--12-13", "railwise-" + user + "-12-13-spy2",
        "railwise-" + user + "-99999999999-13", "railwise-" + std::to_string(geteuid() + 1) + "-12-13",
        std::string("nccl-12-13")})
    scratch.file(name, "");
  std::filesystem::create_directory(scratch.path("railwise-" + user + "-14-15"));
  std::filesystem::create_symlink(scratch.file("target", ""), scratch.path("railwise-" + user + "-16-17"));
  ASSERT_EQ(mkfifo(scratch.path("railwise-" + user + "-18-19").c_str(), 0600), 0);
  EXPECT_TRUE(listRecords(scratch.path(), geteuid()).empty());
  EXPECT_EQ(removeStaleRecords(scratch.path(), geteuid(), std::chrono::seconds(0)), 0);
}

TEST(RecordFiles, OfAnotherOwnerAreLeftOut) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can give a file away";
  const Scratch scratch;
  const std::string path = RecordBuilder().write(scratch.path());
  ASSERT_EQ(chown(path.c_str(), 12345, 12345), 0);
  EXPECT_TRUE(listRecords(scratch.path(), geteuid()).empty());
  EXPECT_EQ(readRecord(path, geteuid()).error(), path + ": belongs to user 12345, not to user 0");
  EXPECT_OK(readRecord(path));
}

TEST(RecordFiles, AreAliveAsLongAsTheirProcess) {
  const Scratch scratch;
  const std::string path = RecordBuilder().write(scratch.path());
  HeldRecord held(path);
  EXPECT_TRUE(listRecords(scratch.path(), geteuid()).at(0).alive);
  EXPECT_TRUE(readRecord(path)->process.alive);
  held.kill9();
  EXPECT_FALSE(listRecords(scratch.path(), geteuid()).at(0).alive);
  EXPECT_FALSE(readRecord(path)->process.alive);
}

TEST(RecordFiles, LinksFoldersAndFifosAreNotRead) {
  const Scratch scratch;
  const std::string link = scratch.path("link");
  std::filesystem::create_symlink(RecordBuilder().write(scratch.path()), link);
  EXPECT_EQ(readRecord(link).error(), link + ": a link, and records are files");
  EXPECT_EQ(readRecord(scratch.path()).error(), scratch.path() + ": not a file");
  EXPECT_EQ(readRecord("/no/such").error(), "/no/such: cannot be read: No such file or directory");
  ASSERT_EQ(mkfifo(scratch.path("fifo").c_str(), 0600), 0);
  EXPECT_EQ(readRecord(scratch.path("fifo")).error(), scratch.path("fifo") + ": not a file");
}

TEST(RecordFiles, AHugeFileIsNotRead) {
  const Scratch scratch;
  const std::string path = scratch.file("huge", "");
  std::filesystem::resize_file(path, uint64_t{1} << 40);
  EXPECT_EQ(readRecord(path).error(), path + ": 1099511627776 bytes are too many for a record");
}

TEST(RecordFiles, OfProcessesThatWereEndedOnPurposeAreRemoved) {
  const Scratch scratch;
  RecordBuilder record;
  for (const uint32_t pid : {900U, 901U, 902U}) {
    record.header().pid = pid;
    record.write(scratch.path());
  }
  EXPECT_EQ(removeRecordsOf(scratch.path(), geteuid(), std::vector<uint32_t>{900, 902, 7}), 2);
  const auto left = listRecords(scratch.path(), geteuid());
  ASSERT_EQ(left.size(), 1U);
  EXPECT_EQ(left[0].pid, 901U);
}

// As if somebody had found `ago` that the process is gone.
void foundGone(const std::string& folder, const std::string& path, std::chrono::seconds ago) {
  EXPECT_EQ(removeStaleRecords(folder, geteuid(), std::chrono::hours(1)), 0);
  std::filesystem::last_write_time(path, std::filesystem::file_time_type::clock::now() - ago);
}

TEST(RecordFiles, StaleRecordsAreRemoved) {
  const Scratch scratch;
  const std::string folder = scratch.path();
  const std::string path = RecordBuilder().write(folder);
  foundGone(folder, path, std::chrono::minutes(40));
  EXPECT_EQ(removeStaleRecords(folder, geteuid(), std::chrono::hours(1)), 0);
  EXPECT_EQ(removeStaleRecords(folder, geteuid() + 1, std::chrono::minutes(30)), 0);
  EXPECT_TRUE(std::filesystem::exists(path));
  EXPECT_EQ(removeStaleRecords(folder, geteuid(), std::chrono::minutes(30)), 1);
  EXPECT_FALSE(std::filesystem::exists(path));
}

// The file's time says when the process began to write, not when it died.
TEST(RecordFiles, AnOldRecordIsKeptFromTheMomentThatItsProcessIsFoundGone) {
  const Scratch scratch;
  const std::string path = RecordBuilder().write(scratch.path());
  std::filesystem::last_write_time(path,
                                   std::filesystem::file_time_type::clock::now() - std::chrono::hours(5));
  EXPECT_EQ(removeStaleRecords(scratch.path(), geteuid(), std::chrono::hours(1)), 0);
  EXPECT_EQ(removeStaleRecords(scratch.path(), geteuid(), std::chrono::hours(1)), 0);
  EXPECT_TRUE(std::filesystem::exists(path));
}

TEST(RecordFiles, TheDeadAreNotTooMany) {
  const Scratch scratch;
  for (int i = 0; i < 130; ++i)
    scratch.file("railwise-" + std::to_string(geteuid()) + "-" + std::to_string(1'000'000 + i) + "-1", "");
  EXPECT_EQ(removeStaleRecords(scratch.path(), geteuid(), std::chrono::hours(1)), 2);
  EXPECT_EQ(removeStaleRecords(scratch.path(), geteuid(), std::chrono::hours(1)), 0);
}

TEST(RecordFiles, ARecordOfALivingProcessIsNotRemoved) {
  const Scratch scratch;
  const std::string path = RecordBuilder().write(scratch.path());
  const HeldRecord held(path);
  EXPECT_EQ(removeStaleRecords(scratch.path(), geteuid(), std::chrono::seconds(0)), 0);
  EXPECT_TRUE(std::filesystem::exists(path));
}

// A process loses the lock on its own record when it closes any descriptor of that file.
TEST(RecordFiles, AProcessKeepsAwayFromItsOwnRecord) {
  const Scratch scratch;
  std::string stat;
  std::getline(std::ifstream("/proc/self/task/" + std::to_string(getpid()) + "/stat"), stat);
  std::istringstream fields(stat.substr(stat.rfind(')') + 1));
  std::string field;
  for (int i = 3; i <= 22; ++i) fields >> field;
  RecordBuilder record;
  record.header().pid = static_cast<uint32_t>(getpid());
  record.header().process_start = std::stoull(field);
  record.write(scratch.path());
  EXPECT_TRUE(listRecords(scratch.path(), geteuid()).empty());
  EXPECT_EQ(removeStaleRecords(scratch.path(), geteuid(), std::chrono::seconds(0)), 0);
}

}  // namespace
}  // namespace railwise::record
