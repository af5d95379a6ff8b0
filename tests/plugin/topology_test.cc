// RAILWISE_TOPOLOGY: when NCCL is given a topology file, which, and when not. The machine is a flat VM's /sys
// below a folder of the test. Every test runs in a process of its own (ctest), as the environment of one init
// is meant to be.
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "api.h"
#include "tests/ok.h"
#include "tests/scratch.h"
#include "tests/topo/flat_tree.h"
#include "topo/sources/generate/generate.h"

namespace railwise::test {
namespace {

namespace fs = std::filesystem;
using Newest = Api<12>;

sysfs::MemoryTree flatMachine() {
  sysfs::MemoryTree tree;
  for (const char* domain : {"0001", "0002"}) topo::test::addPci(tree, topo::test::h100(domain, 0));
  for (const char* domain : {"0101", "0102"}) topo::test::addPci(tree, topo::test::infinibandVf(domain, 0));
  tree.file("/sys/devices/system/node/node0/cpumap", "0000ffff\n");
  tree.file("/railwise/cpu", "x86_64,GenuineIntel,6,143\n");
  return tree;
}

class TopologyTest : public ::testing::Test {
 protected:
  TopologyTest() {
    setenv("RAILWISE_SYSFS_ROOT", root_.c_str(), 1);
    unsetenv("NCCL_TOPO_FILE");
  }

  void write(const sysfs::MemoryTree& tree) const {
    for (const auto& [path, item] : tree.items()) {
      const fs::path place = root_ / path.substr(1);
      fs::create_directories(item.is_folder ? place : place.parent_path());
      if (item.is_folder) continue;
      if (item.is_link) {
        fs::create_symlink(item.content, place);  // absolute ones begin at the root that the plugin is given
      } else {
        std::ofstream(place) << item.content;
      }
    }
  }

  std::string writeFile(const std::string& name, const std::string& text) const {
    return scratch_.file(name, text);
  }

  // What NCCL would read after init; "" when NCCL_TOPO_FILE is not set.
  static std::string afterInit() {
    Session<Newest> session;
    return read();
  }
  static std::string read() {
    const char* path = std::getenv("NCCL_TOPO_FILE");
    if (path == nullptr) return "";
    std::stringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
  }

