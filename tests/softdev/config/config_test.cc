#include "softdev/config/config.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "base/nic_drivers.h"
#include "base/text/words.h"
#include "softdev/config/values.h"
#include "tests/ok.h"
#include "tests/said.h"

namespace railwise::softdev {
namespace {

class ConfigTest : public testing::Test {
 protected:
  // The single warning that `text` causes.
  std::string warning(const char* text) {
    said_.clear();
    const Result<Config> config = parseConfig(text);
    EXPECT_FALSE(config.ok()) << text;
    EXPECT_EQ(config.status().code, Code::kInvalidUsage) << text;
    EXPECT_EQ(linesOf(said_.warnings()).size(), 1U) << text;
    return said_.warnings();
  }

  railwise::test::Said said_;
};

TEST_F(ConfigTest, NothingIsTheDefaultMachine) {
  for (const char* text : {static_cast<const char*>(nullptr), "", ";", "fabric=lab", "@default"}) {
    const Result<Config> config = parseConfig(text);
    ASSERT_OK(config);
    ASSERT_EQ(config->devices.size(), 2U);
    for (const DeviceConfig& device : config->devices) {
      EXPECT_EQ(device.name, &device == config->devices.data() ? "soft0" : "soft1");
      EXPECT_EQ(device.ports[0].speed_mbps, 400000U);
      EXPECT_EQ(device.ports[0].link_layer, IBV_LINK_LAYER_INFINIBAND);
      EXPECT_EQ(device.ports[0].mtu, IBV_MTU_4096);
      EXPECT_EQ(device.max_inline_bytes, 220U);
    }
  }
}

TEST_F(ConfigTest, ADeviceWithoutKeysIsRoce) {
  const Result<Config> config = parseConfig("name=soft0");
  ASSERT_OK(config);
  ASSERT_EQ(config->devices.size(), 1U);
  EXPECT_EQ(config->devices[0].ports[0].link_layer, IBV_LINK_LAYER_ETHERNET);
  EXPECT_EQ(config->devices[0].ports[0].speed_mbps, 400000U);
}

TEST_F(ConfigTest, OnlyANameChoosesAFabric) {
  EXPECT_FALSE(parseConfig("link=ib")->fabric_named);
  EXPECT_TRUE(parseConfig("link=ib,fabric=lab")->fabric_named);
  EXPECT_TRUE(parseConfig("link=ib", "", "lab")->fabric_named);
}

TEST_F(ConfigTest, TheDigestIsThatOfWhatIsDescribed) {
  const auto digest = [](const char* text, const char* host = "", const char* fabric = "") {
    return parseConfig(text, host, fabric)->digest;
  };
  EXPECT_EQ(digest(""), digest("@default"));
  EXPECT_EQ(digest("link=ib,count=2"), digest("name=soft0,link=ib;link=ib,name=soft1"));
  EXPECT_EQ(digest("@dgx#A"), digest("@dgx", "B"));
  EXPECT_EQ(digest("link=ib"), digest("link=ib", "elsewhere", "lab"));
  for (const char* other : {"count=2", "link=ib", "speed=200000", "name=x", "mtu=1024", "engine=on", "seed=2",
                            "fault=opcode=write drop", "mover=agent", "gid=10.1.2.3", "pacing=on"})
    EXPECT_NE(digest("name=soft0"), digest(other)) << other;
}

TEST_F(ConfigTest, TheVariableNamesTheFabricWhereTheTextDoesNot) {
  const auto fabric = [](const char* text, const char* variable) {
    const Result<Config> config = parseConfig(text, "", variable);
    return config.ok() ? config->fabric : "refused";
  };
  EXPECT_EQ(fabric("count=2", "mine"), "mine");
  EXPECT_EQ(fabric("fabric=lab", "mine"), "lab");
  EXPECT_EQ(fabric("count=2", ""), "default");
  EXPECT_EQ(fabric("count=2", "a b"), "refused");
  EXPECT_HAS(said_.warnings(), "RAILWISE_FABRIC");
}

TEST_F(ConfigTest, FabricIsForTheWholeProcess) {
  const Result<Config> config = parseConfig("fabric=lab;count=2");
  ASSERT_OK(config);
  EXPECT_EQ(config->fabric, "lab");
  EXPECT_EQ(config->devices.size(), 2U);
  EXPECT_HAS(warning("fabric=a;fabric=b"), "already a");
}

TEST_F(ConfigTest, EveryKey) {
  const Result<Config> config = parseConfig(
      "name=rail,count=2,speed=200000,link=infiniband,mtu=1024,guid=02:00:00:00:00:00:00:0a,pci=/sys/devices/"
      "x,"
      "port_state=down,max_qp=7,max_qp_wr=100,max_inline=64,max_msg=4096");
  ASSERT_OK(config);
  ASSERT_EQ(config->devices.size(), 2U);
  const DeviceConfig& first = config->devices[0];
  const DeviceConfig& second = config->devices[1];
  EXPECT_EQ(first.name, "rail0");
  EXPECT_EQ(second.name, "rail1");
  EXPECT_EQ(first.ports[0].active_width, 2);
  EXPECT_EQ(first.ports[0].active_speed, 64);
  EXPECT_EQ(first.ports[0].link_layer, IBV_LINK_LAYER_INFINIBAND);
  EXPECT_EQ(first.ports[0].mtu, IBV_MTU_1024);
  EXPECT_EQ(first.guid, 0x020000000000000aULL);
  EXPECT_EQ(second.guid, 0x020000000000000bULL);
  EXPECT_EQ(first.pci, "/sys/devices/x");
  EXPECT_FALSE(first.ports[0].active);
  EXPECT_EQ(first.max_qp, 7U);
  EXPECT_EQ(first.max_qp_wr, 100U);
  EXPECT_EQ(first.max_inline_bytes, 64U);
  EXPECT_EQ(first.max_message_bytes, 4096U);
}

TEST_F(ConfigTest, UnnamedDevicesAreNumberedOn) {
  const Result<Config> config = parseConfig("count=2;name=x;speed=25000");
  ASSERT_OK(config);
  ASSERT_EQ(config->devices.size(), 4U);
  EXPECT_EQ(config->devices[2].name, "x");
  EXPECT_EQ(config->devices[3].name, "soft2");
}

TEST_F(ConfigTest, RoceDefaultGids) {
  const Result<Config> config = parseConfig("guid=0200000000000104");
  ASSERT_OK(config);
  const std::vector<Gid>& gids = config->devices[0].ports[0].gids;
  ASSERT_EQ(gids.size(), 4U);
  const uint8_t link_local[16] = {0xfe, 0x80, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 1, 4};
  const uint8_t mapped[13] = {0, 0, 0, 0,    0,    0, 0,
                              0, 0, 0, 0xff, 0xff, 10};  // the rest follows from the host
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(std::memcmp(gids[i].raw, i < 2 ? link_local : mapped, i < 2 ? 16 : 13), 0) << i;
    EXPECT_EQ(gids[i].type, static_cast<uint32_t>(i % 2 == 0 ? GidType::kRoceV1 : GidType::kRoceV2)) << i;
  }
}

TEST_F(ConfigTest, DefaultGuidsAndGidsDiffer) {
  const Result<Config> config = parseConfig("count=8;name=a0;name=b0;link=ib");
  ASSERT_OK(config);
  const std::vector<DeviceConfig>& devices = config->devices;
  for (size_t i = 0; i < devices.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      EXPECT_NE(devices[i].guid, devices[j].guid);
      EXPECT_NE(std::memcmp(devices[i].ports[0].gids.back().raw, devices[j].ports[0].gids.back().raw, 16), 0);
    }
  }
}

