// The texts of --for env, ucx and nixl; shell_test.py runs them.
#include "tests/ok.h"
#include "tests/topo/exports/export_machines.h"
#include "tests/topo/json_check.h"
#include "topo/exports/host_view.h"

namespace railwise::topo {
namespace {

using namespace test;

TEST(ExportEnv, SetsThePluginAndNothingElse) {
  const ExportedText env = exported(exportEnv(machineOf(twoSwitches()), {}));
  EXPECT_EQ(withoutFirstLine(env.text),
            "# Every rank sources it: . ./FILE\n"
            "export NCCL_NET_PLUGIN=railwise\n");
}

TEST(ExportEnv, NamesTheTopologyFileInQuotes) {
  const ExportedText env = exported(exportEnv(machineOf(flat()), {.topo_file = "/opt/my topo.xml"}));
  EXPECT_HAS(env.text, "export NCCL_TOPO_FILE='/opt/my topo.xml'\n");
  EXPECT_LACKS(env.text, "RAILWISE_TOPOLOGY");
}

TEST(ExportEnv, RestoresAHiddenTree) {
  ExportOptions options;
  options.facts.tree_hidden = true;
  const ExportedText env = exported(exportEnv(machineOf(flat()), options));
  EXPECT_HAS(env.text, "export RAILWISE_TOPOLOGY=auto\n");
  EXPECT_TRUE(noted(env, "--topo-file"));
}

TEST(ExportEnv, HidesSlowerNicsThatNoGpuUses) {
  const auto machine = [](const std::string& mbps) {
    return machineOf(systemOf(cpu(0, gpu(0, "0000:11:00.0") + nic(0, "0000:12:00.0", "mlx5_0")) +
                              cpu(1, slowNic(1, "0000:22:00.0", "mlx5_1", mbps))));
  };
  const ExportedText slow = exported(exportEnv(machine("100000"), {}));
  EXPECT_HAS(slow.text, "export NCCL_IB_HCA='=mlx5_0:1'\n");
  EXPECT_TRUE(noted(slow, "NCCL_IB_HCA leaves out mlx5_1"));
  EXPECT_LACKS(exported(exportEnv(machine("400000"), {})).text, "NCCL_IB_HCA");
}

TEST(ExportUcx, NamesTheNicsOfEachLocalRank) {
  const ExportedText ucx = exported(exportUcx(machineOf(equallyNear()), {}));
  EXPECT_HAS(ucx.text, "  1) export UCX_NET_DEVICES=mlx5_2:1 ;;  # GPU 1 at 0000:11:00.0: mlx5_2 PHB\n");
  EXPECT_HAS(ucx.text, "  '') export UCX_NET_DEVICES=mlx5_0:1,mlx5_2:1,mlx5_1:1,mlx5_3:1 ;;");
  EXPECT_HAS(ucx.text, "has no GPU here: there are 4\"");
  EXPECT_TRUE(noted(ucx, "local rank N is taken to use GPU N"));
}

TEST(ExportUcx, KnowsThatUcxHasNoPxn) {
  const Machine machine = machineOf(
      systemOf(cpu(0, pciSwitch("0000:10:00.0", gpu(0, "0000:11:00.0") + nic(0, "0000:12:00.0", "mlx5_0"))) +
               cpu(1, gpu(1, "0000:21:00.0") + nic(1, "0000:22:00.0", "mlx5_1"))));
  const auto host = hostView(machine);
  ASSERT_OK(host);
  ASSERT_EQ(host->gpus[1].nics.at(0).type, PathType::kPxn);
  EXPECT_HAS(exported(exportUcx(machine, {})).text,
             "  1) export UCX_NET_DEVICES=mlx5_1:1 ;;  # GPU 1 at 0000:21:00.0: mlx5_1 PHB\n");
}

TEST(ExportUcx, RanksOfOneGpuShareALine) {
  const ExportedText ucx = exported(exportUcx(fileMachine("synthetic/two-ranks-per-gpu.xml"), {}));
  EXPECT_HAS(ucx.text, "  0|1) export");
  EXPECT_HAS(ucx.text, "  2|3) export");
}

TEST(ExportUcx, StripesOverAllNicsOfAGpu) {
  std::string nics;
  for (int i = 0; i < 4; ++i)
    nics += nic(i, "0000:2" + std::to_string(i) + ":00.0", "mlx5_" + std::to_string(i));
  const ExportedText ucx =
      exported(exportUcx(machineOf(systemOf(cpu(0, gpu(0, "0000:11:00.0") + nics))), {}));
  EXPECT_HAS(ucx.text,
             "  0) export UCX_NET_DEVICES=mlx5_0:1,mlx5_1:1,mlx5_2:1,mlx5_3:1 UCX_MAX_RNDV_RAILS=4 ;;");
}

TEST(ExportUcx, OfAmdNamesNoCuda) {
  const Machine machine = machineOf(
      "<system version=\"2\">\n<cpu numaid=\"0\" affinity=\"f\" arch=\"x86_64\" vendor=\"AuthenticAMD\" "
      "familyid=\"25\" "
      "modelid=\"17\">\n" +
      pci("0000:11:00.0", "0x120000",
          "<gpu dev=\"0\" sm=\"304\" gcn=\"gfx942\" arch=\"38912\" rank=\"0\" gdr=\"1\"/>\n") +
      nic(0, "0000:12:00.0", "bnxt_re0") + "</cpu>\n</system>\n");
  const ExportedText ucx = exported(exportUcx(machine, {}));
  EXPECT_LACKS(ucx.text, "CUDA");
  EXPECT_HAS(ucx.text, "  0) export UCX_NET_DEVICES=bnxt_re0:1 ;;");
  EXPECT_HAS(exported(exportSlurm(machine, {.node = "n1"})).text,
             "Name=gpu Type=gfx942 File=/dev/dri/renderD128 Flags=amd_gpu_env\n");
  EXPECT_HAS(exported(exportHwlocXml(machine, {.node = "n1"})).text, "subtype=\"RSMI\" name=\"rsmi0\"");
}

TEST(ExportUcx, RefusesAMachineWithoutNics) {
  const auto ucx = exportUcx(machineOf(systemOf(cpu(0, gpu(0, "0000:11:00.0")))), {});
  ASSERT_FALSE(ucx.ok());
  EXPECT_EQ(ucx.error(),
            "test.xml: no GPU has a NIC, so there is nothing to choose; railwise explain says why");
}

TEST(ExportNixl, HasVariablesAndParameters) {
  const ExportedText nixl = exported(exportNixl(machineOf(twoSwitches("mlx5_0+mlx5_2")), {}));
  EXPECT_TRUE(JsonCheck::isJson(nixl.text)) << nixl.text;
  EXPECT_HAS(nixl.text,
             "\"env\": {\"UCX_NET_DEVICES\": \"mlx5_0:1,mlx5_2:1\"},\n"
             "      \"params\": {\"device_list\": \"mlx5_0, mlx5_2\"}");
}

TEST(ExportNixl, LeavesOutDeviceListsWithOtherPorts) {
  const ExportedText nixl = exported(exportNixl(
      machineOf(systemOf(cpu(0, gpu(0, "0000:11:00.0") + secondPort(0, "0000:12:00.0", "mlx4_0")))), {}));
  EXPECT_HAS(nixl.text, "{\"UCX_NET_DEVICES\": \"mlx4_0:2\"}");
  EXPECT_HAS(nixl.text, "\"params\": {}");
  EXPECT_TRUE(noted(nixl, "device_list is left out"));
}

}  // namespace
}  // namespace railwise::topo
