#include "base/interfaces.h"

#include <gtest/gtest.h>

namespace railwise {
namespace {

TEST(InterfaceMatches, FollowsNcclsGrammar) {
  EXPECT_TRUE(interfaceMatches("", "eth0"));
  EXPECT_TRUE(interfaceMatches("eth", "eth10"));
  EXPECT_TRUE(interfaceMatches("ib,eth", "eth0"));
  EXPECT_FALSE(interfaceMatches("ib,eth", "lo"));
  EXPECT_TRUE(interfaceMatches("=eth1", "eth1"));
  EXPECT_FALSE(interfaceMatches("=eth1", "eth10"));
  EXPECT_FALSE(interfaceMatches("^docker,lo", "docker0"));
  EXPECT_FALSE(interfaceMatches("^docker,lo", "lo"));
  EXPECT_TRUE(interfaceMatches("^docker,lo", "eth0"));
  EXPECT_TRUE(interfaceMatches("^=eth1", "eth10"));
  EXPECT_FALSE(interfaceMatches("^=eth1", "eth1"));
}

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
