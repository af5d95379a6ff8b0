#include "topo/sources/sysfs.h"

#include <gtest/gtest.h>

#include <sstream>

#include "gpu/json.h"
#include "sysfs/pci_devices.h"
#include "sysfs/tar_archive.h"
#include "tests/ok.h"
#include "tests/topo/documents_equal.h"
#include "tests/topo/flat_tree.h"
#include "tests/topo/topologies.h"
#include "topo/sources/gpu_answers.h"

namespace railwise::topo {
namespace {

using namespace test;

// A line of sysfs.tsv.
struct Recorded {
  std::string tree;
  std::string file;
  std::string options;
  std::string result;
};

std::vector<Recorded> recordedMachines(const std::string& folder) {
  std::istringstream table(readFile(folder + "/sysfs.tsv"));
  std::vector<Recorded> machines;
  for (std::string line; std::getline(table, line);) {
    std::istringstream row(line);
    Recorded machine;
    std::getline(row, machine.tree, '\t'), std::getline(row, machine.file, '\t');
    std::getline(row, machine.options, '\t'), std::getline(row, machine.result, '\t');
    if (machine.tree != "tree") machines.push_back(machine);
  }
  return machines;
}

SysfsOptions optionsOf(const std::string& text) {
  SysfsOptions options;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    const std::string value = word.substr(word.find('=') + 1);
    if (word.starts_with("--gpu-sm=")) options.detection.gpu_sm = std::atoi(value.c_str());
    else if (word.starts_with("--nvswitch-links="))
      options.detection.nvswitch_links = std::atoi(value.c_str());
    else if (word.starts_with("--nic-speed=")) options.detection.nic_speed = std::atoi(value.c_str());
    else if (word.starts_with("--cpu=")) options.cpu = *parseCpuIdentity(value);
    else ADD_FAILURE() << word;
  }
  return options;
}

TEST(Sysfs, AgreesWithNcclOnEveryRecordedTree) {
  const std::string folder = topologiesFolder();
  if (folder.empty()) GTEST_SKIP() << "no topologies";
  const auto machines = recordedMachines(folder);
  EXPECT_GE(machines.size(), 9U);
  for (const Recorded& machine : machines) {
    SCOPED_TRACE(machine.result);
    const auto tree = sysfs::openTree(folder + "/sysfs/" + machine.tree + ".tar.gz");
    ASSERT_OK(tree);
    std::optional<XmlDocument> file;
    if (machine.file != "-") file = std::move(*readXmlFile(folder + "/machines/" + machine.file));
    SysfsOptions options = optionsOf(machine.options);
    options.file_cpus_get_masks = false;  // how these answers were made
    const auto document = readSysfs(**tree, file, {.nccl = NcclVersion::k2_30}, options, nullptr);
    const auto expected = readXmlFile(folder + "/machines/from-sysfs/" + machine.result + ".xml");
    ASSERT_TRUE(document.ok() && expected.ok()) << document.error() << expected.error();
    expectEqual(*document, *expected);
  }
}

const SysfsOptions kHopper = {.detection = {.gpu_sm = 90, .nvswitch_links = 18}};

XmlDocument read(const sysfs::FileTree& tree, const Settings& settings = {},
                 const SysfsOptions& options = kHopper) {
  auto document = readSysfs(tree, std::nullopt, settings, options, nullptr);
  EXPECT_OK(document);
  return document.ok() ? std::move(*document) : XmlDocument();
}

std::string remarksOn(const sysfs::FileTree& tree, const SysfsOptions& options = kHopper) {
  std::vector<std::string> remarks;
  std::string all = readSysfs(tree, std::nullopt, Settings(), options, &remarks).error();
  for (const std::string& remark : remarks) all += remark + "\n";
  return all;
}

gpu::Device nvidia(int index, const std::string& busid, int sm) {
  gpu::Device device;
  device.index = index;
  device.busid = busid;
  device.sm = sm;
  return device;
}

gpu::Link linkTo(int from, const std::string& busid, int width, gpu::LinkKind kind) {
  gpu::Link link;
  link.from = from;
  link.to_busid = busid;
  link.kind = kind;
  link.width = width;
  return link;
}

SysfsOptions answered(const gpu::GpuTopology& answers) {
  SysfsOptions options = kHopper;
  options.gpu_answers = std::make_shared<gpu::GpuTopology>(answers);
  return options;
}

TEST(Sysfs, WhatTheLibrarySaysOfAGpuCountsMoreThanTheOptions) {
  const sysfs::MemoryTree tree = makeVm({h100("0001", 0), h100("0002", 0)});
  gpu::GpuTopology answers;
  answers.gpus = {nvidia(0, "0001:00:00.0", 70), nvidia(1, "0002:00:00.0", 100)};
  answers.links = {linkTo(0, "0002:00:00.0", 4, gpu::LinkKind::kNvlink),
                   linkTo(0, "", 4, gpu::LinkKind::kNvswitch), linkTo(1, "", 10, gpu::LinkKind::kC2c)};
  answers.links[2].gb_per_s = 450;
  const XmlDocument document = read(tree, {}, answered(answers));
  const XmlNode* first = document.find("pci", "busid", "0001:00:00.0")->child("gpu");
  EXPECT_EQ(first->get("sm"), "70");
  ASSERT_EQ(first->children.size(), 2U);
  EXPECT_EQ(first->children[0]->get("target"), "0002:00:00.0");
  EXPECT_EQ(first->children[0]->get("count"), "4");
  EXPECT_EQ(first->children[0]->get("tclass"), "0x03") << "since 2.31 NCCL writes it by NVML's answer";
  EXPECT_EQ(first->children[1]->get("target"), kHiddenTarget);
  EXPECT_EQ(first->children[1]->get("count"), "2") << "NCCL asks for six links of such a GPU";
  const XmlNode* second = document.find("pci", "busid", "0002:00:00.0")->child("gpu");
  EXPECT_EQ(second->get("sm"), "100");
  EXPECT_EQ(second->child("nvlink"), nullptr);
  ASSERT_NE(second->child("c2c"), nullptr);
  EXPECT_EQ(second->child("c2c")->get("bw"), "45000");
  EXPECT_EQ(second->child("c2c")->get("count"), "10");
  const XmlDocument before = read(tree, Settings{.nccl = NcclVersion::k2_30}, answered(answers));
  EXPECT_EQ(before.find("nvlink")->get("tclass"), "0x030200") << "from /sys";
}

TEST(Sysfs, AmdsGpusHaveTheLinksThatTheirLibrarySays) {
  gpu::GpuTopology answers;
  answers.gpus = {nvidia(0, "0001:00:00.0", 0), nvidia(1, "0002:00:00.0", 0)};
  for (gpu::Device& device : answers.gpus) device.vendor = gpu::Vendor::kAmd, device.architecture = "gfx942";
  answers.links = {linkTo(0, "0002:00:00.0", 1, gpu::LinkKind::kXgmi)};
  const XmlDocument document = read(makeVm({mi300x("0001", 0), mi300x("0002", 0)}), {}, answered(answers));
  const XmlNode* first = document.find("pci", "busid", "0001:00:00.0")->child("gpu");
  EXPECT_EQ(first->get("gcn"), "gfx942");
  ASSERT_NE(first->child("xgmi"), nullptr);
  EXPECT_EQ(first->child("xgmi")->get("target"), "0002:00:00.0");
  EXPECT_EQ(first->child("xgmi")->get("count"), "1");
  EXPECT_EQ(first->child("nvlink"), nullptr);
}

// A container has been given one of the two GPUs; /sys shows both.
TEST(Sysfs, AGpuThatTheLibraryDoesNotListIsLeftOut) {
  const sysfs::MemoryTree tree = makeVm({h100("0001", 0), h100("0002", 0)});
  gpu::GpuTopology answers;
  answers.gpus = {nvidia(0, "0002:00:00.0", 90)};
  const SysfsOptions options = answered(answers);
  const XmlDocument document = read(tree, {}, options);
  EXPECT_EQ(document.find("pci", "busid", "0001:00:00.0"), nullptr);
  EXPECT_EQ(document.find("pci", "busid", "0002:00:00.0")->child("gpu")->get("rank"), "0");
  EXPECT_HAS(remarksOn(tree, options), "0001:00:00.0: in /sys, but the vendor's library does not list");
}

TEST(Sysfs, AGpuWhoseAddressTheLibraryDoesNotTellMayBeAnyOfThem) {
  gpu::GpuTopology answers;
  answers.gpus = {nvidia(0, "0002:00:00.0", 70), nvidia(1, "", 70)};
  const XmlDocument document = read(makeVm({h100("0001", 0), h100("0002", 0)}), {}, answered(answers));
  ASSERT_NE(document.find("pci", "busid", "0001:00:00.0"), nullptr);
  EXPECT_EQ(document.find("pci", "busid", "0001:00:00.0")->child("gpu")->get("sm"), "90") << "of the options";
  EXPECT_EQ(document.find("pci", "busid", "0002:00:00.0")->child("gpu")->get("sm"), "70");
}

TEST(Sysfs, WhatTheLibraryCouldNotSayIsARemark) {
  gpu::GpuTopology answers;
  answers.gpus = {nvidia(0, "0001:00:00.0", 90)};
  answers.remarks = {"a remark of the library"};
  EXPECT_HAS(remarksOn(makeVm({h100("0001", 0)}), answered(answers)), "a remark of the library");
}

TEST(Sysfs, TheCapabilityIsAssumedWhereNobodyTellsIt) {
  FlatPci unknown = h100("0001", 0);
  unknown.device = "0xffff";
  sysfs::MemoryTree tree = makeVm({unknown});
  EXPECT_HAS(remarksOn(tree, {}), "8.0 is assumed");
  gpu::GpuTopology answers;
  answers.gpus = {nvidia(0, "0001:00:00.0", 90)};
  tree.file(kGpuAnswersPath, gpu::jsonOf(answers));
  EXPECT_LACKS(remarksOn(tree, {}), "8.0 is assumed");
  tree.file(kGpuAnswersPath, "{");
  EXPECT_HAS(remarksOn(tree, {}), "railwise/gpus.json is not JSON; record the machine again");
}

sysfs::MemoryTree without(const sysfs::MemoryTree& all, const char* folder) {
  sysfs::MemoryTree tree;
  for (const auto& [path, item] : all.items()) {
    if (path.starts_with(folder)) continue;
    if (item.is_folder) tree.folder(path);
    else if (item.is_link) tree.link(path, item.content);
    else tree.file(path, item.content);
  }
  return tree;
}

// A container may hide the folder by which NCCL finds PCI devices.
TEST(Sysfs, AGpuWhosePlaceIsUnknownIsStillAGpu) {
  const XmlDocument document = read(without(makeVm({h100("0001", 0)}), "/sys/class/pci_bus"));
  ASSERT_NE(document.find("pci"), nullptr);
  EXPECT_EQ(document.find("pci")->get("class"), "0x03");
}

TEST(Sysfs, AVmWithoutATreeHasAllAtTheCpu) {
  const XmlDocument document = read(makeVm({h100("0001", 0), rdma(infinibandVf("0101", 0), "mlx5_0")}));
  const XmlNode* cpu = document.find("cpu", "numaid", "0");
  ASSERT_NE(cpu, nullptr);
  EXPECT_EQ(cpu->get("affinity"), "0000ffff");
  EXPECT_EQ(cpu->get("modelid"), "143");
  ASSERT_EQ(cpu->children.size(), 2U);
  EXPECT_EQ(cpu->children[0]->get("link_speed"), "32.0 GT/s PCIe");
  EXPECT_EQ(cpu->children[1]->get("link_speed"), "Unknown");
  EXPECT_EQ(cpu->children[1]->get("link_width"), "0");
  const XmlNode* net = document.find("net");
  EXPECT_EQ(net->get("speed"), "400000") << "from the port's rate";
  EXPECT_EQ(net->get("guid"), "0x1a7e540003a1420c") << "in the order of the wire, as NCCL dumps it";
}

TEST(Sysfs, BeforeNvmlWasAskedTheKernelTold) {
  const XmlDocument document = read(makeVm({h100("0001", 0)}), {.nccl = NcclVersion::k2_28});
  EXPECT_EQ(document.find("pci")->get("link_width"), "0") << "a root bus has no width";
  EXPECT_FALSE(document.find("gpu")->has("mlopart"));
}

TEST(Sysfs, AnUnknownGpuLinkIsWhatNcclWritesThen) {
  FlatPci gpu = h100("0001", 0);
  gpu.speed = "Unknown", gpu.width = "255";
  const XmlDocument document = read(makeVm({gpu}));
  EXPECT_EQ(document.find("pci")->get("link_speed"), "16.0 GT/s PCIe");
  EXPECT_EQ(document.find("pci")->get("link_width"), "16");
  const XmlDocument before = read(makeVm({gpu}), Settings{.nccl = NcclVersion::k2_30});
  EXPECT_EQ(before.find("pci")->get("link_speed"), "16.0 GT/s") << "which NCCL reads as Gen3";
}

TEST(Sysfs, AllNvswitchesAreOneTargetSince231) {
  const sysfs::MemoryTree tree = makeVm({h100("0001", 0)});
  gpu::GpuTopology answers;
  answers.gpus = {nvidia(0, "0001:00:00.0", 90)};
  answers.links = {linkTo(0, "0005:00:00.0", 5, gpu::LinkKind::kNvswitch),
                   linkTo(0, "0006:00:00.0", 4, gpu::LinkKind::kNvswitch)};
  const auto targets = [&](NcclVersion release) {
    std::string text;
    const XmlDocument document = read(tree, Settings{.nccl = release}, answered(answers));
    for (const XmlNode* link : document.find("gpu")->children)
      text += link->get("target") + "*" + link->get("count") + " " + link->get("tclass") + "\n";
    return text;
  };
  EXPECT_EQ(targets(NcclVersion::k2_31), "fffffff:ffff:ff*9 0x068000\n");
  EXPECT_EQ(targets(NcclVersion::k2_30), "0005:00:00.0*5 0x068000\n0006:00:00.0*4 0x068000\n");
}

TEST(Sysfs, TheFamilyOfACpuIsThatOfTheManualsSince231) {
  SysfsOptions options = kHopper;
  options.cpu = *parseCpuIdentity("x86_64,AuthenticAMD,175,17");
  const auto family = [&](NcclVersion release) {
    return read(makeVm({h100("0001", 0)}), Settings{.nccl = release}, options).find("cpu")->get("familyid");
  };
  EXPECT_EQ(family(NcclVersion::k2_31), "25");
  EXPECT_EQ(family(NcclVersion::k2_30), "175");
}

TEST(Sysfs, ATopologyFilesNvlinkKeepsNoClassSince231) {
  const auto file = parseXml(
      "<system version=\"1\"><cpu numaid=\"0\"><pci busid=\"0001:00:00.0\"><gpu><nvlink "
      "target=\"0002:00:00.0\" "
      "count=\"2\"/></gpu></pci></cpu></system>",
      "file.xml");
  ASSERT_OK(file);
  const auto has_class = [&](NcclVersion release) {
    const auto document =
        readSysfs(makeVm({h100("0001", 0)}), *file, Settings{.nccl = release}, kHopper, nullptr);
    EXPECT_OK(document);
    return document->find("nvlink")->has("tclass");
  };
  EXPECT_TRUE(has_class(NcclVersion::k2_30));
  EXPECT_FALSE(has_class(NcclVersion::k2_31));
}

TEST(Sysfs, NvlinksAreCappedByTheGeneration) {
  const SysfsOptions ampere = {.detection = {.gpu_sm = 80, .nvswitch_links = 18}};
  EXPECT_EQ(read(makeVm({a100("0001", 0)}), {}, ampere).find("nvlink")->get("count"), "12");
}

TEST(Sysfs, ATopologyFileWinsExceptForTheClass) {
  auto file = parseXml(
      "<system version=\"1\"><cpu numaid=\"0\" affinity=\"ff\"><pci busid=\"ffff:ff:01.0\" "
      "class=\"0x060400\" "
      "link_speed=\"32.0 GT/s PCIe\" link_width=\"16\"><pci busid=\"0001:00:00.0\" class=\"0x030000\" "
      "link_speed=\"16.0 GT/s PCIe\" link_width=\"8\"/></pci></cpu></system>",
      "file");
  ASSERT_OK(file);
  auto document = readSysfs(makeVm({h100("0001", 0)}), std::move(*file), Settings(), kHopper, nullptr);
  ASSERT_OK(document);
  const XmlNode* pci = document->find("pci", "busid", "0001:00:00.0");
  EXPECT_EQ(pci->get("class"), "0x030200");
  EXPECT_EQ(pci->get("link_width"), "8");
  EXPECT_EQ(pci->parent->get("busid"), "ffff:ff:01.0");
  EXPECT_EQ(document->find("cpu")->get("affinity"), "ff");
}

TEST(Sysfs, CpusOfAFileGetTheMachinesMask) {
  auto file = parseXml("<system version=\"1\"><cpu numaid=\"0\"/></system>", "file");
  ASSERT_OK(file);
  auto document = readSysfs(makeVm({h100("0001", 0)}), std::move(*file), Settings(), kHopper, nullptr);
  ASSERT_OK(document);
  EXPECT_EQ(document->find("cpu")->get("affinity"), "0000ffff");
}

TEST(Sysfs, BroadcomSwitchesTellTheirPeers) {
  sysfs::MemoryTree tree = makeVm({h100("0001", 0)});
  const std::string upper = "/sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0";
  const std::string lower = upper + "/0000:02:00.0/0000:03:00.0";
  tree.file(upper + "/vendor", "0x1000\n").file(upper + "/numa_node", "0\n");
  tree.file(lower + "/class", "0x030200\n").file(lower + "/vendor", "0x10de\n");
  tree.link("/sys/bus/pci/devices/0000:03:00.0", lower);
  for (const std::string& folder : {upper, lower}) {
    const std::string bus =
        folder.substr(0, folder.rfind('/')) + "/pci_bus/" + folder.substr(folder.size() - 12, 7);
    tree.folder(bus).link("/sys/class/pci_bus/" + bus.substr(bus.size() - 7), bus);
  }
  tree.file("/sys/kernel/pci_switch_link/virtual_switch_links/0000:01:00.0/0001:00:00.0", "");
  tree.file("/sys/kernel/pci_switch_link/virtual_switch_links/0000:01:00.0/0009:00:00.0", "");  // not there
  const XmlDocument document = read(tree);
  const XmlNode* pci = document.find("pci", "busid", "0000:01:00.0");
  ASSERT_NE(pci, nullptr);
  EXPECT_NE(pci->child("pcilink", "target", "0001:00:00.0"), nullptr);
  EXPECT_EQ(pci->child("pcilink", "target", "0009:00:00.0"), nullptr);
  EXPECT_EQ(pci->parent->get("numaid"), "0") << "root ports vanish";
}

TEST(PciDevices, AreFoundWithoutTheListOfTheBus) {
  sysfs::MemoryTree all = makeVm({h100("0001", 0), infinibandVf("0101", 0)});
  const sysfs::MemoryTree bare = without(all, "/sys/bus/pci/devices");
  ASSERT_EQ(sysfs::pciDevices(bare).size(), 2U);
  EXPECT_EQ(sysfs::pciDevices(bare)[0].path, sysfs::pciDevices(all)[0].path);
}

TEST(Sysfs, WithoutAGpuItIsAnError) {
  EXPECT_HAS(remarksOn(makeVm({infinibandVf("0101", 0)})), "no GPU in test tree");
}

TEST(Sysfs, ATreeInCirclesIsAnError) {
  sysfs::MemoryTree tree = makeVm({});
  const auto add = [&](const std::string& folder) {
    const std::string busid = folder.substr(folder.size() - 12);
    const std::string bus = folder.substr(0, folder.rfind('/')) + "/pci_bus/" + busid.substr(0, 7);
    tree.file(folder + "/class", "0x030200\n").file(folder + "/vendor", "0x10de\n");
    tree.folder(bus).link("/sys/class/pci_bus/" + busid.substr(0, 7), bus);
    tree.link("/sys/bus/pci/devices/" + busid, folder);
  };
  add("/sys/x/0000:02:00.0/0000:09:00.0/0000:01:00.0");
  add("/sys/y/0000:01:00.0/0000:09:00.0/0000:02:00.0");
  EXPECT_HAS(remarksOn(tree), "go in circles");
}

TEST(Sysfs, MoreGpusThanNcclsXmlHoldsIsAnError) {
  std::vector<FlatPci> gpus;
  for (int i = 0; i < 129; ++i) {
    char domain[8];
    std::snprintf(domain, sizeof domain, "%04x", static_cast<unsigned>(i));
    gpus.push_back(h100(domain, 0));
  }
  EXPECT_HAS(remarksOn(makeVm(gpus)), "limited to 256");
}

// As "unknown" is a number to NCCL, it is one NUMA node more.
TEST(Sysfs, SaysWhoseNumaNodeIsNotTold) {
  const std::vector<FlatPci> devices = {h100("0001", 0), h100("0002", -1),
                                        rdma(infinibandVf("0101", -1), "mlx5_0"),
                                        rdma(infinibandVf("0102", 1), "mlx5_1")};
  const sysfs::MemoryTree two = makeFlatTree({"00ff", "ff00"}, devices, "x86_64,GenuineIntel,6,143");
  EXPECT_HAS(remarksOn(two), "NUMA node of 0002:00:00.0, mlx5_0: NCCL");
  EXPECT_LACKS(remarksOn(makeVm(devices)), "NUMA node of") << "there is only one";
}

TEST(Sysfs, SaysWhatItAssumes) {
  sysfs::MemoryTree tree = makeVm({h100("0001", 0)});
  tree.file(*tree.realPath("/sys/bus/pci/devices/0001:00:00.0") + "/current_link_speed", "2.5 GT/s PCIe\n");
  const std::string remarks = remarksOn(tree, {});
  EXPECT_HAS(remarks, "--gpu-sm");
  EXPECT_HAS(remarks, "idle GPUs save power");
  EXPECT_HAS(remarks, "sockets");
}

// --- how files are read ---

TEST(SysAttribute, TheLastByteIsTakenForANewline) {
  sysfs::MemoryTree tree;
  tree.file("/d/with", "0x10de\n").file("/d/without", "0x10de").file("/d/empty", "");
  tree.file("/d/long", std::string(400, 'x'));
  EXPECT_EQ(sysfs::attribute(tree, "/d", "with"), "0x10de");
  EXPECT_EQ(sysfs::attribute(tree, "/d", "without"), "0x10d") << "NCCL cuts it all the same";
  EXPECT_EQ(sysfs::attribute(tree, "/d", "empty"), "");
  EXPECT_EQ(sysfs::attribute(tree, "/d", "missing"), "");
  EXPECT_EQ(sysfs::attribute(tree, "/d", "long").size(), 254U);
}

TEST(CpuIdentity, FamilyOfTheManuals) {
  const auto manuals = [](const char* text) {
    return cpuIdentityText(familyOfManuals(*parseCpuIdentity(text)));
  };
  EXPECT_EQ(manuals("x86_64,AuthenticAMD,143,49"), "x86_64,AuthenticAMD,23,49");
  EXPECT_EQ(manuals("x86_64,AuthenticAMD,175,17"), "x86_64,AuthenticAMD,25,17");
  EXPECT_EQ(manuals("x86_64,AuthenticAMD,191,2"), "x86_64,AuthenticAMD,26,2");
  EXPECT_EQ(manuals("x86_64,AuthenticAMD,25,17"), "x86_64,AuthenticAMD,25,17");
  EXPECT_EQ(manuals("x86_64,GenuineIntel,6,143"), "x86_64,GenuineIntel,6,143");
  EXPECT_EQ(manuals("x86_64,CentaurHauls,7,91"), "x86_64,CentaurHauls,7,11");
}

TEST(CpuIdentity, IsReadAndWritten) {
  for (const char* text : {"x86_64,GenuineIntel,6,143", "x86_64,AuthenticAMD,175,1", "arm64"}) {
    EXPECT_EQ(cpuIdentityText(*parseCpuIdentity(text)), text);
  }
  for (const char* text : {"", "x86_64", "x86,GenuineIntel,6,143", "x86_64,,6,1", "x86_64,a\"b,6,1",
                           "x86_64,a,b,1", "x86_64,a,6", "x86_64,a,6,-1", "arm64,a"}) {
    EXPECT_HAS(parseCpuIdentity(text).error(), "arch,vendor,family,model") << text;
  }
  EXPECT_FALSE(thisCpu().arch.empty());
}

}  // namespace
}  // namespace railwise::topo
