// The text of --for slurm; slurm_test.py lets slurmd read it.
#include "tests/ok.h"
#include "tests/topo/exports/export_machines.h"
#include "topo/exports/host_view.h"

namespace railwise::topo {
namespace {

using namespace test;

TEST(ExportSlurm, HasLinesForGpusNicsAndTheOtherFiles) {
  const ExportedText slurm = exported(exportSlurm(machineOf(twoSwitches()), {.node = "n1"}));
  EXPECT_EQ(withoutFirstLine(slurm.text),
            "Name=gpu Type=sm_90 File=/dev/nvidia0 Cores=0-3 Links=-1,18\n"
            "Name=gpu Type=sm_90 File=/dev/nvidia1 Cores=4-7 Links=18,-1\n"
            "Name=nic Type=gbps400 File=/dev/infiniband/uverbs0 Cores=0-3  # mlx5_0\n"
            "Name=nic Type=gbps400 File=/dev/infiniband/uverbs1 Cores=4-7  # mlx5_1\n"
            "#\n"
            "# slurm.conf (slurmd -C says the rest of the line):\n"
            "#slurm.conf: GresTypes=gpu,nic\n"
            "#slurm.conf: NodeName=n1 Gres=gpu:sm_90:2,nic:gbps400:2\n"
            "#\n"
            "# topology.conf: one host does not know its switch; name it, and list the nodes below it:\n"
            "#topology.conf: SwitchName=leaf1 Nodes=n1\n");
  EXPECT_TRUE(noted(slurm, "uverbs* are assumed"));
}

TEST(ExportSlurm, LinksFollowThePciAddresses) {
  std::string xml = systemOf(cpu(0, gpu(0, "0000:21:00.0") + gpu(1, "0000:11:00.0")));
  const ExportedText slurm = exported(exportSlurm(machineOf(xml), {.node = "n1"}));
  EXPECT_HAS(withoutFirstLine(slurm.text),
             "Name=gpu Type=sm_90 File=/dev/nvidia1 Links=-1,18\nName=gpu Type=sm_90 File=/dev/nvidia0 "
             "Links=18,-1\n")
      << slurm.text;
  EXPECT_TRUE(noted(slurm, "Cores is left out: the machine has one NUMA node"));
}

TEST(ExportSlurm, GpusOfUnknownKindHaveNoType) {
  std::string xml = systemOf(cpu(0, gpu(0, "0000:11:00.0")));
  xml.replace(xml.find("sm=\"90\""), 7, "sm=\"0\"");
  const ExportedText slurm = exported(exportSlurm(machineOf(xml), {.node = "n1"}));
  EXPECT_HAS(slurm.text, "\nName=gpu File=/dev/nvidia0\n");
  EXPECT_HAS(slurm.text, "NodeName=n1 Gres=gpu:1\n");
}

TEST(ExportSlurm, RefusesANodeWithoutAName) {
  for (const char* name : {"", "a b", "n1;x", "---"}) {
    const auto slurm = exportSlurm(machineOf(twoSwitches()), {.node = name});
    ASSERT_FALSE(slurm.ok()) << name;
    EXPECT_HAS(slurm.error(), "--node=NAME");
  }
}

TEST(ExportDeviceFiles, AreWhatSysTells) {
  DeviceFacts facts;
  facts.uverbs = {{"mlx5_0", "uverbs7"}, {"mlx5_1", "uverbs3"}};
  const auto host = hostView(machineOf(twoSwitches()));
  ASSERT_OK(host);
  bool assumed = true;
  const auto files = nicFiles(*host, facts, &assumed);
  ASSERT_EQ(files.size(), 2U);
  EXPECT_EQ(files[0].path, "/dev/infiniband/uverbs7");
  EXPECT_FALSE(assumed);
  EXPECT_EQ(gpuDeviceFile(true, 2, "renderD140"), "/dev/dri/renderD140");
  EXPECT_EQ(gpuDeviceFile(true, 2, ""), "/dev/dri/renderD130");
  EXPECT_EQ(gpuDeviceFile(false, 2, ""), "/dev/nvidia2");
}

TEST(ExportDeviceFiles, CountWhereNamesDoNotTell) {
  const auto host = hostView(machineOf(twoSwitches("rocep1s0+mlx5_1")));
  ASSERT_OK(host);
  bool assumed = false;
  const auto files = nicFiles(*host, {}, &assumed);
  ASSERT_EQ(files.size(), 2U);  // mlx5_1 is two times in the machine
  EXPECT_EQ(files[1].path, "/dev/infiniband/uverbs1");
  EXPECT_TRUE(assumed);
}

}  // namespace
}  // namespace railwise::topo
