#include "topo/sources/record.h"

#include <gtest/gtest.h>

#include "sysfs/pci_devices.h"
#include "sysfs/tar_archive.h"
#include "tests/ok.h"
#include "tests/topo/flat_tree.h"
#include "tests/topo/topologies.h"
#include "topo/sources/generate/generate.h"
#include "topo/sources/gpu_answers.h"
#include "topo/sources/sysfs.h"

namespace railwise::topo {
namespace {

using namespace test;

std::string documentOf(const sysfs::FileTree& tree) {
  const SysfsOptions options = {.detection = {.gpu_sm = 90, .nvswitch_links = 18}};
  const Outcome<XmlDocument> document = readSysfs(tree, std::nullopt, Settings(), options, nullptr);
  return document.ok() ? writeXml(*document) : document.error();
}

// Recorded, packed, and read again.
std::unique_ptr<sysfs::MemoryTree> recorded(const sysfs::FileTree& live, bool anonymise = false) {
  const Outcome<sysfs::MemoryTree> tree = recordTree(live, {.anonymise = anonymise});
  EXPECT_OK(tree);
  auto read = sysfs::readArchive(*sysfs::writeArchive(*tree, "machine"), "recorded");
  EXPECT_OK(read);
  return std::move(*read);
}

std::string allText(const sysfs::MemoryTree& tree) {
  std::string text;
  for (const auto& [path, item] : tree.items()) text += path + " " + item.content + "\n";
  return text;
}

sysfs::MemoryTree makeVm() {
  FlatPci first = infinibandVf("0101", 0);
  FlatPci second = infinibandVf("0102", 0);
  first.infiniband = "mlx5_0", second.infiniband = "mlx5_1";
  sysfs::MemoryTree tree = makeFlatTree({"0000ffff"}, {h100("0001", 0), h100("0002", 0), first, second},
                                        "x86_64,GenuineIntel,6,143");
  const auto guid = [&](const std::string& name, const std::string& file, const std::string& value) {
    tree.file(*tree.realPath("/sys/class/infiniband/" + name) + "/" + file, value + "\n");
  };
  guid("mlx5_0", "sys_image_guid", "b83f:d203:0000:0002");
  guid("mlx5_0", "node_guid", "b83f:d203:0000:0001");
  guid("mlx5_1", "sys_image_guid", "b83f:d203:0000:0002");
  const std::string nic = *tree.realPath("/sys/bus/pci/devices/0101:00:00.0");
  tree.file(nic + "/net/enx0c42a1547e1a/speed", "400000\n")
      .file(nic + "/net/enx0c42a1547e1a/address", "0c:42:a1\n");
  tree.file(nic + "/serial_number", "SECRET\n").file("/sys/class/dmi/id/product_serial", "SECRET\n");
  return tree;
}

TEST(Record, AnswersAsTheLiveTree) {
  const sysfs::MemoryTree live = makeVm();
  const auto tree = recorded(live);
  EXPECT_EQ(documentOf(*tree), documentOf(live));
  EXPECT_EQ(*generateTopology(*tree, {}, nullptr), *generateTopology(live, {}, nullptr));
}

TEST(Record, AnswersAsRealTrees) {
  const std::string folder = topologiesFolder();
  if (folder.empty()) GTEST_SKIP() << "no topologies";
  for (const std::string name : {"p5.48xl-topo", "p4d.24xl-topo", "g6.48xl-topo", "hwloc-nvidiaDGX2"}) {
    const auto live = sysfs::openTree(folder + "/sysfs/" + name + ".tar.gz");
    ASSERT_OK(live);
    EXPECT_EQ(documentOf(*recorded(**live)), documentOf(**live)) << name;
  }
}

TEST(Record, TakesNothingPrivate) {
  const std::string text = allText(*recorded(makeVm()));
  for (const char* secret : {"SECRET", "0c42a1547e1a", "0c:42:a1", "VMBUS", "47505500"}) {
    EXPECT_LACKS(text, secret);
  }
  EXPECT_HAS(text, "400000") << "the interface's speed";
}

TEST(Record, AnonymisedGuidsKeepEqualityAndOrder) {
  const auto tree = recorded(makeVm(), true);
  const auto guid = [&](const std::string& file) { return tree->read("/sys/class/infiniband/" + file); };
  EXPECT_EQ(guid("mlx5_0/node_guid"), "0000:0000:0000:0001\n");
  EXPECT_EQ(guid("mlx5_0/sys_image_guid"), "0000:0000:0000:0002\n");
  EXPECT_EQ(guid("mlx5_1/sys_image_guid"), guid("mlx5_0/sys_image_guid"));
  EXPECT_LACKS(allText(*tree), "b83f");
}

TEST(Record, CarriesTheCpu) {
  EXPECT_EQ(recorded(makeVm())->read(kCpuIdentityPath), "x86_64,GenuineIntel,6,143\n");
}

TEST(Record, CarriesWhatTheGpusLibrariesSay) {
  gpu::GpuTopology answers;
  answers.gpus.resize(1);
  answers.gpus[0].index = 0;
  answers.gpus[0].busid = "0001:00:00.0";
  answers.gpus[0].model = "a GPU";
  answers.gpus[0].sm = 90;
  answers.gpus[0].uuid = "GPU-serial";
  answers.gpus[0].fabric_cluster = "our-cluster";
  const auto live = makeVm();
  const GpuAnswers said = std::make_shared<gpu::GpuTopology>(answers);
  const auto tree = recordTree(live, {.gpu_answers = said});
  ASSERT_OK(tree);
  const auto read = recordedGpus(*tree);
  ASSERT_OK(read);
  ASSERT_NE(*read, nullptr);
  EXPECT_EQ((*read)->gpus[0].model, "a GPU");
  EXPECT_EQ((*read)->gpus[0].sm, 90);
  EXPECT_EQ((*read)->gpus[0].fabric_cluster, "our-cluster");
  EXPECT_EQ((*read)->gpus[0].uuid, "") << "a serial number";
  const auto anonymous = recordTree(live, {.gpu_answers = said, .anonymise = true});
  ASSERT_OK(anonymous);
  EXPECT_LACKS(allText(*anonymous), "our-cluster");
}

TEST(Record, CarriesTheVersionsOfAFingerprint) {
  sysfs::MemoryTree live = makeVm();
  const std::string nic = *live.realPath("/sys/class/infiniband/mlx5_0");
  live.file(nic + "/fw_ver", "28.39.1002\n").file(nic + "/hca_type", "MT4126\n");
  live.file("/sys/module/nvidia/version", "550.90.07\n").file("/proc/sys/kernel/osrelease", "6.8.0\n");
  live.file("/proc/sys/kernel/hostname", "SECRET\n");
  const auto tree = recorded(live);
  EXPECT_EQ(tree->read("/sys/class/infiniband/mlx5_0/fw_ver"), "28.39.1002\n");
  EXPECT_EQ(tree->read("/sys/class/infiniband/mlx5_0/hca_type"), "MT4126\n");
  EXPECT_EQ(tree->read("/sys/module/nvidia/version"), "550.90.07\n");
  EXPECT_EQ(tree->read("/proc/sys/kernel/osrelease"), "6.8.0\n");
  EXPECT_LACKS(allText(*tree), "SECRET");
}

TEST(Record, CarriesBroadcomsLinks) {
  sysfs::MemoryTree live = makeVm();
  const std::string links = "/sys/kernel/pci_switch_link/virtual_switch_links/0001:00:00.0/0002:00:00.0";
  live.file(links, "");
  EXPECT_TRUE(recorded(live)->exists(links));
}

TEST(Record, WithoutPciThereIsNothing) {
  EXPECT_HAS(recordTree(sysfs::MemoryTree("nothing"), {}).error(), "nothing to record");
}

}  // namespace
}  // namespace railwise::topo
