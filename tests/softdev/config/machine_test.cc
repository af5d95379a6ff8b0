// Machines: hosts, ports, modes and PCI places of the configuration, and what is said of mistakes in them.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "base/text/words.h"
#include "softdev/config/config.h"
#include "softdev/config/machines.h"
#include "tests/ok.h"
#include "tests/said.h"

namespace railwise::softdev {
namespace {

class MachineTest : public testing::Test {
 protected:
  MachineConfig machine(const std::string& text, const std::string& host = "") {
    Result<MachineConfig> parsed = parseMachineText(text, "lab.conf", host);
    EXPECT_OK(parsed) << text << said_.warnings();
    return parsed.ok() ? *parsed : MachineConfig{.hosts = {HostConfig{}}};
  }
  std::string warning(const std::string& text, const std::string& host = "") {
    said_.clear();
    EXPECT_FALSE(parseMachineText(text, "lab.conf", host).ok()) << text;
    EXPECT_EQ(linesOf(said_.warnings()).size(), 1U) << text;
    return said_.warnings();
  }

  railwise::test::Said said_;
};

constexpr char kTwo[] =
    "fabric=lab seed=0x10 pacing=on\n"
    "host A cpu=x86_64/GenuineIntel/6/143 cores=4  # the first\n"
    "device name=mlx5_0 link=ib pci=0000:16:01.0/17:00.0 numa=0 rail=3 pcie=5x16\n"
    "gpu pci=0000:18:01.0/0000:19:00.0 numa=1 pcie=5x16\n"
    "host B like=A cores=8\n"
    "device name=eth0 speed=100000 engine=on pacing=off\n";

TEST_F(MachineTest, HostsWithDevicesAndGpus) {
  const MachineConfig lab = machine(kTwo);
  EXPECT_EQ(lab.fabric, "lab");
  EXPECT_EQ(lab.seed, 16U);
  ASSERT_EQ(lab.hosts.size(), 2U);
  EXPECT_EQ(lab.chosen, 0U);
  const HostConfig& a = lab.hosts[0];
  EXPECT_EQ(a.name, "A");
  EXPECT_EQ(a.cpu, "x86_64,GenuineIntel,6,143");
  EXPECT_EQ(a.numa_nodes, 2U);
  EXPECT_EQ(a.cores, 4U);
  ASSERT_EQ(a.devices.size(), 1U);
  EXPECT_EQ(a.devices[0].pci, "/sys/devices/pci0000:16/0000:16:01.0/0000:17:00.0");
  EXPECT_EQ(a.devices[0].busid(), "0000:17:00.0");
  EXPECT_EQ(a.devices[0].ports[0].rail, 3);
  EXPECT_EQ(a.devices[0].pcie_mbps, 31508U * 16);
  EXPECT_EQ(a.devices[0].host, "A");
  ASSERT_EQ(a.gpus.size(), 1U);
}

TEST_F(MachineTest, AHostLikeAnotherHasItsOwnAddresses) {
  const MachineConfig lab = machine(kTwo);
  const HostConfig& b = lab.hosts[1];
  EXPECT_EQ(b.cores, 8U);
  EXPECT_EQ(b.cpu, lab.hosts[0].cpu);
  EXPECT_EQ(b.gpus.size(), 1U);
  ASSERT_EQ(b.devices.size(), 2U);
  EXPECT_EQ(b.devices[0].name, "mlx5_0");
  EXPECT_NE(b.devices[0].guid, lab.hosts[0].devices[0].guid);
}

std::string linksOf(const GpuConfig& gpu) {
  std::string text;
  for (const NvlinkConfig& link : gpu.nvlinks)
    text += (text.empty() ? "" : " ") + link.target + ":" + std::to_string(link.count);
  return text;
}

constexpr char kSwitched[] =
    "host A\n"
    "gpu pci=0000:18:01.0/19:00.0 nvlink=switch:7 sm=80\n"
    "gpu pci=0000:20:01.0/21:00.0 nvlink=switch:2 part=0x2335\n"
    "nvswitch pci=0000:01:01.0/04:00.0\n"
    "nvswitch pci=0000:01:03.0/06:00.0\n"
    "nvswitch pci=0000:01:02.0/0A:00.0 numa=1\n"
    "host B like=A\n";

TEST_F(MachineTest, NvlinksToASwitchAreDealtOutToTheSwitchesOfTheHost) {
  const MachineConfig lab = machine(kSwitched);
  for (const HostConfig& host : lab.hosts) {
    ASSERT_EQ(host.gpus.size(), 2U);
    ASSERT_EQ(host.nvswitches.size(), 3U);
    EXPECT_EQ(host.numa_nodes, 2U);  // an NVSwitch is on the second
    EXPECT_EQ(linksOf(host.gpus[0]), "0000:04:00.0:3 0000:06:00.0:2 0000:0a:00.0:2");
    EXPECT_EQ(linksOf(host.gpus[1]), "0000:04:00.0:1 0000:06:00.0:1");
    EXPECT_EQ(host.gpus[0].sm, 80U);
    EXPECT_EQ(host.gpus[1].sm, 90U);
    EXPECT_EQ(host.gpus[1].part_id, 0x2335U);
  }
}

TEST_F(MachineTest, NvlinksToASwitchThatTheHostDoesNotSee) {
  const MachineConfig vm = machine("host A\ngpu pci=0001:00:00.0 nvlink=switch:18");
  EXPECT_EQ(linksOf(vm.host().gpus[0]), std::string(kHiddenNvswitch) + ":18");
}

TEST_F(MachineTest, ANvlinkBetweenGpusIsToldAtEitherEndOrBoth) {
  const MachineConfig lab = machine(
      "host A\n"
      "gpu pci=0000:18:01.0/19:00.0 nvlink=0000:1B:00.0:2 nvlink=0000:1c:00.0:1\n"
      "gpu pci=0000:1a:01.0/1b:00.0 nvlink=0000:19:00.0:2\n"
      "gpu pci=0000:1d:01.0/1c:00.0 nvlink=0000:1b:00.0:3\n");
  const std::vector<GpuConfig>& gpus = lab.host().gpus;
  EXPECT_EQ(linksOf(gpus[0]), "0000:1b:00.0:2 0000:1c:00.0:1");
  EXPECT_EQ(linksOf(gpus[1]), "0000:19:00.0:2 0000:1c:00.0:3");
  EXPECT_EQ(linksOf(gpus[2]), "0000:19:00.0:1 0000:1b:00.0:3");
}

TEST_F(MachineTest, NvlinksAreNumberedAsNvmlDoes) {
  const MachineConfig lab = machine(kSwitched);
  const GpuConfig& gpu = lab.host().gpus[0];
  ASSERT_EQ(gpu.nvlinkCount(), 7U);
  EXPECT_EQ(gpu.nvlinkTarget(0), "0000:04:00.0");
  EXPECT_EQ(gpu.nvlinkTarget(2), "0000:04:00.0");
  EXPECT_EQ(gpu.nvlinkTarget(3), "0000:06:00.0");
  EXPECT_EQ(gpu.nvlinkTarget(6), "0000:0a:00.0");
}

TEST_F(MachineTest, MistakesInNvlinks) {
  const std::string a = "host A\ngpu pci=0000:18:01.0/19:00.0 ";
  const std::string b = "\ngpu pci=0000:1a:01.0/1b:00.0 nvlink=0000:19:00.0:2";
  const std::vector<std::pair<std::string, std::string>> mistakes = {
      {a + "sm=9", "bad value \"9\" for key \"sm\" (lab.conf line 2): expected the compute capability"},
      {a + "nvlink=switch",
       "bad value \"switch\" for key \"nvlink\" (lab.conf line 2): expected switch:COUNT"},
      {a + "nvlink=switch:19", "1 to 18 links"},
      {a + "nvlink=switch:0", "1 to 18 links"},
      {a + "nvlink=0000:1b:00.0:1", "another GPU or an NVSwitch of host A"},
      {a + "nvlink=0000:19:00.0:1", "bad value \"0000:19:00.0:1\" for key \"nvlink\" (lab.conf line 2)"},
      {a + "nvlink=0000:1b:00.0:3" + b, "2 links, as 0000:1b:00.0 says of 0000:19:00.0"},
      {a + b + " nvlink=0000:19:00.0:1", "(lab.conf line 3): expected every other end once"},
      {a + "nvlink=switch:17" + b, "bad value \"19\" for key \"nvlink\""},
      {a + "vendor=0x1002 nvlink=switch:1", "an NVIDIA GPU"},
      {a + "\nnvswitch pci=0000:18:01.0/19:00.0", "an address that no other function"},
      {a + "\nnvswitch pci=0000:18:02.0/1a:00.0 nvlink=switch:1", "unknown key \"nvlink\""},
      {a + "color=red", "known keys are numa, pcie, vendor, part, pci, sm, nvlink"},
      {"nvswitch pci=0000:18:01.0", "a host above it"}};
  for (const auto& [text, part] : mistakes) {
    const std::string said = warning(text);
    EXPECT_HAS(said, part);
  }
}

TEST_F(MachineTest, GpuDirectIsAModeOfTheDevices) {
  EXPECT_FALSE(machine(kTwo).host().devices[0].gpuByDmabuf());
  const Result<Config> all = parseConfig("@dgx#A;gpudirect=on");
  ASSERT_OK(all);
  EXPECT_TRUE(all->devices[7].gpuByAddress() && all->devices[7].gpuByDmabuf());
  const Result<Config> ways =
      parseConfig("gpudirect=peermem,name=a;gpudirect=dmabuf,name=b;gpudirect=on,dmabuf=off,name=c");
  ASSERT_OK(ways);
  EXPECT_TRUE(ways->devices[0].gpuByAddress() && !ways->devices[0].gpuByDmabuf());
  EXPECT_TRUE(!ways->devices[1].gpuByAddress() && ways->devices[1].gpuByDmabuf());
  EXPECT_TRUE(ways->devices[2].gpuByAddress() && !ways->devices[2].gpuByDmabuf());
  EXPECT_HAS(warning("gpudirect=yes"), "expected on, off, peermem or dmabuf");
}

TEST_F(MachineTest, ModesHoldForAllDevicesUnlessOneSaysOtherwise) {
  const MachineConfig lab = machine(kTwo);
  EXPECT_TRUE(lab.hosts[0].devices[0].paced);
  EXPECT_FALSE(lab.hosts[0].devices[0].engine);
  EXPECT_FALSE(lab.hosts[1].devices[1].paced);
  EXPECT_TRUE(lab.hosts[1].devices[1].engine);
  const Result<Config> inlined = parseConfig("count=2;adversarial=on,mover=mem,latency_ns=700;mover=vm");
  ASSERT_OK(inlined);
  ASSERT_EQ(inlined->devices.size(), 2U);
  EXPECT_TRUE(inlined->devices[1].adversarial);
  EXPECT_EQ(inlined->devices[1].mover, MoverChoice::kVm);
  EXPECT_EQ(inlined->devices[1].ports[0].latency_ns, 700U);
}

TEST_F(MachineTest, TheHostToPlay) {
  EXPECT_EQ(machine(kTwo, "B").host().name, "B");
  EXPECT_EQ(machine(std::string("host=B\n") + kTwo).host().name, "B");
  EXPECT_EQ(machine(std::string("host=B\n") + kTwo, "A").host().name, "A");
  const std::string said = warning(kTwo, "C");
  EXPECT_HAS(said, "lab.conf has no host \"C\": its hosts are A, B");
}

TEST_F(MachineTest, BehindTheHashAndMoreStanzas) {
  const Result<Config> config = parseConfig("@dgx#B;fabric=t1,pacing=on", "A");
  ASSERT_OK(config);
  EXPECT_EQ(config->host, "B");
  EXPECT_EQ(config->fabric, "t1");
  ASSERT_EQ(config->devices.size(), 8U);
  EXPECT_TRUE(config->devices[7].paced);
}

TEST_F(MachineTest, WithoutHostsTheTextIsAboutThisComputer) {
  const Result<Config> here = parseConfig("count=2");
  const Result<Config> there = parseConfig("count=2", "other");
  ASSERT_TRUE(here.ok() && there.ok());
  char name[256] = {};
  ASSERT_EQ(gethostname(name, sizeof name - 1), 0);
  EXPECT_EQ(here->host, name);
  EXPECT_EQ(there->host, "other");
  EXPECT_NE(here->devices[0].guid, there->devices[0].guid);
  EXPECT_NE(std::memcmp(here->devices[0].ports[0].gids[3].raw, there->devices[0].ports[0].gids[3].raw, 16),
            0);
}

TEST_F(MachineTest, PortsOfADevice) {
  const Result<Config> config = parseConfig(
      "name=x,ports=3,speed=200000,port2.speed=25000,port2.link=ib,port3.port_state=down,port3.gid=10.0.0.1,"
      "port1.rail=4,port2.latency_ns=9");
  ASSERT_OK(config);
  const DeviceConfig& device = config->devices[0];
  ASSERT_EQ(device.portCount(), 3U);
  EXPECT_EQ(device.port(1)->speed_mbps, 200000U);
  EXPECT_EQ(device.port(1)->rail, 4);
  EXPECT_EQ(device.port(2)->speed_mbps, 25000U);
  EXPECT_EQ(device.port(2)->active_width, 1);
  EXPECT_EQ(device.port(2)->link_layer, IBV_LINK_LAYER_INFINIBAND);
  EXPECT_EQ(device.port(2)->latency_ns, 9U);
  EXPECT_EQ(device.port(2)->netdev, "");
  EXPECT_FALSE(device.port(3)->active);
  ASSERT_EQ(device.port(3)->gids.size(), 1U);
  EXPECT_EQ(device.port(1)->guid, device.guid);
  EXPECT_NE(device.port(2)->guid, device.guid);
  EXPECT_EQ(device.port(0), nullptr);
  EXPECT_EQ(device.port(4), nullptr);
}

TEST_F(MachineTest, XdrAndWidths) {
  const Result<Config> config =
      parseConfig("speed=800000;speed=800000,width=4;speed=1600000;speed=200000,width=1");
  ASSERT_OK(config);
  const auto port = [&](size_t i) { return config->devices[i].ports[0]; };
  EXPECT_EQ(port(0).active_speed, 128);  // 8 lanes of NDR, which every program can read
  EXPECT_EQ(port(1).active_speed, 256);
  EXPECT_EQ(port(1).active_width, 2);
  EXPECT_EQ(port(2).active_speed, 256);
  EXPECT_EQ(port(3).active_speed, 256);
  EXPECT_EQ(port(3).active_width, 1);
}

TEST_F(MachineTest, FunctionsOfACardShareItsLinkAndItsSystemGuid) {
  const Result<Config> config = parseConfig("@dual-port");
  ASSERT_OK(config);
  ASSERT_EQ(config->devices.size(), 3U);
  EXPECT_EQ(config->devices[0].pcie_link, config->devices[1].pcie_link);
  EXPECT_EQ(config->devices[0].system_guid, config->devices[1].system_guid);
  EXPECT_NE(config->devices[0].guid, config->devices[1].guid);
  EXPECT_NE(config->devices[0].pcie_link, config->devices[2].pcie_link);
  const Result<Config> named = parseConfig("name=a,pcie_link=bus,pcie=64000;name=b,pcie_link=bus;name=c");
  ASSERT_OK(named);
  EXPECT_EQ(named->devices[1].pcie_mbps, 64000U);
  EXPECT_EQ(named->devices[2].pcie_mbps, 0U);
}

TEST_F(MachineTest, MistakesNameFileLineAndKey) {
  const struct {
    const char* text;
    const char* part;
  } cases[] = {
      {"host A\nhost A\n", "(lab.conf line 2)"},
      {"host A\nhost B like=C\n", "the name of a host above"},
      {"host\n", "a name of 1 to 60"},
      {"host A colour=red\n", "known keys are like, cpu, numa_nodes, cores"},
      {"host A cpu=pentium\n", "x86_64/VENDOR/FAMILY/MODEL"},
      {"device name=a\nhost B\n", "before the first device"},
      {"gpu pci=0000:01:00.0\n", "a host above it"},
      {"host A\ngpu numa=0\n", "ends in an address"},
      {"host A\ngpu pci=0000:01:00\n", "root port down"},
      {"host A\ndevice pci=0000:01:00.0\ngpu pci=0000:01:00.0\n", "no other function of host A"},
      {"host A\ndevice pci=0000:01:00.0\ngpu pci=0000:01:00.0/02:00.0\n", "bridges above a function"},
      {"host A\ndevice pci=0000:01:01.0/02:00.0\ngpu pci=0000:01:02.0/02:01.0\n", "one place for 0000:02"},
      {"host A\ndevice pci=0000:01:01.0/01:01.0\n", "every address once"},
      {"device pci=/sys/../etc\n", "/sys/"},
      {"ports=5\n", "1 to 4"},
      {"ports=2 gid=10.0.0.1\n", "portN.gid"},
      {"ports=2 port3.speed=100000\n", "a port from 1 to ports=2"},
      {"port1.name=x\n", "those of a port"},
      {"port1.speed=7\n", "\"port1.speed\""},
      {"speed=100000 width=8\n", "lanes that carry speed=100000"},
      {"pcie=5x15\n", "5x16"},
      {"pcie=9x16\n", "5x16"},
      {"name=a pcie=100 pcie_link=l\nname=b pcie=200 pcie_link=l\n", "the same bandwidth"},
      {"engine=yes\n", "on or off"},
      {"mover=bus\n", "auto, vm, mem, remap or agent"},
      {"seed=-1\n", "decimal"},
      {"fault\n", "a rule behind it"},
      {"vendor=15b3\n", "0x15b3"},
      {"rail=x\n", "0 to 4095"},
      {"host=A\nhost=B\n", "already A"},
  };
  for (const auto& c : cases) {
    const std::string said = warning(c.text);
    EXPECT_HAS(said, c.part) << c.text << ": ";
    EXPECT_HAS(said, "lab.conf");
  }
}

TEST_F(MachineTest, FaultsAreKeptInOrder) {
  const MachineConfig lab = machine(
      "name=a\nfault status=rem_access_err opcode=write nth=3  # comment\nfault opcode=read delay=5us\n");
  ASSERT_EQ(lab.faults.size(), 2U);
  EXPECT_EQ(lab.faults[0], "status=rem_access_err opcode=write nth=3");
  EXPECT_EQ(lab.hosts[0].devices.size(), 1U);
}

TEST_F(MachineTest, AnUnknownShippedMachineListsThem) {
  EXPECT_FALSE(parseMachine("@laptob").ok());
  ASSERT_EQ(linesOf(said_.warnings()).size(), 1U);
  EXPECT_HAS(said_.warnings(), "laptop");
  said_.clear();
  EXPECT_FALSE(parseMachine("/tmp").ok());  // a folder
  ASSERT_EQ(linesOf(said_.warnings()).size(), 1U);
}

TEST_F(MachineTest, EveryShippedMachineIsWhole) {
  std::set<std::string> names;
  for (const ShippedMachine& shipped : shippedMachines()) {
    names.insert(shipped.name);
    EXPECT_FALSE(shipped.title().empty());
    const Result<MachineConfig> parsed = parseMachine(("@" + std::string(shipped.name)).c_str());
    ASSERT_OK(parsed) << shipped.name << said_.warnings();
    std::set<uint64_t> guids;
    std::set<std::string> gids;
    for (const HostConfig& host : parsed->hosts) {
      for (const DeviceConfig& device : host.devices) {
        for (const PortConfig& port : device.ports) {
          EXPECT_TRUE(guids.insert(port.guid).second)
              << shipped.name << " " << host.name << " " << device.name;
          const Gid& last = port.gids.back();
          EXPECT_TRUE(gids.emplace(reinterpret_cast<const char*>(last.raw), 16).second) << shipped.name;
        }
      }
    }
  }
  EXPECT_EQ(names, (std::set<std::string>{"asymmetric", "cloud-vm", "default", "dgx", "dual-port", "laptop",
                                          "mixed", "nvlink-mesh"}));
}

}  // namespace
}  // namespace railwise::softdev
