// Puts, signals, gets and flushes between ranks of one process: every byte, and the exact value of every
// signal a while after the end.
#include <random>
#include <thread>

#include "rma_api.h"

namespace railwise::test {
namespace {

template <typename A>
class RmaDataTest : public testing::Test {
 protected:
  RmaDataTest() {
    useDevice();
    clearLog();
  }
};
TYPED_TEST_SUITE(RmaDataTest, AllRmaVersions, VersionName);

template <typename A>
class RmaContextDataTest : public RmaDataTest<A> {};
TYPED_TEST_SUITE(RmaContextDataTest, ContextRmaVersions, VersionName);

constexpr size_t kBig = (size_t{1} << 20) + 3;

TYPED_TEST(RmaDataTest, PutsAreThereWhenALaterSignalIs) {
  RmaRanks<TypeParam> ranks(3);
  const int data = ranks.add(2 * kBig + 1), signals = ranks.addSignals(3);
  uint64_t round = 0;
  for (const size_t bytes : {size_t{1}, size_t{7}, size_t{8}, size_t{4096}, size_t{70'001}, kBig}) {
    ++round;
    for (int from = 0; from < ranks.size(); ++from) {
      const int to = (from + 1) % ranks.size();
      // Three puts side by side, and a signal without data.
      std::vector<void*> requests;
      const size_t third = bytes / 3;
      requests.push_back(ranks[from].put(data, 0, third, kBig, to));
      requests.push_back(ranks[from].put(data, third, bytes - third, kBig + third, to));
      requests.push_back(ranks[from].signal(ranks.signalOf(from, signals, static_cast<size_t>(from)), to));
      for (void* request : requests) ranks.finish(from, request);
      ranks.expectSignal(to, signals, static_cast<size_t>(from), round);
      EXPECT_EQ(ranks[to].part(data).wrong(from, bytes, kBig), 0U) << bytes << " bytes";
      EXPECT_EQ(ranks[to].part(data).wrong(to, 1, kBig + bytes, kBig + bytes), 0U) << "behind the end";
    }
  }
}

TYPED_TEST(RmaDataTest, SignalsCountExactly) {
  RmaRanks<TypeParam> ranks(2);
  constexpr size_t kBytes = 3000;
  const int data = ranks.add(2 * kBytes), signals = ranks.addSignals(4);
  std::mt19937 random(43);
  uint64_t sums[2][4] = {};
  for (int round = 0; round < 200; ++round) {
    const int from = static_cast<int>(random() % 2), to = static_cast<int>(random() % 2);
    const size_t number = random() % 4, bytes = random() % (kBytes + 1), at = random() % (kBytes - bytes + 1);
    const bool increment = random() % 3 == 0;
    const uint64_t value = (uint64_t{random()} << 8) + 5;
    // INC ignores the value.
    const Signal signal = ranks.signalOf(from, signals, number, value,
                                         increment ? NCCL_NET_SIGNAL_OP_INC : NCCL_NET_SIGNAL_OP_ADD);
    uint64_t& sum = sums[to][number];
    sum += increment ? 1 : value;
    void* const request = bytes > 0 ? ranks[from].put(data, at, bytes, kBytes + at, to, &signal)
                                    : ranks[from].signal(signal, to);
    WindowPart& part = ranks[to].part(signals);
    for (Patience patience; part.signal(number) != sum; patience.again()) {
      ASSERT_FALSE(this->HasFailure());
      ranks.progress();
    }
    ASSERT_EQ(ranks[to].part(data).wrong(from, bytes, kBytes + at, at), 0U) << "round " << round;
    ranks.finish(from, request);
  }
  for (int rank = 0; rank < 2; ++rank)
    for (size_t number = 0; number < 4; ++number)
      ranks.expectSignal(rank, signals, number, sums[rank][number]);
}

TYPED_TEST(RmaDataTest, SignalsAlone) {
  RmaRanks<TypeParam> ranks(2);
  const int signals = ranks.addSignals(2);
  ranks.finish(0, ranks[0].signal(ranks.signalOf(0, signals, 0, 5), 1));
  ranks.finish(0, ranks[0].signal(ranks.signalOf(0, signals, 0, 99, NCCL_NET_SIGNAL_OP_INC), 1));
  ranks.finish(1, ranks[1].signal(ranks.signalOf(1, signals, 1, ~uint64_t{0}), 0));
  ranks.expectSignal(1, signals, 0, 6);
  ranks.expectSignal(1, signals, 1, 0);
  ranks.expectSignal(0, signals, 1, ~uint64_t{0});
  ranks.finish(1, ranks[1].signal(ranks.signalOf(1, signals, 1, 3), 0));  // wraps
  for (Patience patience; ranks[0].part(signals).signal(1) != 2; patience.again()) ranks.progress();
}

// As many as NCCL keeps open for a context and rank, to all ranks, and one put to itself that NCCL does not
// count.
TYPED_TEST(RmaDataTest, AsManyOutstandingAsNcclHas) {
  RmaRanks<TypeParam> ranks(2);
  constexpr size_t kBytes = 512;
  constexpr size_t kCount = TypeParam::kOutstanding;
  const int data = ranks.add(2 * kCount * kBytes), signals = ranks.addSignals(2);
  for (uint64_t round = 1; round <= 3; ++round) {
    std::vector<void*> requests[2];
    for (size_t i = 0; i < kCount; ++i)
      for (int from = 0; from < 2; ++from) {
        const Signal signal = ranks.signalOf(from, signals, static_cast<size_t>(from));
        requests[from].push_back(
            ranks[from].put(data, i * kBytes, kBytes, (kCount + i) * kBytes, 1 - from, &signal));
      }
    for (int from = 0; from < 2; ++from) {
      ranks.finish(from, ranks[from].put(data, 0, 8, 0, from));
      for (void* request : requests[from]) ranks.finish(from, request);
    }
    for (int to = 0; to < 2; ++to) {
      ranks.expectSignal(to, signals, static_cast<size_t>(1 - to), round * kCount);
      EXPECT_EQ(ranks[to].part(data).wrong(1 - to, kCount * kBytes, kCount * kBytes), 0U);
      ranks[to].part(data).data()[kCount * kBytes] = 0;  // each round brings it again
    }
  }
}

TYPED_TEST(RmaDataTest, ARankPutsToItself) {
  RmaRanks<TypeParam> ranks(2);
  const int data = ranks.add(2 * kBig), signals = ranks.addSignals(1);
  const Signal signal = ranks.signalOf(1, signals, 0, 7);
  ranks.finish(1, ranks[1].put(data, 5, kBig - 5, kBig, 1, &signal));
  ranks.expectSignal(1, signals, 0, 7);
  EXPECT_EQ(ranks[1].part(data).wrong(1, kBig - 5, kBig, 5), 0U);
  ranks.expectSignal(0, signals, 0, 0);
}

TYPED_TEST(RmaDataTest, AGroupOfOneRank) {
  RmaRanks<TypeParam> ranks(1);
  const int data = ranks.add(200), signals = ranks.addSignals(1);
  const Signal signal = ranks.signalOf(0, signals, 0);
  ranks.finish(0, ranks[0].put(data, 0, 100, 100, 0, &signal));
  ranks.expectSignal(0, signals, 0, 1);
  EXPECT_EQ(ranks[0].part(data).wrong(0, 100, 100), 0U);
}

// Only the part of the rank that is meant counts: the sender refuses what is beyond it.
TYPED_TEST(RmaDataTest, PartsOfDifferentSizes) {
  RmaRanks<TypeParam> ranks(2);
  const int data = ranks.add(std::vector<size_t>{1000, 5000}), signals = ranks.addSignals(2);
  const Signal signal = ranks.signalOf(0, signals, 1);
  ranks.finish(0, ranks[0].put(data, 0, 1000, 4000, 1, &signal));  // up to the end of the larger part
  ranks.expectSignal(1, signals, 1, 1);
  EXPECT_EQ(ranks[1].part(data).wrong(0, 1000, 4000), 0U);
  const Signal back = ranks.signalOf(1, signals, 0);
  ranks.finish(1, ranks[1].put(data, 3000, 1000, 0, 0, &back));
  ranks.expectSignal(0, signals, 0, 1);
  EXPECT_EQ(ranks[0].part(data).wrong(1, 1000, 0, 3000), 0U);

  struct Case {
    int from;
    uint64_t from_offset;
    size_t bytes;
    uint64_t to_offset;
  };
  constexpr uint64_t kHuge = ~uint64_t{0} - 3;
  for (const Case& each :
       {Case{0, 1, 1000, 0}, Case{0, 0, 1001, 0}, Case{0, 0, 1000, 4001}, Case{0, 0, 8, 5000},
        Case{1, 0, 1000, 1}, Case{1, 4001, 1000, 0}, Case{1, 0, 5000, 0}, Case{0, kHuge, 8, 0},
        Case{0, 0, 8, kHuge}, Case{0, 0, size_t{kHuge}, 8}}) {
    SCOPED_TRACE(testing::Message() << "rank " << each.from << ": " << each.bytes << " bytes from "
                                    << each.from_offset << " to " << each.to_offset);
    clearLog();
    void* const window = ranks[each.from].part(data).window;
    const Signal its = ranks.signalOf(each.from, signals, 0);
    void* request = kStale;
    EXPECT_EQ(TypeParam::put(ranks[each.from].context(), 0, {window, each.from_offset}, each.bytes,
                             {window, each.to_offset}, 1 - each.from, &request),
              ncclInvalidArgument);
    EXPECT_EQ(request, nullptr);
    EXPECT_NE(warnings(), "");
    EXPECT_EQ(TypeParam::putSignal(ranks[each.from].context(), 0, {window, each.from_offset}, each.bytes,
                                   {window, each.to_offset}, 1 - each.from, its, &request),
              ncclInvalidArgument);
    EXPECT_EQ(request, nullptr);
  }
  // Nothing of it was signalled, and the group goes on.
  ranks.expectSignal(0, signals, 0, 1);
  ranks.expectSignal(1, signals, 0, 0);
  ranks.finish(0, ranks[0].put(data, 0, 10, 0, 1, &signal));
  ranks.expectSignal(1, signals, 1, 2);
}

TYPED_TEST(RmaDataTest, SignalsThatAreNotInTheWindowAreRefused) {
  RmaRanks<TypeParam> ranks(2);
  const int signals = ranks.addSignals(2);
  ranks.finish(0, ranks[0].signal(ranks.signalOf(0, signals, 0), 1));
  for (const uint64_t offset : {uint64_t{16}, uint64_t{12}, uint64_t{1}, uint64_t{4}, ~uint64_t{7}}) {
    SCOPED_TRACE(offset);
    clearLog();
    const Signal signal = {{ranks[0].part(signals).window, offset}};
    void* request = kStale;
    EXPECT_EQ(TypeParam::putSignal(ranks[0].context(), 0, {}, 0, {}, 1, signal, &request),
              ncclInvalidArgument);
    EXPECT_EQ(request, nullptr);
    EXPECT_NE(warnings(), "");
  }
  ranks.expectSignal(1, signals, 0, 1);
  ranks.expectSignal(1, signals, 1, 0);
}

// Registered while traffic is under way, and deregistered; the numbers of later windows stay equal.
TYPED_TEST(RmaDataTest, WindowsComeAndGo) {
  RmaRanks<TypeParam> ranks(2);
  const int signals = ranks.addSignals(1);
  uint64_t count = 0;
  for (int round = 0; round < 5; ++round) {
    WindowPart parts[2] = {{4000, 10 + round}, {4000, 20 + round}};
    for (int rank = 0; rank < 2; ++rank)
      ASSERT_EQ(TypeParam::regMrSym(ranks[rank].group(), parts[rank].data(), 4000, &parts[rank].window),
                ncclSuccess);
    void* request = nullptr;
    ASSERT_EQ(TypeParam::putSignal(ranks[0].context(), 0, {parts[0].window, 0}, 2000, {parts[0].window, 2000},
                                   1, ranks.signalOf(0, signals, 0), &request),
              ncclSuccess)
        << warnings();
    ranks.finish(0, request);
    ranks.expectSignal(1, signals, 0, ++count);
    EXPECT_EQ(parts[1].wrong(10 + round, 2000, 2000), 0U);
    for (int rank = 0; rank < 2; ++rank)
      EXPECT_EQ(TypeParam::table().deregMrSym(ranks[rank].group(), parts[rank].window), ncclSuccess);
  }
}

// Each rank on a device of its own.
TYPED_TEST(RmaDataTest, RanksOnDifferentDevices) {
  RAILWISE_NEEDS_DEVICES(2U);
  useDevice("name=a;name=b");
  RmaRanks<TypeParam> ranks(2, 1, {0, 1});
  const int data = ranks.add(2 * kBig), signals = ranks.addSignals(1);
  for (int from = 0; from < 2; ++from) {
    const Signal signal = ranks.signalOf(from, signals, 0);
    ranks.finish(from, ranks[from].put(data, 0, kBig, kBig, 1 - from, &signal));
    ranks.expectSignal(1 - from, signals, 0, 1);
    EXPECT_EQ(ranks[1 - from].part(data).wrong(from, kBig, kBig), 0U);
  }
}

// Every rank has a thread, as in NCCL: all put to all, in rounds that wait until all have looked at the data
// of the round before.
TYPED_TEST(RmaDataTest, RanksInThreads) {
  constexpr int kRanks = 4;
  constexpr uint64_t kRounds = 50;
  constexpr size_t kBytes = 9000;
  RmaRanks<TypeParam> ranks(kRanks);
  const int data = ranks.add((kRanks + 1) * kBytes), signals = ranks.addSignals(kRanks);
  std::atomic<int> finished = 0;
  std::atomic<uint64_t> wrong = 0;
  std::atomic<uint64_t> looked = 0;  // rounds whose data a rank has looked at, over all ranks
  const auto run = [&](int me) {
    RmaRank<TypeParam>& rank = ranks[me];
    const auto all = [&](uint64_t round) {
      for (size_t source = 0; source < kRanks; ++source)
        if (rank.part(signals).signal(source) < round) return false;
      return true;
    };
    for (uint64_t round = 1; round <= kRounds; ++round) {
      for (Patience patience; looked < (round - 1) * kRanks; patience.again()) rank.progress();
      std::vector<void*> requests;
      for (int to = 0; to < kRanks; ++to) {
        const Signal signal = ranks.signalOf(me, signals, static_cast<size_t>(me));
        requests.push_back(rank.put(data, 0, kBytes, kBytes * static_cast<size_t>(me + 1), to, &signal));
      }
      for (void* request : requests)
        for (Patience patience; !rank.done(request); patience.again()) rank.progress();
      for (Patience patience; !all(round); patience.again()) rank.progress();
      for (int source = 0; source < kRanks; ++source)
        wrong += rank.part(data).wrong(source, kBytes, kBytes * static_cast<size_t>(source + 1));
      ++looked;
    }
    ++finished;
    for (Patience patience; finished < kRanks; patience.again())
      rank.progress();  // for those that are behind
  };
  std::vector<std::thread> threads;
  for (int rank = 0; rank < kRanks; ++rank) threads.emplace_back(run, rank);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0U);
  for (int rank = 0; rank < kRanks; ++rank)
    for (size_t source = 0; source < kRanks; ++source) ranks.expectSignal(rank, signals, source, kRounds);
}

// ---- contexts, gets, flushes

TYPED_TEST(RmaContextDataTest, ContextsHaveStreamsOfTheirOwn) {
  RmaRanks<TypeParam> ranks(2, 2);
  constexpr size_t kBytes = 2000;
  const int data = ranks.add(4 * kBytes), signals = ranks.addSignals(4);
  for (uint64_t round = 1; round <= 20; ++round) {
    std::vector<std::pair<int, void*>> requests;
    for (const int index : {0, 1, 1, 0})
      for (int from = 0; from < 2; ++from) {
        const auto slot = static_cast<size_t>(2 * index + from);
        const Signal signal = ranks.signalOf(from, signals, slot);
        const size_t at = kBytes * static_cast<size_t>(2 + index);
        requests.emplace_back(from, ranks[from].put(data, 0, kBytes, at, 1 - from, &signal, index));
      }
    for (const auto& [rank, request] : requests) ranks.finish(rank, request);
    for (int to = 0; to < 2; ++to)
      for (size_t index = 0; index < 2; ++index) {
        ranks.expectSignal(to, signals, 2 * index + static_cast<size_t>(1 - to), 2 * round);
        EXPECT_EQ(ranks[to].part(data).wrong(1 - to, kBytes, kBytes * (2 + index)), 0U);
      }
  }
}

// A second rmaCtx of the same group, as a second device communicator makes one.
TYPED_TEST(RmaContextDataTest, AGroupHasSeveralContextObjects) {
  RmaRanks<TypeParam> ranks(2);
  const int data = ranks.add(400), signals = ranks.addSignals(2);
  void* more[2] = {};
  for (int rank = 0; rank < 2; ++rank)
    ASSERT_EQ(TypeParam::createContext(ranks[rank].group(), 3, &more[rank]), ncclSuccess);
  void* request = nullptr;
  const Place from = {ranks[0].part(data).window, 0}, to = {ranks[0].part(data).window, 200};
  ASSERT_EQ(TypeParam::putSignal(more[0], 2, from, 200, to, 1, ranks.signalOf(0, signals, 1), &request),
            ncclSuccess)
      << warnings();
  for (Patience patience; !ranks[0].done(request); patience.again())
    for (void* context : more) ASSERT_EQ(TypeParam::progress(context), ncclSuccess);
  const Signal signal = ranks.signalOf(0, signals, 0);
  ranks.finish(0, ranks[0].put(data, 0, 10, 0, 1, &signal));
  ranks.expectSignal(1, signals, 0, 1);
  ranks.expectSignal(1, signals, 1, 1);
  EXPECT_EQ(ranks[1].part(data).wrong(0, 200, 200), 0U);
  for (void* context : more) EXPECT_EQ(TypeParam::destroyContext(context), ncclSuccess);
  ranks.finish(0, ranks[0].put(data, 0, 10, 0, 1, &signal));  // the first context goes on
  ranks.expectSignal(1, signals, 0, 2);
}

TYPED_TEST(RmaContextDataTest, GetsBringThePartOfTheRank) {
  RmaRanks<TypeParam> ranks(2);
  constexpr size_t kTarget = kBig + 7;  // behind all that is read
  const int data = ranks.add(kTarget + kBig);
  size_t got = 0;
  for (const size_t bytes : {size_t{1}, size_t{8}, size_t{5000}, kBig}) {
    for (int source = 0; source < 2; ++source) {  // from itself, too
      void* const window = ranks[0].part(data).window;
      void* request = kStale;
      ASSERT_EQ(TypeParam::get(ranks[0].context(), 0, {window, got % 7}, bytes, {window, kTarget}, source,
                               &request),
                ncclSuccess)
          << warnings();
      ASSERT_NE(request, nullptr);
      ranks.finish(0, request);
      void* flush = kStale;
      ASSERT_EQ(TypeParam::table().iflush(ranks[0].context(), 0, window, 0, &flush), ncclSuccess)
          << warnings();
      ASSERT_NE(flush, kStale);
      if (flush != nullptr) ranks.finish(0, flush);
      EXPECT_EQ(ranks[0].part(data).wrong(source, bytes, kTarget, got % 7), 0U)
          << bytes << " from " << source;
      ++got;
    }
  }
}

TYPED_TEST(RmaContextDataTest, GetsBeyondAPartAreRefused) {
  RmaRanks<TypeParam> ranks(2);
  const int data = ranks.add(std::vector<size_t>{1000, 500}), signals = ranks.addSignals(1);
  ranks.finish(0, ranks[0].signal(ranks.signalOf(0, signals, 0), 1));
  void* const window = ranks[0].part(data).window;
  for (const auto& [from, bytes, to] :
       {std::tuple(uint64_t{1}, size_t{500}, uint64_t{0}), {0, 501, 0}, {0, 500, 501}, {500, 8, 0}}) {
    clearLog();
    void* request = kStale;
    EXPECT_EQ(TypeParam::get(ranks[0].context(), 0, {window, from}, bytes, {window, to}, 1, &request),
              ncclInvalidArgument);
    EXPECT_EQ(request, nullptr);
    EXPECT_NE(warnings(), "");
  }
}

TYPED_TEST(RmaContextDataTest, FlushesNeedNoWindow) {
  RmaRanks<TypeParam> ranks(2);
  void* flush = kStale;
  ASSERT_EQ(TypeParam::table().iflush(ranks[0].context(), 0, nullptr, 0, &flush), ncclSuccess) << warnings();
  ASSERT_NE(flush, kStale);
  if (flush != nullptr) ranks.finish(0, flush);
}

// AggregateRequests: another operation for the rank follows. The last one comes without it.
TYPED_TEST(RmaContextDataTest, AggregatedPuts) {
  RmaRanks<TypeParam> ranks(2);
  constexpr size_t kBytes = 100, kCount = 20;
  const int data = ranks.add(2 * kCount * kBytes), signals = ranks.addSignals(1);
  std::vector<void*> requests;
  for (size_t i = 0; i < kCount; ++i) {
    const Signal signal = ranks.signalOf(0, signals, 0);
    requests.push_back(ranks[0].put(data, i * kBytes, kBytes, (kCount + i) * kBytes, 1, &signal, 0,
                                    i + 1 < kCount ? NCCL_RMA_OPT_AGGREGATE_REQUESTS : 0));
  }
  for (void* request : requests) ranks.finish(0, request);
  ranks.expectSignal(1, signals, 0, kCount);
  EXPECT_EQ(ranks[1].part(data).wrong(0, kCount * kBytes, kCount * kBytes), 0U);
}

// Contexts with open requests, and their group, end; nobody waits.
TYPED_TEST(RmaContextDataTest, OpenRequestsEndWithTheirContext) {
  RmaRanks<TypeParam> ranks(2);
  const int data = ranks.add(2 * kBig);
  for (int i = 0; i < 10; ++i) (void)ranks[0].put(data, 0, kBig, kBig, 1);
}

}  // namespace
}  // namespace railwise::test
