#include <cstdio>
#include <cstdlib>

#include "tests/topo/output_machines.h"
#include "topo/outputs/outputs.h"

namespace railwise::topo {
namespace {

using namespace test;

TEST(Dot, HasClustersAndLabelledLinks) {
  const std::string dot = dotText(machineOf(twoSwitches()));
  EXPECT_EQ(dot.substr(0, 16), "graph topology {");
  EXPECT_TRUE(has(dot, "subgraph \"cluster_CPU/0\""));
  EXPECT_TRUE(has(dot, "\"CPU/0\" -- \"PCI/0000:10:00.0\" [label=\"PCIe 48\""));
  EXPECT_TRUE(has(dot, "label=\"GPU 1\\n0000:21:00.0\""));
  EXPECT_EQ(countOf(dot, "NVLink 370.8"), 2) << "each link once, not once in each direction";
}

TEST(Dot, QuotesWhatAFileSays) {
  const std::string dot = dotText(machineOf(twoSwitches("a\\b]; evil")));
  EXPECT_TRUE(has(dot, "a\\\\b]; evil")) << dot;
}

// Whether Graphviz takes it; where it is installed.
TEST(Dot, IsValid) {
  if (std::system("command -v dot >/dev/null") != 0) GTEST_SKIP() << "no Graphviz (dot) here";
  for (const std::string& xml : {twoSwitches(), flat(), twoSwitches("\\")}) {
    std::FILE* dot = ::popen("dot -Tcanon >/dev/null 2>&1", "w");
    ASSERT_NE(dot, nullptr);
    const std::string text = dotText(machineOf(xml));
    std::fwrite(text.data(), 1, text.size(), dot);
    EXPECT_EQ(::pclose(dot), 0);
  }
}

}  // namespace
}  // namespace railwise::topo
