// When small messages may take the fast path, and how its work requests hang together.
#include "net/sender/fast_path.h"

#include <gtest/gtest.h>

namespace railwise::net {
namespace {

TEST(FastPath, IsClosedUntilItIsAllowed) {
  FastPath path;
  EXPECT_FALSE(path.open());
  EXPECT_EQ(path.bytes, 0U);
  path.allow(4096);
  EXPECT_TRUE(path.open());
  EXPECT_EQ(path.bytes, 4096U);
  path.allow(0);
  EXPECT_FALSE(path.open());
  EXPECT_EQ(path.bytes, 0U);
}

TEST(FastPath, WithSeveralQueuePairsTheFirstBranchStaysClosed) {
  FastPath path;
  path.takes_turns = true;
  path.allow(4096);
  EXPECT_TRUE(path.open());
  EXPECT_EQ(path.bytes, 0U) << "isend must give the next message to the next queue pair";
}

TEST(FastPath, TheWritesOfABatchAreLinkedInOrder) {
  FastPath path;
  for (std::size_t i = 0; i + 1 < path.batch.size(); ++i) EXPECT_EQ(path.batch[i].next, &path.batch[i + 1]);
  EXPECT_EQ(path.batch.back().next, nullptr);
  for (std::size_t i = 0; i < path.batch.size(); ++i) EXPECT_EQ(path.batch[i].sg_list, &path.batch_sges[i]);
  EXPECT_EQ(path.work.opcode, IBV_WR_RDMA_WRITE_WITH_IMM);
}

}  // namespace
}  // namespace railwise::net
