// When small messages may take the fast path.
#include "net/sender/fast_path.h"

#include <gtest/gtest.h>

namespace railwise::net {
namespace {

TEST(FastPath, IsClosedUntilItIsAllowed) {
  FastPath path;
  EXPECT_FALSE(path.open());
  EXPECT_EQ(path.bytes, 0U);
  path.allow(4096, 1 << 20, 0);
  EXPECT_TRUE(path.open());
  EXPECT_EQ(path.largest, path.bytes);
  EXPECT_EQ(path.bytes, std::size_t{1} << 20) << "larger messages than those that need no signal, too";
  path.allow(4096, 1 << 14, 1 << 20);
  EXPECT_EQ(path.bytes, std::size_t{1} << 14);
  EXPECT_EQ(path.largest, std::size_t{1} << 20) << "in parts";
  path.allow(0, 1 << 14, 1 << 20);
  EXPECT_FALSE(path.open());
  EXPECT_EQ(path.bytes, 0U);
  EXPECT_EQ(path.largest, 0U);
}

}  // namespace
}  // namespace railwise::net
