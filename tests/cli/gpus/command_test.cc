// railwise gpus from outside: the list, the choice, the fitness, and what is said about mistakes.
#include "cli/gpus/run_gpus.h"
#include "tests/ok.h"
#include "topo/big_machines.h"
#include "topo/topologies.h"

namespace railwise::cli {
namespace {

const std::string kMachine = RAILWISE_SOURCE_DIR "/tests/topo/machines/gb200.xml";  // 4 GPUs, 4 NICs

// A file of ../shared/topologies; "": it is not there.
std::string shared(const std::string& name) {
  const std::string folder = topo::test::topologiesFolder();
  return folder.empty() ? "" : folder + "/machines/" + name;
}

TEST(GpusCommand, ListsTheGpus) {
  const auto result = succeeded(gpus({kMachine}));
  EXPECT_HAS(result.out, "0008:01:00.0  sm_100  -       0");
  EXPECT_HAS(result.out, "mlx5_0");
  EXPECT_EQ(
      ofJson({kMachine, "--json"},
             "[len(a['gpus']), a['gpus'][0]['architecture'], a['gpus'][0]['model'], a['links'][0]['kind'], "
             "a['nics'][0]['name'], a['nics'][0]['type']]"),
      "[4, '10.0', None, 'NVSwitch', 'mlx5_0', 'P2C']");
}

TEST(GpusCommand, ASoftwareMachineIsListedToo) {
  EXPECT_HAS(succeeded(gpus({"--machine", "dgx"})).out, "NVL");
  EXPECT_EQ(gpus({"pick", "2", "--machine", "dgx", "--host", "B"}).status, 0);
}

TEST(GpusCommand, AMachineWithoutGpusSaysSo) {
  const test::ScratchFile file(
      "none.xml",
      "<system version=\"1\">\n<cpu numaid=\"0\" affinity=\"f\" arch=\"arm64\">\n</cpu>\n</system>\n");
  const std::pair<Args, std::string> machines[] = {{{"--machine", "default"}, "machine default"},
                                                   {{file.path()}, file.path()}};
  for (const auto& [machine, subject] : machines) {
    EXPECT_EQ(succeeded(gpus(machine)).out, subject + " has no GPU by NVIDIA or AMD.\n");
    Args pick = machine;
    pick.insert(pick.begin(), {"pick", "1"});
    EXPECT_EQ(gpus(pick).status, 1);
    EXPECT_HAS(gpus(pick).err, subject + " has no GPU");
  }
  EXPECT_EQ(ofJson({file.path(), "--json"}, "a['gpus']"), "[]");
}

TEST(GpusCommand, AMisspelledSubcommandIsNamed) {
  const auto result = gpus({"pik", "3"});
  EXPECT_EQ(result.status, 2);
  EXPECT_HAS(result.err, "'pik' is neither a file nor a subcommand, did you mean 'pick'?");
}

TEST(GpusPick, SaysTheSetTheRingAndWhy) {
  const auto result = succeeded(gpus({"pick", "2", kMachine, "--exclude", "1"}));
  EXPECT_HAS(result.out, "GPUs 2 and 3 of 4");
  EXPECT_HAS(result.out, "  ring order  2 -> 3\n");
  EXPECT_TRUE(hasWords(result.out, "its GPUs are on 1 NUMA node, against 2")) << result.out;
  const auto one = gpus({"pick", "2", kMachine});
  EXPECT_TRUE(hasWords(one.out, "1 other set is equally good, and this one has the lowest numbers"))
      << one.out;
  EXPECT_EQ(
      ofJson({"pick", "2", kMachine, "--of", "2-3", "--json"},
             "[a['gpus'], a['ring'], a['exact'], a['second'], a['gpus_with_nic'], a['nics'][0]['gpu']]"),
      "[[2, 3], [2, 3], True, None, 2, 2]");
  // mlx5_3 is near GPU 2 and GPU 3.
  const auto near = gpus({"pick", "1", kMachine, "--nic", "mlx5_3"});
  EXPECT_HAS(near.out, "GPU 2 of 4");
  EXPECT_TRUE(hasWords(
      near.out,
      "better than GPU 0: the links are equal, but its NICs are nearer; 1 other set is equally good"))
      << near.out;
}

// PXN goes through GPUs of the job alone: GPU 7, which is nearest to mlx5_7, is no relay where it is not
// chosen.
TEST(GpusPick, AGpuThatIsNotChosenRelaysNothing) {
  const Args of_dgx = {"pick", "2", "--machine", "dgx", "--nic", "mlx5_7", "--json", "--quiet"};
  const auto with = [&](const Args& more) {
    Args all = of_dgx;
    all.insert(all.end(), more.begin(), more.end());
    return ofJson(all, "[[(n['gpu'], n['nic'], n['type']) for n in a['nics']]]");
  };
  EXPECT_EQ(with({"--exclude", "7"}), "[[(4, 'mlx5_7', 'PHB'), (5, 'mlx5_7', 'PHB')]]");
  EXPECT_EQ(with({"--of", "6,7"}), "[[(6, 'mlx5_7', 'PXN'), (7, 'mlx5_7', 'PIX')]]");
  // As railwise explain has it for a machine of these GPUs.
  EXPECT_EQ(ofJson({"pick", "4", "--machine", "nvlink-mesh", "--json", "--quiet"},
                   "[n['nic'] + ' ' + n['type'] for n in a['nics']]"),
            "['mlx5_0 PIX', 'mlx5_0 PIX', 'mlx5_1 PIX', 'mlx5_1 PIX']");
}

TEST(GpusPick, LinesHave80Columns) {
  const test::ScratchFile file("nvl72.xml", topo::test::MachineText::nvlinkDomain(18));
  const std::vector<Args> runs = {
      {"pick", "3", "--machine", "dgx", "--nic", "mlx5_3"},
      {"pick", "31", file.path(), "--any-size", "--quiet"},
      {"pick", "4", "--machine", "dgx", "--machine", kMachine, "--nodes", "2"},
      {"pick", "8", "--machine", "dgx", "--machine", kMachine},
  };
  for (const Args& run : runs) {
    const auto result = succeeded(gpus(run));
    EXPECT_GT(widestLine(result.out), 50U) << result.out;
    EXPECT_LE(widestLine(result.out), 80U) << result.out;
  }
}

TEST(GpusPick, GivesTheGpusToAProcess) {
  const auto env = gpus({"pick", "2", kMachine, "--of", "1,3", "--env"});
  EXPECT_EQ(env.out, "CUDA_DEVICE_ORDER=PCI_BUS_ID\nCUDA_VISIBLE_DEVICES=1,3\n") << env.err;
  EXPECT_EQ(gpus({"pick", "2", kMachine, "--of", "1,3", "--slurm", "--quiet"}).out,
            "--ntasks-per-node=2 --gpu-bind=map_gpu:1,3\n");
  const auto nodes = gpus({"pick", "2", kMachine, "--of", "1,3", "--cgroup", "--quiet"});
  EXPECT_EQ(nodes.out, "/dev/nvidia1\n/dev/nvidia3\n/dev/nvidiactl\n/dev/nvidia-uvm\n");
  EXPECT_EQ(nodes.err, "");
}

TEST(GpusPick, MistakesSayWhatToDo) {
  const std::vector<std::pair<Args, std::string>> mistakes = {
      {{}, "how many GPUs? railwise gpus pick K"},
      {{"x", kMachine}, "'x' is no number of GPUs, such as 4"},
      {{"0", kMachine}, "'0' is no number of GPUs"},
      {{"5", kMachine}, "5 GPUs are wanted, and 4 of 4 may be used; ask for fewer"},
      {{"2", kMachine, "--of", "0"}, "2 GPUs are wanted, and 1 of 4 may be used"},
      {{"1", kMachine, "--of", "9"}, "--of: there is no GPU 9; the machine has 0-3"},
      {{"1", kMachine, "--of", "3-1"}, "--of: '3-1' is no list of GPUs such as 0-3,7"},
      {{"1", kMachine, "--exclude", "0,,1"}, "--exclude: '0,,1' is no list"},
      {{"1", kMachine, "--nic", "eth9"}, "--nic: there is no NIC 'eth9'; the machine has mlx5_0"},
      {{"1", kMachine, "--json", "--env"}, "are four outputs: name one"}};
  for (const auto& [args, message] : mistakes) {
    Args all = args;
    all.insert(all.begin(), "pick");
    const auto result = gpus(all);
    EXPECT_EQ(result.status, 2) << message;
    EXPECT_HAS(result.err, message);
  }
  EXPECT_EQ(gpus({"pick", "1", "/nowhere.xml"}).status, 1);
}

TEST(GpusPick, ADomainOf72GpusIsExact) {
  const test::ScratchFile file("nvl72.xml", topo::test::MachineText::nvlinkDomain(18));
  EXPECT_EQ(ofJson({"pick", "16", file.path(), "--any-size", "--quiet", "--json"},
                   "[len(a['gpus']), a['gpus'][0], a['gpus'][-1], a['exact'], a['fitness_intra'], "
                   "a['gpus_with_nic']]"),
            "[16, 0, 15, True, 1, 16]");
  const auto env = gpus({"pick", "16", file.path(), "--any-size", "--env"});
  EXPECT_EQ(env.status, 2);
  EXPECT_HAS(env.err, "in several hosts");
  EXPECT_EQ(gpus({"pick", "4", file.path(), "--any-size", "--env"}).status, 0);
}

TEST(GpusPick, RealMachines) {
  if (shared("").empty()) GTEST_SKIP() << "no ../shared/topologies";
  EXPECT_EQ(ofJson({"pick", "4", shared("misc/yccl-topo_h800.xml"), "-q", "--json"},
                   "[a['gpus'], a['slowest_pair_type'], a['gpus_with_nic'], a['equally_good']]"),
            "[[0, 1, 2, 3], 'NVL', 4, 1]");
  // PCIe only: GPUs that share no switch have NICs of their own.
  EXPECT_EQ(ofJson({"pick", "4", shared("misc/yccl-topo_l20.xml"), "-q", "--json"},
                   "[a['gpus'], a['slowest_pair_type'], a['second']['gpus']]"),
            "[[0, 2, 4, 6], 'PHB', [0, 1, 4, 6]]");
  const std::string mi300x = shared("rcclx/topo_8p_942.xml");
  const auto mesh = gpus({shared("synthetic/dgx1v.xml")}).out;
  EXPECT_HAS(mesh, "NVL 40 GB/s to 5, 7") << "not by way of another GPU: ";
  // A GPU that is not chosen relays nothing (NVB).
  EXPECT_EQ(ofJson({"pick", "4", shared("synthetic/dgx1v.xml"), "-q", "--json"},
                   "[a['gpus'], a['slowest_pair_type']]"),
            "[[0, 1, 2, 3], 'NVL']");
  EXPECT_HAS(gpus({mi300x}).out, "gfx942  -       0     xGMI 48 GB/s to 1-7");
  EXPECT_EQ(gpus({"pick", "3", mi300x, "--env"}).out, "ROCR_VISIBLE_DEVICES=0,1,2\n");
  const auto nodes = gpus({"pick", "2", mi300x, "--cgroup"});
  EXPECT_EQ(nodes.out, "/dev/kfd\n/dev/dri/renderD128\n/dev/dri/renderD129\n");
  EXPECT_HAS(nodes.err, "assumed");
}

TEST(GpusFitness, CombinesHostsAndGpus) {
  const test::ScratchFile hosts("hosts.tsv", "n1\tleaf1\nn2\tleaf1\nn3\tleaf2\nn4\tleaf3\nn5\tleaf4\n");
  const auto result = gpus({"fitness", "--hosts", hosts.path(), "--nodes", "n[1-2]"});
  EXPECT_EQ(result.out,
            "fitness 0.825\n  inter 0.75: 2 hosts in 1 of 4 switch groups\n  intra 1: no GPUs were named "
            "(--gpus K)\n"
            "  0.7 x inter + 0.3 x intra\n")
      << result.err;
  EXPECT_EQ(ofJson({"fitness", "--hosts", hosts.path(), "--nodes", "n1", "--gpus", "2", kMachine, "--json"},
                   "[a['fitness'], a['inter'], a['intra'], a['gpus']]"),
            "[1, 0.75, 1, [0, 1]]");
  const test::ScratchFile slurm(
      "topology.conf", "SwitchName=a Nodes=n[1-2]\nSwitchName=b Nodes=n[3-4]\nSwitchName=t Switches=a,b\n");
  EXPECT_EQ(ofJson({"fitness", "--hosts", slurm.path(), "--nodes", "n[1-3]", "--json"},
                   "[a['groups_needed'], a['groups_available']]"),
            "[2, 2]");
}

TEST(GpusFitness, MistakesSayWhatToDo) {
  const test::ScratchFile hosts("bad.tsv", "n1\tleaf1\nn2 leaf1\n");
  const test::ScratchFile good("good.tsv", "n1\tleaf1\n");
  EXPECT_EQ(gpus({"fitness"}).status, 2);
  const auto bad = gpus({"fitness", "--hosts", hosts.path(), "--nodes", "n1"});
  EXPECT_EQ(bad.status, 1);
  EXPECT_HAS(bad.err, "bad.tsv:2: not 'host TAB group'");
  const auto unknown = gpus({"fitness", "--hosts", good.path(), "--nodes", "n7"});
  EXPECT_EQ(unknown.status, 2);
  EXPECT_HAS(unknown.err, "host n7 is in no group of " + good.path());
  EXPECT_HAS(gpus({"fitness", "--hosts", good.path(), "--nodes", "n1,n1"}).err, "n1 is named twice");
  EXPECT_HAS(gpus({"fitness", "--hosts", good.path(), "--nodes", "n[1"}).err,
             "the brackets of 'n[1' do not match");
  EXPECT_EQ(gpus({"fitness", "--hosts", good.path(), "--nodes", "n1", "--gpus", "9", kMachine}).status, 2);
  EXPECT_EQ(gpus({"fitness", "--hosts", good.path(), "--nodes", "n1", kMachine}).status, 2);
}

}  // namespace
}  // namespace railwise::cli
