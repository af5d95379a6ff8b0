// When small messages may take the fast path.
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

}  // namespace
}  // namespace railwise::net
