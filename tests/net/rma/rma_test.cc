// One-sided communication between ranks of one process, with and without faults.
#include "net/rma/rma.h"

#include <gtest/gtest.h>

#include <array>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "net/rma/rma_ranks.h"
#include "port_control.h"
#include "tests/ok.h"

namespace railwise::net {
namespace {

// Railwise's thread may drive the group just now, and holds the group's lock meanwhile.
__attribute__((noinline, no_sanitize("thread"))) RmaRequest::State stateOf(const RmaRequest& request) {
  return request.state;
}

#define EXPECT_RUNS(ranks, messages) EXPECT_TRUE((ranks).run(messages)) << (ranks).problem()

struct RmaCase {
  const char* name;
  RmaShape shape;
  uint64_t messages;
  const char* devices = "";
};
void PrintTo(const RmaCase& its, std::ostream* to) { *to << its.name; }

class RmaShapes : public testing::TestWithParam<RmaCase> {};

TEST_P(RmaShapes, PutsAndSignalsArrive) {
  RmaRanks ranks(GetParam().shape, GetParam().devices);
  EXPECT_RUNS(ranks, GetParam().messages);
}
INSTANTIATE_TEST_SUITE_P(
    , RmaShapes,
    testing::Values(RmaCase{"HostMemory", {}, 500}, RmaCase{"GpuMemory", {.gpu = true}, 500},
                    RmaCase{"SignalsThatMayBeReset", {.gpu = true, .never_reset = false}, 500},
                    RmaCase{"ManyRanks", {.ranks = 5, .contexts = 3}, 100},
                    RmaCase{"SeveralRails", {.rails = 3, .bytes = 256 << 10, .gpu = true}, 20},
                    RmaCase{"Iwarp", {.ranks = 3, .rails = 2, .bytes = 100 << 10}, 50, "link=iwarp"},
                    RmaCase{"ManyContexts", {.contexts = 64, .gets = true, .own = true}, 20}),
    [](const auto& its) { return its.param.name; });

TEST(Rma, IwarpTakesNoGpuMemory) { EXPECT_THROW(RmaRanks({.gpu = true}, "link=iwarp"), std::runtime_error); }

// A connection without a path fails only when somebody needs the path.
TEST(Rma, ALongPauseWithoutAPathIsSurvived) {
  const test::Setting failover_timeout("RAILWISE_FAILOVER_TIMEOUT", "1");
  RmaRanks ranks({});
  EXPECT_RUNS(ranks, 50);
  for (const char* port : {"soft0:1", "soft1:1"}) test::changePort(port, "down");
  const Deadline pause = Deadline::after(std::chrono::milliseconds(2500));
  while (!pause.passed()) ranks.drive();
  EXPECT_FALSE(ranks.failed());
  for (const char* port : {"soft0:1", "soft1:1"}) test::changePort(port, "up");
  EXPECT_RUNS(ranks, 50);
}

// The only device of a rank refuses what a connection is made of, longer than a moment.
TEST(Rma, ADeviceRefusesForAWhileWhileRanksConnect) {
  const test::Setting failover_timeout("RAILWISE_FAILOVER_TIMEOUT", "4");
  for (const char* device : {"soft0", "soft1"}) {
    for (const char* refused :
         {"nth=1 verb=reg_mr errno=EINVAL count=8", "nth=2 verb=reg_mr errno=ENODEV count=8",
          "nth=3 verb=reg_mr errno=ENODEV count=8", "nth=1 verb=modify_qp errno=EBUSY count=12",
          "nth=2 verb=modify_qp errno=EAGAIN count=12", "nth=1 verb=create_cq errno=ENOMEM count=6"}) {
      SCOPED_TRACE(std::string(device) + " " + refused);
      RmaRanks ranks({.gpu = true});
      test::addFault(std::string("device=") + device + " every=1 " + refused);
      EXPECT_RUNS(ranks, 50);
    }
  }
}

TEST(Rma, APortGoesDown) {
  RmaRanks ranks({.ranks = 3, .rails = 2, .standbys = 1});
  EXPECT_RUNS(ranks, 50);
  test::changePort("soft0:1", "down");
  EXPECT_RUNS(ranks, 200);
  test::changePort("soft0:1", "up");
  test::changePort("soft1:1", "down");
  EXPECT_RUNS(ranks, 200);
}

// A window of memory that the test has.
Result<RmaWindow*> windowOf(RmaGroup& group, std::span<uint64_t> memory, MemoryKind kind = MemoryKind::kHost,
                            uint64_t flags = 0) {
  return group.registerMemory(reinterpret_cast<uint64_t>(memory.data()), memory.size_bytes(), kind, flags);
}

// A window of each of two ranks.
class TwoRanks {
 public:
  explicit TwoRanks(const RmaShape& shape, std::size_t words) : ranks_(shape) {
    for (std::size_t rank = 0; rank < 2; ++rank) {
      memory_[rank].resize(words);
      const auto made =
          windowOf(ranks_.group(static_cast<int>(rank)), memory_[rank], MemoryKind::kHost, kRmaStrongOrder);
      if (!made.ok()) throw std::runtime_error("no window");
      windows_[rank] = *made;
    }
  }
  ~TwoRanks() {
    for (int rank = 0; rank < 2; ++rank)
      ranks_.group(rank).deregister(windows_[static_cast<std::size_t>(rank)]);
  }
  TwoRanks(const TwoRanks&) = delete;
  TwoRanks& operator=(const TwoRanks&) = delete;

