// railwise gpus on this machine (a software machine, or fakes of the vendors' libraries), and on several.
#include "cli/gpus/run_gpus.h"
#include "tests/ok.h"

namespace railwise::cli {
namespace {

TEST(GpusOfTheMachine, UnderDeviceRunTheyAreTheSoftwareMachines) {
  const auto run = succeeded(runProcess(
      RAILWISE_CLI, {"device", "run", "--machine", "dgx", "--", RAILWISE_CLI, "gpus", "--nccl", "2.30"}));
  EXPECT_HAS(run.out, "7    0000:df:00.0  NVIDIA H100 80GB HBM3  80 GiB  1     NVL 370.8 GB/s to 0-6");
  EXPECT_EQ(run.err, "railwise: gpus: note: the rules of NCCL 2.30.7\n");
}

class FakeLibrary : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(runProcess(RAILWISE_CLI, {"device", "sysfs", "--machine",
                                        RAILWISE_SOURCE_DIR "/tests/gpu/files/dgx_h100.conf", root()})
                  .status,
              0);
    std::filesystem::remove_all(root() + "/railwise/gpus.json");
  }
  void TearDown() override { std::filesystem::remove_all(root()); }

  static std::string root() {
    return (std::filesystem::temp_directory_path() / (std::to_string(getpid()) + "gpus")).string();
  }
  ProcessResult run(const Args& words, const std::string& mode = "") const {
    return runProcess(RAILWISE_CLI, words,
                      {"RAILWISE_SYSFS_ROOT=" + root(),
                       "RAILWISE_FAKE_GPUS=" RAILWISE_SOURCE_DIR "/tests/gpu/machines/dgx_h100",
                       "RAILWISE_NVML_LIB=" FAKE_NVML, "RAILWISE_FAKE_GPU_MODE=" + mode});
  }
};

TEST_F(FakeLibrary, ItsAnswersAreListed) {
  const auto list = succeeded(run({"gpus"}));
  EXPECT_HAS(list.out, "5    0000:c3:00.0  NVIDIA H100 80GB HBM3  80 GiB  1     NVL 370.8 GB/s");
  EXPECT_HAS(list.out, "2 ECC errors\n");
  EXPECT_HAS(list.out, "28 link errors\n");
  EXPECT_HAS(list.out, "throttled (thermal (hardware), power cap)\n");
  EXPECT_HAS(run({"topo", "show", "--format", "matrix"}).out, "NV18");
  EXPECT_HAS(run({"fingerprint", "--one-line"}).out, "8 x NVIDIA H100 80GB HBM3; GPU driver: 550.90.07");
}

TEST_F(FakeLibrary, AGpuInUseIsNotPicked) {
  const auto all = run({"gpus", "pick", "8"});
  EXPECT_EQ(all.status, 2);
  EXPECT_HAS(all.err, "8 GPUs are wanted, and 7 of 8 may be used (in use: 3)");
  EXPECT_EQ(run({"gpus", "pick", "8", "--occupied"}).status, 0);
  EXPECT_HAS(run({"gpus", "pick", "7"}).out, "left out    GPU 3: in use by a process");
}

TEST_F(FakeLibrary, ThatHangsCostsANote) {
  const auto list = succeeded(run({"gpus"}, "hang"));
  EXPECT_HAS(list.err, "did not answer within 2 s");
  EXPECT_HAS(list.out, "0000:df:00.0  sm_90");
}

// A recording has the answers, without serial numbers.
TEST_F(FakeLibrary, ItsAnswersAreRecorded) {
  const std::string archive = root() + "/recorded.tar.gz";
  ASSERT_EQ(run({"topo", "record", archive}).status, 0);
  EXPECT_EQ(gpus({"--machine", archive}).out, run({"gpus"}).out);
  EXPECT_EQ(ofJson({"--root", archive, "--json"},
                   "[a['gpus'][5]['uuid'], a['gpus'][5]['health']['ecc_uncorrected']]"),
            "[None, 2]");
}

