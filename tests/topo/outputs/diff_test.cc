#include "tests/ok.h"
#include "tests/topo/output_machines.h"
#include "topo/outputs/outputs.h"

namespace railwise::topo {
namespace {

using namespace test;

const Difference* find(const std::vector<Difference>& list, const std::string& kind,
                       const std::string& what) {
  for (const Difference& difference : list) {
    if (difference.kind == kind && difference.what == what) return &difference;
  }
  return nullptr;
}

TEST(Diff, OfTheSameMachineIsEmpty) {
  const Machine left = machineOf(twoSwitches());
  const Machine right = machineOf(twoSwitches());
  EXPECT_TRUE(diff(left, right).empty());
  EXPECT_EQ(diffText(left, right, {}),
            "no difference between test.xml (NCCL 2.31.2) and test.xml (NCCL 2.31.2)\n");
  EXPECT_HAS(diffJson(left, right, {}), "\"equal\": true");
  EXPECT_HAS(diffJson(left, right, {}), "\"same_file\": true");
}

// Files do name two switches alike (rccl/topo_4p4h.xml) and list a net under every NUMA node.
TEST(Diff, OfTheSameMachineIsEmptyEvenWithDoubleNames) {
  const std::string xml = systemOf(
      cpu(0, pciSwitch("0000:10:00.0", gpu(0, "0000:11:00.0")) +
                 pciSwitch("0000:10:00.0", nic(0, "0000:12:00.0", "a") + nic(0, "0000:13:00.0", "a"))));
  EXPECT_TRUE(diff(machineOf(xml), machineOf(xml)).empty());
}

TEST(Diff, TellsWhatAHiddenTreeCosts) {
  const Machine left = machineOf(twoSwitches());
  const Machine right = machineOf(flat());
  const auto list = diff(left, right);
  const Difference* path = find(list, "path", "GPU/0 -> NET/0");
  ASSERT_NE(path, nullptr);
  EXPECT_EQ(path->left, "PIX 48 GB/s, 4 hops");
  EXPECT_EQ(path->right, "PHB 12 GB/s, 4 hops");
  const Difference* gdr = find(list, "gpudirect", "GPU/0 -> NET/0");
  ASSERT_NE(gdr, nullptr);
  EXPECT_EQ(gdr->right, "receive off, send off, no flush");
  const Difference* bridge = find(list, "device", "PCI/0000:10:00.0");
  ASSERT_NE(bridge, nullptr);
  EXPECT_EQ(bridge->right, "");
  EXPECT_EQ(find(list, "nic", "GPU/0"), nullptr) << "the choice is the same";
}

TEST(Diff, NamesTheLinesOfTwoFiles) {
  const std::string xml = twoSwitches();
  std::string other = xml;
  const std::size_t at = other.find("name=\"mlx5_0\"");
  ASSERT_NE(at, std::string::npos) << xml;
  other.insert(at, "latency=\"7\" ");
  Machine left = machineOf(xml), right = machineOf(other);
  EXPECT_LACKS(diffText(left, right, {}), "Lines");
  auto renamed = std::make_unique<XmlDocument>(*right.xml);
  renamed->file = "b.xml";
  right.xml = std::move(renamed);
  const std::string text = diffText(left, right, {});
  EXPECT_HAS(text, ": net mlx5_0 latency: nothing became \"7\"\n");
  EXPECT_HAS(text, ", b.xml:");
}

TEST(Diff, OfNumaNodes) {
  const std::string swapped =
      systemOf(cpu(1, pciSwitch("0000:10:00.0", gpu(0, "0000:11:00.0") + nic(0, "0000:12:00.0", "mlx5_0"))) +
               cpu(0, pciSwitch("0000:20:00.0", gpu(1, "0000:21:00.0") + nic(1, "0000:22:00.0", "mlx5_1"))));
  const auto list = diff(machineOf(twoSwitches()), machineOf(swapped));
  const Difference* numa = find(list, "numa", "GPU/0");
  ASSERT_NE(numa, nullptr);
  EXPECT_EQ(numa->left, "NUMA node 0");
  EXPECT_EQ(numa->right, "NUMA node 1");
  EXPECT_NE(find(list, "numa", "NET/1"), nullptr);
}

TEST(Diff, SaysTheSameOnce) {
  const Machine left = machineOf(twoSwitches());
  const Machine right = machineOf(flat());
  const std::string text = diffText(left, right, diff(left, right));
  EXPECT_HAS(text,
             "  GPU/0 -> NET/0, GPU/1 -> NET/1: PIX 48 GB/s, 4 hops became PHB 12 GB/s, 4 hops (2 pairs)\n");
  EXPECT_HAS(text, "PCI/0000:10:00.0, PCI/0000:20:00.0: only on the left");
}

TEST(Diff, OfNcclVersionsHasTheHopsOfAPathThatChanges) {
  const Machine left = machineOf(twoSwitches());
  const Machine right = machineOf(flat(), {.nccl = NcclVersion::k2_28});
  const auto list = diff(left, right);
  const Difference* path = find(list, "path", "GPU/0 -> NET/0");
  ASSERT_NE(path, nullptr);
  const int hops = right.paths->get(NodeType::kGpu, 0, NodeType::kNet, 0).hops;
  ASSERT_NE(hops, left.paths->get(NodeType::kGpu, 0, NodeType::kNet, 0).hops);
  EXPECT_EQ(path->right, "PHB 12 GB/s, " + std::to_string(hops) + " hops");
}

// Two lists stand for every one with every one, and nothing less.
TEST(Diff, ListsThePairsThatTwoListsDoNotGiveBack) {
  const Machine machine = machineOf(twoSwitches());
  const auto textOf = [&](const std::vector<std::string>& whats) {
    std::vector<Difference> list;
    for (const std::string& what : whats) list.push_back({"link", what, "a", "b"});
    return diffText(machine, machine, list);
  };
  EXPECT_HAS(textOf({"DEV/0 - NVS/0", "DEV/1 - NVS/0"}), "  DEV/0..1 - NVS/0: a became b (2 pairs)\n");
  EXPECT_HAS(textOf({"DEV/0 - DEV/1", "DEV/2 - DEV/3"}),
             "  DEV/0 - DEV/1, DEV/2 - DEV/3: a became b (2 pairs)\n");
  EXPECT_HAS(textOf({"DEV/0 - DEV/1", "DEV/0 - DEV/2", "DEV/1 - DEV/2"}),
             "  any two of DEV/0..2: a became b (3 pairs)\n");
  std::vector<std::string> many;
  for (int i = 0; i < 8; ++i) many.push_back("DEV/" + std::to_string(i) + " - PCI/" + std::to_string(i));
  EXPECT_HAS(textOf(many), "DEV/5 - PCI/5 and 2 more: a became b (8 pairs)\n");
}

TEST(Diff, OfDevicesAndChoices) {
  const Machine left = machineOf(twoSwitches());
  const Machine right = machineOf(twoSwitches("mlx5_9"));
  const auto list = diff(left, right);
  const Difference* net = find(list, "device", "NET/0");
  ASSERT_NE(net, nullptr) << "matched by number, since the name is another";
  EXPECT_EQ(net->right, "mlx5_9, device 0, 400 Gb/s, GPUDirect");
  const Difference* choice = find(list, "nic", "GPU/0");
  ASSERT_NE(choice, nullptr);
  EXPECT_EQ(choice->left, "mlx5_0");
  EXPECT_EQ(choice->right, "mlx5_9");
}

TEST(Diff, OfNcclVersionsMatchesGpusWithTheirDevices) {
  const Machine left = machineOf(twoSwitches());
  const Machine right = machineOf(twoSwitches(), {.nccl = NcclVersion::k2_28});
  const auto list = diff(left, right);
  EXPECT_EQ(std::count_if(list.begin(), list.end(), [](const Difference& d) { return d.kind == "link"; }), 0);
  EXPECT_EQ(find(list, "path", "GPU/0 -> GPU/1"), nullptr)
      << "NCCL 2.30 counts a hop from a GPU to its device, which changes nothing";
  const std::string text = diffText(left, right, list);
  EXPECT_HAS(text, "rules that differ between 2.28.9 and 2.31.2: none matters here");
  EXPECT_HAS(text, "    2.30.3 brought: a rank is a node behind the node of its GPU");
}

// The four GPUs of a socket share two NICs: NCCL 2.30.7 counts them by their places among the four, NCCL 2.31
// by their numbers on the host.
TEST(Diff, TellsWhatAnUpgradeTo231Changes) {
  const auto three = [](NcclVersion release) {
    std::string inside;
    for (int i = 0; i < 3; ++i) inside += gpu(i, "0000:1" + std::to_string(i) + ":00.0");
    std::string other;
    for (int i = 3; i < 6; ++i) other += gpu(i, "0000:2" + std::to_string(i) + ":00.0");
    for (int i = 0; i < 4; ++i) {
      const std::string number = std::to_string(i);
      (i < 2 ? inside : other) += nic(i, "0000:3" + number + ":00.0", "mlx5_" + number);
    }
    return machineOf(systemOf(cpu(0, inside) + cpu(1, other)), {.nccl = release});
  };
  const Machine before = three(NcclVersion::k2_30);
  const Machine after = three(NcclVersion::k2_31);
  const auto list = diff(before, after);
  const Difference* choice = find(list, "nic", "GPU/3");
  ASSERT_NE(choice, nullptr);
  EXPECT_EQ(choice->left, "mlx5_2");
  EXPECT_EQ(choice->right, "mlx5_3");
  const std::string text = diffText(before, after, list);
  EXPECT_HAS(text, "rules that differ between 2.30.7 and 2.31.2: some of them make the differences above");
  EXPECT_HAS(text, "  only 2.30.7 has these:\n    2.31.2 dropped: ");
  EXPECT_HAS(text, "    2.31.2 dropped: equally near NICs are dealt out by a GPU's number");
  EXPECT_HAS(diffText(after, before, diff(after, before)), "    2.31.2 brought: all NVSwitches");
  EXPECT_HAS(diffJson(before, after, list), "{\"since\": \"2.31.2\", \"rule\": \"all NVSwitches");
}

}  // namespace
}  // namespace railwise::topo
