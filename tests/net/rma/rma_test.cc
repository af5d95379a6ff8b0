// One-sided communication between ranks of one process, with and without faults.
#include "net/rma/rma.h"

#include <gtest/gtest.h>

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

TEST(Rma, APortGoesDown) {
  RmaRanks ranks({.ranks = 3, .rails = 2, .standbys = 1});
  EXPECT_RUNS(ranks, 50);
  test::changePort("soft0:1", "down");
  EXPECT_RUNS(ranks, 200);
  test::changePort("soft0:1", "up");
  test::changePort("soft1:1", "down");
  EXPECT_RUNS(ranks, 200);
}

}  // namespace
}  // namespace railwise::net
