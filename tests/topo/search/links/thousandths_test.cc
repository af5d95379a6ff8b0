
#include "tests/topo/search/search_machines.h"
#include "topo/search/links/remaining.h"

namespace railwise::topo {
namespace {

using namespace test;

TEST(KeepsThousandths, NotBetweenTwo) {
  EXPECT_TRUE(keepsThousandths(24));
  EXPECT_TRUE(keepsThousandths(45.1F));
  EXPECT_TRUE(keepsThousandths(20.0F / 7));
  EXPECT_FALSE(keepsThousandths(2.1875F));
}

struct ThousandthsBench {
  explicit ThousandthsBench(const std::string& xml)
      : machine(machineOf(xml)), paths(searchPaths(machine)), routes(paths) {
    left.assign(routes.bandwidths());
  }
  const Route& toNet() { return routes.route(NodeType::kGpu, 0, NodeType::kNet, 0); }

  Machine machine;
  Paths paths;
  Routes routes;
  Thousandths left;
};

TEST(Thousandths, TakesUntilALinkIsEmpty) {
  ThousandthsBench f(twoSwitches());  // PCIe of 48 GB/s
  const uint64_t all = f.left.fingerprint();
  EXPECT_TRUE(f.left.take(f.routes, f.toNet(), 24));
  EXPECT_TRUE(f.left.take(f.routes, f.toNet(), 24));
  EXPECT_NE(f.left.fingerprint(), all);
  EXPECT_FALSE(f.left.take(f.routes, f.toNet(), 0.12F));
  EXPECT_TRUE(f.left.take(f.routes, f.toNet(), -24));
  EXPECT_TRUE(f.left.take(f.routes, f.toNet(), -24));
  EXPECT_EQ(f.left.fingerprint(), all);
}

// What NCCL's floats answer, for each speed on each machine: also with Intel's larger packets, and with
// requests.
TEST(Thousandths, AnswerAsNcclsFloats) {
  const std::string intel = systemOf(cpu(0, gpu(0, "0000:11:00.0") + nic(0, "0000:12:00.0", "mlx5_0")));
  std::string old = intel;
  old.replace(old.find("sm=\"90\""), 7, "sm=\"70\"");
  for (const std::string& xml : {twoSwitches(), intel, old})
    for (const float speed :
         {96.0F, 90.2F, 48.0F, 45.1F, 40.0F, 24.0F, 17.5F, 11.0F, 2.4F, 0.24F, 0.12F, 20.0F / 7}) {
      ThousandthsBench f(xml);
      Remaining floats(f.routes, *f.machine.graph);
      if (!floats.restores(f.routes, speed)) continue;
      const Route& back = f.routes.route(NodeType::kNet, 0, NodeType::kGpu, 0);
      for (int i = 0; i < 1000; ++i) {
        const Route& route = i % 2 == 0 ? f.toNet() : back;
        const bool taken = floats.take(f.routes, route, speed);
        ASSERT_EQ(f.left.take(f.routes, route, speed), taken) << speed << " GB/s, channel " << i;
        if (!taken) break;
      }
    }
}

}  // namespace
}  // namespace railwise::topo
