// The fingerprint of a node, from trees in memory, from every fake machine of tests/gpu, and from every
// software machine.
#include <gtest/gtest.h>

#include <set>

#include "cli/device/tree.h"
#include "doctor/facts/libraries.h"
#include "doctor/fingerprint/fingerprint.h"
#include "softdev/config/machines.h"
#include "tests/gpu/machines.h"
#include "tests/ok.h"

namespace railwise::doctor::fingerprint {
namespace {

// A tree with `count` NICs of one type.
void addNics(sysfs::MemoryTree& tree, const std::string& prefix, int count, const std::string& type,
             const std::string& firmware) {
  for (int i = 0; i < count; ++i) {
    const std::string folder = "/sys/class/infiniband/" + prefix + std::to_string(i);
    tree.file(folder + "/hca_type", type + "\n").file(folder + "/fw_ver", firmware + "\n");
    tree.file(folder + "/board_id", "MT_0000000838\n");
  }
}

void addGpu(sysfs::MemoryTree& tree, const std::string& busid, const std::string& vendor,
            const std::string& device) {
  const std::string folder = "/sys/devices/pci0000:00/" + busid;
  tree.file(folder + "/vendor", vendor + "\n").file(folder + "/device", device + "\n");
  tree.file(folder + "/class", vendor == "0x10de" ? "0x030200\n" : "0x038000\n")
      .link("/sys/bus/pci/devices/" + busid, folder);
}

// The JSON of a node has all that its text has.
void expectWhole(const Fingerprint& node) {
  const auto read = parseFingerprints(jsonOf(node), "written");
  ASSERT_OK(read);
  EXPECT_EQ((*read)[0].node, node);
  EXPECT_EQ(textOf((*read)[0].node), textOf(node));
}

TEST(FingerprintOf, AMachineWithNothing) {
  const Fingerprint node = fingerprintOf(sysfs::MemoryTree(), {});
  EXPECT_EQ(node.gpu_vendor, "");
  EXPECT_TRUE(node.gpus.empty());
  EXPECT_TRUE(node.nics.empty());
  EXPECT_EQ(node.rdma_core, "");
  expectWhole(node);
}

TEST(FingerprintOf, ReadsTheFilesOfTheNode) {
  sysfs::MemoryTree tree;
  tree.file("/proc/sys/kernel/hostname", "node7\n").file("/proc/sys/kernel/osrelease", "6.8.0-45-generic\n");
  tree.file("/sys/module/nvidia/version", "550.90.07\n");
  tree.file("/sys/module/mlx5_core/version", "24.04-0.7.0\n");
  tree.file("/usr/local/cuda-12.4/version.json",
            R"({"cuda": {"name": "CUDA SDK", "version": "12.4.1"}, "cuda_cccl": {"version": "12.3.1"}})");
  tree.link("/usr/local/cuda", "/etc/alternatives/cuda")
      .link("/etc/alternatives/cuda", "/usr/local/cuda-12.4");
  tree.file("/opt/rocm-6.2.0/.info/version", "6.2.0-66\n").link("/opt/rocm", "rocm-6.2.0");
  tree.file("/usr/lib64/libibverbs.so.1.14.50.0", "")
      .link("/usr/lib64/libibverbs.so.1", "libibverbs.so.1.14.50.0");
  addNics(tree, "mlx5_", 3, "MT4129", "28.39.1002");
  const Fingerprint node = fingerprintOf(tree, {});
  EXPECT_EQ(node.host, "node7");
  EXPECT_EQ(node.railwise, RAILWISE_VERSION);
  EXPECT_EQ(node.kernel, "6.8.0-45-generic");
  EXPECT_EQ(node.gpu_driver, "550.90.07") << "the module's, where no library tells";
  EXPECT_EQ(node.modules.at("nvidia"), "550.90.07");
  EXPECT_EQ(node.modules.at("mlx5_core"), "24.04-0.7.0");
  EXPECT_EQ(node.modules.at("amdgpu"), "");
  EXPECT_EQ(node.cuda, "12.4.1");
  EXPECT_EQ(node.rocm, "6.2.0-66");
  EXPECT_EQ(node.rdma_core, "50.0");
  EXPECT_EQ(node.nics, std::vector<NicGroup>({{"MT4129", "MT_0000000838", "28.39.1002", 3}}));
  expectWhole(node);
}

TEST(FingerprintOf, ReadsTheVersionOfCudaFromALongFile) {
  sysfs::MemoryTree tree;
  tree.file("/usr/local/cuda/version.json", R"({"cuda" : { "name" : "CUDA SDK", "version" : "13.0.0" })" +
                                                std::string(sysfs::FileTree::kMaxFileBytes, ' ') + "}");
  EXPECT_EQ(fingerprintOf(tree, {}).cuda, "13.0.0");
}

TEST(FingerprintOf, KnowsTheFilesOfOlderCuda) {
  sysfs::MemoryTree tree;
  tree.file("/usr/local/cuda/version.txt", "CUDA Version 10.2.89\n");
  EXPECT_EQ(fingerprintOf(tree, {}).cuda, "10.2.89");
  for (const char* broken : {"", "{", "{\"cuda\": 7}", "{\"cuda\": {\"version\": \"12"}) {
    tree.file("/usr/local/cuda/version.json", broken);
    tree.file("/usr/local/cuda/version.txt", "something else\n");
    EXPECT_EQ(fingerprintOf(tree, {}).cuda, "") << broken;
  }
}

TEST(FingerprintOf, CountsNicsByTypeAndFirmwareInAnyOrder) {
  sysfs::MemoryTree first, second;
  addNics(first, "a", 2, "MT4129", "28.39.1002");
  addNics(first, "b", 1, "MT4125", "22.39.1002");
  addNics(second, "a", 1, "MT4125", "22.39.1002");
  addNics(second, "b", 2, "MT4129", "28.39.1002");
  EXPECT_EQ(fingerprintOf(first, {}).nics.size(), 2U);
  EXPECT_EQ(hashOf(fingerprintOf(first, {})), hashOf(fingerprintOf(second, {})));
  addNics(second, "c", 1, "MT4129", "28.36.1010");
  EXPECT_EQ(fingerprintOf(second, {}).nics.size(), 3U);
}

TEST(FingerprintOf, ANicWithoutATypeHasItsPciIds) {
  sysfs::MemoryTree tree;
  const std::string folder = "/sys/devices/pci0000:00/0000:00:06.0";
  tree.file(folder + "/vendor", "0x1d0f\n").file(folder + "/device", "0xefa1\n");
  tree.file(folder + "/infiniband/efa_0/fw_ver", "0.0.0.0\n")
      .link(folder + "/infiniband/efa_0/device", folder);
  tree.link("/sys/class/infiniband/efa_0", folder + "/infiniband/efa_0");
  tree.folder("/sys/class/infiniband/rxe0");  // neither
  EXPECT_EQ(fingerprintOf(tree, {}).nics,
            std::vector<NicGroup>({{"", "", "", 1}, {"0x1d0f:0xefa1", "", "0.0.0.0", 1}}));
}

TEST(FingerprintOf, WithoutALibraryTheGpusAreThoseOfThePciBus) {
  sysfs::MemoryTree tree;
  addGpu(tree, "0000:00:01.0", "0x10de", "0x2330");
  addGpu(tree, "0000:00:02.0", "0x10de", "0x2330");
  addGpu(tree, "0000:00:03.0", "0x1002", "0x74a1");
  const Fingerprint node = fingerprintOf(tree, {});
  EXPECT_EQ(node.gpus, std::vector<Counted>({{"AMD 0x74a1", 1}, {"NVIDIA 0x2330", 2}}));
  EXPECT_EQ(node.gpu_vendor, "AMD and NVIDIA");
}

TEST(FingerprintOf, EveryFakeMachine) {
  struct Machine {
    const char* name;
    gpu::GpuTopology (*read)(const std::string&, const std::string&, Clock::duration);
    const char* gpus;
    const char* driver;
  };
  const Machine machines[] = {
      {"dgx_a100", gpu::test::nvidia, "8 x NVIDIA A100-SXM4-80GB", "535.183.01"},
      {"dgx_h100", gpu::test::nvidia, "8 x NVIDIA H100 80GB HBM3", "550.90.07"},
      {"gb200", gpu::test::nvidia, "4 x NVIDIA GB200", "570.124.06"},
      {"l40s_pcie", gpu::test::nvidia, "4 x NVIDIA L40S", "550.54.15"},
      {"laptop", gpu::test::nvidia, "1 x NVIDIA GeForce RTX 4070 Laptop GPU", "545.29.06"},
      {"mig", gpu::test::nvidia,
       "1 x NVIDIA H100 80GB HBM3, 1 x NVIDIA H100 80GB HBM3 MIG 1g.10gb, 2 x NVIDIA H100 80GB HBM3 MIG "
       "3g.40gb",
       "550.90.07"},
      {"v100_cube", gpu::test::nvidia, "3 x Tesla V100-SXM2-16GB", "470.256.02"},
      {"mi250", gpu::test::amd, "4 x AMD Instinct MI250", "6.7.0"},
      {"mi300x_cpx", gpu::test::amd, "16 x AMD Instinct MI300X CPX", "6.8.5"},
      {"mi300x_spx", gpu::test::amd, "8 x AMD Instinct MI300X", "6.8.5"},
  };
  std::set<std::string> hashes;
  for (const Machine& machine : machines) {
    SCOPED_TRACE(machine.name);
    const gpu::GpuTopology gpus = machine.read(machine.name, "", gpu::test::kPatience);
    const Fingerprint node = fingerprintOf(sysfs::MemoryTree(), gpus);
    EXPECT_HAS(textOf(node), "GPUs: " + std::string(machine.gpus) + "; GPU driver: " + machine.driver + ";");
    EXPECT_TRUE(hashes.insert(hashOf(node)).second) << textOf(node);
    expectWhole(node);
  }
}

TEST(FingerprintOf, EverySoftwareMachine) {
  for (const softdev::ShippedMachine& shipped : softdev::shippedMachines()) {
    SCOPED_TRACE(shipped.name);
    const auto machine = softdev::parseMachine(("@" + std::string(shipped.name)).c_str(), "");
    ASSERT_OK(machine);
    for (const softdev::HostConfig& host : machine->hosts) {
      const Fingerprint node = fingerprintOf(cli::deviceTree(host), {});
      int nics = 0, gpus = 0;
      for (const NicGroup& nic : node.nics) {
        nics += nic.count;
        EXPECT_EQ(nic.firmware, "railwise-" RAILWISE_VERSION);
        EXPECT_NE(nic.type, "");
      }
      for (const Counted& gpu : node.gpus) gpus += gpu.count;
      EXPECT_EQ(nics, static_cast<int>(host.devices.size()));
      EXPECT_EQ(gpus, static_cast<int>(host.gpus.size()));
      expectWhole(node);
    }
  }
}

TEST(RdmaCoreVersion, IsBehindTheInterface) {
  EXPECT_EQ(rdmaCoreVersion("/usr/lib/x86_64-linux-gnu/libibverbs.so.1.14.44.0"), "44.0");
  EXPECT_EQ(rdmaCoreVersion("/usr/lib64/libibverbs.so.1.14.2407.0"), "2407.0");
  for (const char* other : {"", "libibverbs.so", "libibverbs.so.1", "libibverbs.so.1.0.0", "/opt/my.so.1.2"})
    EXPECT_EQ(rdmaCoreVersion(other), "") << other;
}

TEST(RdmaLibrary, ThatIsNotThereHasNoFile) {
  EXPECT_EQ(loadedRdmaLibrary("/nowhere/libibverbs.so.1"), "");
  EXPECT_EQ(loadedRdmaLibrary("libc.so.6"), "") << "a library without verbs";
}

}  // namespace
}  // namespace railwise::doctor::fingerprint
