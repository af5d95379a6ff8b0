// Signals in GPU memory that a NIC of this rank writes, while NICs fail.
#include "net/rma/slots.h"

#include <unistd.h>

#include <cstdlib>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "loop_connection.h"
#include "net/net.h"
#include "net/rma/own_rank.h"
#include "port_control.h"
#include "softdev/softdev.h"
#include "tests/ok.h"
#include "tests/wait.h"

namespace railwise::net {
namespace {

// A rank of some rails with two slots, on software devices of its own.
class Rank {
 public:
  explicit Rank(int rails, bool never_reset = true) {
    net_ = acquireNet("count=" + std::to_string(rails));
    std::vector<int> members;
    for (int rail = 0; rail < rails; ++rail) members.push_back(rail);
    device_ = net_->device(*net_->makeVirtualDevice(members));
    loopback_ = std::make_unique<Loopback>(*device_, net_->config(), std::vector<Rail>());
    slots_ = std::make_unique<SignalSlots>(*loopback_);
    const auto address = reinterpret_cast<uint64_t>(words_.data());
    window_.memory = *device_->memory().acquire(address, kBytes, MemoryKind::kDevice);
    window_.address = address;
    window_.bytes = kBytes;
    window_.never_reset = never_reset;
  }
  ~Rank() {
    slots_.reset();
    loopback_.reset();
    if (window_.memory != nullptr) device_->memory().release(window_.memory);
    Net::release();
  }
  Rank(const Rank&) = delete;
  Rank& operator=(const Rank&) = delete;

  // A signal in slot `slot` that `home` has brought, and rails `brought` its data.
  void add(std::size_t slot, uint64_t value, uint32_t home, uint32_t brought) {
    slots_->add(window_, slot * sizeof(uint64_t), value, home, brought);
  }
  uint64_t read(std::size_t slot) const { return __atomic_load_n(&words_[slot], __ATOMIC_ACQUIRE); }
  void reset(std::size_t slot) { __atomic_store_n(&words_[slot], 0, __ATOMIC_RELEASE); }
  void turn() {
    if (loopback_->busy()) loopback_->poll();
    const std::string problem = slots_->progress();
    if (problem_.empty()) problem_ = problem;
  }
  // Until nothing is under way.
  void settle() {
    test::waitUntil([&] {
      turn();
      return !slots_->busy() || !problem_.empty();
    });
  }
  const std::string& problem() const { return problem_; }
  SignalSlots& slots() { return *slots_; }
  Loopback& loopback() { return *loopback_; }
  const Hca& hca() const { return *device_->rails().front().now().hca; }
  RmaWindow& window() { return window_; }

 private:
  static constexpr std::size_t kBytes = 4096;

