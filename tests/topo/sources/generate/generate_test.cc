#include "topo/sources/generate/generate.h"

#include <gtest/gtest.h>

#include "sysfs/tar_archive.h"
#include "tests/ok.h"
#include "tests/topo/documents_equal.h"
#include "tests/topo/flat_tree.h"
#include "tests/topo/topologies.h"
#include "topo/machine/machine.h"

namespace railwise::topo {
namespace {

using namespace test;

struct Generated {
  std::string text;
  std::string error;
  std::string remarks;
};

// What NCCL's reader and the model make of a text, whatever the test is about.
void expectLoads(const std::string& text) {
  Outcome<XmlDocument> document = parseXml(text, "generated");
  ASSERT_OK(document);
  int gpus = 0;
  for (const XmlNode* node : document->order())
    gpus += node->get("class").starts_with("0x03") || node->get("class").starts_with("0x12") ? 1 : 0;
  const Outcome<Machine> machine = loadDocument(std::move(*document), {}, {}, "generated");
  ASSERT_OK(machine) << text;
  EXPECT_EQ(machine->graph->count(NodeType::kGpu), gpus);
}

Generated generate(const sysfs::FileTree& tree, const GenerateOptions& options = {}) {
  std::vector<std::string> remarks;
  const Outcome<std::string> text = generateTopology(tree, options, &remarks);
  Generated generated;
  if (text.ok()) expectLoads(generated.text = *text);
  else generated.error = text.error();
  for (const std::string& remark : remarks) generated.remarks += remark + "\n";
  return generated;
}

sysfs::MemoryTree makeTree(const std::vector<FlatPci>& devices, int nodes = 1) {
  const std::vector<std::string> masks(static_cast<std::size_t>(nodes), "0000ffff");
  return makeFlatTree(masks, devices, "x86_64,GenuineIntel,6,143");
}

// "bridge(0001 0101) 0102": what hangs where, by PCI domain, or by bus in domain 0000.
std::string shapeOf(const XmlNode& node) {
  std::string shape;
  for (const XmlNode* child : node.children) {
    if (!shape.empty()) shape += ' ';
    const std::string busid = child->get("busid");
    if (child->name == "cpu") shape += "cpu" + child->get("numaid") + "[" + shapeOf(*child) + "]";
    else if (busid.starts_with("ffff")) shape += "bridge(" + shapeOf(*child) + ")";
    else shape += busid.starts_with("0000") ? busid.substr(5, 5) : busid.substr(0, 4);
  }
  return shape;
}

std::string shapeOf(const Generated& generated) {
  const Outcome<XmlDocument> document = parseXml(generated.text, "generated");
  return document.ok() ? shapeOf(*document->system()) : "error: " + generated.error + document.error();
}

TEST(Generate, GivesAzuresOwnFileForNdH100V5ByteForByte) {
  const std::string folder = topologiesFolder();
  if (folder.empty()) GTEST_SKIP() << "no topologies";
  EXPECT_EQ(generate(makeNdv5()).text, readFile(folder + "/machines/azure/ndv5-topo.xml"));
}

TEST(Generate, GivesAzuresOwnFileForNdA100V4) {
  const std::string folder = topologiesFolder();
  if (folder.empty()) GTEST_SKIP() << "no topologies";
  const Outcome<XmlDocument> generated = parseXml(generate(makeNdv4()).text, "generated");
  const Outcome<XmlDocument> expected = readXmlFile(folder + "/machines/azure/ndv4-topo.xml");
  ASSERT_TRUE(generated.ok() && expected.ok());
  expectEqual(*generated, *expected);
}

TEST(Generate, Gen5GpusHaveABridgeEach) {
  const auto tree =
      makeTree({h100("0001", 0), h100("0002", 0), infinibandVf("0101", 0), infinibandVf("0102", 0)});
  EXPECT_EQ(shapeOf(generate(tree)), "cpu0[bridge(0001 0101) bridge(0002 0102)]");
}

TEST(Generate, Gen4GpusShareABridgeInPairs) {
  std::vector<FlatPci> devices;
  for (const char* domain : {"0001", "0002", "0003"}) devices.push_back(a100(domain, 0));
  for (const char* domain : {"0101", "0102", "0103"}) devices.push_back(infinibandVf(domain, 0));
  EXPECT_EQ(shapeOf(generate(makeTree(devices))), "cpu0[bridge(0001 0101 0002 0102) bridge(0003 0103)]");
}

TEST(Generate, GpusPerBridgeCanBeTold) {
  const auto tree =
      makeTree({h100("0001", 0), h100("0002", 0), infinibandVf("0101", 0), infinibandVf("0102", 0)});
  EXPECT_EQ(shapeOf(generate(tree, {.gpus_per_bridge = 2})), "cpu0[bridge(0001 0101 0002 0102)]");
}

TEST(Generate, SeveralNicsPerGpu) {
  std::vector<FlatPci> devices = {h100("0001", 0), h100("0002", 0)};
  for (const char* domain : {"0101", "0102", "0103", "0104"}) devices.push_back(infinibandVf(domain, 0));
  EXPECT_EQ(shapeOf(generate(makeTree(devices))), "cpu0[bridge(0001 0101 0102) bridge(0002 0103 0104)]");
}

TEST(Generate, TwoGpusCanShareANic) {
  std::vector<FlatPci> devices = {infinibandVf("0101", 0), infinibandVf("0102", 0)};
  for (const char* domain : {"0001", "0002", "0003", "0004"}) devices.push_back(a100(domain, 0));
  EXPECT_EQ(shapeOf(generate(makeTree(devices))), "cpu0[bridge(0001 0002 0101) bridge(0003 0004 0102)]");
}

// NCCL puts the ports of both functions at function 0, so a card cannot be shared out.
TEST(Generate, TheFunctionsOfACardStayTogether) {
  FlatPci second = ethernetVf("0101", 0);
  second.busid = "0101:00:00.1";
  const Generated made = generate(
      makeTree({h100("0001", 0), h100("0002", 0), ethernetVf("0101", 0), second, ethernetVf("0102", 0)}));
  EXPECT_EQ(shapeOf(made), "cpu0[bridge(0001 0101 0101) bridge(0002 0102)]") << made.text;
  EXPECT_HAS(made.remarks, "2 GPUs and 2 NICs on 2 bridges");
  EXPECT_HAS(made.remarks, "a guess");
}

TEST(Generate, ANicThatIsLeftOverStaysAtTheCpuAndIsSaid) {
  const auto tree = makeTree({h100("0001", 0), h100("0002", 0), infinibandVf("0101", 0),
                              infinibandVf("0102", 0), infinibandVf("0103", 0)});
  const Generated generated = generate(tree);
  EXPECT_EQ(shapeOf(generated), "cpu0[bridge(0001 0101) bridge(0002 0102) 0103]");
  EXPECT_HAS(generated.remarks, "0103:00:00.0 directly at the CPU");
}

// Azure's own file for ND40rs v2 (8 V100, one NIC) has this shape.
TEST(Generate, TooFewNicsMakeNoBridgesAndItIsSaid) {
  const std::string v100[] = {"0001", "0002", "0003", "0004"};
  std::vector<FlatPci> devices = {infinibandVf("0101", 0)};
  for (const std::string& domain : v100) devices.push_back(a100(domain, 0));
  const Generated generated = generate(makeTree(devices));
  EXPECT_EQ(shapeOf(generated), "cpu0[0001 0002 0003 0004 0101]");
  EXPECT_HAS(generated.remarks, "nothing shows which group has a NIC");
}

TEST(Generate, ANodeWithoutNicsHasNoBridge) {
  const auto tree = makeTree({h100("0001", 0), infinibandVf("0101", 0), h100("0002", 1)}, 2);
  const Generated generated = generate(tree);
  EXPECT_EQ(shapeOf(generated), "cpu0[bridge(0001 0101)] cpu1[0002]");
  EXPECT_HAS(generated.remarks, "NUMA node 1: no NIC");
}

TEST(Generate, OneNumaNodeIsEverybodys) {
  const auto tree = makeTree({h100("0001", -1), infinibandVf("0101", -1)});
  EXPECT_EQ(shapeOf(generate(tree)), "cpu0[bridge(0001 0101)]");
}

TEST(Generate, NicsWithoutANodeAreSharedOutOverAllGpus) {
  const auto tree =
      makeTree({h100("0001", 1), h100("0002", 0), infinibandVf("0101", -1), infinibandVf("0102", -1)}, 2);
  const Generated generated = generate(tree);
  EXPECT_EQ(shapeOf(generated), "cpu0[bridge(0002 0102)] cpu1[bridge(0001 0101)]");
  EXPECT_HAS(generated.remarks, "does not give the NUMA node of any NIC");
}

TEST(Generate, GpusWithoutANodeAreAnErrorThatNamesThem) {
  const Generated generated =
      generate(makeTree({h100("0001", -1), h100("0002", 0), infinibandVf("0101", 0)}, 2));
  EXPECT_HAS(generated.error, "0001:00:00.0");
}

TEST(Generate, EthernetIsTakenWhereThereIsNoInfiniband) {
  const auto tree = makeTree({h100("0001", 0), ethernetVf("0101", 0)});
  EXPECT_EQ(shapeOf(generate(tree)), "cpu0[bridge(0001 0101)]");
}

TEST(Generate, EthernetWithRdmaGoesBeforeEthernetWithout) {
  FlatPci efa = ethernetVf("0102", 0);
  efa.infiniband = "rdmap0";
  const auto tree = makeTree({h100("0001", 0), ethernetVf("0101", 0), efa});
  EXPECT_EQ(shapeOf(generate(tree)), "cpu0[bridge(0001 0102)]");
}

TEST(Generate, ANicWithoutNumaNodeIsNamed) {
  const Generated generated = generate(
      makeTree({h100("0001", 0), h100("0002", 1), infinibandVf("0101", 0), infinibandVf("0102", -1)}, 2));
  EXPECT_HAS(generated.remarks, "0102:00:00.0 left out: /sys does not give the NUMA node");
}

TEST(Generate, ClassAndDeviceSelectNics) {
  const auto tree = makeTree({h100("0001", 0), infinibandVf("0101", 0), ethernetVf("0201", 0)});
  EXPECT_EQ(shapeOf(generate(tree, {.nic_class = "0x0200"})), "cpu0[bridge(0001 0201)]");
  EXPECT_EQ(shapeOf(generate(tree, {.nic_device = "0x15b3:0x101a"})), "cpu0[bridge(0001 0201)]");
  EXPECT_EQ(shapeOf(generate(tree, {.exclude = {"0101:00:00.0"}})), "cpu0[bridge(0001 0201)]");
  EXPECT_EQ(shapeOf(generate(tree, {.exclude = {"0x101e", "0x101a"}, .force = true})), "cpu0[0001]");
}

TEST(Generate, ByBusWhatSharesABusSharesABridge) {
  // AWS p4d's addresses.
  std::vector<FlatPci> devices;
  for (const char* bus : {"10", "20"}) {
    const std::string address = std::string("0000:") + bus;
    devices.push_back({address + ":1b.0", "0x1d0f", "0xefa0", "0x020000", 0});
    devices.push_back({address + ":1c.0", "0x10de", "0x20b0", "0x030200", 0, "16.0 GT/s PCIe", "16"});
    devices.push_back({address + ":1d.0", "0x10de", "0x20b0", "0x030200", 0, "16.0 GT/s PCIe", "16"});
  }
  EXPECT_EQ(shapeOf(generate(makeTree(devices), {.pairing = Pairing::kBus})),
            "cpu0[bridge(10:1c 10:1d 10:1b) bridge(20:1c 20:1d 20:1b)]");
}

TEST(Generate, ByBusTheNearestGpuTakesANic) {
  std::vector<FlatPci> devices;
  for (const char* bus : {"8d", "91"})
    devices.push_back(h100("0000", 0)), devices.back().busid = "0000:" + std::string(bus) + ":00.0";
  devices.push_back(infinibandVf("0000", 0)), devices.back().busid = "0000:90:00.0";
  EXPECT_EQ(shapeOf(generate(makeTree(devices), {.pairing = Pairing::kBus})),
            "cpu0[bridge(91:00 90:00) 8d:00]");
}

TEST(Generate, ByBusADomainOfItsOwnTellsNothing) {
  const Generated generated =
      generate(makeTree({h100("0001", 0), infinibandVf("0101", 0)}), {.pairing = Pairing::kBus});
  EXPECT_EQ(shapeOf(generated), "cpu0[0001 0101]");
  EXPECT_HAS(generated.remarks, "--pair=order");
}

GenerateOptions withTable(const std::string& table) {
  return {.pairing = Pairing::kTable, .table = table, .table_name = "pairs.txt"};
}

TEST(Generate, ATableSaysIt) {
  const auto tree =
      makeTree({h100("0001", 0), h100("0002", -1), infinibandVf("0101", 0), infinibandVf("0102", 0)}, 2);
  const auto options = withTable("# crossed\n0001:00:00.0 0102:00:00.0\nnode=1 0101:00:00.0 0002:00:00.0\n");
  EXPECT_EQ(shapeOf(generate(tree, options)), "cpu0[bridge(0001 0102)] cpu1[bridge(0002 0101)]");
}

TEST(Generate, AMistakeInATableNamesTheLine) {
  const auto tree = makeTree({h100("0001", 0), infinibandVf("0101", 0)});
  const auto mistake = [&](const std::string& table) { return generate(tree, withTable(table)).error; };
  EXPECT_HAS(mistake("\nGPU0"), "pairs.txt:2: \"GPU0\" is no PCI address");
  EXPECT_HAS(mistake("0009:00:00.0"), "pairs.txt:1: 0009:00:00.0 is none of");
  EXPECT_HAS(mistake("0001:00:00.0 0001:00:00.0"), "there twice");
  EXPECT_HAS(mistake("node=x 0001:00:00.0"), "node=N");
  EXPECT_HAS(mistake("# nothing"), "empty");
}

TEST(Generate, ARealTreeIsRefusedUnlessForced) {
  sysfs::MemoryTree tree = makeTree({h100("0001", 0)});
  const std::string folder = "/sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0/0000:02:01.0/0000:03:00.0";
  tree.file(folder + "/class", "0x030200\n").file(folder + "/vendor", "0x10de\n");
  tree.link("/sys/bus/pci/devices/0000:03:00.0", folder);
  EXPECT_HAS(generate(tree).error, "0000:03:00.0 is below the PCIe switch 0000:01:00.0");
  EXPECT_EQ(generate(tree, {.force = true}).error, "");
}

TEST(Generate, TheCpuCanBeTold) {
  const auto tree = makeTree({h100("0001", 0), infinibandVf("0101", 0)});
  EXPECT_HAS(generate(tree, {.cpu = CpuIdentity{"arm64", "", 0, 0}}).text, "arch=\"arm64\">");
  EXPECT_HAS(generate(tree).text, "familyid=\"6\" modelid=\"143\"");
}

TEST(Generate, WithoutAGpuThereIsNoFile) {
  EXPECT_HAS(generate(makeTree({infinibandVf("0101", 0)})).error, "no GPU");
}

TEST(Generate, GpusThatTellNoLinkGetWhatNcclAssumes) {
  FlatPci gpu = h100("0001", 0);
  gpu.speed = "Unknown", gpu.width = "63";
  const Generated generated = generate(makeTree({gpu, infinibandVf("0101", 0)}));
  EXPECT_HAS(generated.text, "busid=\"0101:00:00.0\" class=\"0x020700\" link_speed=\"8.0 GT/s PCIe\"");
  EXPECT_HAS(generated.remarks, "no GPU and no NIC gives its link");
}

TEST(Generate, GpusWithOneLaneAreNotBehindSwitches) {
  FlatPci gpu = h100("0001", 0);
  gpu.width = "1";
  EXPECT_EQ(shapeOf(generate(makeTree({gpu, infinibandVf("0101", 0)}))), "cpu0[0001 0101]");
}

// Which tree it is, is told; the hypervisor bit is this machine's.
class LiveTree : public sysfs::MemoryTree {
 public:
  explicit LiveTree(sysfs::MemoryTree tree) : sysfs::MemoryTree(std::move(tree)) {}
  bool live() const override { return true; }
};

sysfs::MemoryTree belowPorts(const std::string& ports) {
  sysfs::MemoryTree tree = makeTree({});
  addPci(tree, h100("0001", 0), ports);
  addPci(tree, infinibandVf("0101", 0), ports);
  return tree;
}

TEST(Generate, RootPortsAreNotCertainlyAVm) {
  const sysfs::MemoryTree tree = belowPorts("/0001:00:01.0");
  const Generated refused = generate(tree, {.only_when_certain = true});
  EXPECT_HAS(refused.error, "this looks like bare metal: PCIe root ports are visible");
  const Generated made = generate(tree);
  EXPECT_EQ(shapeOf(made), "cpu0[bridge(0001 0101)]");
  EXPECT_HAS(made.remarks, "On bare metal that is the truth: no file is needed");
}

TEST(Generate, ARealServerWithDevicesOnRootPortsIsNotCertainlyAVm) {
  const std::string folder = topologiesFolder();
  if (folder.empty()) GTEST_SKIP() << "no topologies";
  const auto tree = sysfs::openTree(folder + "/sysfs/hwloc-24em64t-2n6c2t-pci.tar.gz");
  ASSERT_OK(tree);
  EXPECT_HAS(generate(**tree, {.only_when_certain = true}).error, "this looks like bare metal");
  EXPECT_EQ(generate(**tree).error, "");
}

TEST(Generate, ANicOnARootPortIsEnoughToRefuse) {
  sysfs::MemoryTree tree = makeTree({h100("0001", 0)});
  addPci(tree, infinibandVf("0101", 0), "/0001:00:01.0");
  EXPECT_HAS(generate(tree, {.only_when_certain = true}).error, "0101:00:00.0 is below");
}

TEST(Generate, AFlatTreeIsCertain) {
  EXPECT_EQ(generate(makeNdv5(), {.only_when_certain = true}).text, generate(makeNdv5()).text);
  EXPECT_NE(generate(makeNdv5(), {.only_when_certain = true}).text, "");
}

TEST(Generate, ASwitchIsRefusedOnAnyLiveMachine) {
  const LiveTree tree(belowPorts("/0001:00:01.0/0001:00:02.0"));
  EXPECT_HAS(generate(tree, {.only_when_certain = true}).error, "is below the PCIe switch");
}

TEST(Generate, RootPortsOfALiveMachineAreTheHypervisorsOnAVmOnly) {
  // Other processors do not say it. Under qemu-user /proc/cpuinfo is that of the host.
  bool vm = false;
#if defined(__x86_64__) || defined(__i386__)
  vm = railwise::test::has(readFile("/proc/cpuinfo"), " hypervisor");
#endif
  const LiveTree tree(belowPorts("/0001:00:01.0"));
  EXPECT_EQ(generate(tree, {.only_when_certain = true}).error.empty(), vm);
}

TEST(Generate, AmdsGpusMakeRcclsFile) {
  const auto tree =
      makeTree({mi300x("0001", 0), mi300x("0002", 0), infinibandVf("0101", 0), infinibandVf("0102", 0)});
  const Generated generated = generate(tree);
  EXPECT_EQ(shapeOf(generated), "cpu0[bridge(0001 0101) bridge(0002 0102)]");
  EXPECT_HAS(generated.text, "<system version=\"2\">");
  EXPECT_HAS(generate(makeNdv5()).text, "<system version=\"1\">");
}

TEST(Generate, GpusOfTwoMakersAreAnError) {
  const auto tree = makeTree({mi300x("0001", 0), h100("0002", 0), infinibandVf("0101", 0)});
  EXPECT_HAS(generate(tree).error, "GPUs by NVIDIA and by AMD");
  EXPECT_EQ(generate(tree, {.exclude = {"0x1002:0x74b5"}}).error, "");
}

TEST(Generate, HexadecimalNumbersAreReadInAnySpelling) {
  const auto tree = makeTree({h100("0001", 0), infinibandVf("010A", 0), ethernetVf("0201", 0)});
  const std::string ethernet = "cpu0[bridge(0001 0201)]";
  for (const char* nic_class : {"0x0200", "0200", "0X020000", "02000"})
    EXPECT_EQ(shapeOf(generate(tree, {.nic_class = nic_class})), ethernet) << nic_class;
  for (const char* device : {"101a", "0x101A", "15B3:101A", "0X15b3:101a"})
    EXPECT_EQ(shapeOf(generate(tree, {.nic_device = device})), ethernet) << device;
  for (const char* what : {"101E", "15b3:0x101e"})
    EXPECT_EQ(shapeOf(generate(tree, {.exclude = {what}})), ethernet) << what;
}

TEST(Generate, ASelectionThatMatchesNothingIsAnError) {
  const auto tree = makeTree({h100("0001", 0), infinibandVf("0101", 0), ethernetVf("0201", 0)});
  const auto excluding = [&](const std::string& what) { return generate(tree, {.exclude = {what}}).error; };
  EXPECT_HAS(excluding("0009:00:00.0"), "--exclude=0009:00:00.0 matches no");
  EXPECT_HAS(excluding("0xbeef"), "--exclude=0xbeef matches no");
  for (const char* form : {"0001:00:00", "00:00.0", "GPU0", "", ":", "0x12345"})
    EXPECT_HAS(excluding(form), "a whole PCI address (0001:00:00.0)");
  EXPECT_HAS(generate(tree, {.nic_device = "0x2330"}).error, "--nic-device=0x2330 matches no NIC");
  EXPECT_HAS(generate(tree, {.nic_device = "mlx5_0"}).error, "a device id (0x101e)");
  EXPECT_HAS(generate(tree, {.nic_class = "0x0c06"}).error, "--nic-class=0x0c06 matches no");
  EXPECT_HAS(generate(tree, {.nic_class = "ib"}).error, "--nic-class=ib: write it as 0x0207");
}

TEST(Generate, WithoutANicThereIsNoFileUnlessForced) {
  const auto alone = makeTree({h100("0001", 0)});
  EXPECT_HAS(generate(alone).error, "network devices seen: none");
  EXPECT_EQ(shapeOf(generate(alone, {.force = true})), "cpu0[0001]");
  const auto tree = makeTree({h100("0001", 0), infinibandVf("0101", 0)});
  const std::string error = generate(tree, {.exclude = {"0101:00:00.0"}}).error;
  EXPECT_HAS(error, "0101:00:00.0 (class 0x020700, 0x15b3:0x101e), left out by --exclude");
}

TEST(Generate, NicsThatCannotBePlacedAreNoFileEither) {
  const auto tree = makeTree({h100("0001", 0), h100("0002", 1), infinibandVf("0101", -1)}, 2);
  EXPECT_HAS(generate(tree).error, "no NIC would be in the file");
  EXPECT_EQ(shapeOf(generate(tree, {.force = true})), "cpu0[0001] cpu1[0002]");
}

TEST(Generate, AnAcceleratorWithoutAReadableVendorIsTakenForNvidias) {
  FlatPci gpu = h100("0001", 0);
  gpu.vendor = "";
  const Generated generated = generate(makeTree({gpu, infinibandVf("0101", 0)}));
  EXPECT_EQ(shapeOf(generated), "cpu0[bridge(0001 0101)]");
  EXPECT_HAS(generated.remarks, "0001:00:00.0: the vendor cannot be read");
}

FlatPci withLink(FlatPci device, const std::string& speed, const std::string& width) {
  device.speed = speed, device.width = width;
  return device;
}

std::string linkAt(const Generated& generated, const std::string& busid) {
  const Outcome<XmlDocument> document = parseXml(generated.text, "generated");
  if (!document.ok()) return document.error() + generated.error;
  const XmlNode* pci = document->find("pci", "busid", busid);
  return pci == nullptr ? "none" : pci->get("link_speed") + " x" + pci->get("link_width");
}

TEST(Generate, GpusThatTellNoLinkGetThatOfTheirNics) {
  const auto gpu = [](const char* domain) { return withLink(h100(domain, 0), "Unknown", "0"); };
  const Generated generated =
      generate(makeTree({gpu("0001"), gpu("0002"), withLink(infinibandVf("0101", 0), "16.0 GT/s PCIe", "8"),
                         withLink(infinibandVf("0102", 0), "16.0 GT/s PCIe", "16")}));
  EXPECT_EQ(shapeOf(generated), "cpu0[bridge(0001 0101 0002 0102)]");  // Gen4, as the NICs say
  for (const char* busid : {"ffff:ff:01.0", "0001:00:00.0", "0002:00:00.0", "0102:00:00.0"})
    EXPECT_EQ(linkAt(generated, busid), "16.0 GT/s PCIe x16") << busid;
  EXPECT_EQ(linkAt(generated, "0101:00:00.0"), "16.0 GT/s PCIe x8");
  EXPECT_HAS(generated.remarks, "2 devices do not give their link");
  EXPECT_HAS(generated.remarks,
             "16.0 GT/s PCIe and 16 lanes are written: the link of their group's fastest NIC");
}

TEST(Generate, AGroupThatTellsNoLinkGetsTheMachinesFastest) {
  const auto gpu = [](const char* domain) { return withLink(h100(domain, 0), "Unknown", "0"); };
  const Generated generated =
      generate(makeTree({gpu("0001"), gpu("0002"), withLink(infinibandVf("0101", 0), "32.0 GT/s PCIe", "16"),
                         infinibandVf("0102", 0)}));
  EXPECT_EQ(shapeOf(generated), "cpu0[bridge(0001 0101) bridge(0002 0102)]");
  for (const char* busid : {"ffff:ff:02.0", "0002:00:00.0", "0102:00:00.0"})
    EXPECT_EQ(linkAt(generated, busid), "32.0 GT/s PCIe x16") << busid;
  EXPECT_HAS(generated.remarks, "the machine's fastest NIC");
}

TEST(Generate, ANodeWithoutACpumapHasNoAffinity) {
  sysfs::MemoryTree tree =
      makeFlatTree({}, {h100("0001", 0), infinibandVf("0101", 0)}, "x86_64,GenuineIntel,6,143");
  const Generated generated = generate(tree);
  EXPECT_LACKS(generated.text, "affinity");
  EXPECT_HAS(generated.remarks, "has no cpumap");
}

TEST(Generate, ATableThatCrossesNumaNodesIsRemarkedOn) {
  const auto tree = makeTree({h100("0001", 0), h100("0002", 1), infinibandVf("0101", 1)}, 2);
  const Generated crossed = generate(tree, withTable("0001:00:00.0 0101:00:00.0"));
  EXPECT_HAS(crossed.remarks,
             "pairs.txt:1: the NIC 0101:00:00.0 is on NUMA node 1 and the GPU 0001:00:00.0 on NUMA node 0");
  EXPECT_LACKS(generate(tree, withTable("0002:00:00.0 0101:00:00.0")).remarks, "is on NUMA node");
}

TEST(Generate, ADirectoryIsNoTable) {
  GenerateOptions options = withTable("");
  options.table_name = "/tmp";
  const auto tree = makeTree({h100("0001", 0), infinibandVf("0101", 0)});
  EXPECT_EQ(generate(tree, options).error, "/tmp is a directory, not a table");
}

}  // namespace
}  // namespace railwise::topo
