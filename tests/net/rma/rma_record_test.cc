// What one-sided connections write into the record of the process.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "net/own_record.h"
#include "net/rma/attendant.h"
#include "net/rma/rma_ranks.h"
#include "port_control.h"
#include "softdev/softdev.h"
#include "tests/ok.h"

namespace railwise::net {
namespace {

using record::ConnectionState;
using record::Side;
using record::WaitsFor;

record::Snapshot snapshotNow() {
  Outcome<record::Snapshot> snapshot = test::ownRecord();
  EXPECT_OK(snapshot);
  return std::move(*snapshot);
}

// The end of the connection from rank 0 to rank 1.
record::Connection endOf(const record::Snapshot& snapshot, Side side) {
  for (const record::Connection& each : snapshot.connections) {
    const int peer = side == Side::kSender ? 1 : 0;
    if (each.kind == record::ConnectionKind::kOneSided && each.side == side &&
        each.one_sided.peer_rank == peer)
      return each;
  }
  return {};
}
record::Connection endOf(Side side) { return endOf(snapshotNow(), side); }

// Two ranks with a window of their own each, in which nobody else puts.
class Pair {
 public:
  explicit Pair(bool both = true, MemoryKind kind = MemoryKind::kHost, int rails = 1)
      : ranks_({.rails = rails}), kind_(kind) {
    for (int rank = 0; rank < (both ? 2 : 1); ++rank) add(rank);
  }
  ~Pair() {
    for (int rank = 0; rank < 2; ++rank) {
      if (windows_[rank] != nullptr) ranks_.group(rank).deregister(windows_[rank]);
    }
  }
  void add(int rank) {
    const auto made =
        ranks_.group(rank).registerMemory(reinterpret_cast<uint64_t>(words_[rank]), sizeof words_[rank],
                                          kind_, kRmaStrongOrder | kRmaNeverReset);
    ASSERT_TRUE(made.ok());
    windows_[rank] = *made;
  }

  // Rank 0 puts `bytes` to rank 1, with a signal.
  void put(std::size_t bytes = 0) {
    const RmaSignal signal = {{windows_[0], 0}, 1};
    EXPECT_OK(ranks_.context(0).putSignal(0, {windows_[0], 64}, bytes, {windows_[0], 64}, 1, signal,
                                          &requests_.emplace_back()));
  }
  void get(std::size_t bytes) {
    EXPECT_OK(
        ranks_.context(0).get(0, {windows_[0], 64}, bytes, {windows_[0], 64}, 1, &requests_.emplace_back()));
  }
  void finish() {
    for (RmaRequest* const request : requests_) {
      int done = 0;
      for (test::Patience patience; done == 0; patience.again()) {
        ASSERT_OK(ranks_.group(0).test(*request, &done));
        ranks_.drive();
      }
    }
    requests_.clear();
  }
  void driveUntil(const std::function<bool()>& holds) {
    for (test::Patience patience; !holds(); patience.again()) ranks_.drive();
  }
  RmaRanks& ranks() { return ranks_; }