  Net* net_ = nullptr;
  const Device* device_ = nullptr;
  std::unique_ptr<Loopback> loopback_;
  std::unique_ptr<SignalSlots> slots_;
  std::vector<uint64_t> words_ = std::vector<uint64_t>(kBytes / sizeof(uint64_t));
  RmaWindow window_;
  std::string problem_;
};

TEST(Slots, SignalsAddUp) {
  for (const bool never_reset : {true, false}) {
    Rank rank(2, never_reset);
    for (int i = 0; i < 100; ++i) {
      rank.add(0, 1, 1, 1);
      rank.add(1, 3, 2, 3);
      if (i % 7 == 0) rank.turn();
    }
    rank.settle();
    EXPECT_EQ(rank.read(0), 100U);
    EXPECT_EQ(rank.read(1), 300U);
  }
}

TEST(Slots, KnowsWhichSignalsAreNotWritten) {
  Rank rank(1);
  const uint64_t first = rank.slots().add(rank.window(), 0, 1, 1, 1);
  EXPECT_TRUE(rank.slots().owes(first));
  rank.settle();
  EXPECT_FALSE(rank.slots().owes(first));
  const uint64_t second = rank.slots().add(rank.window(), 8, 1, 1, 1);
  EXPECT_FALSE(rank.slots().owes(first)) << "another one is under way";
  EXPECT_TRUE(rank.slots().owes(second));
  rank.settle();
}

// Signals that come faster than the slot is read must not begin the read anew each time.
TEST(Slots, ASteadyStreamIsWritten) {
  Rank rank(1, false);
  test::waitUntil([&] {
    rank.add(0, 1, 1, 1);
    rank.turn();
    return rank.read(0) > 0;
  });
  rank.settle();
}

TEST(Slots, AResetSlotBeginsAnew) {
  Rank rank(1, false);
  rank.add(0, 5, 1, 1);
  rank.settle();
  rank.reset(0);
  rank.add(0, 2, 1, 1);
  rank.settle();
  EXPECT_EQ(rank.read(0), 2U);
}

// Another window over the same memory has had the slot, and was deregistered.
TEST(Slots, ASlotThatNobodyResetsGoesOnFromWhatItsMemoryHas) {
  Rank rank(1);
  rank.add(0, 13, 1, 1);
  rank.settle();
  ASSERT_TRUE(rank.slots().forget(rank.window()));
  rank.add(0, 1, 1, 1);
  rank.settle();
  EXPECT_EQ(rank.read(0), 14U);
}

// A work request that the device refuses leaves no work under way that would tell of the failure.
TEST(Slots, ARefusedWriteIsRepeated) {
  Rank rank(1);
  test::addFault("device=soft0 verb=post_send nth=1 errno=EIO");
  rank.add(0, 1, 1, 1);
  rank.settle();
  EXPECT_EQ(rank.read(0), 1U);
}

TEST(Slots, AFailedWriteIsRepeated) {
  Rank rank(2);
  for (uint64_t i = 1; i <= 20; ++i) {
    if (i % 4 == 0) test::addFault("device=soft0 opcode=write nth=1 status=retry_exc_err");
    if (i % 4 == 2) test::addFault("device=soft0 opcode=any nth=1 qp_fatal");
    rank.add(0, 1, 1, 3);
    rank.settle();
    ASSERT_EQ(rank.read(0), i);
  }
}

// Another NIC writes what a silent one does not, and later signals do not wait for the silent one.
TEST(Slots, ASilentNicIsLeft) {
  Rank rank(2);
  test::addFault("device=soft0 drop");
  for (uint64_t i = 1; i <= 100; ++i) {
    rank.add(0, 1, 1, 3);
    rank.settle();
    ASSERT_EQ(rank.read(0), i);
  }
}

TEST(Slots, APortGoesDownAndComesBack) {
  Rank rank(1);
  rank.add(0, 1, 1, 1);
  rank.settle();
  test::changePort("soft0:1", "down");
  rank.add(0, 1, 1, 1);
  for (int i = 0; i < 1000; ++i) rank.turn();
  EXPECT_TRUE(rank.slots().busy());
  test::changePort("soft0:1", "up");
  rank.settle();
  EXPECT_EQ(rank.read(0), 2U);
}

// The device is opened anew, and has other queue pairs.
TEST(Slots, ADeviceFailsWhileNothingIsUnderWay) {
  Rank rank(1);
  rank.add(0, 1, 1, 1);
  rank.settle();
  test::changePort("soft0:1", "fatal");
  test::waitUntil([&] { return rank.hca().earlierGenerations() == 1; });
  rank.add(0, 1, 1, 1);
  rank.settle();
  EXPECT_EQ(rank.read(0), 2U);
}

// A write that failed at a value of 0 may have been executed, seen and set back.
TEST(Slots, WhatIsUndecidedIsSaid) {
  Rank rank(1, false);
  test::addFault("device=soft0 opcode=write nth=1 status=retry_exc_err");
  rank.add(0, 7, 1, 1);
  rank.settle();
  if (rank.read(0) == 0) EXPECT_HAS(rank.problem(), "may have been added or not");
  else EXPECT_EQ(rank.problem(), "");
}

// A write is executed, and its completion is lost with the queue pair. It must not be repeated: the owner of
// the slot may have set it back.
TEST(Slots, AWriteThatWasExecutedIsNotRepeated) {
  Rank rank(1, false);
  rank.add(0, 5, 1, 1);
  rank.settle();
  rank.add(0, 2, 1, 1);
  test::waitUntil([&] {
    rank.turn();
    return rank.read(0) == 7;
  });
  const uint64_t writes = softdev::counters(rank.hca().context()).writes;
  auto& poll = rank.hca().context()->ops.poll_cq;
  const auto honest_poll = std::exchange(poll, [](ibv_cq*, int, ibv_wc*) { return -1; });
  rank.turn();
  poll = honest_poll;
  rank.settle();
  EXPECT_EQ(rank.problem(), "");
  EXPECT_EQ(softdev::counters(rank.hca().context()).writes, writes);
}

// The data came over soft1, whose flush does not come back at first. The signal must wait for the flush.
TEST(Slots, OtherRailsAreFlushedFirst) {
  Rank rank(2);
  test::addFault("device=soft1 opcode=read nth=1 drop=1");
  rank.add(0, 1, 1, 3);
  for (int i = 0; i < 2000; ++i) {
    rank.turn();
    ASSERT_EQ(rank.read(0), 0U);
  }
  rank.settle();
  EXPECT_EQ(rank.read(0), 1U);
}

// Data that were acknowledged before a failure lie in soft1, and the signal that covers them comes over
// soft0.
TEST(Slots, RailsThatWereLeftAreFlushedFirst) {
  Rank rank(2);
  test::addFault("device=soft1 opcode=read nth=1 drop=1");
  rank.slots().mustFlush(2);
  rank.add(0, 1, 1, 1);
  rank.add(1, 1, 1, 1);
  for (int i = 0; i < 2000; ++i) {
    rank.turn();
    ASSERT_EQ(rank.read(0) + rank.read(1), 0U);
    // A slot that gets its signal while the flush for another slot is under way waits, too.
    if (i == 10) rank.add(2, 1, 1, 1);
    ASSERT_EQ(rank.read(2), 0U);
  }
  rank.settle();
  EXPECT_EQ(rank.read(0) + rank.read(1) + rank.read(2), 3U);
}

// A write is held up in soft0, whose driver does not stop the queue pair at first, and soft1 goes on. A slot
// never falls.
TEST(Slots, ALateWriteSetsNothingBack) {
  Rank rank(2);
  rank.add(0, 1, 1, 1);
  rank.settle();
  test::addFault("device=soft0 opcode=write nth=1 delay=100ms");
  test::addFault("device=soft0 verb=modify_qp nth=1 every=1 count=3 errno=EBUSY");
  rank.add(0, 1, 1, 1);
  rank.turn();
  test::changePort("soft0:1", "down");
  rank.add(0, 1, 1, 1);
  rank.settle();
  EXPECT_EQ(rank.read(0), 3U);
  const Deadline late = Deadline::after(std::chrono::milliseconds(200));
  test::waitUntil([&] { return late.passed() || rank.read(0) != 3; });
  EXPECT_EQ(rank.read(0), 3U);
}

// A driver that does not answer keeps a work request open. The window goes all the same.
TEST(Slots, ADeregisteredWindowIsAbandoned) {
  Rank rank(1);
  test::addFault("device=soft0 drop");
  rank.add(0, 1, 1, 1);
  rank.turn();
  EXPECT_FALSE(rank.slots().forget(rank.window()));
  rank.slots().abandon(rank.window());
  test::waitUntil([&] {
    rank.turn();
    return !rank.slots().busy();
  });
  EXPECT_TRUE(rank.slots().forget(rank.window()));
}

// Data come over a rail whose own writes and reads vanish.
TEST(OwnRank, AFlushIsDoneWithoutARailThatAnswersNone) {
  Rank rank(2);
  const std::vector<std::unique_ptr<RmaWindow>> windows;
  OwnRank own(rank.loopback(), rank.slots(), windows);
  test::addFault("device=soft0 drop");
  own.brought(3);
  RmaRequest request;
  request.kind = RmaRequest::Kind::kFlush;
  request.local = &rank.window();
  own.add(request);
  test::waitUntil([&] {
    rank.turn();
    own.progress();
    return request.state == RmaRequest::State::kDone;
  });
  EXPECT_EQ(request.state, RmaRequest::State::kDone);
}

}  // namespace
}  // namespace railwise::net
