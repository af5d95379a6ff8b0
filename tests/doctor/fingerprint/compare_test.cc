
#include <functional>

#include "doctor/fingerprint/fingerprint.h"
#include "tests/doctor/fingerprint/nodes.h"
#include "tests/ok.h"

namespace railwise::doctor::fingerprint {
namespace {

std::vector<NamedNode> makeNodes(std::size_t count,
                                 const std::function<void(std::size_t, Fingerprint&)>& change = nullptr) {
  std::vector<NamedNode> nodes;
  for (std::size_t i = 0; i < count; ++i) {
    nodes.push_back({"node" + std::to_string(i + 1), test::makeNode()});
    nodes.back().node.host = nodes.back().name;
    if (change) change(i + 1, nodes.back().node);
  }
  return nodes;
}

std::string textOf(const std::vector<NamedNode>& nodes) { return comparisonText(nodes, compareNodes(nodes)); }

TEST(CompareNodes, EqualNodesAreAlike) {
  const auto nodes = makeNodes(3);
  EXPECT_TRUE(compareNodes(nodes).differences.empty());
  EXPECT_EQ(textOf(nodes), "3 nodes are alike: " + hashOf(nodes[0].node) + "\n");
  EXPECT_EQ(textOf(makeNodes(1)), "1 node, and nothing to compare it with: node1\n");
}

TEST(CompareNodes, NamesTheOddNodes) {
  const auto nodes = makeNodes(5, [](std::size_t number, Fingerprint& node) {
    if (number == 2) node.kernel = "6.5.0";
    if (number == 4) node.gpu_driver = "550.54.15", node.kernel = "6.5.0";
  });
  EXPECT_EQ(textOf(nodes),
            "5 nodes, of which 2 are odd: node4 (kernel, GPU driver), node2 (kernel)\n"
            "kernel: 6.8.0-45-generic on 3 nodes\n"
            "  6.5.0 on 2 nodes: node2, node4\n"
            "GPU driver: 550.90.07 on 4 nodes\n"
            "  550.54.15 on 1 node: node4\n");
}

TEST(CompareNodes, MostNodesAreAMajorityAmongSeveralValues) {
  const auto nodes = makeNodes(5, [](std::size_t number, Fingerprint& node) {
    if (number > 2) node.cuda = "12." + std::to_string(number);
  });
  EXPECT_EQ(textOf(nodes),
            "5 nodes, of which 3 are odd: node3 (CUDA), node4 (CUDA), node5 (CUDA)\n"
            "CUDA: 12.4.1 on 2 nodes\n"
            "  12.3 on 1 node: node3\n"
            "  12.4 on 1 node: node4\n"
            "  12.5 on 1 node: node5\n");
}

TEST(CompareNodes, ATieHasNoMajority) {
  const auto nodes = makeNodes(5, [](std::size_t number, Fingerprint& node) {
    if (number > 2) node.rdma_core = "44.0";
    if (number == 5) node.rdma_core = "";
  });
  const Comparison comparison = compareNodes(nodes);
  EXPECT_TRUE(comparison.odd.empty());
  EXPECT_EQ(textOf(nodes),
            "5 nodes differ, and none of them is odd: no value has a majority\n"
            "rdma-core: no majority\n"
            "  44.0 on 2 nodes: node3, node4\n"
            "  50.0 on 2 nodes: node1, node2\n"
            "  - on 1 node: node5\n");
}

TEST(CompareNodes, ATieInOneFieldHidesNoOddNodeOfAnother) {
  const auto nodes = makeNodes(4, [](std::size_t number, Fingerprint& node) {
    if (number > 2) node.cuda = "12.6.0";
    if (number == 3) node.nics[0].firmware = "28.36.1010";
  });
  const std::string text = textOf(nodes);
  EXPECT_TRUE(text.starts_with("4 nodes, of which 1 is odd: node3 (NIC firmware)\nCUDA: no majority\n"))
      << text;
}

TEST(CompareNodes, AFieldThatANodeLacksIsNotKnownThere) {
  const auto nodes = makeNodes(3, [](std::size_t number, Fingerprint& node) {
    if (number == 2) node.modules = {{"nvidia", "550.90.07"}, {"bnxt_en", "1.10.3"}};
  });
  const std::string text = textOf(nodes);
  EXPECT_HAS(text, "module mlx5_core: 24.04-0.7.0 on 2 nodes\n  - on 1 node: node2\n");
  EXPECT_HAS(text, "module bnxt_en: - on 2 nodes\n  1.10.3 on 1 node: node2\n");
}

TEST(CompareNodes, AThousandNodes) {
  const auto nodes = makeNodes(1000, [](std::size_t number, Fingerprint& node) {
    if (number == 17) node.gpu_firmware = {{"96.00.74.00.01", 1}, {"96.00.89.00.01", 7}};
    if (number % 4 == 0) node.kernel = "6.5.0";
  });
  const Comparison comparison = compareNodes(nodes);
  EXPECT_EQ(comparison.odd.size(), 251U);
  const std::string text = comparisonText(nodes, comparison);
  EXPECT_HAS(text,
             "GPU firmware: 96.00.89.00.01 on 999 nodes\n  1 x 96.00.74.00.01, 7 x 96.00.89.00.01 on 1 "
             "node: node17\n");
  EXPECT_HAS(text, "6.5.0 on 250 nodes: node4, node8,");
  EXPECT_HAS(text, "node80 and 230 more (--json names all)\n");
  EXPECT_HAS(comparisonJson(nodes, comparison), "\"node1000\"");
}

TEST(CompareNodes, JsonHasMajorityOrNull) {
  const auto nodes = makeNodes(4, [](std::size_t number, Fingerprint& node) {
    if (number > 2) node.cuda = "12.6.0";
    if (number == 3) node.kernel = "6.5.0";
  });
  const std::string json = comparisonJson(nodes, compareNodes(nodes));
  EXPECT_HAS(json, R"("nodes": 4)");
  EXPECT_HAS(json, R"({"node": "node3", "fields": ["kernel"]})");
  EXPECT_HAS(json, R"("majority": "6.8.0-45-generic")");
  EXPECT_HAS(json, R"("majority": null)");
  EXPECT_HAS(json, R"({"value": "12.6.0", "nodes": ["node3", "node4"]})");
}

}  // namespace
}  // namespace railwise::doctor::fingerprint
