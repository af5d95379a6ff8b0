// Whose rules the plugin follows: a stand-in for NCCL's library tells its release (fake_nccl.c).
#include <dlfcn.h>
#include <gtest/gtest.h>

#include "net/topology/in_use.h"

namespace railwise::net {
namespace {

TEST(NcclInUse, TheReleaseOfTheLoadedLibrary) {
  EXPECT_FALSE(ncclInUse().has_value()) << "a library that nobody has loaded is not loaded";
  EXPECT_EQ(rulesInUse(), topo::NcclVersion::kNewest);
  void* const library = dlopen(FAKE_NCCL, RTLD_NOW | RTLD_LOCAL);  // as Python does it
  ASSERT_NE(library, nullptr) << dlerror();
  const auto set_release = reinterpret_cast<void (*)(int)>(dlsym(library, "fakeNcclRelease"));
  EXPECT_EQ(ncclInUse(), topo::NcclVersion::k2_31);
  set_release(23007);
  EXPECT_EQ(rulesInUse(), topo::NcclVersion::k2_30);
  set_release(23206);
  EXPECT_EQ(ncclInUse(), topo::NcclVersion{23206});
  EXPECT_EQ(rulesInUse(), topo::NcclVersion::kNewest);
  set_release(0);
  EXPECT_FALSE(ncclInUse().has_value());
  dlclose(library);
  EXPECT_FALSE(ncclInUse().has_value());
}

}  // namespace
}  // namespace railwise::net
