#include "topo/search/links/remaining.h"

#include "tests/topo/search/search_machines.h"

namespace railwise::topo {
namespace {

using namespace test;

struct RemainingBench {
  explicit RemainingBench(const std::string& xml)
      : machine(machineOf(xml)), paths(searchPaths(machine)), routes(paths), left(routes, *machine.graph) {}
  const Route& toNet() { return routes.route(NodeType::kGpu, 0, NodeType::kNet, 0); }

  Machine machine;
  Paths paths;
  Routes routes;
  Remaining left;
};

TEST(Remaining, TakesFromALinkUntilItIsEmpty) {
  RemainingBench f(twoSwitches());  // PCIe of 48 GB/s
  EXPECT_TRUE(f.left.take(f.routes, f.toNet(), 24));
  EXPECT_TRUE(f.left.take(f.routes, f.toNet(), 24));
  EXPECT_FALSE(f.left.take(f.routes, f.toNet(), 0.24F));
  EXPECT_EQ(f.left.pciBandwidth(0), 0);
}

TEST(Remaining, GivesBackWhatAFailedWalkTook) {
  RemainingBench f(twoSwitches());
  EXPECT_FALSE(f.left.take(f.routes, f.toNet(), 49));
  EXPECT_TRUE(f.left.take(f.routes, f.toNet(), 48));
  EXPECT_TRUE(f.left.take(f.routes, f.toNet(), -48));
  EXPECT_EQ(f.left.pciBandwidth(0), 48);
}

TEST(Remaining, KeepsAThousandthAsNcclDoes) {
  RemainingBench f(twoSwitches());
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(f.left.take(f.routes, f.toNet(), 1.0F / 3));
  // Three times 0.333 were taken, so 47.001 are left.
  EXPECT_TRUE(f.left.take(f.routes, f.toNet(), 47.001F));
  EXPECT_FALSE(f.left.take(f.routes, f.toNet(), 0.0005F));
}

TEST(Remaining, IntelsRootComplexNeedsAFifthMore) {
  RemainingBench f(systemOf(cpu(0, gpu(0, "0000:11:00.0") + nic(0, "0000:12:00.0", "mlx5_0"))));
  EXPECT_FALSE(f.left.take(f.routes, f.toNet(), 41));
  EXPECT_TRUE(f.left.take(f.routes, f.toNet(), 40));
}

TEST(Remaining, SaysWhichLinkLacksBandwidth) {
  RemainingBench f(twoSwitches());
  EXPECT_EQ(f.left.lackOf(f.routes, f.toNet(), 48).link, -1);
  const auto lack = f.left.lackOf(f.routes, f.toNet(), 50);
  ASSERT_GE(lack.link, 0);
  EXPECT_EQ(lack.needed, 50);
  EXPECT_EQ(lack.left, 48);
  EXPECT_TRUE(f.left.take(f.routes, f.toNet(), 48)) << "the question took nothing";
}

TEST(Remaining, NetsOfOnePortShareIt) {
  const std::string port = "0000:12:00.0";
  std::string twins = nic(0, port, "a");
  const std::string second =
      "<net name=\"b\" dev=\"1\" speed=\"400000\" port=\"1\" guid=\"0x0\" gdr=\"1\"/>\n</nic>";
  twins.replace(twins.find("</nic>"), 6, second);
  RemainingBench f(systemOf(cpu(0, gpu(0, "0000:11:00.0") + twins)));
  f.left.takeFromPort(0, 20);
  EXPECT_EQ(f.left.ofNet(0), 30);
  EXPECT_EQ(f.left.ofNet(1), 30);
}

TEST(Remaining, RemembersTheGpusOfEachChannel) {
  RemainingBench f(twoSwitches());
  f.left.toggle(1, 63);
  EXPECT_TRUE(f.left.used(1, 63));
  EXPECT_FALSE(f.left.used(1, 0));
  EXPECT_FALSE(f.left.used(0, 63));
  f.left.toggle(1, 63);
  EXPECT_FALSE(f.left.used(1, 63));
}

TEST(Remaining, IsAsItWasOnlyWhenAllIsGivenBack) {
  RemainingBench f(twoSwitches());
  const Remaining all = f.left;
  ASSERT_TRUE(f.left.take(f.routes, f.toNet(), 24));
  EXPECT_FALSE(f.left == all);
  ASSERT_TRUE(f.left.take(f.routes, f.toNet(), -24));
  EXPECT_TRUE(f.left == all);
  f.left.toggle(1, 0);
  EXPECT_FALSE(f.left == all) << "a channel has a GPU";
  f.left.toggle(1, 0);
  f.left.takeFromPort(0, 1);
  EXPECT_FALSE(f.left == all) << "a NIC has less";
}

}  // namespace
}  // namespace railwise::topo
