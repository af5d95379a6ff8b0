// Lists of hosts, and the readers of their switch groups: what they accept, and what they say about mistakes.
#include "gpu/choose/hosts.h"

#include <gtest/gtest.h>

#include "tests/scratch.h"

namespace railwise::gpu {
namespace {

using Names = std::vector<std::string>;

TEST(HostList, BracketsAreExpanded) {
  EXPECT_EQ(*expandHosts("node[1-4,7]"), (Names{"node1", "node2", "node3", "node4", "node7"}));
  EXPECT_EQ(*expandHosts("a,b[08-10],c.example"), (Names{"a", "b08", "b09", "b10", "c.example"}));
  EXPECT_EQ(*expandHosts("r[1-2]n[1-2]x"), (Names{"r1n1x", "r1n2x", "r2n1x", "r2n2x"}));
}

TEST(HostList, MistakesAreNamed) {
  for (const char* list : {"", "a,", "node[1-", "node]1[", "node[[1]]", "node[4-1]", "node[x]", "node[]",
                           "node[1-99999999]", "node[1,,2]", "a b", "[1-300]x[1-300]"})
    EXPECT_FALSE(expandHosts(list).ok()) << list;
  EXPECT_EQ(expandHosts("node[1").error(), "the brackets of 'node[1' do not match");
  EXPECT_EQ(expandHosts("node[4-1]").error(), "'node[4-1]' is no host name and no list such as node[1-4,7]");
}

TEST(HostTable, IsRead) {
  const auto groups = parseHostTable("# host\tgroup\n\nn1\tleaf1\r\nn2\tleaf1\nn3\tleaf2", "hosts.tsv");
  ASSERT_TRUE(groups.ok()) << groups.error();
  EXPECT_EQ(groups->groups(), 2);
  EXPECT_EQ(*groups->groupsOf({"n1", "n2"}), 1);
  EXPECT_EQ(*groups->groupsOf({"n3", "n2"}), 2);
  EXPECT_EQ(groups->groupsOf({"n9"}).error(), "host n9 is in no group");
}

TEST(HostTable, MistakesNameFileAndLine) {
  const auto error = [](const char* text) { return parseHostTable(text, "f").error(); };
  EXPECT_EQ(error("n1\tg\nn2 g\n"), "f:2: not 'host TAB group'");
  EXPECT_EQ(error("n1\tg\tmore\n"), "f:1: not 'host TAB group'");
  EXPECT_EQ(error("\tg\n"), "f:1: not 'host TAB group'");
  EXPECT_EQ(error("n1\t\n"), "f:1: not 'host TAB group'");
  EXPECT_EQ(error("n1\tg\n\nn1\th\n"), "f:3: host n1 is already in group g");
  EXPECT_EQ(error("# nothing\n"), "f: no host in it");
}

TEST(SlurmTopology, IsRead) {
  const auto groups = parseSlurmTopology(
      "# a tree\nSwitchName=s0 Nodes=node[1-4,7]  # rack 1\nswitchname=s1 LinkSpeed=100 \\\n  "
      "nodes=node[5-6],login\n\n"
      "SwitchName=top Switches=s[0-1]\n",
      "topology.conf");
  ASSERT_TRUE(groups.ok()) << groups.error();
  EXPECT_EQ(groups->groups(), 2);
  EXPECT_EQ(groups->group_of.at("node7"), "s0");
  EXPECT_EQ(groups->group_of.at("login"), "s1");
}

TEST(SlurmTopology, MistakesNameFileAndLine) {
  const auto error = [](const char* text) { return parseSlurmTopology(text, "t").error(); };
  EXPECT_EQ(error("SwitchName=s0 Nodes=a\nNodes=b\n"), "t:2: SwitchName= is missing");
  EXPECT_EQ(error("SwitchName=s0\n"), "t:1: switch s0 needs either Nodes= or Switches=");
  EXPECT_EQ(error("SwitchName=s0 Nodes=a Switches=b\n"), "t:1: switch s0 needs either Nodes= or Switches=");
  EXPECT_EQ(error("SwitchName=s0 Nodes=a Nodes=b\n"), "t:1: Nodes stands there twice");
  EXPECT_EQ(error("SwitchName=s0 Node=a\n"),
            "t:1: unknown key 'Node'; known are SwitchName, Nodes, Switches and LinkSpeed");
  EXPECT_EQ(error("SwitchName=s0 Nodes=\n"), "t:1: 'Nodes=' is not KEY=VALUE");
  EXPECT_EQ(error("SwitchName=s0 Nodes=a\nSwitchName=s0 Nodes=b\n"), "t:2: switch s0 stands there twice");
  EXPECT_EQ(error("SwitchName=s0 Nodes=a\nSwitchName=s1 Nodes=a\n"), "t:2: host a is already in group s0");
  EXPECT_EQ(error("SwitchName=s0 Nodes=a[1\n"), "t:1: the brackets of 'a[1' do not match");
  EXPECT_EQ(error("SwitchName=s0 Nodes=a\nSwitchName=top Switches=s[0-1]\n"), "t:2: there is no switch s1");
  EXPECT_EQ(error(""), "t: no switch with Nodes= in it");
}

TEST(HostGroups, TheFileSaysWhichKindItIs) {
  const railwise::test::Scratch scratch;
  const auto slurm = readHostGroups(scratch.file("slurm", "# Slurm's\n SwitchName=s0 Nodes=a,b\n"));
  const auto table = readHostGroups(scratch.file("table", "a\tx\nb\ty\n"));
  ASSERT_TRUE(slurm.ok()) << slurm.error();
  ASSERT_TRUE(table.ok()) << table.error();
  EXPECT_EQ(slurm->groups(), 1);
  EXPECT_EQ(table->groups(), 2);
  EXPECT_EQ(readHostGroups("/nowhere/hosts.tsv").error(), "/nowhere/hosts.tsv: No such file or directory");
}

}  // namespace
}  // namespace railwise::gpu
