
#include <algorithm>

#include "base/text/words.h"
#include "sysfs/pci_devices.h"
#include "tests/ok.h"
#include "tests/topo/flat_tree.h"
#include "topo/sources/sysfs.h"

namespace railwise::topo {
namespace {

TEST(LoadMachine, ATreeIsCompletedAndSaysWhatWasAssumed) {
  const sysfs::MemoryTree tree = test::makeNdv5();
  const auto machine = loadMachine({.tree = &tree, .settings = Settings()});
  ASSERT_TRUE(machine.ok()) << machine.error();
  EXPECT_EQ(machine->name, tree.name());
  EXPECT_EQ(machine->graph->count(NodeType::kGpu), 8);
  EXPECT_TRUE(machine->completed);
  EXPECT_FALSE(machine->remarks.empty()) << "compute capability";
}

TEST(LoadMachine, ATopologyFileLiesUnderTheTree) {
  const sysfs::MemoryTree tree = test::makeNdv5();
  auto file =
      parseXml(R"(<system version="1"><cpu numaid="0" arch="arm64" affinity="ff"/></system>)", "file");
  ASSERT_TRUE(file.ok()) << file.error();
  const auto machine = loadMachine({.tree = &tree, .settings = Settings(), .document = std::move(*file)});
  ASSERT_TRUE(machine.ok()) << machine.error();
  const XmlNode* const cpu = machine->xml->find("cpu", "numaid", "0");
  ASSERT_NE(cpu, nullptr);
  EXPECT_EQ(cpu->get("arch"), "arm64");
}

// What is assumed of a GPU, and where /sys places it, is no note where the topology file says otherwise.
TEST(LoadMachine, NothingIsAssumedOfWhatTheFileDescribes) {
  sysfs::MemoryTree tree =
      test::makeFlatTree({"f", "f0"}, {test::h100("0001", -1)}, "x86_64,GenuineIntel,6,143");
  const std::string folder = sysfs::pciPath(tree, "0001:00:00.0").value();
  tree.file(folder + "/current_link_speed", "2.5 GT/s PCIe\n")
      .file(folder + "/max_link_speed", "32.0 GT/s PCIe\n");
  const auto notesWith = [&](const std::string& gpu) {
    auto file = parseXml("<system version=\"1\"><cpu numaid=\"0\">" + gpu + "</cpu></system>", "file");
    EXPECT_TRUE(file.ok()) << file.error();
    const auto machine = loadMachine({.tree = &tree, .settings = Settings(), .document = std::move(*file)});
    EXPECT_TRUE(machine.ok()) << machine.error();
    std::string notes;
    for (const std::string& note : machine->remarks) notes += note + "\n";
    return notes;
  };
  const std::vector<std::string> assumed = {"NVML has not told", "does not give the NUMA node",
                                            " runs at 2.5 GT/s"};
  const std::string without = notesWith("");
  const std::string described = notesWith(
      "<pci busid=\"0001:00:00.0\" class=\"0x030200\" link_speed=\"32.0 GT/s PCIe\" link_width=\"16\">"
      "<gpu dev=\"0\" sm=\"90\"><nvlink target=\"ffff:ff:ff.f\" count=\"18\" "
      "tclass=\"0x068000\"/></gpu></pci>");
  for (const std::string& note : assumed) {
    EXPECT_HAS(without, note);
    EXPECT_LACKS(described, note);
  }
  EXPECT_HAS(notesWith("<pci busid=\"0001:00:00.0\"><gpu dev=\"0\"/></pci>"), assumed[0]);
}

// NCCL_TOPO_FILE that says only part: the plugin's devices and the GPUs of the machine have the rest.
TEST(LoadMachine, AFileThatSaysPartIsCompletedByTheMachine) {
  test::FlatPci vf = test::infinibandVf("0101", 0);
  vf.infiniband = "mlx5_0";
  const sysfs::MemoryTree tree = test::makeFlatTree(
      {"ff"}, {test::h100("0001", 0), test::h100("0002", 0), vf}, "x86_64,GenuineIntel,6,143");
  auto file = parseXml(
      "<system version=\"1\"><cpu numaid=\"0\"><pci busid=\"ffff:01:00.0\" class=\"0x060400\" "
      "link_speed=\"32.0 GT/s PCIe\" link_width=\"16\"><pci busid=\"0001:00:00.0\"><gpu rank=\"7\"/></pci>"
      "<pci busid=\"0002:00:00.0\"><gpu rank=\"7\" dev=\"1\"/></pci>"
      "<pci busid=\"0003:00:00.0\" class=\"0x030200\"/><pci busid=\"0104:00:00.0\" class=\"0x020700\"/>"
      "<pci busid=\"0101:00:00.0\" class=\"0x020700\" link_speed=\"32.0 GT/s PCIe\" link_width=\"16\"><nic>"
      "<net name=\"mlx5_9\" dev=\"0\"/><net name=\"mlx5_0\" dev=\"4\"/></nic></pci></pci></cpu></system>",
      "file");
  ASSERT_TRUE(file.ok()) << file.error();
  SysfsOptions options;
  options.detection = {.gpu_sm = 90, .nvswitch_links = 18};
  const auto machine = loadMachine(
      {.tree = &tree, .settings = Settings(), .options = std::move(options), .document = std::move(*file)});
  ASSERT_TRUE(machine.ok()) << machine.error();
  const Graph& graph = *machine->graph;
  ASSERT_EQ(graph.count(NodeType::kNet), 1) << "the plugin has no mlx5_9";
  const Node& net = graph.of(NodeType::kNet, 0);
  EXPECT_EQ(net.name, "mlx5_0");
  EXPECT_EQ(net.dev, 0) << "the plugin's number";
  EXPECT_FLOAT_EQ(net.bandwidth, 50);
  EXPECT_EQ(net.gdr, 1);
  EXPECT_EQ(
      std::count(machine->remarks.begin(), machine->remarks.end(),
                 "the plugin has no device of the name mlx5_9, which the topology file has: NCCL drops what "
                 "the file says of it (the plugin has mlx5_0)"),
      1);
  EXPECT_HAS(joined(machine->remarks),
             "nothing at 0003:00:00.0, 0104:00:00.0, where the topology file has a");
  ASSERT_EQ(graph.count(NodeType::kGpu), 2);
  for (int rank = 0; rank < 2; ++rank) {
    const int gpu = graph.gpuOfRank(rank);
    ASSERT_GE(gpu, 0) << "the ranks are the job's";
    EXPECT_EQ(graph.of(NodeType::kGpu, gpu).dev, rank);
    EXPECT_EQ(graph.of(NodeType::kGpu, gpu).sm, 90);
    EXPECT_EQ(machine->paths->get(NodeType::kGpu, gpu, NodeType::kNet, 0).type, PathType::kPix);
  }
}

TEST(LoadMachine, AnErrorSaysWhatIsWrong) {
  const sysfs::MemoryTree empty("nothing");
  const auto none = loadMachine({.tree = &empty, .settings = Settings()});
  EXPECT_TRUE(none.error().starts_with("no GPU in nothing")) << none.error();
  EXPECT_EQ(none.failure().code, Code::kNoDevice);
  const sysfs::MemoryTree tree = test::makeNdv5();
  const std::string missing = "/no/such.xml";
  const auto unread = loadMachine({.tree = &tree, .settings = Settings(), .topology_file = &missing});
  EXPECT_HAS(unread.error(), "/no/such.xml");
  EXPECT_NE(unread.failure().code, Code::kNoDevice);
  const auto alone = loadMachine({.settings = Settings(), .topology_file = &missing});
  EXPECT_HAS(alone.error(), "/no/such.xml");
}

// One machine, whether it is a tree or the file that was made of it: its GPUs are known by their PCI ids.
TEST(LoadMachine, KnownGpusAreTheSameInATreeAndInAFile) {
  const sysfs::MemoryTree tree = test::makeNdv5();
  auto file = parseXml(
      "<system version=\"1\"><cpu numaid=\"0\" arch=\"x86_64\" vendor=\"GenuineIntel\" familyid=\"6\" "
      "modelid=\"143\" affinity=\"ff\"><pci busid=\"0001:00:00.0\" class=\"0x030200\" vendor=\"0x10de\" "
      "device=\"0x2330\" link_speed=\"32.0 GT/s PCIe\" link_width=\"16\"/></cpu></system>",
      "file");
  ASSERT_TRUE(file.ok()) << file.error();
  for (const bool known : {true, false}) {
    SysfsOptions options;
    options.detection.known_gpus = known;
    const auto of_tree = loadMachine({.tree = &tree, .settings = Settings(), .options = options});
    const auto of_file =
        loadMachine({.settings = Settings(), .options = options, .document = XmlDocument(*file)});
    for (const auto* machine : {&of_tree, &of_file}) {
      ASSERT_TRUE(machine->ok()) << machine->error();
      const Graph& graph = *(*machine)->graph;
      EXPECT_EQ(graph.of(NodeType::kGpu, 0).sm, known ? 90 : kAssumedSm);
      EXPECT_EQ(std::any_of((*machine)->remarks.begin(), (*machine)->remarks.end(),
                            [](const std::string& remark) {
                              return remark.find("known to be H100") != std::string::npos;
                            }),
                known);
    }
    EXPECT_EQ(of_tree->graph->count(NodeType::kNvs), known ? 1 : 0) << "eight GPUs are on a switched board";
    EXPECT_EQ(of_file->graph->count(NodeType::kNvs), 0) << "a single one is not";
  }
}

}  // namespace
}  // namespace railwise::topo
