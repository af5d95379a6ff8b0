// What a connection says when its two ends are not alike.
#include "net/wireup/asymmetry.h"

#include "tests/ok.h"

namespace railwise::net {
namespace {

EndInfo makeEnd(const char* host) {
  EndInfo end = {};
  copyText(end.host, host);
  copyText(end.version, "0.1.0");
  end.rails = 1;
  end.devices = 8;
  end.failover = 1;
  RailInfo& rail = end.rail[0];
  copyText(rail.device, "mlx5_0");
  rail.link_layer = LinkLayer::kRoce;
  rail.mtu = 5;
  rail.gid_count = 1;
  rail.plane = -1;
  rail.speed_mbps = 400000;
  rail.nic_vendor = 0x02c9;
  rail.nic_part = 4129;
  copyText(rail.nic_firmware, "28.39.1002");
  copyText(end.gpu_driver, "NVIDIA 550.90.07");
  return end;
}

std::string differenceOf(const EndInfo& here, const EndInfo& there) {
  const auto found = compareEnds(here, there);
  return found.size() == 1 ? found[0].text : std::to_string(found.size()) + " differences";
}

TEST(Asymmetry, EqualEndsAreAllRight) { EXPECT_TRUE(compareEnds(makeEnd("a:1"), makeEnd("b:2")).empty()); }

TEST(Asymmetry, NamesBothEndsAndTheValues) {
  EndInfo there = makeEnd("b:2");
  there.rail[0].mtu = 3;
  const std::string text = differenceOf(makeEnd("a:1"), there);
  EXPECT_HAS(text, "MTU: 4096 bytes at mlx5_0 of a:1, 1024 bytes at mlx5_0 of b:2");
}

TEST(Asymmetry, SeesEachKind) {
  const EndInfo here = makeEnd("a:1");
  const auto changed = [&](auto&& change) {
    EndInfo there = makeEnd("b:2");
    change(there);
    return compareEnds(here, there).size();
  };
  EXPECT_EQ(changed([](EndInfo& end) { copyText(end.version, "0.2.0"); }), 1U);
  EXPECT_EQ(changed([](EndInfo& end) { end.rail[0].speed_mbps = 100000; }), 1U);
  EXPECT_EQ(changed([](EndInfo& end) { end.devices = 7; }), 1U);
  EXPECT_EQ(changed([](EndInfo& end) { end.failover = 0; }), 1U);
  EXPECT_EQ(changed([](EndInfo& end) { copyText(end.gpu_driver, "NVIDIA 550.54.15"); }), 1U);
  EXPECT_EQ(changed([](EndInfo& end) { copyText(end.rail[0].nic_firmware, "28.36.1010"); }), 1U);
  EXPECT_EQ(changed([](EndInfo& end) {
              end.rails = 2;
              end.rail[1] = end.rail[0];
            }),
            1U);
}

TEST(Asymmetry, StrictModeRefusesWhatItsWordsName) {
  const EndInfo here = makeEnd("a:1");
  EndInfo there = makeEnd("b:2");
  EXPECT_EQ(refusedDifference({true, true, true, true, true}, here, there), "");
  copyText(there.rail[0].nic_firmware, "28.36.1010");
  EXPECT_EQ(refusedDifference({}, here, there), "");
  EXPECT_EQ(refusedDifference({.speed = true}, here, there), "");
  const std::string text = refusedDifference({.version = true}, here, there);
  EXPECT_TRUE(text.starts_with("the ends differ in NIC firmware: 28.39.1002 at mlx5_0 of a:1")) << text;
  there.rail[0].speed_mbps = 100000;
  EXPECT_TRUE(
      refusedDifference({.speed = true}, here, there).starts_with("the ends differ in speed: 400000"));
}

TEST(Asymmetry, WhatIsNotKnownIsNoDifference) {
  EndInfo there = makeEnd("b:2");
  there.rail[0].plane = 3;  // the other end knows of no planes
  EXPECT_TRUE(compareEnds(makeEnd("a:1"), there).empty());
  there = makeEnd("b:2");
  copyText(there.gpu_driver, "");
  copyText(there.rail[0].nic_firmware, "");
  EXPECT_TRUE(compareEnds(makeEnd("a:1"), there).empty());
  EXPECT_TRUE(compareEnds(there, makeEnd("a:1")).empty());
}

TEST(Asymmetry, SaysWhichDriversAndWhatToDo) {
  EndInfo there = makeEnd("b:2");
  copyText(there.gpu_driver, "NVIDIA 550.54.15");
  EXPECT_EQ(differenceOf(makeEnd("a:1"), there),
            "GPU driver: NVIDIA 550.90.07 at mlx5_0 of a:1, NVIDIA 550.54.15 at mlx5_0 of b:2: install the "
            "same GPU driver on every node");
}

TEST(Asymmetry, FirmwareIsComparedBetweenNicsOfOneType) {
  const EndInfo here = makeEnd("a:1");
  EndInfo there = makeEnd("b:2");
  there.rail[0].nic_part = 4125;
  copyText(there.rail[0].nic_firmware, "22.39.1002");
  EXPECT_TRUE(compareEnds(here, there).empty());
  there.rail[0].nic_part = here.rail[0].nic_part;
  there.rail[0].nic_vendor = 0x14e4;
  EXPECT_TRUE(compareEnds(here, there).empty());
}

TEST(Asymmetry, NamesTheNicsOfTheTypeThatDiffers) {
  EndInfo here = makeEnd("a:1");
  here.rails = 3;
  here.rail[1] = here.rail[2] = here.rail[0];
  here.rail[0].nic_part = 4125;
  copyText(here.rail[0].nic_firmware, "22.39.1002");
  copyText(here.rail[1].device, "mlx5_1");
  copyText(here.rail[2].device, "mlx5_2");
  EndInfo there = here;
  copyText(there.host, "b:2");
  EXPECT_TRUE(compareEnds(here, there).empty());
  copyText(there.rail[2].nic_firmware, "28.36.1010");
  EXPECT_EQ(differenceOf(here, there),
            "NIC firmware: 28.39.1002 at mlx5_1, mlx5_2 of a:1, 28.36.1010, 28.39.1002 at mlx5_1, mlx5_2 of "
            "b:2: install the same firmware on NICs of one type");
}

}  // namespace
}  // namespace railwise::net