  const Scratch scratch_;
  const fs::path root_ = scratch_.path();
};

TEST_F(TopologyTest, OffByDefault) {
  write(flatMachine());
  EXPECT_EQ(afterInit(), "");
  EXPECT_EQ(std::getenv("NCCL_TOPO_FILE"), nullptr);
}

TEST_F(TopologyTest, AutoRestoresAHiddenTreeInOneInfoLine) {
  write(flatMachine());
  setenv("RAILWISE_TOPOLOGY", "auto", 1);
  const auto expected = topo::generateTopology(flatMachine(), {}, nullptr);
  ASSERT_OK(expected);
  EXPECT_EQ(afterInit(), *expected);
  EXPECT_EQ(read(), *expected);  // a second reader, after finalize
  EXPECT_EQ(warnings(), "");
  EXPECT_HAS(logText(), "restored for NCCL as NCCL_TOPO_FILE=/proc/self/fd/");
}

TEST_F(TopologyTest, ASecondInitKeepsTheFile) {
  write(flatMachine());
  setenv("RAILWISE_TOPOLOGY", "auto", 1);
  const std::string first = afterInit();
  const std::string path = std::getenv("NCCL_TOPO_FILE");
  EXPECT_EQ(afterInit(), first);
  EXPECT_EQ(std::getenv("NCCL_TOPO_FILE"), path);
}

TEST_F(TopologyTest, TheUsersFileStands) {
  write(flatMachine());
  setenv("RAILWISE_TOPOLOGY", "auto", 1);
  setenv("NCCL_TOPO_FILE", "/etc/mine.xml", 1);
  (void)afterInit();
  EXPECT_STREQ(std::getenv("NCCL_TOPO_FILE"), "/etc/mine.xml");
}

TEST_F(TopologyTest, AutoYieldsToTheTopologyDaemon) {
  write(flatMachine());
  writeFile("var/run/nvidia-topologyd/virtualTopology.xml", "<system version=\"1\">\n</system>\n");
  setenv("RAILWISE_TOPOLOGY", "auto", 1);
  EXPECT_EQ(afterInit(), "");
  EXPECT_HAS(logText(), "nvidia-topologyd");
}

TEST_F(TopologyTest, AutoYieldsToARealTree) {
  sysfs::MemoryTree tree;
  const std::string top = "/sys/devices/pci0000:00/0000:00:01.0/0000:10:00.0/0000:11:00.0/";
  const auto device = [&](const std::string& folder, const std::string& pci_class,
                          const std::string& vendor) {
    const std::string name = folder.substr(folder.rfind('/') + 1);
    tree.file(folder + "/class", pci_class + "\n")
        .file(folder + "/vendor", vendor + "\n")
        .file(folder + "/numa_node", "0\n");
    tree.file(folder + "/max_link_speed", "32.0 GT/s PCIe\n").file(folder + "/max_link_width", "16\n");
    tree.link("/sys/bus/pci/devices/" + name, folder);
    tree.folder(folder.substr(0, folder.rfind('/')) + "/pci_bus/" + name.substr(0, 7));
    tree.link("/sys/class/pci_bus/" + name.substr(0, 7),
              folder.substr(0, folder.rfind('/')) + "/pci_bus/" + name.substr(0, 7));
  };
  device("/sys/devices/pci0000:00/0000:00:01.0", "0x060400", "0x8086");
  device("/sys/devices/pci0000:00/0000:00:01.0/0000:10:00.0", "0x060400", "0x1000");
  device("/sys/devices/pci0000:00/0000:00:01.0/0000:10:00.0/0000:11:00.0", "0x060400", "0x1000");
  device(top + "0000:12:00.0", "0x030200", "0x10de");
  write(tree);
  setenv("RAILWISE_TOPOLOGY", "auto", 1);
  EXPECT_EQ(afterInit(), "");
  EXPECT_HAS(logText(), "no topology generated");
}

// A server without switches: GPUs and NICs on root ports of the CPU. Nothing is hidden there.
TEST_F(TopologyTest, AutoYieldsToRootPorts) {
  sysfs::MemoryTree tree;
  const auto device = [&](const std::string& folder, const std::string& pci_class,
                          const std::string& vendor) {
    const std::string name = folder.substr(folder.rfind('/') + 1);
    const std::string above = folder.substr(0, folder.rfind('/'));
    tree.file(folder + "/class", pci_class + "\n")
        .file(folder + "/vendor", vendor + "\n")
        .file(folder + "/numa_node", "0\n");
    tree.file(folder + "/max_link_speed", "32.0 GT/s PCIe\n").file(folder + "/max_link_width", "16\n");
    tree.link("/sys/bus/pci/devices/" + name, folder);
    tree.folder(above + "/pci_bus/" + name.substr(0, 7));
    tree.link("/sys/class/pci_bus/" + name.substr(0, 7), above + "/pci_bus/" + name.substr(0, 7));
  };
  device("/sys/devices/pci0000:00/0000:00:01.0", "0x060400", "0x8086");
  device("/sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0", "0x030200", "0x10de");
  device("/sys/devices/pci0000:00/0000:00:02.0", "0x060400", "0x8086");
  device("/sys/devices/pci0000:00/0000:00:02.0/0000:02:00.0", "0x020700", "0x15b3");
  tree.file("/sys/devices/system/node/node0/cpumap", "0000ffff\n");
  tree.file("/railwise/cpu", "x86_64,GenuineIntel,6,143\n");
  ASSERT_OK(topo::generateTopology(tree, {}, nullptr));  // by hand it can be done
  write(tree);
  setenv("RAILWISE_TOPOLOGY", "auto", 1);
  EXPECT_EQ(afterInit(), "");
}

// A child process inherits the name, not always the descriptor.
TEST_F(TopologyTest, AStaleMemoryFileIsMadeAgain) {
  write(flatMachine());
  setenv("RAILWISE_TOPOLOGY", "auto", 1);
  setenv("NCCL_TOPO_FILE", "/proc/self/fd/977", 1);
  EXPECT_NE(afterInit(), "");
  EXPECT_STRNE(std::getenv("NCCL_TOPO_FILE"), "/proc/self/fd/977");
}

TEST_F(TopologyTest, AUsersPipeIsNotTakenForOurs) {
  write(flatMachine());
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const std::string name = "/proc/self/fd/" + std::to_string(ends[0]);
  setenv("RAILWISE_TOPOLOGY", "auto", 1);
  setenv("NCCL_TOPO_FILE", name.c_str(), 1);
  {
    Session<Newest> session("name=a,pci=/sys/devices/pci0101:00/0101:00:00.0");
  }  // does not wait for its bytes
  EXPECT_EQ(std::getenv("NCCL_TOPO_FILE"), name);
}

TEST_F(TopologyTest, AFileOfTheOtherLibraryIsRefused) {
  std::string text = *topo::generateTopology(flatMachine(), {}, nullptr);
  text.replace(text.find("version=\"1\""), 11, "version=\"2\"");
  const std::string file = writeFile("rccl.xml", text);
  write(flatMachine());
  setenv("RAILWISE_TOPOLOGY", file.c_str(), 1);
  EXPECT_EQ(afterInit(), "");
  EXPECT_HAS(warnings(), "version 2");
}

TEST_F(TopologyTest, LintWarningsOnlyWarn) {
  std::string text = *topo::generateTopology(flatMachine(), {}, nullptr);
  text.replace(text.find("32.0 GT/s PCIe"), 14, "Unknown");
  const std::string file = writeFile("warned.xml", text);
  setenv("RAILWISE_TOPOLOGY", file.c_str(), 1);
  EXPECT_EQ(afterInit(), text);
  EXPECT_HAS(warnings(), "warned.xml:3");
}

// With a refusal init succeeds, and shows devices that cannot be described (strict_test.cc).
TEST_F(TopologyTest, StrictModeRefusesAHiddenTree) {
  write(flatMachine());
  const char* const device = "pci=/sys/devices/pci0101:00/0101:00:00.0";
  const Setting strict("RAILWISE_STRICT", "topology");
  int count = 0;
  {
    Session<Newest> session(device);
    ASSERT_EQ(Newest::table().devices(&count), ncclSuccess);
    ncclNetProperties_v12_t properties = {};
    EXPECT_EQ(Newest::table().getProperties(1, &properties), ncclSystemError);
    EXPECT_HAS(warnings(), "the PCIe tree is hidden here");
  }
  setenv("RAILWISE_TOPOLOGY", "auto", 1);
  Session<Newest> session(device);
  ASSERT_EQ(Newest::table().devices(&count), ncclSuccess);
  EXPECT_EQ(count, 1) << warnings();
}

TEST_F(TopologyTest, StrictModeRefusesNicsWithoutGpuDirectWhereGpusAreInUse) {
  write(flatMachine());
  const Setting strict("RAILWISE_STRICT", "gdr");
  int count = 0;
  {
    Session<Newest> no_gpu_in_use("gpudirect=off");
    ASSERT_EQ(Newest::table().devices(&count), ncclSuccess);
    EXPECT_EQ(count, 1) << warnings();
  }
  ASSERT_NE(dlopen(FAKE_CUDA, RTLD_NOW), nullptr) << dlerror();
  {
    Session<Newest> refused("gpudirect=off");
    ncclNetProperties_v12_t properties = {};
    EXPECT_EQ(Newest::table().getProperties(1, &properties), ncclSystemError);
    EXPECT_HAS(warnings(), "soft0 cannot register GPU memory");
  }
  Session<Newest> direct("gpudirect=on");
  ASSERT_EQ(Newest::table().devices(&count), ncclSuccess);
  EXPECT_EQ(count, 1) << warnings();
}

TEST_F(TopologyTest, AGoodFileIsGivenToNccl) {
  const auto text = topo::generateTopology(flatMachine(), {}, nullptr);
  ASSERT_OK(text);
  const std::string file = writeFile("good.xml", *text);
  setenv("RAILWISE_TOPOLOGY", file.c_str(), 1);
  EXPECT_EQ(afterInit(), *text);
  EXPECT_STREQ(std::getenv("NCCL_TOPO_FILE"), file.c_str());
}

TEST_F(TopologyTest, AFileWithAnErrorIsRefusedWithTheLine) {
  const std::string file =
      writeFile("bad.xml", "<system version=\"1\">\n  <cpu arch=\"x86_64\">\n  </cpu>\n</system>\n");
  setenv("RAILWISE_TOPOLOGY", file.c_str(), 1);
  EXPECT_EQ(afterInit(), "");
  EXPECT_HAS(warnings(), "bad.xml:2");
}

TEST_F(TopologyTest, AMissingFileIsRefused) {
  setenv("RAILWISE_TOPOLOGY", "/nowhere/topology.xml", 1);
  EXPECT_EQ(afterInit(), "");
  EXPECT_HAS(warnings(), "/nowhere/topology.xml");
}

TEST_F(TopologyTest, RailsFollowTheGpusThatUseTheNics) {
  sysfs::MemoryTree tree;
  for (const char* domain : {"0001", "0002"}) topo::test::addPci(tree, topo::test::h100(domain, 0));
  topo::test::FlatPci first = topo::test::infinibandVf("0101", 0);
  first.infiniband = "near0";
  topo::test::FlatPci second = topo::test::infinibandVf("0102", 0);
  second.infiniband = "near1";
  topo::test::addPci(tree, first);
  topo::test::addPci(tree, second);
  topo::test::FlatPci storage =
      topo::test::infinibandVf("0103", 0);  // not offered: NCCL_IB_HCA leaves it out
  storage.infiniband = "storage0";
  topo::test::addPci(tree, storage);
  tree.file("/sys/devices/system/node/node0/cpumap", "0000ffff\n");
  write(tree);
  setenv("RAILWISE_TOPOLOGY", "auto", 1);
  Session<Newest> session(
      "name=near1,pci=/sys/devices/pci0102:00/0102:00:00.0;name=near0,pci=/sys/devices/pci0101:00/"
      "0101:00:00.0;name=far");
  std::string rails;
  for (int device = 0; device < 3; ++device) {
    ncclNetProperties_v12_t properties = {};
    ASSERT_EQ(Newest::table().getProperties(device, &properties), ncclSuccess);
    rails += std::string(properties.name) + "=" + std::to_string(properties.railId) + " ";
    EXPECT_EQ(properties.planeId, NCCL_NET_ID_UNDEF);
  }
  EXPECT_EQ(rails, "near0=0 near1=1 far=-1 ");
}

}  // namespace
}  // namespace railwise::test
