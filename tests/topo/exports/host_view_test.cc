#include "topo/exports/host_view.h"

#include "tests/ok.h"
#include "tests/topo/exports/export_machines.h"

namespace railwise::topo {
namespace {

using namespace test;

HostView viewOf(const Machine& machine) {
  auto host = hostView(machine);
  EXPECT_OK(host);
  return std::move(*host);
}

TEST(ExportHostView, GivesEachGpuTheNicsThatNcclGivesIt) {
  const Machine machine = machineOf(equallyNear());
  const HostView host = viewOf(machine);
  ASSERT_EQ(host.gpus.size(), 4U);
  std::vector<int> nics;
  for (const HostGpu& gpu : host.gpus) nics.push_back(gpu.nics.at(0).nic);
  EXPECT_EQ(nics, (std::vector<int>{0, 2, 1, 3}));  // as railwise explain says
  EXPECT_EQ(host.gpus[1].local_ranks, std::vector<int>{1});
}

TEST(ExportHostView, KnowsPlacesAndSpeeds) {
  const HostView host = viewOf(machineOf(twoSwitches()));
  EXPECT_EQ(host.gpus[1].busid, "0000:21:00.0");
  EXPECT_EQ(host.gpus[1].numa, 1);
  EXPECT_EQ(host.gpus[1].kind, "sm_90");
  EXPECT_EQ(host.gpus[1].nics[0].type, PathType::kPix);
  EXPECT_EQ(host.nics[1].busid, "0000:22:00.0");
  EXPECT_EQ(host.nics[1].numa, 1);
  EXPECT_EQ(host.nics[1].mbps, 400000);
  EXPECT_TRUE(host.notes.empty());
}

TEST(ExportHostView, RefusesNumbersThatNoDeviceHas) {
  std::string twice = twoSwitches();
  twice.replace(twice.find("<gpu dev=\"1\""), 12, "<gpu dev=\"0\"");
  const auto doubled = hostView(machineOf(twice));
  ASSERT_FALSE(doubled.ok());
  EXPECT_HAS(doubled.error(), "the device number 0, as another one has");
  std::string below = twoSwitches();
  below.replace(below.find("port=\"1\""), 8, "port=\"-5\"");
  const auto port = hostView(machineOf(below));
  ASSERT_FALSE(port.ok());
  EXPECT_HAS(port.error(), "has port -5");
}

TEST(ExportHostView, CountsTheLinksOfASwitchForEveryPair) {
  const HostView host = viewOf(machineOf(twoSwitches()));
  EXPECT_TRUE(host.switched);
  EXPECT_EQ(host.links, (std::vector<std::vector<int>>{{0, 18}, {18, 0}}));
}

TEST(ExportHostView, CountsDirectLinks) {
  const HostView host = viewOf(fileMachine("synthetic/dgx1v.xml"));
  EXPECT_FALSE(host.switched);
  EXPECT_EQ(host.links[0], (std::vector<int>{0, 1, 1, 2, 2, 0, 0, 0}));
}

TEST(ExportHostView, OfSeveralHostsItTakesTheFirst) {
  const HostView host = viewOf(fileMachine("synthetic/mnnvl-2hosts.xml"));
  EXPECT_EQ(host.gpus.size(), 2U);
  EXPECT_EQ(host.nics.size(), 1U);
  ASSERT_FALSE(host.notes.empty());
  EXPECT_HAS(host.notes.back(), "only the first host of 2");
}

TEST(ExportHostView, RanksThatShareAGpuAreItsLocalRanks) {
  const HostView host = viewOf(fileMachine("synthetic/two-ranks-per-gpu.xml"));
  ASSERT_EQ(host.gpus.size(), 2U);
  EXPECT_EQ(host.gpus[0].local_ranks, (std::vector<int>{0, 1}));
  EXPECT_EQ(host.gpus[1].local_ranks, (std::vector<int>{2, 3}));
}

TEST(ExportHostView, SplitsMergedNicsIntoPorts) {
  const HostView host = viewOf(machineOf(twoSwitches("mlx5_0+mlx4_1:2")));
  EXPECT_EQ(ucxDevices(host.nics[0].ports), "mlx5_0:1,mlx4_1:2");
}

// NCCL numbers the ports of a card, and a card may have a device for each.
TEST(ExportHostView, APortIsThatOfItsDevice) {
  const auto net = [](const std::string& name, int dev) {
    const std::string number = std::to_string(dev + 1);
    return "<net name=\"" + name + "\" dev=\"" + std::to_string(dev) + "\" speed=\"200000\" port=\"" +
           number + "\" guid=\"0x" + number + "\" gdr=\"1\"/>\n";
  };
  const std::string card =
      pci("0000:12:00.0", "0x020700", "<nic>\n" + net("mlx5_0", 0) + net("mlx5_1", 1) + "</nic>\n");
  const HostView host = viewOf(machineOf(systemOf(cpu(0, gpu(0, "0000:11:00.0") + card))));
  EXPECT_EQ(ucxDevices(host.nics[0].ports) + " " + ucxDevices(host.nics[1].ports), "mlx5_0:1 mlx5_1:1");
}

TEST(ExportHostView, RefusesANameThatNoDeviceHas) {
  for (const char* name : {"a;reboot", "$(reboot)", "a b", "mlx5_0+", "evil\x1b[2J"}) {
    const Machine machine = machineOf(twoSwitches(name));
    const auto host = hostView(machine);
    ASSERT_FALSE(host.ok()) << name;
    EXPECT_HAS(host.error(), "test.xml: the NIC '");
    EXPECT_LACKS(host.error(), "\x1b");
  }
}

TEST(ExportHostView, UsedNicsAreThoseOfSomeGpu) {
  const HostView host =
      viewOf(machineOf(systemOf(cpu(0, gpu(0, "0000:11:00.0") + nic(0, "0000:12:00.0", "mlx5_0") +
                                           slowNic(1, "0000:13:00.0", "mlx5_1", "100000")))));
  EXPECT_TRUE(host.nics[0].used);
  EXPECT_FALSE(host.nics[1].used);
}

TEST(ExportNames, DeviceNamesNeedNoQuotes) {
  for (const char* name : {"mlx5_0", "rocep139s0", "eth0.100", "mlx5_bond_0", "a-b"})
    EXPECT_TRUE(isDeviceName(name));
  for (const char* name : {"", "-x", "a b", "a;b", "$(x)", "a,b", "a:1", "a\nb", "\xc3\xa4"})
    EXPECT_FALSE(isDeviceName(name)) << name;
  EXPECT_FALSE(isDeviceName(std::string(64, 'a')));
}

TEST(ExportNames, LabelsOfDns) {
  EXPECT_EQ(dnsLabel("mlx5_0"), "mlx5-0");
  EXPECT_EQ(dnsLabel("Mlx5_0+mlx5_1"), "mlx5-0-mlx5-1");
  EXPECT_EQ(dnsLabel("__"), "");
  EXPECT_EQ(dnsLabel(std::string(62, 'a') + "_b"), std::string(62, 'a'));
  EXPECT_EQ(dnsLabel(std::string(64, 'a')), std::string(63, 'a'));
}

TEST(ExportNames, WordsOfSlurm) {
  EXPECT_EQ(slurmWord("NVIDIA H100 80GB HBM3"), "nvidia_h100_80gb_hbm3");
  EXPECT_EQ(slurmWord("a:b,c=d"), "a_b_c_d");
}

TEST(ExportNames, ShellWordsAreQuotedWhereTheyMustBe) {
  EXPECT_EQ(shellWord("/etc/topo.xml"), "/etc/topo.xml");
  EXPECT_EQ(shellWord("/a b/$x"), "'/a b/$x'");
  EXPECT_EQ(shellWord("it's"), "'it'\\''s'");
  EXPECT_EQ(shellWord(""), "''");
}

TEST(ExportNames, XmlTextsHoldNothingThatXmlForbids) {
  EXPECT_EQ(xmlText("<\"&\n>"), "&lt;&quot;&amp;?&gt;");
  EXPECT_EQ(xmlText("caf\xc3\xa9"), "caf\xc3\xa9");
  EXPECT_EQ(xmlText("caf\xe9!"), "caf\xef\xbf\xbd!");
  EXPECT_EQ(xmlText("\xed\xa0\x80"), "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd");  // a surrogate
  EXPECT_EQ(xmlText("\xef\xbf\xbe\xef\xbf\xbf\xef\xbf\xbc"), "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbc");
}

}  // namespace

}  // namespace railwise::topo
