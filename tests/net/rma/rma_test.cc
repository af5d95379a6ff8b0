// One-sided communication between ranks of one process, with and without faults.
#include "net/rma/rma.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <stdexcept>

#include "net/rma/rma_ranks.h"
#include "port_control.h"
#include "tests/ok.h"

namespace railwise::net {
namespace {

#define EXPECT_RUNS(ranks, messages) EXPECT_TRUE((ranks).run(messages)) << (ranks).problem()

TEST(Rma, PutsAndSignalsArrive) {
  RmaRanks ranks({});
  EXPECT_RUNS(ranks, 500);
}

TEST(Rma, PutsIntoGpuMemory) {
  RmaRanks ranks({.gpu = true});
  EXPECT_RUNS(ranks, 500);
}

TEST(Rma, SignalsThatMayBeReset) {
  RmaRanks ranks({.gpu = true, .never_reset = false});
  EXPECT_RUNS(ranks, 500);
}

TEST(Rma, ManyRanks) {
  RmaRanks ranks({.ranks = 5, .contexts = 3});
  EXPECT_RUNS(ranks, 100);
}

TEST(Rma, SeveralRails) {
  RmaRanks ranks({.ranks = 2, .rails = 3, .bytes = 256 << 10, .gpu = true});
  EXPECT_RUNS(ranks, 20);
}

TEST(Rma, Iwarp) {
  RmaRanks ranks({.ranks = 3, .rails = 2, .bytes = 100 << 10}, "link=iwarp");
  EXPECT_RUNS(ranks, 50);
}

TEST(Rma, IwarpTakesNoGpuMemory) { EXPECT_THROW(RmaRanks({.gpu = true}, "link=iwarp"), std::runtime_error); }

TEST(Rma, ManyContexts) {
  RmaRanks ranks({.contexts = 64, .gets = true, .own = true});
  EXPECT_RUNS(ranks, 20);
}

// A connection without a path fails only when somebody needs the path.
TEST(Rma, ALongPauseWithoutAPathIsSurvived) {
  setenv("RAILWISE_FAILOVER_TIMEOUT", "1", 1);
  RmaRanks ranks({});
  EXPECT_RUNS(ranks, 50);
  for (const char* port : {"soft0:1", "soft1:1"}) test::changePort(port, "down");
  const Deadline pause = Deadline::after(std::chrono::milliseconds(2500));
  while (!pause.passed()) ranks.drive();
  EXPECT_FALSE(ranks.failed());
  for (const char* port : {"soft0:1", "soft1:1"}) test::changePort(port, "up");
  EXPECT_RUNS(ranks, 50);
  unsetenv("RAILWISE_FAILOVER_TIMEOUT");
}

// The only device of a rank refuses what a connection is made of, longer than a moment.
TEST(Rma, ADeviceRefusesForAWhileWhileRanksConnect) {
  setenv("RAILWISE_FAILOVER_TIMEOUT", "4", 1);
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
  unsetenv("RAILWISE_FAILOVER_TIMEOUT");
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

// A rank that waits for others calls nothing.
TEST(Rma, ARankThatCallsNothingIsPutTo) {
  RmaRanks ranks({});
  uint64_t value = 7;
  uint64_t signal = 0;
  std::array<RmaWindow*, 2> windows;
  for (int rank = 0; rank < 2; ++rank) {
    uint64_t& memory = rank == 0 ? value : signal;
    const auto made = ranks.group(rank).registerMemory(reinterpret_cast<uint64_t>(&memory), sizeof memory,
                                                       MemoryKind::kHost, kRmaStrongOrder);
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