  RmaRanks& ranks() { return ranks_; }
  // From rank 0 to rank 1, from and to the begin of the windows.
  RmaRequest& put(std::size_t bytes, int context = 0) {
    RmaRequest* request = nullptr;
    EXPECT_OK(ranks_.context(0).put(context, {windows_[0], 0}, bytes, {windows_[0], 0}, 1, &request));
    return *request;
  }
  // Adds 1 to the last word of rank 1.
  RmaRequest& signal() {
    const RmaSignal its = {{windows_[0], (memory_[1].size() - 1) * sizeof(uint64_t)}, 1};
    RmaRequest* request = nullptr;
    EXPECT_OK(ranks_.context(0).putSignal(0, {}, 0, {}, 1, its, &request));
    return *request;
  }
  Status putSignal(int context, std::size_t bytes, RmaRequest** request) {
    const RmaSignal its = {{windows_[0], (memory_[1].size() - 1) * sizeof(uint64_t)}, 1};
    return ranks_.context(0).putSignal(context, {windows_[0], 0}, bytes, {windows_[0], 0}, 1, its, request);
  }
  RmaWindow& window(std::size_t rank) { return *windows_[rank]; }
  uint64_t signals() const { return __atomic_load_n(&memory_[1].back(), __ATOMIC_ACQUIRE); }
  // Until the connection stands, over which one signal has come then.
  bool stands() {
    (void)signal();
    return await(1);
  }
  // Until so many signals have come.
  bool await(uint64_t signals_put) {
    for (test::Patience patience; signals() < signals_put; patience.again()) {
      if (ranks_.failed()) return false;
      ranks_.drive();
    }
    return true;
  }

