#include "verbs/library.h"

#include <dlfcn.h>

#include "software_device.h"
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
  EXPECT_EQ(load(test::softwareConfig("speed=fast")).code, Code::kInvalidUsage);
}

TEST(Library, TheSoftwareDeviceFillsTheTable) {
  const test::SoftwareDevice device;
  EXPECT_STREQ(library().name, "software device");
  EXPECT_NE(std::string(library().wc_status_str(IBV_WC_RETRY_EXC_ERR)).find("retr"), std::string::npos);
}

}  // namespace
}  // namespace railwise::verbs
