#include "tests/topo/exports/export_machines.h"

namespace railwise::topo {
namespace {

using namespace test;

TEST(ExportNfd, TellsPathsRailsAndGpuDirect) {
  const ExportedText nfd = exported(exportNfd(machineOf(twoSwitches()), {}));
  EXPECT_TRUE(
      has(nfd.text, "# railwise topo export --for nfd: test.xml, 2 GPUs, 2 NICs, by the rules of NCCL"));
  EXPECT_EQ(withoutFirstLine(nfd.text),
            "railwise.gpus=2\n"
            "railwise.gpu-kind=sm_90\n"
            "railwise.nvlink=switch\n"
            "railwise.nics=2\n"
            "railwise.rails=2\n"
            "railwise.rail-gbps=400\n"
            "railwise.gpus-without-nic=0\n"
            "railwise.nic-path-best=PIX\n"
            "railwise.nic-path-worst=PIX\n"
            "railwise.gpudirect=all\n");
  EXPECT_TRUE(noted(nfd, "gpu-model is left out"));
  EXPECT_TRUE(noted(nfd, "hidden-tree is left out"));
}

TEST(ExportNfd, TellsTheFarthestNicToo) {
  Settings settings;
  settings.pxn_disable = true;  // PXN would give both GPUs mlx5_0
  const Machine machine = machineOf(
      systemOf(cpu(0, pciSwitch("0000:10:00.0", gpu(0, "0000:11:00.0") + nic(0, "0000:12:00.0", "mlx5_0"))) +
               cpu(1, gpu(1, "0000:21:00.0") + nic(1, "0000:22:00.0", "mlx5_1"))),
      settings);
  const ExportedText nfd = exported(exportNfd(machine, {}));
  EXPECT_TRUE(
      has(nfd.text, "railwise.nic-path-best=PIX\nrailwise.nic-path-worst=PHB\nrailwise.gpudirect=some\n"))
      << nfd.text;
}

TEST(ExportNfd, AMachineWithoutNicsHasNoPath) {
  const ExportedText nfd = exported(exportNfd(machineOf(systemOf(cpu(0, gpu(0, "0000:11:00.0")))), {}));
  EXPECT_TRUE(has(
      nfd.text, "railwise.nics=0\nrailwise.rails=0\nrailwise.gpus-without-nic=1\nrailwise.gpudirect=none\n"))
      << nfd.text;
}

TEST(ExportNfd, TellsAHiddenTreeWhereTheTreeIsKnown) {
  ExportOptions options;
  options.facts.tree_hidden = true;
  EXPECT_TRUE(has(exported(exportNfd(machineOf(flat()), options)).text, "railwise.hidden-tree=true\n"));
}

}  // namespace
}  // namespace railwise::topo