 private:
  RmaRanks ranks_;
  std::array<std::vector<uint64_t>, 2> memory_;
  std::array<RmaWindow*, 2> windows_;
};

// A part of the first put is held up. What was put behind it is acknowledged, and must not be done: a failure
// would repeat it from a source that its owner has changed.
TEST(Rma, WhatIsBehindAnOpenRequestIsNotDone) {
  TwoRanks pair({.rails = 2}, 64 << 10);
  ASSERT_TRUE(pair.stands());
  // One of the two carries small puts.
  for (const char* device : {"soft0", "soft1"}) {
    test::addFault("device=" + std::string(device) + " opcode=write nth=1 delay=300ms");
    const RmaRequest& large = pair.put(512 << 10);
    const RmaRequest& small = pair.put(64);
    for (test::Patience patience; stateOf(small) != RmaRequest::State::kDone; patience.again())
      pair.ranks().drive();
    EXPECT_EQ(stateOf(large), RmaRequest::State::kDone);
  }
}

// The target has applied a signal that is not done at the writer, because half of a get before it is stuck.
// After the failure it is not put once more.
TEST(Rma, ASignalThatTheTargetHasIsNotRepeated) {
  TwoRanks pair({.rails = 2}, 64 << 10);
  ASSERT_TRUE(pair.stands());
  test::addFault("device=soft0 opcode=read nth=1 stuck");
  RmaRequest* get = nullptr;
  EXPECT_OK(pair.ranks().context(0).get(0, {&pair.window(0), 0}, 256 << 10, {&pair.window(0), 0}, 1, &get));
  const RmaRequest& behind = pair.signal();
  ASSERT_TRUE(pair.await(2));
  ASSERT_NE(stateOf(*get), RmaRequest::State::kDone);
  test::changePort("soft0:1", "down");
  for (test::Patience patience; stateOf(behind) != RmaRequest::State::kDone; patience.again()) {
    ASSERT_FALSE(pair.ranks().failed());
    pair.ranks().drive();
  }
  EXPECT_EQ(pair.signals(), 2U);
}

// The target is not driven, or only by Railwise's thread.
TEST(Rma, NoMoreReportsAreUnderWayThanTheTargetHasReceivesFor) {
  TwoRanks pair({}, 64);
  ASSERT_TRUE(pair.stands());
  uint64_t posted = 1;
  for (int burst = 0; burst < 5; ++burst) {
    std::array<const RmaRequest*, 400> requests;
    for (const RmaRequest*& request : requests) request = &pair.signal();
    const uint64_t before = posted;
    for (int turn = 0; turn < 50; ++turn) {
      ASSERT_OK(pair.ranks().context(0).progress());
      posted = before;
      for (const RmaRequest* request : requests) posted += stateOf(*request) >= RmaRequest::State::kPosted;
      ASSERT_LE(posted - pair.signals(), kReports);  // read in this order: signals only grow
    }
    posted = before + requests.size();
    ASSERT_TRUE(pair.await(posted));
  }
}

// How long an operation waits for a part counts for itself, not from one that waited long ago.
TEST(Rma, EachWaitForAPartHasItsOwnTime) {
  const test::Setting connect_timeout("RAILWISE_CONNECT_TIMEOUT", "1");
  TwoRanks pair({}, 64);
  ASSERT_TRUE(pair.stands());
  std::array<uint64_t, 2> memory = {};
  for (uint64_t& word : memory) {
    const auto window = [&](int rank) {
      return *windowOf(pair.ranks().group(rank), {&word, 1}, MemoryKind::kHost, kRmaStrongOrder);
    };
    RmaRequest* request = nullptr;
    EXPECT_OK(pair.ranks().context(0).putSignal(0, {}, 0, {}, 1, {{window(0), 0}, 5}, &request));
    for (int turn = 0; turn < 100; ++turn) pair.ranks().drive();
    ASSERT_FALSE(pair.ranks().failed());
    (void)window(1);
    for (test::Patience patience; __atomic_load_n(&word, __ATOMIC_ACQUIRE) == 0; patience.again())
      pair.ranks().drive();
    const Deadline pause = Deadline::after(std::chrono::milliseconds(1200));
    while (!pause.passed()) pair.ranks().drive();
  }
}

// Rank 1 never registers its part of a window, and signals of another stream go on meanwhile.
TEST(Rma, TrafficOfAnotherStreamDoesNotProlongAWaitForAPart) {
  const test::Setting connect_timeout("RAILWISE_CONNECT_TIMEOUT", "1");
  TwoRanks pair({.contexts = 2}, 64);
  ASSERT_TRUE(pair.stands());
  uint64_t word = 0;
  RmaWindow* const window = *windowOf(pair.ranks().group(0), {&word, 1}, MemoryKind::kHost, kRmaStrongOrder);
  RmaRequest* waits = nullptr;
  EXPECT_OK(pair.ranks().context(0).putSignal(1, {}, 0, {}, 1, {{window, 0}, 5}, &waits));
  for (test::Patience patience; !pair.ranks().failed(); patience.again()) {
    RmaRequest* other = nullptr;
    if (!pair.putSignal(0, 0, &other).ok()) break;
    for (int done = 0; done == 0 && !pair.ranks().failed();) {
      pair.ranks().drive();
      if (!pair.ranks().group(0).test(*other, &done).ok()) break;
    }
  }
  EXPECT_TRUE(pair.ranks().failed());
}

// The data have a place, their signal has none.
TEST(Rma, APutWhoseSignalHasNoPartEnds) {
  const test::Setting connect_timeout("RAILWISE_CONNECT_TIMEOUT", "1");
  TwoRanks pair({}, 64);
  ASSERT_TRUE(pair.stands());
  uint64_t word = 0;
  RmaWindow* const window = *windowOf(pair.ranks().group(0), {&word, 1}, MemoryKind::kHost, kRmaStrongOrder);
  const RmaPlace data = {&pair.window(0), 0};
  RmaRequest* waits = nullptr;
  EXPECT_OK(pair.ranks().context(0).putSignal(0, data, 8, data, 1, {{window, 0}, 5}, &waits));
  for (test::Patience patience; !pair.ranks().context(0).failed(); patience.again()) pair.ranks().drive();
  int done = 0;
  EXPECT_FALSE(pair.ranks().group(0).test(*waits, &done).ok()) << "NCCL is told at every call";
  EXPECT_FALSE(pair.ranks().context(0).progress().ok());
}

// A put is posted in part, because a queue is full. Its source goes before the rest is posted.
TEST(Rma, AWindowThatGoesBeforeItsPutIsPostedEndsTheGroup) {
  TwoRanks pair({.rails = 2, .contexts = 3}, 64 << 10);
  ASSERT_TRUE(pair.stands());
  for (const char* device : {"soft0", "soft1"})
    test::addFault("device=" + std::string(device) + " opcode=any nth=1 delay=300ms");
  for (int i = 0; i < 127; ++i) (void)pair.put(8);  // room for one work request is left
  RmaRequest* request = nullptr;
  (void)pair.put(512 << 10, 2);
  EXPECT_OK(pair.putSignal(2, 512 << 10, &request));
  ASSERT_EQ(stateOf(*request), RmaRequest::State::kPosting);
  pair.ranks().group(0).deregister(&pair.window(0));
  for (test::Patience patience; !pair.ranks().failed() && stateOf(*request) != RmaRequest::State::kDone;
       patience.again())
    pair.ranks().drive();
  EXPECT_TRUE(pair.ranks().failed());
}

// The other rank has a window of that number, or NCCL tries the memory once more.
TEST(Rma, ARegistrationThatFailsTakesItsNumber) {
  TwoRanks pair({}, 1024);
  const uint32_t next = pair.window(1).number + 1;
  RmaGroup& group = pair.ranks().group(1);
  std::vector<uint64_t> memory(512);
  const auto address = reinterpret_cast<uint64_t>(memory.data());
  const std::size_t bytes = memory.size() * sizeof(uint64_t);
  EXPECT_FALSE(group.registerMemory(4096, bytes, MemoryKind::kHost, 0).ok()) << "nothing is mapped there";
  const auto made = windowOf(group, memory);
  ASSERT_TRUE(made.ok());
  EXPECT_EQ((*made)->number, next + 1);

  EXPECT_FALSE(group.registerDmaBuf(address, bytes, 0, -1, 0).ok());
  const auto again = windowOf(group, memory);
  ASSERT_TRUE(again.ok());
  EXPECT_EQ((*again)->number, next + 2);

  EXPECT_FALSE(group.registerDmaBuf(address, bytes, 0, -1, 0).ok());
  EXPECT_FALSE(group.registerDmaBuf(address, bytes, 0, -1, 0).ok()) << "NCCL tries a third time in no case";
  EXPECT_FALSE(group.registerDmaBuf(4096, bytes, 0, -1, 0).ok());
  const auto last = windowOf(group, memory);
  ASSERT_TRUE(last.ok());
  EXPECT_EQ((*last)->number, next + 5);
  for (RmaWindow* window : {*made, *again, *last}) group.deregister(window);
}

TEST(Rma, APutToAWindowThatCouldNotBeRegisteredEndsTheGroup) {
  TwoRanks pair({}, 1024);
  std::vector<uint64_t> memory(512);
  const std::size_t bytes = memory.size() * sizeof(uint64_t);
  const auto made = windowOf(pair.ranks().group(0), memory);
  ASSERT_TRUE(made.ok());
  EXPECT_FALSE(pair.ranks().group(1).registerMemory(4096, bytes, MemoryKind::kHost, 0).ok());
  RmaRequest* request = nullptr;
  EXPECT_OK(pair.ranks().context(0).put(0, {*made, 0}, 64, {*made, 0}, 1, &request));
  for (test::Patience patience; !pair.ranks().failed(); patience.again()) pair.ranks().drive();
  pair.ranks().group(0).deregister(*made);
}

// More than a peer takes notes of at once.
TEST(Rma, WindowsThatCameAndWentDoNotDisturbARecovery) {
  RmaRanks ranks({.ranks = 2, .rails = 1, .standbys = 1});
  EXPECT_RUNS(ranks, 20);
  std::vector<uint64_t> memory(64);
  for (int i = 0; i < 5000; ++i) {
    for (const int rank : {0, 1}) {
      const auto made = windowOf(ranks.group(rank), memory);
      ASSERT_TRUE(made.ok()) << i;
      ranks.group(rank).deregister(*made);
    }
    if (i % 16 == 0) ranks.drive();
  }
  test::changePort("soft0:1", "down");
  EXPECT_RUNS(ranks, 100);
}

TEST(Rma, MoreWindowsThanAPeerTakesNotesOfAreRefused) {
  TwoRanks pair({}, 1024);
  RmaGroup& group = pair.ranks().group(0);
  std::vector<uint64_t> memory(64);
  std::vector<RmaWindow*> windows;
  for (;;) {
    const auto made = windowOf(group, memory);
    if (!made.ok()) break;
    windows.push_back(*made);
    ASSERT_LT(windows.size(), kMostWindows);
  }
  EXPECT_GT(windows.size(), kMostWindows / 2);
  for (RmaWindow* window : windows) group.deregister(window);
}

// Its copy is done before the memory goes.
TEST(Rma, AWindowThatGoesTakesThePutsToTheOwnRankWithIt) {
  TwoRanks pair({}, 1024);
  RmaGroup& group = pair.ranks().group(0);
  std::vector<uint64_t> from(512, 7), to(512);
  RmaWindow* const source = *windowOf(group, from, MemoryKind::kDevice);
  RmaWindow* const target = *windowOf(group, to, MemoryKind::kDevice);
  RmaRequest* request = nullptr;
  EXPECT_OK(pair.ranks().context(0).put(0, {source, 0}, 4096, {target, 0}, 0, &request));
  group.deregister(source);
  group.deregister(target);
  EXPECT_EQ(stateOf(*request), RmaRequest::State::kDone);
  EXPECT_EQ(to, from);
}

int (*honest_post)(ibv_qp*, ibv_send_wr*, ibv_send_wr**) = nullptr;

// The first report says that it is of another epoch, as one that was held up on the way.
int postOfAnotherEpoch(ibv_qp* qp, ibv_send_wr* work, ibv_send_wr** bad) {
  for (const ibv_send_wr* at = work; at != nullptr; at = at->next) {
    if (at->opcode == IBV_WR_SEND && at->sg_list->length == sizeof(Report))
      ++reinterpret_cast<Report*>(at->sg_list->addr)->epoch;
  }
  return honest_post(qp, work, bad);
}

TEST(Rma, AReportOfAnotherEpochEndsTheGroup) {
  TwoRanks pair({}, 64);
  ASSERT_TRUE(pair.stands());
  auto& post = Net::current()->device(0)->rails()[0].hca->context()->ops.post_send;
  honest_post = std::exchange(post, postOfAnotherEpoch);
  (void)pair.signal();
  EXPECT_FALSE(pair.await(2));
  EXPECT_EQ(pair.signals(), 1U);
  post = honest_post;
}

// A rank that waits for others calls nothing.
TEST(Rma, ARankThatCallsNothingIsPutTo) {
  RmaRanks ranks({});
  uint64_t value = 7;
  uint64_t signal = 0;
  std::array<RmaWindow*, 2> windows;
  for (int rank = 0; rank < 2; ++rank) {
    const auto made =
        windowOf(ranks.group(rank), {rank == 0 ? &value : &signal, 1}, MemoryKind::kHost, kRmaStrongOrder);
    ASSERT_TRUE(made.ok());
    windows[static_cast<std::size_t>(rank)] = *made;
  }
  const RmaSignal its = {{windows[0], 0}, 3};
  RmaRequest* request = nullptr;
  EXPECT_OK(ranks.context(0).putSignal(0, {}, 0, {}, 1, its, &request));
  int done = 0;
  for (test::Patience patience; done == 0; patience.again()) ASSERT_OK(ranks.group(0).test(*request, &done));
  for (test::Patience patience; __atomic_load_n(&signal, __ATOMIC_ACQUIRE) == 0; patience.again()) {
  }
  EXPECT_EQ(signal, 3U);
  for (int rank = 0; rank < 2; ++rank) ranks.group(rank).deregister(windows[static_cast<std::size_t>(rank)]);
}

}  // namespace
}  // namespace railwise::net
