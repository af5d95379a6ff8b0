#include "base/text/name_selection.h"

#include <gtest/gtest.h>

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

TEST(NameSelected, AListWithoutNamesIsNoList) {
  EXPECT_TRUE(nameSelected("=", "eth0"));
  EXPECT_TRUE(nameSelected(",,", "eth0"));
  EXPECT_FALSE(nameSelected("^", "eth0"));
  EXPECT_TRUE(nameSelected(",eth", "eth0"));
  EXPECT_FALSE(nameSelected(",ib", "eth0"));
}

PortChoice chosen(const char* selection, const char* name, int port) {
  const auto parsed = parsePortSelection(selection);
  EXPECT_TRUE(parsed) << selection;
  return choosePort(*parsed, name, port);
}

bool selected(const char* selection, const char* name, int port) {
  return chosen(selection, name, port).selected;
}

TEST(ChoosePort, LooksAtPorts) {
  EXPECT_TRUE(selected("", "mlx5_0", 2));
  EXPECT_TRUE(selected("mlx5_0:2", "mlx5_0", 2));
  EXPECT_FALSE(selected("mlx5_0:2", "mlx5_0", 1));
  EXPECT_TRUE(selected("mlx5_0", "mlx5_0", 1));
  EXPECT_TRUE(selected("mlx5_0:", "mlx5_0", 1));
  EXPECT_TRUE(selected("mlx5_0:-1", "mlx5_0", 1));
  EXPECT_TRUE(selected("mlx5_1", "mlx5_10", 1)) << "a prefix, as NCCL has it";
  EXPECT_FALSE(selected("=mlx5_1", "mlx5_10", 1));
  EXPECT_FALSE(selected("^mlx5_0:2", "mlx5_0", 2));
  EXPECT_TRUE(selected("^mlx5_0:2", "mlx5_0", 1));
  EXPECT_FALSE(selected("^=mlx5_0:1", "mlx5_0", 1));
  EXPECT_TRUE(selected("^=mlx5_0:1", "mlx5_01", 1));
}

TEST(ChoosePort, AnswersRailAndPlane) {
  const char* const selection = "=mlx5_0:1:0:2,mlx5_1::1,mlx5_2:::3,mlx5_3,mlx5_0::7:7";
  const auto expect = [&](const char* name, int port, int rail, int plane) {
    const PortChoice choice = chosen(selection, name, port);
    EXPECT_TRUE(choice.selected) << name;
    EXPECT_EQ(choice.rail, rail) << name;
    EXPECT_EQ(choice.plane, plane) << name;
  };
  expect("mlx5_0", 1, 0, 2);
  expect("mlx5_0", 2, 7, 7);
  expect("mlx5_1", 1, 1, -1);
  expect("mlx5_2", 1, -1, 3);
  expect("mlx5_3", 1, -1, -1);
}

TEST(ChoosePort, ExclusionNamesNoRail) {
  const PortChoice choice = chosen("^mlx5_0:1:5:6", "mlx5_1", 1);
  EXPECT_TRUE(choice.selected);
  EXPECT_EQ(choice.rail, -1);
  EXPECT_EQ(choice.plane, -1);
}

TEST(ParsePortSelection, RefusesWhatIsNoNumber) {
  for (const char* bad : {"mlx5_0:a", "mlx5_0:1x", "mlx5_0:1:2:32768", "mlx5_0:-2", "mlx5_1,mlx5_0:1:rail"})
    EXPECT_FALSE(parsePortSelection(bad)) << bad;
  for (const char* good : {"", "^", "=", "mlx5_0:::", "mlx5_0:1:2:32767", ":5"})
    EXPECT_TRUE(parsePortSelection(good)) << good;
}

}  // namespace
}  // namespace railwise
