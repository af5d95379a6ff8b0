#include "base/interfaces.h"

#include <gtest/gtest.h>

#include "base/name_selection.h"

namespace railwise {
namespace {

TEST(NameSelected, FollowsNcclsGrammar) {
  EXPECT_TRUE(nameSelected("", "eth0"));
  EXPECT_TRUE(nameSelected("eth", "eth10"));
  EXPECT_TRUE(nameSelected("ib,eth", "eth0"));
  EXPECT_FALSE(nameSelected("ib,eth", "lo"));
  EXPECT_TRUE(nameSelected("=eth1", "eth1"));
  EXPECT_FALSE(nameSelected("=eth1", "eth10"));
  EXPECT_FALSE(nameSelected("^docker,lo", "docker0"));
  EXPECT_FALSE(nameSelected("^docker,lo", "lo"));
  EXPECT_TRUE(nameSelected("^docker,lo", "eth0"));
  EXPECT_TRUE(nameSelected("^=eth1", "eth10"));
  EXPECT_FALSE(nameSelected("^=eth1", "eth1"));
}

TEST(NameSelected, LooksAtPorts) {
  EXPECT_TRUE(nameSelected("mlx5_0:2", "mlx5_0", 2));
  EXPECT_FALSE(nameSelected("mlx5_0:2", "mlx5_0", 1));
  EXPECT_TRUE(nameSelected("mlx5_0", "mlx5_0", 1));
  EXPECT_TRUE(nameSelected("mlx5_0:", "mlx5_0", 1));
  EXPECT_TRUE(nameSelected("=mlx5_1:1:0:3", "mlx5_1", 1));
  EXPECT_TRUE(nameSelected("mlx5_1", "mlx5_10", 1)) << "a prefix, as NCCL has it";
  EXPECT_FALSE(nameSelected("=mlx5_1", "mlx5_10", 1));
  EXPECT_FALSE(nameSelected("^mlx5_0:2", "mlx5_0", 2));
  EXPECT_TRUE(nameSelected("^mlx5_0:2", "mlx5_0", 1));
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
