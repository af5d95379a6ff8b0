// What RAILWISE_STRICT refuses at init: pure checks of ports and a /sys tree.
#include "net/topology/strict.h"

#include <cstdio>
#include <fstream>

#include "tests/ok.h"
#include "tests/topo/flat_tree.h"

namespace railwise::net {
namespace {

constexpr const char* kSlot = "/sys/devices/pci0000:3a/0000:3a:00.0";
const std::string kNic = std::string(kSlot) + "/0000:3b:00.0";

PortFacts makePort(const std::string& name, int mbps = 400000) {
  return {.name = name,
          .type = "mlx5",
          .pci_path = "",
          .mbps = mbps,
          .gpu_direct = true,
          .why_no_gpu_direct = ""};
}

// The texts, with the word of each.
std::string found(const StrictMode& strict, const MachineFacts& machine) {
  std::string lines;
  for (const Violation& violation : violations(strict, machine))
    lines += std::string(violation.word) + ": " + violation.text + "\n";
  return lines;
}

const StrictMode kAll = {true, true, true, true, true};

TEST(Strict, AGoodMachineIsAccepted) {
  const sysfs::MemoryTree tree;
  EXPECT_EQ(found(kAll, {.tree = tree, .ports = {makePort("a"), makePort("b")}}), "");
}

TEST(Strict, APortSlowerThanOthersOfItsTypeIsNamed) {
  const sysfs::MemoryTree tree;
  const MachineFacts machine = {.tree = tree, .ports = {makePort("a"), makePort("b", 100000)}};
  const std::string text = found(kAll, machine);
  EXPECT_HAS(text, "speed: b has a link of 100 Gb/s, and a, a NIC of its type, one of 400 Gb/s");
  EXPECT_EQ(found({.device = true, .gdr = true, .topology = true, .version = true}, machine), "");
}

TEST(Strict, PortsOfDifferentTypesMayDiffer) {
  const sysfs::MemoryTree tree;
  PortFacts storage = makePort("b", 100000);
  storage.type = "bnxt";
  EXPECT_EQ(found(kAll, {.tree = tree, .ports = {makePort("a"), storage}}), "");
}

void addLink(sysfs::MemoryTree& tree, const std::string& path, const char* which, const char* speed,
             const char* width) {
  tree.file(path + "/" + which + "_link_speed", std::string(speed) + "\n");
  tree.file(path + "/" + which + "_link_width", std::string(width) + "\n");
}

std::string foundWithLink(const char* speed, const char* width, const char* slot_width = "16") {
  sysfs::MemoryTree tree;
  addLink(tree, kNic, "max", "32.0 GT/s PCIe", "16");
  addLink(tree, kSlot, "max", "16.0 GT/s PCIe", slot_width);
  addLink(tree, kNic, "current", speed, width);
  PortFacts port = makePort("a");
  port.pci_path = kNic;
  return found(kAll, {.tree = tree, .ports = {port, port}});
}

TEST(Strict, APcieLinkBelowWhatCardAndSlotCanIsNamedOnce) {
  EXPECT_EQ(foundWithLink("16.0 GT/s PCIe", "16"), "");
  const std::string text = foundWithLink("8.0 GT/s PCIe", "16");
  EXPECT_HAS(text, "speed: a (0000:3b:00.0) has a PCIe link of 8 GT/s x16, and 16 GT/s x16 is possible");
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1);
  EXPECT_HAS(foundWithLink("16.0 GT/s PCIe", "8"), "16 GT/s x8, and 16 GT/s x16");
}

TEST(Strict, ANarrowSlotIsNoFault) { EXPECT_EQ(foundWithLink("16.0 GT/s PCIe", "8", "8"), ""); }

TEST(Strict, AnUnknownLinkIsNoFault) {
  EXPECT_EQ(foundWithLink("Unknown", "0"), "");
  EXPECT_EQ(foundWithLink("16.0 GT/s PCIe", "255"), "");
}

sysfs::MemoryTree treeWithGpu() {
  sysfs::MemoryTree tree;
  topo::test::addPci(tree, topo::test::h100("0001", 0));
  topo::test::addPci(tree, topo::test::infinibandVf("0101", 0));
  return tree;
}

TEST(Strict, ANicWithoutGpuDirectIsNamedWhereThereAreGpusInUse) {
  const sysfs::MemoryTree tree = treeWithGpu();
  const sysfs::MemoryTree without_gpu;
  PortFacts port = makePort("a");
  port.gpu_direct = false;
  port.why_no_gpu_direct = "no module";
  const StrictMode gdr = {.device = true, .gdr = true};
  EXPECT_HAS(found(gdr, {.tree = tree, .ports = {port}, .gpu_driver_loaded = true}),
             "gdr: a cannot register GPU memory, so every byte goes through host memory: no module");
  EXPECT_EQ(found(gdr, {.tree = tree, .ports = {port}, .gpu_driver_loaded = false}), "");
  EXPECT_EQ(found(gdr, {.tree = without_gpu, .ports = {port}, .gpu_driver_loaded = true}), "");
  EXPECT_EQ(found(gdr, {.tree = tree, .ports = {makePort("a")}, .gpu_driver_loaded = true}), "");
}

// The folder of the NIC of treeWithGpu().
std::string nicPath(const sysfs::MemoryTree& tree) {
  return *tree.realPath("/sys/bus/pci/devices/0101:00:00.0");
}

std::string foundHidden(const std::string& asked, const sysfs::MemoryTree& tree = treeWithGpu()) {
  PortFacts port = makePort("a");
  port.pci_path = nicPath(tree);
  return found({.device = true, .topology = true}, {.tree = tree, .ports = {port}, .topology_asked = asked});
}

TEST(Strict, AHiddenTreeNeedsAFile) {
  EXPECT_HAS(foundHidden(""), "topology: the PCIe tree is hidden here");
  EXPECT_HAS(foundHidden(""), "set RAILWISE_TOPOLOGY=auto");
  EXPECT_HAS(foundHidden("auto"), "RAILWISE_TOPOLOGY=auto could not restore it");
  EXPECT_HAS(foundHidden("/x.xml"), "RAILWISE_TOPOLOGY=/x.xml was refused");
  sysfs::MemoryTree cloud = treeWithGpu();
  cloud.file("/var/run/nvidia-topologyd/virtualTopology.xml", "<system/>");
  EXPECT_EQ(foundHidden("", cloud), "");
}

TEST(Strict, AVisibleTreeNeedsNone) {
  sysfs::MemoryTree tree;
  topo::test::addPci(tree, topo::test::h100("0001", 0), "/0001:00:01.0/0001:01:00.0");
  topo::test::addPci(tree, topo::test::infinibandVf("0101", 0), "/0101:00:01.0");
  EXPECT_EQ(foundHidden("", tree), "");
}

std::string foundWithFile(const std::string& content) {
  const sysfs::MemoryTree tree = treeWithGpu();
  const std::string path = testing::TempDir() + "railwise-strict-" + std::to_string(getpid()) + ".xml";
  std::ofstream(path) << content;
  std::string lines =
      found({.device = true, .topology = true}, {.tree = tree, .ports = {}, .topology_file = path});
  std::remove(path.c_str());
  return lines;
}

std::string fileWith(const std::string& busid) {
  return "<system version=\"1\">\n  <cpu numaid=\"0\" arch=\"x86_64\" vendor=\"GenuineIntel\" familyid=\"6\" "
         "modelid=\"143\" affinity=\"ff\">\n    <pci busid=\"" +
         busid +
         "\" class=\"0x030200\" link_speed=\"32.0 GT/s PCIe\" link_width=\"16\"/>\n  </cpu>\n</system>\n";
}

TEST(Strict, ATopologyFileHasToBeThereAndOfThisMachine) {
  EXPECT_EQ(foundWithFile(fileWith("0001:00:00.0")), "");
  EXPECT_HAS(foundWithFile(fileWith("0000:99:00.0")), "describes another machine: none of the 1 GPUs");
  EXPECT_HAS(foundWithFile("<system"), "cannot be read");
  std::string of_rccl = fileWith("0001:00:00.0");
  of_rccl.replace(of_rccl.find("\"1\""), 3, "\"2\"");
  EXPECT_HAS(foundWithFile(of_rccl), "is of version 2, RCCL's, which NCCL refuses");
  const sysfs::MemoryTree tree;
  EXPECT_HAS(found(kAll, {.tree = tree, .ports = {}, .topology_file = "/nowhere.xml"}), "does not exist");
}

}  // namespace
}  // namespace railwise::net
