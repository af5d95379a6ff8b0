#include "verbs/memory_region.h"

#include <sys/resource.h>

#include <cerrno>

#include "software_device.h"
#include "tests/ok.h"
#include "tests/said.h"

namespace railwise::verbs {
namespace {

struct RegionBench {
  explicit RegionBench(const std::string& more = "")
      : device(more), context(device.open()), pd(library().alloc_pd(context.get())) {}

  test::Said said;
  test::SoftwareDevice device;
  Context context;
  Pd pd;
  alignas(4096) char page[4096] = {};
};

TEST(RegisterMemory, NoLockableMemoryNamesTheLimitAndTheRemedy) {
  RegionBench bench("fault=verb=reg_mr errno=ENOMEM");
  rlimit limit = {};
  getrlimit(RLIMIT_MEMLOCK, &limit);
  const Status status = registerMemory(bench.pd.get(), bench.page, sizeof bench.page, kDataAccess).status();
  EXPECT_EQ(status.sys_errno, ENOMEM);
  const std::string shown =
      limit.rlim_cur == RLIM_INFINITY ? "unlimited" : std::to_string(limit.rlim_cur / 1024) + " KiB";
  for (const std::string& part : {std::string("soft0"), std::string("4096 bytes"), "the limit is " + shown,
                                  std::string("memlock=-1"), std::string("ulimit -l unlimited")})
    EXPECT_HAS(bench.said.warnings(), part);
}

TEST(RegisterMemory, RelaxedOrderingIsTakenByTheDevice) {
  const RegionBench bench;
  Config config = bench.device.config();
  EXPECT_EQ(relaxedOrdering(config), kRelaxedOrdering);
  const int access = kDataAccess | relaxedOrdering(config);
  EXPECT_OK(registerMemory(bench.pd.get(), const_cast<char*>(bench.page), sizeof bench.page, access));
  config.ib_pci_relaxed_ordering = 0;
  EXPECT_EQ(relaxedOrdering(config), 0);
}

TEST(DmaBufSupported, IsTheDevicesAnswer) {
  EXPECT_TRUE(dmaBufSupported(RegionBench().pd.get()));
  EXPECT_FALSE(dmaBufSupported(RegionBench("dmabuf=off").pd.get()));
}

}  // namespace
}  // namespace railwise::verbs
