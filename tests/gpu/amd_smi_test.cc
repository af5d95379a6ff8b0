// AMD's machines, as the fake AMD SMI describes them in several versions, and beside the fake ROCm SMI.
#include <dlfcn.h>
#include <unistd.h>

#include "gpu/json.h"
#include "tests/gpu/machines.h"
#include "tests/ok.h"

namespace railwise::gpu {
namespace {

using namespace test;
using namespace std::chrono_literals;

GpuTopology amdSmi(const std::string& machine, const std::string& mode = "",
                   Clock::duration limit = kPatience) {
  return readFake(makeAmdSmi, FAKE_AMD_SMI, machine, mode, limit);
}

// All libraries that the configuration names; an empty one is not there.
GpuTopology readAll(const std::string& machine, const std::string& amd_smi, const std::string& rocm_smi,
                    const std::string& mode = "", Clock::duration limit = kPatience) {
  const Setting file("RAILWISE_FAKE_GPUS", FAKE_MACHINES "/" + machine);
  const Setting behaviour("RAILWISE_FAKE_GPU_MODE", mode);
  Config config;
  config.amd_smi_library = amd_smi;
  config.rocm_smi_library = rocm_smi;
  std::vector<std::unique_ptr<GpuVendor>> vendors = allVendors(config);
  std::erase_if(vendors, [](const auto& vendor) { return vendor->vendor() != Vendor::kAmd; });
  Outcome<GpuTopology> topology = readGpus(limit, vendors);
  EXPECT_OK(topology);
  return topology.ok() ? *topology : GpuTopology{};
}

// What the machines are stands in rocm_smi_test.cc. Structs have another layout in each of these versions.
class AmdSmiReleaseTest : public testing::TestWithParam<const char*> {};

TEST_P(AmdSmiReleaseTest, TellsWhatRocmSmiTells) {
  for (const char* name : {"mi300x_spx", "mi300x_cpx", "mi250"}) {
    GpuTopology machine = amdSmi(name, GetParam());
    const GpuTopology other = amd(name);
    EXPECT_EQ(allRemarks(machine), allRemarks(other)) << name;
    ASSERT_EQ(machine.gpus.size(), other.gpus.size()) << name;
    EXPECT_NE(machine.gpus.front().uuid, machine.gpus.back().uuid);
    for (std::size_t i = 0; i < machine.gpus.size(); ++i) {
      // The one allowed difference: each library has an identity of its own for a GPU.
      EXPECT_TRUE(machine.gpus[i].uuid.starts_with("00ff74a1-0000-1000-8000-")) << machine.gpus[i].uuid;
      machine.gpus[i].uuid = other.gpus[i].uuid;
    }
    EXPECT_EQ(jsonOf(machine), jsonOf(other)) << name;
  }
}

// Empty: ROCm 10.1.
INSTANTIATE_TEST_SUITE_P(Releases, AmdSmiReleaseTest, testing::Values("rocm63", "rocm64", "rocm70", ""),
                         [](const auto& tested) {
                           return *tested.param == '\0' ? "rocm101" : std::string(tested.param);
                         });

TEST(AmdSmiTest, WithoutTheRenderNodeTheVbiosComesFromItsVersion) {
  const GpuTopology machine = amdSmi("mi250", "guest");
  ASSERT_EQ(machine.gpus.size(), 4u);
  EXPECT_EQ(machine.gpus[0].firmware, "113-M3000100-103");
}

TEST(AmdSmiTest, OnlyGpusAreCounted) {
  const GpuTopology machine = amdSmi("mi210_and_nic");
  EXPECT_NO_REMARK(machine);
  ASSERT_EQ(machine.gpus.size(), 1u);
  EXPECT_EQ(machine.gpus[0].model, "AMD Instinct MI210");
  EXPECT_EQ(machine.gpus[0].busid, "0000:43:00.0");
  EXPECT_EQ(machine.gpus[0].index, 0);
  EXPECT_EQ(machine.gpus[0].vendor_index, 0);
  EXPECT_EQ(machine.gpus[0].utilisation_percent, 3);
  EXPECT_EQ(machine.gpus[0].health.ecc_uncorrected, std::nullopt);  // its file has no counts
}

TEST(AmdSmiTest, ALibraryThatLacksFunctionsLeavesFieldsUnknown) {
  const GpuTopology machine = readFake(makeAmdSmi, FAKE_OLD_AMD_SMI, "mi300x_cpx");
  ASSERT_EQ(machine.gpus.size(), 16u);
  EXPECT_EQ(machine.gpus[0].model, "AMD Instinct MI300X");
  EXPECT_EQ(machine.gpus[0].architecture, "gfx942");
  EXPECT_EQ(machine.gpus[0].firmware, "");
  EXPECT_EQ(machine.gpus[0].partition, "");
  EXPECT_EQ(machine.gpus[0].processes, std::nullopt);
  EXPECT_TRUE(machine.peers.empty());
  ASSERT_EQ(machine.links.size(), 240u);
  EXPECT_EQ(machine.links[0].kind, LinkKind::kInfinityFabric);
  EXPECT_EQ(machine.links[0].gb_per_s, 0);
  EXPECT_REMARK(machine, "does not tell how fast xGMI is from AMD GPU 0 to 1");
}

TEST(AmdSmiTest, CallsThatFailLeaveFieldsUnknown) {
  const GpuTopology machine = amdSmi("mi300x_spx", "fail");
  EXPECT_NO_REMARK(machine);
  ASSERT_EQ(machine.gpus.size(), 8u);
  Device unknown;
  unknown.vendor = Vendor::kAmd;
  unknown.index = unknown.vendor_index = 3;
  EXPECT_EQ(jsonOf({.gpus = {machine.gpus[3]}}), jsonOf({.gpus = {unknown}}));
  EXPECT_TRUE(machine.links.empty());
  EXPECT_TRUE(machine.peers.empty());
}

TEST(AmdSmiTest, WhatNoGpuCanHaveIsLeftOut) {
  const GpuTopology machine = amdSmi("mi250", "lie");
  ASSERT_EQ(machine.gpus.size(), 4u);
  EXPECT_EQ(machine.gpus[0].memory_bytes, 0u);
  EXPECT_EQ(machine.gpus[0].utilisation_percent, std::nullopt);
  EXPECT_EQ(machine.gpus[0].processes, std::nullopt);
  for (const Link& link : machine.links) EXPECT_LT(link.gb_per_s, 1000);
  EXPECT_NE(allRemarks(machine), "");
}

TEST(AmdSmiTest, ANumberOfGpusBeyondSenseIsCut) {
  const GpuTopology machine = amdSmi("mi250", "many");
  EXPECT_EQ(machine.gpus.size(), 4u);
  EXPECT_REMARK(machine, "speaks of 4000000000 sockets: the first 256 are asked");
  EXPECT_REMARK(machine, "speaks of 3000000000 GPUs: the first 256 are asked");
}

TEST(AmdSmiTest, TextsWithoutAnEndAreLeftOut) {
  const GpuTopology machine = amdSmi("mi250", "endless");
  ASSERT_EQ(machine.gpus.size(), 4u);
  EXPECT_EQ(machine.gpus[0].model, "");
  EXPECT_EQ(machine.gpus[0].driver, "");
  EXPECT_EQ(machine.gpus[0].uuid, "");
  EXPECT_REMARK(machine, "the name of AMD GPU 0 has no end");
  EXPECT_REMARK(machine, "the driver's version of AMD GPU 0 has no end");
  EXPECT_REMARK(machine, "the UUID of AMD GPU 0 has no end");
}

TEST(AmdSmiTest, WithoutADriverThereIsARemark) {
  const GpuTopology machine = amdSmi("mi250", "noinit");
  EXPECT_TRUE(machine.gpus.empty());
  EXPECT_REMARK(machine,
                "is installed but does not start: AMDSMI_STATUS_DRIVER_NOT_LOADED: Driver not loaded (34)");
}

TEST(AmdSmiTest, ALibraryBeforeRocm63IsNotAsked) {
  const GpuTopology machine = amdSmi("mi250", "rocm62");
  EXPECT_TRUE(machine.gpus.empty());
  EXPECT_REMARK(machine, "has version 24.6: Railwise asks AMD SMI since version 24.7 (ROCm 6.3)");
  EXPECT_REMARK(amdSmi("mi250", "noversion"), "has version 0.0");
}

TEST(AmdSmiTest, AnUnknownVersionTellsWhatHasOnePlaceInAllVersions) {
  const GpuTopology machine = amdSmi("mi250", "future");
  ASSERT_EQ(machine.gpus.size(), 4u);
  EXPECT_EQ(machine.gpus[0].model, "AMD Instinct MI250");
  EXPECT_EQ(machine.gpus[0].driver, "6.7.0");
  EXPECT_EQ(machine.gpus[0].architecture, "");
  EXPECT_EQ(machine.gpus[0].firmware, "");
  EXPECT_REMARK(machine, "has version 28.0, which Railwise does not know: architecture and firmware");
}

TEST(AmdSmiTest, ALibraryOfAnotherKindIsNamed) {
  const GpuTopology machine = readFake(makeAmdSmi, FAKE_NVML, "laptop");
  EXPECT_TRUE(machine.gpus.empty());
  EXPECT_REMARK(machine, "lacks a function that finds GPUs: it is not AMD SMI");
}

TEST(AmdSmiTest, OneThatHangsCrashesOrLeavesIsNamed) {
  EXPECT_REMARK(amdSmi("mi250", "hang", 200ms),
                "did not answer within 0.2 s: its GPUs are missing here. Try amd-smi");
  EXPECT_REMARK(amdSmi("mi250", "crash"), "crashed (signal SIG");
  EXPECT_REMARK(amdSmi("mi250", "exit"), "ended the process that asked it (status 7)");
}

TEST(AmdSmiTest, WithBothLibrariesTheGpusAppearOnceFromAmdSmi) {
  const GpuTopology machine = readAll("mi250", FAKE_AMD_SMI, FAKE_ROCM_SMI);
  EXPECT_NO_REMARK(machine);
  ASSERT_EQ(machine.gpus.size(), 4u);
  EXPECT_TRUE(machine.gpus[0].uuid.starts_with("00ff74a1-")) << machine.gpus[0].uuid;
  EXPECT_EQ(linksFrom(machine, 0).size(), 2u);
  EXPECT_EQ(machine.peers.size(), 12u);
}

TEST(AmdSmiTest, RocmSmiTellsWhereAmdSmiFails) {
  // The fake ROCm SMI has no such mode.
  const GpuTopology machine = readAll("mi250", FAKE_AMD_SMI, FAKE_ROCM_SMI, "exit");
  ASSERT_EQ(machine.gpus.size(), 4u);
  EXPECT_EQ(machine.gpus[0].uuid, "0x71a0000000000000");
  EXPECT_REMARK(machine,
                "ended the process that asked it (status 7): another library has told of AMD's GPUs");
  EXPECT_LACKS(allRemarks(machine), "missing");
}

TEST(AmdSmiTest, RocmSmiThatIsNotCountedLeavesNoRemarkOfItsAnswer) {
  const GpuTopology machine = readAll("mi300x_spx", FAKE_AMD_SMI, FAKE_OLD_ROCM_SMI);
  EXPECT_EQ(machine.gpus.size(), 8u);
  EXPECT_NO_REMARK(machine);
}

// A library that the dynamic linker finds by its name, as one that is installed: the child process has it
// already.
class Installed {
 public:
  explicit Installed(const char* path) : library_(dlopen(path, RTLD_LAZY | RTLD_LOCAL)) {
    EXPECT_NE(library_, nullptr) << path;
  }
  ~Installed() {
    if (library_ != nullptr) dlclose(library_);
  }
  Installed(const Installed&) = delete;
  Installed& operator=(const Installed&) = delete;

