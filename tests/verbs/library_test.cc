#include "verbs/library.h"

#include <dlfcn.h>

#include <filesystem>

#include "said.h"
#include "software_device.h"
#include "tests/ok.h"
#include "verbs/cm/library.h"

namespace railwise::verbs {
namespace {

TEST(Library, AMissingLibibverbsIsNoDevice) {
  Config config;
  config.ibverbs_library = "libno-such-verbs.so.1";
  EXPECT_EQ(load(config).code, Code::kNoDevice);
}

TEST(Library, ALibraryWithoutVerbsIsNoDevice) {
  Config config;
  config.ibverbs_library = "libc.so.6";
  EXPECT_EQ(load(config).code, Code::kNoDevice);
}

TEST(Library, TheSystemsLibibverbsFillsTheWholeTable) {
  const Status status = load(Config());
  if (!status.ok()) GTEST_SKIP() << "no libibverbs.so.1 on this machine";
  const Library& table = library();
  EXPECT_STREQ(table.name, "libibverbs");
  EXPECT_NE(table.get_device_list, nullptr);
  EXPECT_NE(table.wc_status_str, nullptr);
  EXPECT_STREQ(table.wc_status_str(IBV_WC_SUCCESS), "success");
  unload();
  EXPECT_EQ(library().get_device_list, nullptr);
}

// Each copy of librdmacm that is loaded opens every device for itself, and never closes it.
TEST(Library, TheSystemsLibrdmacmIsLoadedOnceAndForAll) {
  if (!load(Config()).ok() || !cmLibrary().ok()) GTEST_SKIP() << "no libibverbs.so.1 or librdmacm.so.1";
  unload();
  EXPECT_EQ(cmLibraryInUse().name, nullptr);
  EXPECT_NE(dlopen("librdmacm.so.1", RTLD_NOW | RTLD_NOLOAD), nullptr) << "it was unloaded";
}

TEST(Library, UnknownDevicesAreRefused) {
  for (const char* bad : {"hard", "softwares", "software=1", "verbs:x"}) {
    Config config;
    config.device = bad;
    EXPECT_EQ(load(config).code, Code::kInvalidUsage) << bad;
  }
}

TEST(Library, ABadSoftwareConfigurationIsRefused) {
  test::Said said;
  EXPECT_EQ(load(test::softwareConfig("speed=fast")).code, Code::kInvalidUsage);
  EXPECT_HAS(said.warnings(), "bad value \"fast\"");
}

TEST(Library, AMissingSoftwareDeviceIsNoDevice) {
  test::Said said;
  Config config = test::softwareConfig();
  config.verbs_folder = "/no/such/folder";
  EXPECT_EQ(load(config).code, Code::kNoDevice);
  for (const char* part : {"librailwise-device.so is not in /no/such/folder.", "package railwise-device"})
    EXPECT_HAS(said.warnings(), part);
}

// A libibverbs, but not ours: it has no railwise_device_configure.
TEST(Library, AnotherLibraryOfTheDevicesNameIsNoDevice) {
  const std::string folder = testing::TempDir() + "railwise-foreign-" + std::to_string(getpid());
  std::filesystem::create_directory(folder);
  std::filesystem::create_symlink(RAILWISE_FAKE_MLX5_PATH, folder + "/librailwise-device.so");
  test::Said said;
  Config config = test::softwareConfig();
  config.verbs_folder = folder;
  EXPECT_EQ(load(config).code, Code::kNoDevice);
  EXPECT_HAS(said.warnings(), "librailwise-device.so has no ");
  std::filesystem::remove_all(folder);
}

// glibc gives a loaded library to everybody who asks for its soname: NCCL's own network looks for
// libibverbs.so.1 in the same process, and must find the system's.
TEST(Library, TheSoftwareDeviceIsNobodysLibibverbs) {
  const test::SoftwareDevice device;
  void* const libibverbs = dlopen("libibverbs.so.1", RTLD_NOW | RTLD_NOLOAD);
  EXPECT_TRUE(libibverbs == nullptr || dlsym(libibverbs, "railwise_device_configure") == nullptr);
}

TEST(Library, TheSoftwareDeviceFillsTheTable) {
  const test::SoftwareDevice device;
  EXPECT_STREQ(library().name, "software device");
  EXPECT_HAS(std::string(library().wc_status_str(IBV_WC_RETRY_EXC_ERR)), "retr");
}

}  // namespace
}  // namespace railwise::verbs