TEST_F(ConfigTest, GidsReplaceTheDefaults) {
  const Result<Config> config = parseConfig("gid=fe80::1/v1,gid=10.1.2.3,gid=2001:db8::5/v2");
  ASSERT_OK(config);
  const std::vector<Gid>& gids = config->devices[0].ports[0].gids;
  ASSERT_EQ(gids.size(), 3U);
  const uint8_t mapped[16] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 1, 2, 3};
  EXPECT_EQ(gids[0].type, static_cast<uint32_t>(GidType::kRoceV1));
  EXPECT_EQ(std::memcmp(gids[1].raw, mapped, 16), 0);
  EXPECT_EQ(gids[1].type, static_cast<uint32_t>(GidType::kRoceV2));
  EXPECT_EQ(gids[2].raw[15], 5);
}

TEST_F(ConfigTest, PciAddressBecomesAPath) {
  const Result<Config> config = parseConfig("pci=fffe:7f:1f.7");
  ASSERT_OK(config);
  EXPECT_EQ(config->devices[0].pci, "/sys/bus/pci/devices/fffe:7f:1f.7");
}

TEST_F(ConfigTest, ADeviceLikeThatOfADriver) {
  int alike = 0;
  for (const NicDriver& driver : kNicDrivers) {
    const bool known = driver.limits.part != 0;
    alike += known ? 1 : 0;
    EXPECT_EQ(std::string(RAILWISE_SOFTDEV_DRIVERS).find(driver.name) != std::string::npos, known)
        << driver.name;
    const std::string text = "like=" + std::string(driver.name) + ",max_qp=7";
    const Result<Config> config = parseConfig(text.c_str());
    EXPECT_EQ(config.ok(), known) << driver.name;
    if (!known) continue;
    const DeviceConfig& device = config->devices[0];
    EXPECT_EQ(device.hca_type, driver.name);
    EXPECT_LT(device.max_inline_bytes, DeviceConfig().max_inline_bytes);
    EXPECT_FALSE(device.ece);
    EXPECT_EQ(device.max_qp, 7U);
  }
  EXPECT_GE(alike, 4);
  const Result<Config> config = parseConfig("like=bnxt_re,max_sge=4;like=irdma");
  ASSERT_OK(config);
  EXPECT_EQ(config->devices[0].vendor_id, 0x14e4U);
  EXPECT_EQ(config->devices[0].max_sge, 4U);
  EXPECT_EQ(config->devices[0].max_inline_bytes, 96U);
  EXPECT_FALSE(config->devices[0].atomics);
  EXPECT_EQ(config->devices[1].max_inline_bytes, 101U);
}

