#include "softgpu/description.h"

#include <gtest/gtest.h>

namespace softgpu {
namespace {

using Numbers = std::vector<size_t>;

TEST(SoftgpuDescription, VisibleDevicesAsCudaReadsThem) {
  EXPECT_EQ((Numbers{0, 1, 2}), visibleGpus(nullptr, 3));
  EXPECT_EQ((Numbers{2, 0}), visibleGpus("2,0", 3));
  EXPECT_EQ((Numbers{1}), visibleGpus("1,7,2", 3));  // ends at the first that is not there
  EXPECT_EQ((Numbers{1}), visibleGpus("1,-1,2", 3));
  EXPECT_EQ(Numbers{}, visibleGpus("", 3));
  EXPECT_EQ(Numbers{}, visibleGpus("x", 3));
  EXPECT_EQ(Numbers{}, visibleGpus("1,1", 3));
}

TEST(SoftgpuDescription, BusIdsHaveOneSpelling) {
  EXPECT_EQ("0000:1b:00.0", normalBusId("00000000:1B:00.0"));
  EXPECT_EQ("ff00:01:1f.7", normalBusId("ff00:1:1f.7"));
  EXPECT_EQ("", normalBusId("fffffff:ffff:ff"));
  EXPECT_EQ("", normalBusId("0000:1b:00.0 "));
  EXPECT_EQ("", normalBusId(""));
}

}  // namespace
}  // namespace softgpu
