#include "topo/search/links/routes.h"

#include "tests/topo/search/search_machines.h"

namespace railwise::topo {
namespace {

using namespace test;

struct RoutesBench {
  explicit RoutesBench(const std::string& xml) : machine(machineOf(xml)), paths(searchPaths(machine)) {}
  Machine machine;
  Paths paths;
  Routes routes{paths};
};

TEST(Routes, FollowThePathsLinkByLink) {
  RoutesBench f(twoSwitches());
  const Path& path = f.paths.get(NodeType::kGpu, 0, NodeType::kNet, 1);
  const Route& route = f.routes.route(NodeType::kGpu, 0, NodeType::kNet, 1);
  EXPECT_EQ(route.type, path.type);
  const auto links = f.paths.links(path);
  const auto steps = f.routes.steps(route);
  ASSERT_EQ(steps.size(), links.size());
  const auto bandwidths = f.routes.bandwidths();
  for (std::size_t i = 0; i < links.size(); ++i) {
    EXPECT_EQ(bandwidths[static_cast<std::size_t>(steps[i].link)], links[i]->bandwidth);
    EXPECT_EQ(f.routes.endsOf(steps[i].link).second, links[i]->to);
    EXPECT_EQ(steps[i].pci, links[i]->type == LinkType::kPci);
  }
}

TEST(Routes, KnowTheTypeOfTheWayBack) {
  RoutesBench f(twoSwitches());
  const Route& route = f.routes.route(NodeType::kGpu, 0, NodeType::kNet, 1);
  EXPECT_EQ(route.type, PathType::kPxn);
  EXPECT_EQ(route.return_type, PathType::kSys);
}

TEST(Routes, OfGpusOnIntelsRootComplexCarryMore) {
  RoutesBench f(systemOf(cpu(0, gpu(0, "0000:11:00.0") + nic(0, "0000:12:00.0", "mlx5_0"))));
  EXPECT_TRUE(f.routes.route(NodeType::kGpu, 0, NodeType::kNet, 0).intel);
  EXPECT_FALSE(f.routes.route(NodeType::kNet, 0, NodeType::kGpu, 0).intel) << "only what a GPU sends";
}

TEST(Routes, ReachTheNvswitches) {
  RoutesBench f(twoSwitches());
  EXPECT_EQ(f.routes.route(NodeType::kNvs, 0, NodeType::kGpu, 1).type, PathType::kNvl);
  EXPECT_EQ(f.routes.route(NodeType::kGpu, 1, NodeType::kNvs, 0).type, PathType::kNvl);
}

TEST(Routes, FindThePcieLinkOfAGpu) {
  RoutesBench f(twoSwitches());
  const auto link = f.routes.pciLinkOf(0);
  EXPECT_EQ(f.routes.endsOf(link.up).first, f.routes.endsOf(link.down).second);
  EXPECT_EQ(f.routes.endsOf(link.up).second, f.routes.endsOf(link.down).first);
}

}  // namespace
}  // namespace railwise::topo
