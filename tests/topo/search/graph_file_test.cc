#include "topo/search/graph_file.h"

#include "tests/ok.h"
#include "tests/topo/search/search_machines.h"

namespace railwise::topo {
namespace {

using namespace test;

// A ring of two channels on twoSwitches(), with one attribute or element that can be replaced.
std::string ringFile(const std::string& from = "", const std::string& to = "") {
  std::string text =
      "<graphs version=\"1\">\n"
      "  <graph id=\"0\" pattern=\"4\" crossnic=\"0\" nchannels=\"2\" speedintra=\"12\" speedinter=\"10\" "
      "latencyinter=\"1.5\" typeintra=\"NVL\" typeinter=\"PIX\" samechannels=\"1\">\n"
      "    <channel>\n"
      "      <net dev=\"0\"/>\n      <gpu dev=\"0\" rank=\"0\"/>\n      <gpu dev=\"0x1\" rank=\"1\"/>\n"
      "      <net dev=\"0x1\"/>\n"
      "    </channel>\n"
      "    <channel>\n"
      "      <net dev=\"1\"/>\n      <gpu dev=\"1\"/>\n      <gpu dev=\"0\"/>\n      <net dev=\"1\"/>\n"
      "    </channel>\n"
      "  </graph>\n"
      "</graphs>\n";
  if (!from.empty()) {
    const std::size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    text.replace(at, from.size(), to);
  }
  return text;
}

// What the file says of an algorithm; an error as text.
std::string errorOf(const std::string& text, bool inter = true) {
  const auto file = GraphFile::parse(text, "graphs.xml");
  if (!file.ok()) return file.error();
  const Machine machine = machineOf(twoSwitches());
  const auto found = file->find(Algorithm::kRing, *machine.graph, inter, *machine.settings);
  return found.ok() ? "" : found.error();
}

TEST(GraphFile, IsReadAsNcclReadsIt) {
  const auto file = GraphFile::parse(ringFile(), "graphs.xml");
  ASSERT_OK(file);
  const Machine machine = machineOf(twoSwitches());
  const auto ring = file->find(Algorithm::kRing, *machine.graph, true, *machine.settings);
  ASSERT_OK(ring);
  ASSERT_TRUE(ring->has_value());
  EXPECT_EQ((*ring)->bandwidth_intra, 12);
  EXPECT_EQ((*ring)->bandwidth_inter, 10);
  EXPECT_EQ((*ring)->latency_inter, 1.5F);
  EXPECT_EQ((*ring)->type_inter, PathType::kPix);
  ASSERT_EQ((*ring)->channels.size(), 2U);
  EXPECT_EQ((*ring)->channels[0].net_out, 1);
  EXPECT_EQ((*ring)->channels[1].ranks, (std::vector<int>{1, 0})) << "found by dev, without a rank";
  const auto tree = file->find(Algorithm::kTree, *machine.graph, true, *machine.settings);
  ASSERT_OK(tree);
  EXPECT_FALSE(tree->has_value());
}

TEST(GraphFile, WhatCrossNicForbidsIsLeftOut) {
  const auto file = GraphFile::parse(ringFile("crossnic=\"0\"", "crossnic=\"1\""), "graphs.xml");
  ASSERT_OK(file);
  Settings settings{.cross_nic = 0};
  const Machine machine = machineOf(twoSwitches(), settings);
  const auto ring = file->find(Algorithm::kRing, *machine.graph, true, *machine.settings);
  ASSERT_OK(ring);
  EXPECT_FALSE(ring->has_value());
}

TEST(GraphFile, ErrorsNameTheLineAndTheElement) {
  struct Case {
    const char* from;
    const char* to;
    const char* said;
  };
  for (const Case& c : std::vector<Case>{
           {"id=\"0\" ", "", "graphs.xml:2:3: <graph> has no id"},
           {"pattern=\"4\" ", "", "graphs.xml:2:3: <graph> has no pattern"},
           {"pattern=\"4\"", "pattern=\"9\"", "graphs.xml:2:3: <graph> has pattern=\"9\"; write 1"},
           {"nchannels=\"2\"", "nchannels=\"3\"", "says nchannels=\"3\" and has 2 <channel> elements"},
           {"nchannels=\"2\"", "nchannels=\"65\"", "NCCL has room for 0 to 64"},
           {"speedintra=\"12\"", "speedintra=\"fast\"", "<graph> has speedintra=\"fast\"; write a number"},
           {"typeintra=\"NVL\"", "typeintra=\"C2C\"", "which NCCL would take for LOC"},
           {"rank=\"1\"", "rank=\"7\"", "graphs.xml:6:7: <gpu> has rank=\"7\"; the machine has no such rank"},
           {"rank=\"1\"", "rank=\"0\"", "graphs.xml:6:7: <gpu> names rank 0 again"},
           {"<gpu dev=\"1\"/>", "<gpu dev=\"9\"/>", "<gpu> has dev=\"9\"; the machine has no such GPU"},
           {"<gpu dev=\"1\"/>", "", "graphs.xml:9:5: <channel> names 1 GPUs; NCCL needs all 2"},
           {"<net dev=\"0x1\"/>", "<net dev=\"0x9\"/>", "<net> has dev=\"0x9\"; the machine has no such NIC"},
           {"<net dev=\"0x1\"/>", "<net/>", "graphs.xml:7:7: <net> has no dev"},
           {"<net dev=\"0x1\"/>", "", "graphs.xml:3:5: <channel> names 1 <net> elements"},
           {"version=\"1\"", "version=\"2\"", "<graphs> has version \"2\"; NCCL takes version 1 only"},
           {"<graphs version=\"1\">", "<graphs>", "write <graphs version=\"1\">"},
       })
    EXPECT_HAS(errorOf(ringFile(c.from, c.to)), c.said);
  EXPECT_HAS(errorOf(twoSwitches()), "the file has no <graphs>; give a graph file");
  EXPECT_EQ(errorOf(ringFile("<net dev=\"0x1\"/>", ""), false), "") << "inside a host nobody needs the NIC";
}

TEST(GraphFile, MissingFile) {
  const auto file = GraphFile::read("/nonexistent/graphs.xml");
  ASSERT_FALSE(file.ok());
  EXPECT_HAS(file.error(), "/nonexistent/graphs.xml: cannot read it");
}

TEST(GraphFile, WhatIsWrittenIsReadAsTheSameGraphs) {
  for (const int nodes : {1, 2}) {
    const Machine machine = machineOf(twoSwitches());
    const CommunicatorGraphs graphs = searched(machine, {.nodes = nodes});
    const auto text = graphFileText(graphs, *machine.graph, *machine.settings);
    ASSERT_OK(text);
    const auto file = GraphFile::parse(*text, "written.xml");
    ASSERT_OK(file);
    const CommunicatorGraphs again = searched(machine, {.nodes = nodes, .file = &*file});
    for (const ChannelGraph& graph : graphs.graphs) {
      const ChannelGraph& read = again.of(graph.algorithm);
      EXPECT_EQ(read.pattern, graph.pattern);
      EXPECT_EQ(read.bandwidth_intra, graph.bandwidth_intra);
      EXPECT_EQ(read.type_inter, graph.type_inter);
      ASSERT_EQ(read.channels.size(), graph.channels.size());
      for (std::size_t c = 0; c < graph.channels.size(); ++c) {
        EXPECT_EQ(read.channels[c].ranks, graph.channels[c].ranks);
        EXPECT_EQ(read.channels[c].net_in, graph.channels[c].net_in);
        EXPECT_EQ(read.channels[c].net_out, graph.channels[c].net_out);
      }
    }
  }
}

TEST(GraphFile, NcclHasNoNameForSomeTypes) {
  const Machine machine = machineOf(twoSwitches());
  CommunicatorGraphs graphs = searched(machine, {});
  graphs.graphs[0].type_intra = PathType::kC2c;
  const auto text = graphFileText(graphs, *machine.graph, *machine.settings);
  ASSERT_FALSE(text.ok());
  EXPECT_HAS(text.error(), "type C2C, for which a graph file has no name");
}

}  // namespace
}  // namespace railwise::topo
