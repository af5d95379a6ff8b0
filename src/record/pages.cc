// The pages of connections: their memory, what the slow path writes into them, and where their counts go when
// queue pairs and connections end.
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <iterator>
#include <optional>

#include "base/clock.h"
#include "record/page_counts.h"
#include "record/process_record.h"

#if defined(__SANITIZE_ADDRESS__)
#define RAILWISE_LEAK_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define RAILWISE_LEAK_SANITIZER 1
#endif
#endif
#ifdef RAILWISE_LEAK_SANITIZER
extern "C" void __lsan_register_root_region(const void* begin, size_t bytes);
extern "C" void __lsan_unregister_root_region(const void* begin, size_t bytes);
#endif

namespace railwise::record {
namespace {

// Directly in front of the memory that PageMemory::allocate() returns is the page; in front of the page, or
// in the rest of the page of a kernel with larger pages, nothing. What the block needs to know of itself is
// at its end.
struct BlockEnd {
  Record* record;
  int64_t slot;
};

std::size_t blockBytes(std::size_t bytes) {
  const std::size_t with_end = (bytes + 15) / 16 * 16 + sizeof(BlockEnd);
  return slotBytes() + (with_end + pageSize() - 1) / pageSize() * pageSize();
}

}  // namespace

void* PageMemory::allocate(std::size_t bytes) {
  const std::size_t whole = blockBytes(bytes);
  void* const mapped = mmap(nullptr, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) return nullptr;
  std::byte* memory = static_cast<std::byte*>(mapped) + slotBytes();
  auto& end = *reinterpret_cast<BlockEnd*>(static_cast<std::byte*>(mapped) + whole - sizeof(BlockEnd));
  end.record = currentRecord();
  end.slot = end.record != nullptr ? end.record->mapSlot(memory) : -1;
#ifdef RAILWISE_LEAK_SANITIZER
  __lsan_register_root_region(memory, whole - slotBytes());
#endif
  return memory;
}

void PageMemory::free(void* memory, std::size_t bytes) {
  const std::size_t whole = blockBytes(bytes);
  std::byte* const begin = static_cast<std::byte*>(memory) - slotBytes();
  const BlockEnd end = *reinterpret_cast<BlockEnd*>(begin + whole - sizeof(BlockEnd));
#ifdef RAILWISE_LEAK_SANITIZER
  __lsan_unregister_root_region(memory, whole - slotBytes());
#endif
  (void)munmap(begin, whole);
  if (end.slot >= 0) end.record->giveSlot(end.slot);
}

ListenerPage::ListenerPage(std::string_view device, uint16_t rail) : record_(currentRecord()) {
  if (record_ != nullptr) slot_ = record_->mapSlot(end_);
  if (slot_ < 0) return;
  ConnectionRecord& its = PageMemory::pageOf(end_).connection;
  openConnection(its, Side::kListener, ConnectionState::kListening);
  beginChange(its);
  setText(its.device, device);
  its.device_rail = rail;
  endChange(its);
}

ListenerPage::~ListenerPage() {
  if (slot_ < 0 || !record_->ours()) return;
  setState(PageMemory::pageOf(end_).connection, ConnectionState::kClosed);
  (void)munmap(end_ - slotBytes(), slotBytes());
  record_->giveSlot(slot_);
}

void beginChange(ConnectionRecord& connection) { increase(connection.sequence); }
void endChange(ConnectionRecord& connection) { increase(connection.sequence); }

void openConnection(ConnectionRecord& connection, Side side, ConnectionState state) {
  static std::atomic<uint64_t> last_id = 0;
  const uint64_t now = nowNs();
  beginChange(connection);
  ++connection.life;
  connection.id = ++last_id;
  connection.side = side;
  connection.state = state;
  connection.opened_ns = connection.state_since_ns = now;
  std::fill(std::begin(connection.queue_rail), std::end(connection.queue_rail), kNoRail);
  endChange(connection);
}

namespace {

const ConnectionPage& pageOf(const ConnectionRecord& connection) {
  return *reinterpret_cast<const ConnectionPage*>(reinterpret_cast<const std::byte*>(&connection) -
                                                  offsetof(ConnectionPage, connection));
}

// Holds the lock of the rails, and makes readers copy again, while counts move.
class Folding {
 public:
  explicit Folding(Record& its) : its_(its), lock_(its.railsMutex()) {
    increase(its_.header().fold_sequence);
  }
  ~Folding() { increase(its_.header().fold_sequence); }
  void add(uint32_t rail, const Totals& totals) {
    if (rail < kMostRails) record::add(its_.rail(static_cast<uint16_t>(rail)).counters.totals, totals);
  }
  void add(const OneSidedTotals& totals) { record::add(its_.header().closed.one_sided, totals); }
  // What a connection that is closed has counted for itself.
  void add(const ConnectionRecord& connection) {
    ClosedConnections& closed = its_.header().closed;
    closed.connections += connection.side != Side::kListener ? 1 : 0;
    addConnection(closed, connection, connection.counters, oneSidedTotals(pageOf(connection)));
  }

