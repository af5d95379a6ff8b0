#include "base/interfaces.h"

#include <gtest/gtest.h>

namespace railwise {
namespace {

TEST(ListInterfaces, FindsLoopbackByNameAndFamily) {
  const auto found = listInterfaces("=lo", AF_INET);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].address.text(), "127.0.0.1:0");
  EXPECT_TRUE(found[0].loopback);
  EXPECT_TRUE(listInterfaces("=no-such-interface", AF_UNSPEC).empty());
}

TEST(ListInterfaces, LoopbackComesLast) {
  const auto found = listInterfaces("", AF_UNSPEC);
  ASSERT_FALSE(found.empty());
  bool loopback_seen = false;
  for (const Interface& interface : found) {
    EXPECT_TRUE(interface.loopback || !loopback_seen) << interface.name << " stands behind lo";
    loopback_seen = loopback_seen || interface.loopback;
  }
}

}  // namespace
}  // namespace railwise