 private:
  void* library_;
};

TEST(AmdSmiTest, AnInstalledLibraryIsFoundByItsName) {
  for (const char* path : {FAKE_AMD_SMI, FAKE_OLD_AMD_SMI}) {
    const Installed library(path);
    EXPECT_EQ(readFake(makeAmdSmi, "", "mi250").gpus.size(), 4u) << path;
  }
}

// Nobody has asked for it, and ROCm SMI is beside it.
TEST(AmdSmiTest, AnInstalledLibraryBeforeRocm63IsNoRemark) {
  const Installed library(FAKE_AMD_SMI);
  const GpuTopology machine = readFake(makeAmdSmi, "", "mi250", "rocm62");
  EXPECT_TRUE(machine.gpus.empty());
  EXPECT_NO_REMARK(machine);
}

TEST(AmdSmiTest, AnInstalledLibraryWithoutADriverIsNoRemark) {
  if (access("/sys/module/amdgpu", F_OK) == 0) GTEST_SKIP() << "this machine has AMD's driver";
  const Installed library(FAKE_AMD_SMI);
  const GpuTopology machine = readFake(makeAmdSmi, "", "mi250", "noinit");
  EXPECT_TRUE(machine.gpus.empty());
  EXPECT_NO_REMARK(machine);
}

}  // namespace
}  // namespace railwise::gpu