 private:
  RmaRanks ranks_;
  const MemoryKind kind_;
  uint64_t words_[2][32 << 10] = {};
  RmaWindow* windows_[2] = {};
  std::vector<RmaRequest*> requests_;
};

TEST(RmaRecord, CountsOperationsBeforeTheConnectionStands) {
  Pair pair;
  for (int i = 0; i < 3; ++i) pair.put(8);
  record::Connection its = endOf(Side::kSender);
  EXPECT_EQ(its.state, ConnectionState::kConnecting);
  EXPECT_EQ(its.posted, 3U);
  EXPECT_EQ(its.completed, 0U);
  pair.finish();
  its = endOf(Side::kSender);
  EXPECT_EQ(its.state, ConnectionState::kRunning);
  EXPECT_EQ(its.posted, 3U);
  EXPECT_EQ(its.completed, 3U);
}

// A put has 1,000 bytes, the get has 4,000.
void expectFivePutsAndAGet(const record::OneSidedTotals& totals) {
  EXPECT_EQ(totals.puts, 5U);
  EXPECT_EQ(totals.put_bytes, 5U * 1000);
  EXPECT_EQ(totals.gets, 1U);
  EXPECT_EQ(totals.get_bytes, 4000U);
  EXPECT_EQ(totals.signals_sent, 5U);
}

TEST(RmaRecord, CountsPutsGetsAndSignals) {
  Pair pair;
  for (int i = 0; i < 5; ++i) pair.put(1000);
  pair.get(4000);
  pair.finish();
  const auto looked = [] {
    return endOf(Side::kSender).one_sided.signals_done == 5 && endOf(Side::kReceiver).completed == 5 &&
           endOf(Side::kReceiver).one_sided.last_signal_ns != 0;
  };
  pair.driveUntil(looked);
  expectFivePutsAndAGet(endOf(Side::kSender).one_sided.totals);
  const record::Snapshot snapshot = snapshotNow();
  const record::Connection target = endOf(snapshot, Side::kReceiver);
  EXPECT_EQ(target.one_sided.totals.signals_applied, 5U);
  EXPECT_LE(target.one_sided.last_signal_ns, snapshot.read_ns);
  EXPECT_EQ(target.posted, 5U) << "nothing is open";
  uint64_t sent = 0, received = 0;
  for (const record::Rail& rail : snapshot.rails) {
    sent += rail.totals.bytes_sent;
    received += rail.totals.bytes_received;
  }
  EXPECT_EQ(sent, 5U * 1000);
  EXPECT_EQ(received, 4000U) << "what is read comes in";
}

// The time is that of the look that first sees the latest signal.
TEST(RmaRecord, KnowsWhenTheLatestSignalCame) {
  Pair pair;
  pair.put();
  pair.finish();
  pair.driveUntil([] { return endOf(Side::kReceiver).one_sided.last_signal_ns != 0; });
  const uint64_t between = nowNs();
  pair.put();
  pair.finish();
  record::Connection its;
  pair.driveUntil([&] {
    its = endOf(Side::kReceiver);
    return its.one_sided.signals_done == 2 && its.one_sided.last_signal_ns > between;
  });
  const uint64_t latest = its.one_sided.last_signal_ns;
  for (int looks = 0; looks < 3;) {
    const uint64_t before = endOf(Side::kReceiver).looked_ns;
    pair.driveUntil([&] { return endOf(Side::kReceiver).looked_ns != before; });
    ++looks;
  }
  EXPECT_EQ(endOf(Side::kReceiver).one_sided.last_signal_ns, latest);
}

TEST(RmaRecord, EachEndNamesTheOtherRank) {
  RmaRanks ranks({.ranks = 3});
  EXPECT_TRUE(ranks.run(1)) << ranks.problem();
  std::array<int, 3> puts_to = {}, is_put_to_by = {};
  for (const record::Connection& each : snapshotNow().connections)
    ++(each.side == Side::kSender ? puts_to : is_put_to_by).at(each.one_sided.peer_rank);
  EXPECT_EQ(puts_to, (std::array{2, 2, 2}));
  EXPECT_EQ(is_put_to_by, (std::array{2, 2, 2}));
}

TEST(RmaRecord, KeepsTheCountsOfConnectionsThatAreClosed) {
  {
    Pair pair;
    for (int i = 0; i < 5; ++i) pair.put(1000);
    pair.get(4000);
    pair.finish();
    pair.driveUntil([] { return endOf(Side::kReceiver).completed == 5; });
    // The record of the process ends with its last user.
    const Result<Net*> net = Net::acquire();
    ASSERT_TRUE(net.ok());
  }
  const record::Snapshot snapshot = snapshotNow();
  Net::release();
  EXPECT_TRUE(snapshot.connections.empty());
  expectFivePutsAndAGet(snapshot.closed.one_sided);
  EXPECT_EQ(snapshot.closed.one_sided.signals_applied, 5U);
}

// Bytes, work requests and completions of all devices.
using Counts = std::array<uint64_t, 3>;

Counts countsOfDevices(Net& net) {
  Counts sum = {};
  for (int i = 0; i < net.physicalDevices(); ++i) {
    for (const Hca* hca = net.device(i)->rails().front().hca; hca != nullptr; hca = hca->nextGeneration()) {
      const softdev::Counters its = softdev::counters(hca->context());
      sum[0] += its.bytes;
      sum[1] += its.writes + its.writes_with_imm + its.reads + its.sends + its.atomics;
      sum[2] += its.completions;
    }
  }
  return sum;
}

// What is read comes in, and a device counts it where it was asked for.
Counts countsOfRecord() {
  record::Totals sum = {};
  for (const record::Rail& rail : snapshotNow().rails) add(sum, rail.totals);
  return {sum.bytes_sent + sum.bytes_received + sum.control_bytes, sum.work_requests, sum.completions};
}

TEST(RmaRecord, AgreesWithTheDevicesAlsoAfterAFailure) {
  for (const bool gpu : {false, true}) {
    RmaRanks ranks({.ranks = 3,
                    .rails = 2,
                    .standbys = 1,
                    .bytes = 100 << 10,
                    .gpu = gpu,
                    .never_reset = false,
                    .gets = true,
                    .own = gpu,
                    .places = 4});
    const Result<Net*> net = Net::acquire();
    ASSERT_TRUE(net.ok());
    for (const char* state : {"up", "down", "up"}) {
      test::changePort("soft0:1", state);
      EXPECT_TRUE(ranks.run(20)) << ranks.problem();
    }
    // A thread of the process posts and polls, too.
    for (test::Patience patience; countsOfRecord() != countsOfDevices(**net); patience.again()) ranks.drive();
    Net::release();
  }
}

TEST(RmaRecord, AWriterWaitsForAWindowThatThePeerHasNotToldOf) {
  Pair pair(false);
  pair.put(8);
  pair.driveUntil([] { return endOf(Side::kSender).waits_for == WaitsFor::kWindow; });
  EXPECT_EQ(endOf(Side::kSender).oldest, 1U);
  EXPECT_EQ(endOf(Side::kSender).oldest_bytes, 8U);
  pair.add(1);
  pair.finish();
  pair.driveUntil([] { return endOf(Side::kSender).waits_for == WaitsFor::kNothing; });
}

TEST(RmaRecord, ATargetWaitsForItsOwnNic) {
  Pair pair(true, MemoryKind::kDevice);
  pair.put();
  pair.finish();
  pair.driveUntil([] { return endOf(Side::kReceiver).one_sided.last_signal_ns != 0; });
  test::addFault("device=soft1 opcode=write nth=1 drop");  // the loopback's, which writes it again
  pair.put();
  pair.finish();  // the target has it
  pair.driveUntil([] { return endOf(Side::kReceiver).waits_for == WaitsFor::kOwnNic; });
  const record::Connection its = endOf(Side::kReceiver);
  EXPECT_EQ(its.oldest, 2U);
  EXPECT_EQ(its.posted, 2U);
  EXPECT_EQ(its.completed, 1U) << "it is applied, and not written";
  EXPECT_EQ(its.one_sided.signals_done, 2U);
  pair.driveUntil([] { return endOf(Side::kReceiver).waits_for == WaitsFor::kNothing; });
  EXPECT_EQ(endOf(Side::kReceiver).completed, 2U);
}

// The home lane of the stream is that of the second rail; the first one owes a mark.
TEST(RmaRecord, ATargetWaitsForTheRestOfASignal) {
  Pair pair(true, MemoryKind::kHost, 2);
  pair.put(8);
  pair.finish();
  test::addFault("device=soft0 opcode=send nth=1 drop");
  pair.put(200 << 10);
  pair.driveUntil([] { return endOf(Side::kReceiver).waits_for == WaitsFor::kSignalParts; });
  const record::Connection its = endOf(Side::kReceiver);
  EXPECT_EQ(its.oldest, 2U);
  EXPECT_EQ(its.posted, 2U);
  EXPECT_EQ(its.completed, 1U);
  pair.finish();  // after a recovery
  pair.driveUntil([] { return endOf(Side::kReceiver).completed == 2; });
}

// Keeps the thread that drives groups nobody calls from its work.
class Blocker final : public Attended {
 public:
  Blocker() { attendant_->attend(*this); }
  ~Blocker() {
    held_ = false;
    Attendant::leave(std::move(attendant_), *this);
  }

 private:
  void attend() noexcept override {
    while (held_) usleep(1000);
  }

  std::atomic<bool> held_ = true;
  std::shared_ptr<Attendant> attendant_ = Attendant::ofProcess();
};

TEST(RmaRecord, AWriterWaitsForCreditOfAPeerThatDoesNotProgress) {
  Pair pair;
  pair.put();
  pair.finish();  // the connection stands
  Blocker blocker;
  for (int i = 0; i < 300; ++i) pair.put();
  for (test::Patience patience; endOf(Side::kSender).waits_for != WaitsFor::kCredit; patience.again())
    EXPECT_OK(pair.ranks().context(0).progress());
  const record::Connection its = endOf(Side::kSender);
  EXPECT_EQ(its.posted, 301U);
  EXPECT_EQ(its.oldest, its.completed + 1);
  pair.finish();
}

}  // namespace
}  // namespace railwise::net
