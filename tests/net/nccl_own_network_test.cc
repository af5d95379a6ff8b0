#include "net/nccl_own_network.h"

#include "tests/ok.h"

namespace railwise::net {
namespace {

const DescribedDevice kWithGpuDirect = {"mlx5_0", true};
const DescribedDevice kWithout = {"mlx5_1", false};

TEST(NcclsOwnNetwork, NamesTheDevicesAndTheRemedy) {
  const DescribedDevice devices[] = {kWithGpuDirect, kWithout};
  const std::string note = ownNetworkNote({}, true, devices);
  EXPECT_HAS(note, "describes mlx5_0, mlx5_1 by its own IB network");
  EXPECT_HAS(note, "NCCL_IB_DISABLE=1 RAILWISE_DEVICE=verbs");
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
