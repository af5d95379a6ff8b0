// Libraries that hang, crash, leave, or are not there. Nothing but a remark comes of it.
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>

#include "tests/gpu/machines.h"

namespace railwise::gpu {
namespace {

using namespace test;
using namespace std::chrono_literals;

TEST(FailingLibraryTest, OneThatHangsIsNotWaitedFor) {
  const Clock::time_point start = Clock::now();
  const GpuTopology machine = nvidia("dgx_h100", "hang", 200ms);
  EXPECT_LT(Clock::now() - start, 3s);  // eight times the fake's sleep are 24 s
  EXPECT_TRUE(machine.gpus.empty());
  EXPECT_REMARK(machine, "did not answer within 0.2 s: its GPUs are missing here. Try nvidia-smi");
  // No child is left.
  EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1);
  EXPECT_EQ(errno, ECHILD);
}

TEST(FailingLibraryTest, OneThatCrashesIsNamed) {
  const GpuTopology machine = nvidia("dgx_h100", "crash");
  EXPECT_TRUE(machine.gpus.empty());
  EXPECT_REMARK(machine, "crashed (signal SIG");
  const GpuTopology other = amd("mi250", "crash");
  EXPECT_REMARK(other, "AMD's library");
  EXPECT_REMARK(other, "crashed (signal SIG");
}

TEST(FailingLibraryTest, OneThatEndsTheProcessIsNamed) {
  const GpuTopology machine = nvidia("dgx_h100", "exit");
  EXPECT_TRUE(machine.gpus.empty());
  EXPECT_REMARK(machine, "ended the process that asked it (status 7)");
}

TEST(FailingLibraryTest, OneVendorThatHangsDoesNotTakeTheOther) {
  const Setting file("RAILWISE_FAKE_GPUS", FAKE_MACHINES "/mi250");
  Config config;
  config.rocm_smi_library = FAKE_ROCM_SMI;
  std::vector<std::unique_ptr<GpuVendor>> vendors;
  class Sleeper : public GpuVendor {
   public:
    Vendor vendor() const override { return Vendor::kNvidia; }
    std::string name() const override { return "a library that sleeps"; }
    std::string program() const override { return "true"; }
    Outcome<void> read(GpuTopology&) const override {
      for (;;) sleep(60);
    }
  };
  vendors.push_back(std::make_unique<Sleeper>());
  vendors.push_back(makeRocmSmi(config));
  Outcome<GpuTopology> machine = readGpus(3s, vendors);
  ASSERT_OK(machine);
  EXPECT_EQ(machine->gpus.size(), 4u);
  EXPECT_REMARK(*machine, "a library that sleeps did not answer within 3 s");
}

TEST(FailingLibraryTest, TwoVendorsStandInOneList) {
  const Setting file("RAILWISE_FAKE_GPUS", FAKE_MACHINES "/v100_cube");
  Config config;
  config.nvml_library = FAKE_NVML;
  config.amd_smi_library = FAKE_AMD_SMI;
  config.rocm_smi_library = FAKE_ROCM_SMI;
  Outcome<GpuTopology> machine = readGpus(kPatience, allVendors(config));
  ASSERT_OK(machine);
  // AMD's fakes take the file's GPUs for their own: three more.
  ASSERT_EQ(machine->gpus.size(), 6u);
  for (int i = 0; i < 6; ++i) {
    EXPECT_EQ(machine->gpus[i].index, i);
    EXPECT_EQ(machine->gpus[i].vendor, i < 3 ? Vendor::kNvidia : Vendor::kAmd);
    EXPECT_EQ(machine->gpus[i].vendor_index, i % 3);
  }
  EXPECT_NE(linkBetween(*machine, 0, 1), nullptr);
}

// Where two libraries of one vendor answer, the first in the order of preference counts, even if it is
// slower.
TEST(FailingLibraryTest, TheSecondLibraryOfAVendorCountsOnlyAlone) {
  const Setting file("RAILWISE_FAKE_GPUS", FAKE_MACHINES "/mi250");
  Config config;
  config.rocm_smi_library = FAKE_ROCM_SMI;
  std::vector<std::unique_ptr<GpuVendor>> vendors;
  vendors.push_back(makeRocmSmi(config));
  vendors.push_back(makeRocmSmi(config));
  Outcome<GpuTopology> machine = readGpus(kPatience, vendors);
  ASSERT_OK(machine);
  EXPECT_EQ(machine->gpus.size(), 4u);
  EXPECT_EQ(linksFrom(*machine, 0).size(), 2u);
}

TEST(FailingLibraryTest, NoLibraryIsNormal) {
  const auto library = openVendorLibrary("", {"libno-such-vendor.so.1", "libno-such-vendor.so"});
  ASSERT_OK(library);
  EXPECT_EQ(*library, nullptr);
}

TEST(FailingLibraryTest, ALibraryThatASettingNamesMustBeThere) {
  const GpuTopology machine = readFake(makeNvml, "/no/such/library.so", "laptop");
  EXPECT_TRUE(machine.gpus.empty());
  EXPECT_REMARK(machine, "NVIDIA's library (/no/such/library.so) cannot be loaded");
}

TEST(FailingLibraryTest, AFileThatIsNoLibraryGivesARemark) {
  const std::string path = testing::TempDir() + "/librailwise-no-library.so";
  std::ofstream(path) << "no library";
  const GpuTopology machine = readFake(makeNvml, path, "laptop");
  EXPECT_REMARK(machine, "cannot be loaded");
  const GpuTopology other = readFake(makeNvml, FAKE_ROCM_SMI, "laptop");
  EXPECT_REMARK(other, "lacks nvmlInit_v2");
}

}  // namespace
}  // namespace railwise::gpu
