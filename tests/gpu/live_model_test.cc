// The live model (a /sys, and what the vendors' libraries answer) equals the topology file of the same
// machine. The fake libraries answer from machines/NAME; files/NAME.conf describes the machine's /sys,
// files/NAME.xml is the file as NCCL (or RCCL) would dump it.
#include "cli/device/tree.h"
#include "gpu/json.h"
#include "softdev/config/config.h"
#include "tests/gpu/machines.h"
#include "tests/topo/load_file.h"
#include "topo/explain/gpu_topology.h"
#include "topo/machine/machine.h"
#include "topo/outputs/outputs.h"
#include "topo/sources/gpu_answers.h"
#include "topo/sources/sysfs.h"

namespace railwise::gpu {
namespace {

using namespace test;

struct Kind {
  const char* name;
  GpuTopology (*read)(const std::string& machine, const std::string& mode, Clock::duration limit);
  int gpus;
};
// gtest prints a Kind by its name.
void PrintTo(const Kind& kind, std::ostream* out) { *out << kind.name; }

std::string fileOf(const Kind& kind, const char* ending) {
  return std::string(FAKE_MACHINES "/../files/") + kind.name + ending;
}

// The machine's /sys without the answers of its GPUs.
sysfs::MemoryTree treeOf(const Kind& kind) {
  const auto machine = softdev::parseMachine(("@" + fileOf(kind, ".conf")).c_str());
  EXPECT_OK(machine);
  if (!machine.ok()) return sysfs::MemoryTree();
  const sysfs::MemoryTree whole = cli::deviceTree(machine->hosts.at(0));
  sysfs::MemoryTree tree;
  for (const auto& [path, item] : whole.items()) {
    if (path == topo::kGpuAnswersPath) continue;
    if (item.is_folder) tree.folder(path);
    else if (item.is_link) tree.link(path, item.content);
    else tree.file(path, item.content);
  }
  return tree;
}

class LiveModel : public testing::TestWithParam<Kind> {
 protected:
  Outcome<topo::Machine> live() const {
    topo::SysfsOptions options;
    options.gpu_answers = std::make_shared<GpuTopology>(GetParam().read(GetParam().name, "", kPatience));
    const sysfs::MemoryTree tree = treeOf(GetParam());
    const topo::Settings settings;
    return topo::loadMachine({.tree = &tree, .settings = settings, .options = std::move(options)});
  }
};

TEST_P(LiveModel, EqualsTheFileOfTheMachine) {
  const auto live = this->live();
  ASSERT_OK(live);
  const auto file = topo::test::loadFile(fileOf(GetParam(), ".xml"), topo::Settings());
  ASSERT_OK(file);
  EXPECT_EQ(live->graph->count(topo::NodeType::kGpu), GetParam().gpus);
  const auto differences = topo::diff(*live, *file);
  EXPECT_TRUE(differences.empty()) << topo::diffText(*live, *file, differences);
  EXPECT_EQ(topo::matrixText(*live), topo::matrixText(*file));
}

// Every GPU has its rank, and what the library said besides the model's facts is kept.
TEST_P(LiveModel, KeepsWhatTheLibrarySaid) {
  const auto live = this->live();
  ASSERT_OK(live);
  const GpuTopology topology = topo::gpuTopology(*live);
  int ranks = 0;
  for (const Device& device : topology.gpus) {
    if (device.rank >= 0) ++ranks;
    EXPECT_NE(device.model, "");
    EXPECT_NE(device.memory_bytes, 0U);
  }
  EXPECT_EQ(ranks, GetParam().gpus);
  EXPECT_FALSE(topology.nics.empty());
  if (GetParam().gpus > 1) EXPECT_FALSE(topology.links.empty());
}

// A recording of the machine gives the same model elsewhere.
TEST_P(LiveModel, IsTheSameFromARecording) {
  const auto live = this->live();
  ASSERT_OK(live);
  sysfs::MemoryTree tree = treeOf(GetParam());
  tree.file(topo::kGpuAnswersPath, jsonOf(*live->gpu_answers));
  const topo::Settings settings;
  const auto recorded = topo::loadMachine({.tree = &tree, .settings = settings});
  ASSERT_OK(recorded);
  EXPECT_EQ(topo::topologyJson(*recorded), topo::topologyJson(*live));
  EXPECT_EQ(jsonOf(topo::gpuTopology(*recorded)), jsonOf(topo::gpuTopology(*live)));
}

const Kind kKinds[] = {{"dgx_a100", nvidia, 8},  {"dgx_h100", nvidia, 8}, {"gb200", nvidia, 4},
                       {"l40s_pcie", nvidia, 4}, {"mig", nvidia, 1},      {"v100_cube", nvidia, 3},
                       {"laptop", nvidia, 1},    {"mi300x_spx", amd, 8},  {"mi250", amd, 4}};
INSTANTIATE_TEST_SUITE_P(Machines, LiveModel, testing::ValuesIn(kKinds),
                         [](const auto& one) { return std::string(one.param.name); });

}  // namespace
}  // namespace railwise::gpu