// Each fake machine: its /sys in a folder, and the library of its GPUs' vendor.
class EveryFakeMachine : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const std::string conf = std::string(RAILWISE_SOURCE_DIR "/tests/gpu/files/") + GetParam() + ".conf";
    ASSERT_EQ(runProcess(RAILWISE_CLI, {"device", "sysfs", "--machine", conf, root_}).status, 0);
    std::filesystem::remove_all(root_ + "/railwise/gpus.json");
  }
  void TearDown() override { std::filesystem::remove_all(root_); }
  ProcessResult run(const Args& words) const {
    const bool amd = std::string(GetParam()).starts_with("mi") && std::string(GetParam()) != "mig";
    return runProcess(
        RAILWISE_CLI, words,
        {"RAILWISE_SYSFS_ROOT=" + root_,
         amd ? "RAILWISE_AMD_SMI_LIB=" FAKE_AMD_SMI : "RAILWISE_NVML_LIB=" FAKE_NVML,
         std::string("RAILWISE_FAKE_GPUS=" RAILWISE_SOURCE_DIR "/tests/gpu/machines/") + GetParam()});
  }

  const std::string root_ =
      (std::filesystem::temp_directory_path() / (std::to_string(getpid()) + GetParam())).string();
};

TEST_P(EveryFakeMachine, IsListedPickedFromAndFingerprinted) {
  const auto list = succeeded(run({"gpus"}));
  EXPECT_HAS(succeeded(run({"gpus", "pick", "1", "--occupied"})).out, "GPU 0 of ");
  const test::ScratchFile hosts("hosts.tsv", "a\tleft\nb\tright\n");
  const auto fitness =
      succeeded(run({"gpus", "fitness", "--hosts", hosts.path(), "--nodes", "a", "--gpus", "1"}));
  EXPECT_HAS(fitness.out, "fitness 1\n");
  const auto fingerprint = succeeded(run({"fingerprint", "--one-line"}));
  for (const std::string vendor : {"NVIDIA ", "AMD ", "Tesla "}) {
    const std::size_t at = fingerprint.out.find(vendor);
    if (at == std::string::npos) continue;
    const std::string model = fingerprint.out.substr(at, fingerprint.out.find_first_of(",;", at) - at);
    EXPECT_HAS(list.out, model) << "both ask the same library";
    return;
  }
  ADD_FAILURE() << "no model in " << fingerprint.out;
}

INSTANTIATE_TEST_SUITE_P(Machines, EveryFakeMachine,
                         testing::Values("dgx_a100", "dgx_h100", "gb200", "l40s_pcie", "mig", "v100_cube",
                                         "laptop", "mi300x_spx", "mi300x_cpx", "mi250"),
                         [](const auto& one) { return std::string(one.param); });

// A software machine with a file of its own.
TEST(GpusPick, OfSeveralMachines) {
  const std::string mesh = RAILWISE_SOURCE_DIR "/machines/nvlink-mesh.conf";
  const std::string dgx = RAILWISE_SOURCE_DIR "/machines/dgx.conf";
  const auto one = succeeded(gpus({"pick", "4", "--machine", mesh, "--machine", dgx, "-q"}));
  EXPECT_HAS(one.out, "1 node of 2\n  dgx  GPUs 0-3, slowest pair 370.8 GB/s");
  const test::ScratchFile hosts("hosts.tsv", "dgx\tleft\nnvlink-mesh\tright\n");
  EXPECT_EQ(
      ofJson({"pick", "4", "--machine", mesh, "--machine", dgx, "-N", "2", "--hosts", hosts.path(), "--json"},
             "[[n['node'], n['gpus'], n['group']] for n in a['nodes']] + [a['inter']]"),
      "[['nvlink-mesh', [0, 1, 2, 3], 'right'], ['dgx', [0, 1, 2, 3], 'left'], 0]");
  const auto many = gpus({"pick", "9", "--machine", mesh, "--machine", dgx});
  EXPECT_EQ(many.status, 2);
  EXPECT_HAS(many.err, "left out: dgx: 9 GPUs are wanted, and 8 of 8 may be used");
  EXPECT_HAS(gpus({"pick", "4", "--machine", dgx, "--machine", dgx}).err, "dgx is named twice");
  EXPECT_HAS(gpus({"pick", "4", "--machine", dgx, "--nodes", "2"}).err, "are for several machines");
}

}  // namespace
}  // namespace railwise::cli
