// How the engine grows with the machine, held by counting instead of by a clock: cells (links of paths) and
// bytes.
#include <gtest/gtest.h>

#include "tests/ok.h"
#include "tests/topo/big_machines.h"
#include "topo/machine/machine.h"

namespace railwise::topo {
namespace {

Machine makeMachineOf(const std::string& text) {
  auto document = parseXml(text, "test.xml", {.max_nodes = 0});
  EXPECT_OK(document);
  auto machine = loadDocument(std::move(*document), Settings{}, {.gpu_sm = 90}, "test.xml");
  EXPECT_OK(machine);
  return std::move(*machine);
}

Machine makeDomain(int gpus) { return makeMachineOf(test::MachineText::nvlinkDomain(gpus / 4)); }

TEST(Growth, MachinesAreAsLargeAsTheyClaim) {
  for (const int gpus : {8, 16, 72}) {
    const Machine machine = makeDomain(gpus);
    EXPECT_EQ(machine.graph->count(NodeType::kGpu), gpus);
    EXPECT_EQ(machine.graph->count(NodeType::kNet), gpus);
    EXPECT_EQ(machine.graph->hosts(), gpus / 4);
    EXPECT_EQ(machine.domains.size(), 1U);
    EXPECT_EQ(machine.paths->get(NodeType::kGpu, 0, NodeType::kGpu, gpus - 1).type, PathType::kNvl);
  }
}

// The search makes a cell when it finds a node, and again when it finds a better way: not more than twice for
// each pair that has a path. Cells that grow faster than pairs mean that the search goes in circles or paths
// are copied.
TEST(Growth, CellsGrowAsPairs) {
  double before = 0;
  for (const int gpus : {72, 144, 288, 576}) {
    const Machine machine = makeDomain(gpus);
    const double pairs = static_cast<double>(gpus) * gpus;
    const double per_pair = static_cast<double>(machine.paths->cellCount()) / pairs;
    EXPECT_LT(per_pair, 3) << gpus;
    if (before > 0) EXPECT_LT(per_pair, before * 1.1) << gpus;
    before = per_pair;
  }
}

TEST(Growth, HgxIsSmall) {
  const Machine machine = makeMachineOf(test::MachineText::hgx());
  EXPECT_EQ(machine.graph->count(NodeType::kPci), 4);
  EXPECT_LT(machine.paths->cellCount(), 2000U);
  EXPECT_LT(machine.paths->bytes(), 100U << 10U);
}

TEST(Growth, MemoryAt576Gpus) {
  constexpr std::size_t kGoal = 256UL << 20U;
  const Machine machine = makeDomain(576);
  const std::size_t nodes = machine.graph->nodes().size();
  std::size_t links = 0;
  for (const Node& node : machine.graph->nodes()) links += node.links.capacity();
  // While the cells grow their old and new places exist at once; a node with its strings takes under 1 KiB.
  const std::size_t peak = machine.paths->bytes() * 2 + nodes * 1024 + links * sizeof(Link);
  EXPECT_GT(machine.paths->bytes(), 576U * 576U * sizeof(Path));
  EXPECT_LT(peak, kGoal);
}

// One domain of all GPUs shares the paths of the machine instead of having its own.
TEST(Growth, OneDomainSharesThePaths) {
  const Machine machine = makeDomain(16);
  ASSERT_EQ(machine.domains.size(), 1U);
  EXPECT_EQ(machine.domains[0].paths, machine.paths);
}

}  // namespace
}  // namespace railwise::topo
