// Arbitrary bytes over a good record: the reader must take whatever it is, and what it says must fit
// together. The input is a list of writes into the record: an offset of 4 bytes, a length of 1 byte, and the
// bytes.
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "record/reader.h"
#include "record/record_builder.h"

namespace {

using namespace railwise;
using test::RecordBuilder;

// Small, so that the fuzzer's writes meet something: one place for each slot, 16 events.
std::vector<std::byte> makeRecord() {
  RecordBuilder record;
  record.header().event_places = 16;
  record.header().slots_at = record::kEventsAt + 16 * sizeof(record::EventRecord);
  record.rail("mlx5_0");
  record.rail("mlx5_1", 200000);
  for (const record::Side side : {record::Side::kSender, record::Side::kReceiver}) {
    record::ConnectionPage& page = record.connection(side);
    page.connection.lanes = 2;
    RecordBuilder::queuePair(page, 1);
    page.connection.flushes[0] = {.reads = 3, .completions = 2, .rail = 1};
    record::ConnectionRecord& puts = record.connection(side).connection;
    puts.kind = record::ConnectionKind::kOneSided;
    puts.one_sided = {.gets = 3, .signals = 5, .last_signal_ns = record.now_ns, .peer_rank_plus_one = 2};
  }
  record.connection(record::Side::kListener, record::ConnectionState::kListening);
  for (int i = 0; i < 20; ++i) record.event(record::EventKind::kPathLost, "retry exceeded").rail = 0;
  return record.bytes();
}

void check(bool holds) {
  if (!holds) std::abort();
}

void checkPlace(int place, std::size_t size) { check(place >= -1 && place < static_cast<int>(size)); }

void checkText(const std::string& text) {
  for (const char c : text) check(c >= ' ' && c <= '~');
}

void checkSnapshot(const record::Snapshot& snapshot) {
  const record::Process& process = snapshot.process;
  for (const std::string& text :
       {process.boot_id, process.host, process.program, process.plugin, process.plugin_file})
    checkText(text);
  check(snapshot.rails.size() <= record::kMostRails);
  for (const record::Rail& rail : snapshot.rails) {
    checkText(rail.device);
    check(rail.state_since_ns <= snapshot.read_ns);
  }
  for (const record::Connection& connection : snapshot.connections) {
    check(connection.state > record::ConnectionState::kFree &&
          connection.state < record::ConnectionState::kClosed);
    check(connection.completed <= connection.posted);
    check(connection.waits_since_ns <= snapshot.read_ns && connection.looked_ns <= snapshot.read_ns);
    checkText(connection.peer + connection.device + connection.peer_device + connection.reason);
    for (const record::Pair& pair : connection.pairs) checkPlace(pair.rail, snapshot.rails.size());
    for (const record::QueuePair& queue_pair : connection.queue_pairs) {
      checkPlace(queue_pair.rail, snapshot.rails.size());
      checkPlace(queue_pair.pair, connection.pairs.size());
    }
  }
  uint64_t last = 0;
  for (const record::Event& event : snapshot.events) {
    check(event.number > last);
    last = event.number;
    checkPlace(event.rail, snapshot.rails.size());
    check(event.slot >= -1 && event.slot < 65536);
    checkText(event.text);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const std::vector<std::byte> good = makeRecord();
  static std::vector<std::byte> bytes = good;
  const auto raw = record::parseRecord({reinterpret_cast<const std::byte*>(data), size}, false, "raw");
  check(!raw.ok() && !raw.error().empty());  // no record is as small
  std::size_t length = good.size();
  std::vector<std::pair<std::size_t, std::size_t>> written;
  for (std::size_t at = 0; at + 5 <= size;) {
    uint32_t place = 0;
    std::memcpy(&place, data + at, sizeof place);
    const std::size_t wanted = data[at + 4];
    at += 5;
    const std::size_t count = std::min(wanted, size - at);
    const std::size_t to = place % (good.size() + 1);
    if (wanted == 0) length = to;  // a record that is cut
    const std::size_t fits = std::min(count, good.size() - to);
    std::memcpy(bytes.data() + to, data + at, fits);
    written.emplace_back(to, fits);
    at += count;
  }
  // Memory of its own, so that the sanitizer sees a read behind the end.
  const std::vector<std::byte> record(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(length));
  const auto snapshot = record::parseRecord(record, false, "fuzz");
  if (snapshot.ok()) checkSnapshot(*snapshot);
  else check(!snapshot.error().empty());
  for (const auto& [at, count] : written) std::memcpy(bytes.data() + at, good.data() + at, count);
  return 0;
}
