#include "topo/explain/gpu_topology.h"

#include "tests/ok.h"
#include "tests/topo/output_machines.h"

namespace railwise::topo {
namespace {

using namespace test;

TEST(GpuTopology, AnswersAboutOtherGpusDoNotCount) {
  Machine machine = machineOf(twoSwitches());
  gpu::GpuTopology other;
  other.gpus.resize(1);
  other.gpus[0].index = 0;
  other.gpus[0].busid = "0000:99:00.0";
  other.links.resize(1);
  other.links[0].from = 0;
  other.links[0].to_busid = "0000:98:00.0";
  machine.gpu_answers = std::make_shared<gpu::GpuTopology>(other);
  const gpu::GpuTopology topology = gpuTopology(machine);
  ASSERT_EQ(topology.gpus.size(), 2U);
  EXPECT_EQ(topology.gpus[0].busid, "0000:11:00.0");
  ASSERT_EQ(topology.links.size(), 2U) << "from each GPU to the NVSwitch";
  EXPECT_EQ(topology.links[0].kind, gpu::LinkKind::kNvswitch);
}

TEST(GpuTopology, AChipToChipLinkStaysInThePackage) {
  const auto machine = loadFile(RAILWISE_SOURCE_DIR "/tests/topo/machines/synthetic/gh200.xml", {}, {});
  ASSERT_OK(machine);
  const gpu::GpuTopology topology = gpuTopology(*machine);
  ASSERT_EQ(topology.links.size(), 1U);
  EXPECT_EQ(topology.links[0].kind, gpu::LinkKind::kC2c);
  EXPECT_EQ(topology.links[0].latency, gpu::LatencyClass::kPackage);
}

}  // namespace
}  // namespace railwise::topo
