#include "net/nccl_own_network.h"

#include <gtest/gtest.h>

namespace railwise::net {
namespace {

const DescribedDevice kWithGpuDirect = {"mlx5_0", true};
const DescribedDevice kWithout = {"mlx5_1", false};

TEST(NcclsOwnNetwork, NamesTheDevicesAndTheRemedy) {
  const DescribedDevice devices[] = {kWithGpuDirect, kWithout};
  const std::string note = ownNetworkNote({}, true, devices);
  EXPECT_NE(note.find("describes mlx5_0, mlx5_1 by its own IB network"), std::string::npos) << note;
  EXPECT_NE(note.find("NCCL_IB_DISABLE=1 RAILWISE_DEVICE=verbs"), std::string::npos) << note;
}

TEST(NcclsOwnNetwork, IsNotThereWithoutGpuDirect) {
  const DescribedDevice devices[] = {kWithout};
  EXPECT_EQ(ownNetworkNote({}, true, devices), "");
}

TEST(NcclsOwnNetwork, DoesNotSeeTheSoftwareDevice) {
  const DescribedDevice devices[] = {kWithGpuDirect};
  EXPECT_EQ(ownNetworkNote({}, false, devices), "");
}

TEST(NcclsOwnNetwork, CanBeSwitchedOff) {
  const DescribedDevice devices[] = {kWithGpuDirect};
  Config config;
  config.ib_disable = 1;
  EXPECT_EQ(ownNetworkNote(config, true, devices), "");
}

}  // namespace
}  // namespace railwise::net