 private:
  Record& its_;
  const std::lock_guard<std::mutex> lock_;
};

}  // namespace

void enterState(ConnectionRecord& connection, ConnectionState state) {
  if (connection.state == state) return;
  const uint64_t now = nowNs();
  if (connection.state == ConnectionState::kLost || connection.state == ConnectionState::kReconnecting)
    connection.counters.lost_ns += now - connection.state_since_ns;
  if (state == ConnectionState::kClosed && connection.degraded != 0)
    connection.counters.degraded_ns += now - connection.degraded_since_ns;
  connection.state = state;
  connection.state_since_ns = now;
}

void setState(ConnectionRecord& connection, ConnectionState state, std::optional<std::string_view> reason) {
  if (connection.state == state && !reason) return;
  // Readers leave closed connections out, so the counts move at the moment of the change.
  const bool closes = state == ConnectionState::kClosed && connection.state != state;
  std::optional<Folding> folding;
  if (Record* const its = currentRecord(); closes && its != nullptr && connection.side != Side::kListener)
    folding.emplace(*its);
  beginChange(connection);
  enterState(connection, state);
  if (reason) setText(connection.reason, *reason);
  endChange(connection);
  if (folding) folding->add(connection);
}

void addTotals(uint16_t rail, const Totals& totals) {
  if (Record* const its = currentRecord(); its != nullptr) Folding(*its).add(rail, totals);
}

void addOneSided(const OneSidedTotals& totals) {
  if (Record* const its = currentRecord(); its != nullptr) Folding(*its).add(totals);
}

void foldQueuePairs(ConnectionPage& page) {
  Record* const its = currentRecord();
  if (its == nullptr) return;
  ConnectionRecord& connection = page.connection;
  Folding folding(*its);
  const auto addToRail = [&](uint32_t rail, const Totals& totals) { folding.add(rail, totals); };
  visitQueuePairs(page, [&](const QueuePairRecord& pair, const Totals& totals) {
    folding.add(pair.rail, totals);
    if (connection.kind != ConnectionKind::kOneSided) return;
    connection.one_sided.put_bytes += totals.bytes_sent;
    connection.one_sided.get_bytes += totals.bytes_got;
  });
  visitCompletions(connection, addToRail);
  for (QueuePairRecord& pair : page.queue_pairs)
    if (pair.used != 0) pair = {};
  connection.first_message = std::max(connection.first_message, nextMessage(connection));
  if (connection.side != Side::kSender) connection.numbers.spread_bytes = 0;
  connection.numbers.completions = 0;
  std::fill(std::begin(connection.more_completions), std::end(connection.more_completions), uint64_t{0});
}

void foldFlushes(ConnectionPage& page) {
  Record* const its = currentRecord();
  if (its == nullptr) return;
  Folding folding(*its);
  visitFlushes(page.connection, [&](uint32_t rail, const Totals& totals) { folding.add(rail, totals); });
  std::fill(std::begin(page.connection.flushes), std::end(page.connection.flushes), FlushCounts());
}

}  // namespace railwise::record