TEST_F(ConfigTest, BadValuesAreNamed) {
  const struct {
    const char* text;
    const char* part;
  } cases[] = {
      {"like=mlx9", "bnxt_re"},
      {"speed=123", "400000"},
      {"speed=fast", "\"fast\""},
      {"mtu=1500", "4096"},
      {"link=token", "roce"},
      {"guid=12", "hexadecimal"},
      {"guid=0000000000000000", "other than all 0"},
      {"gid=nonsense", "IPv6"},
      {"gid=10.0.0.1/v3", "/v2"},
      {"pci=3b:00", "0000:3b:00.0"},
      {"port_state=up", "active"},
      {"max_qp=0", "32000"},
      {"max_inline=99999", "4096"},
      {"count=0", "1 to 256"},
      {"name=", "letters"},
      {"name=a/b", "letters"},
      {"max_msg=-1", "bytes"},
      {"fabric=a b", "letters"},
      {"name=a;name=a", "no other device"},
      {"speed", "key=value"},
      {"dgx", "software:@dgx"},
      {"mtu=4096x", "\"4096x\""},
  };
  for (const auto& c : cases) EXPECT_HAS(warning(c.text), c.part) << c.text << ": ";
}

TEST_F(ConfigTest, UnknownKeyListsTheKnown) {
  const std::string text = warning("colour=red");
  EXPECT_HAS(text, "colour");
  for (const char* key : {"name", "count", "speed", "link", "mtu", "guid", "gid", "pci", "port_state",
                          "max_qp", "max_inline", "max_msg", "fabric"})
    EXPECT_HAS(text, key);
}

class ConfigFile {
 public:
  explicit ConfigFile(const std::string& text) : path_("/tmp/railwise_softdev_" + std::to_string(getpid())) {
    std::ofstream(path_) << text;
  }
  ~ConfigFile() { unlink(path_.c_str()); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

TEST_F(ConfigTest, File) {
  const ConfigFile file("# two rails\nname=a speed=200000\n\n name=b,speed=100000 # slow\nname=c;name=d\n");
  for (const std::string& text : {file.path(), "@" + file.path()}) {
    const Result<Config> config = parseConfig(text.c_str());
    ASSERT_OK(config);
    ASSERT_EQ(config->devices.size(), 4U);
    EXPECT_EQ(config->devices[0].ports[0].speed_mbps, 200000U);
    EXPECT_EQ(config->devices[1].name, "b");
    EXPECT_EQ(config->devices[3].name, "d");
  }
}

TEST_F(ConfigTest, BadFileNamesTheLine) {
  const ConfigFile file("name=a\n\nname=b mtu=9000\n");
  const std::string text = warning(file.path().c_str());
  EXPECT_HAS(text, file.path());
  EXPECT_HAS(text, "line 3");
  EXPECT_HAS(text, "mtu");
  EXPECT_HAS(warning("/nowhere/at/all"), "/nowhere/at/all");
}

TEST(SpeedCodes, EveryListedSpeedHasOne) {
  uint8_t width = 0;
  uint16_t speed = 0;
  EXPECT_TRUE(speedCodes(800000, 0, &width, &speed));
  EXPECT_EQ(width, 4);    // 8x
  EXPECT_EQ(speed, 128);  // NDR
  EXPECT_TRUE(speedCodes(25000, 0, &width, &speed));
  EXPECT_EQ(width, 1);
  EXPECT_EQ(speed, 32);
  EXPECT_TRUE(speedCodes(800000, 4, &width, &speed));
  EXPECT_EQ(width, 2);    // 4x
  EXPECT_EQ(speed, 256);  // XDR
  EXPECT_TRUE(speedCodes(1600000, 0, &width, &speed));
  EXPECT_EQ(width, 4);
  EXPECT_EQ(speed, 256);
  EXPECT_FALSE(speedCodes(1600000, 4, &width, &speed));
}

}  // namespace
}  // namespace railwise::softdev
