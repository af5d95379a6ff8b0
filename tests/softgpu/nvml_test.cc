// libnvidia-ml.so.1 as NCCL opens it.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "softgpu/nvml_api.h"

namespace softgpu {
namespace {

class SoftgpuNvml : public testing::Test {
 protected:
  void SetUp() override {
    setenv("RAILWISE_DEVICE", "software:@dgx#A", 1);
    setenv("CUDA_VISIBLE_DEVICES", "3", 1);  // NVML does not mind
    library_ = dlopen(SOFTGPU_NVML_PATH, RTLD_NOW);
    ASSERT_NE(nullptr, library_) << dlerror();
  }
  template <typename... Arguments>
  nvmlReturn_t call(const char* name, Arguments... arguments) {
    auto* const function = reinterpret_cast<nvmlReturn_t (*)(Arguments...)>(dlsym(library_, name));
    EXPECT_NE(nullptr, reinterpret_cast<void*>(function)) << name;
    return function != nullptr ? function(arguments...) : NVML_ERROR_UNKNOWN;
  }
  nvmlDevice_t device(unsigned index) {
    nvmlDevice_t handle = nullptr;
    EXPECT_EQ(NVML_SUCCESS, call("nvmlDeviceGetHandleByIndex", index, &handle));
    return handle;
  }
  void* library_ = nullptr;
};

TEST_F(SoftgpuNvml, WantsToBeInitialized) {
  unsigned count = 0;
  EXPECT_EQ(NVML_ERROR_UNINITIALIZED, call("nvmlDeviceGetCount_v2", &count));
  ASSERT_EQ(NVML_SUCCESS, call("nvmlInit_v2"));
  ASSERT_EQ(NVML_SUCCESS, call("nvmlDeviceGetCount_v2", &count));
  EXPECT_EQ(8U, count);
  EXPECT_EQ(NVML_SUCCESS, call("nvmlShutdown"));
  EXPECT_EQ(NVML_ERROR_UNINITIALIZED, call("nvmlShutdown"));
}

TEST_F(SoftgpuNvml, FindsAGpuByItsAddress) {
  ASSERT_EQ(NVML_SUCCESS, call("nvmlInit_v2"));
  nvmlDevice_t handle = nullptr;
  ASSERT_EQ(NVML_SUCCESS, call("nvmlDeviceGetHandleByPciBusId", "0000:43:00.0", &handle));
  unsigned index = 99;
  ASSERT_EQ(NVML_SUCCESS, call("nvmlDeviceGetIndex", handle, &index));
  EXPECT_EQ(1U, index);
  EXPECT_EQ(NVML_ERROR_NOT_FOUND, call("nvmlDeviceGetHandleByPciBusId", "0000:44:00.0", &handle));
  int major = 0;
  int minor = -1;
  ASSERT_EQ(NVML_SUCCESS, call("nvmlDeviceGetCudaComputeCapability", handle, &major, &minor));
  EXPECT_EQ(9, major);
  EXPECT_EQ(0, minor);
  nvmlPciInfo_t info = {};
  ASSERT_EQ(NVML_SUCCESS, call("nvmlDeviceGetPciInfo_v3", handle, &info));
  EXPECT_STREQ("00000000:43:00.0", info.busId);
  EXPECT_EQ(0x233010deU, info.pciDeviceId);
}

// A DGX has 18 links of each GPU to NVSwitches.
TEST_F(SoftgpuNvml, ShowsTheNvlinksOfTheMachine) {
  ASSERT_EQ(NVML_SUCCESS, call("nvmlInit_v2"));
  const nvmlDevice_t gpu = device(0);
  nvmlFieldValue_t field = {};
  field.fieldId = NVML_FI_DEV_NVLINK_LINK_COUNT;
  ASSERT_EQ(NVML_SUCCESS, call("nvmlDeviceGetFieldValues", gpu, 1, &field));
  ASSERT_EQ(NVML_SUCCESS, field.nvmlReturn);
  EXPECT_EQ(18U, field.value.uiVal);
  unsigned links = 0;
  for (unsigned link = 0; link < 20; ++link) {
    unsigned can = 0;
    if (call("nvmlDeviceGetNvLinkCapability", gpu, link, NVML_NVLINK_CAP_P2P_SUPPORTED, &can) != NVML_SUCCESS)
      continue;
    EXPECT_EQ(1U, can);
    field.fieldId = NVML_FI_DEV_NVLINK_GET_STATE;
    field.scopeId = link;
    ASSERT_EQ(NVML_SUCCESS, call("nvmlDeviceGetFieldValues", gpu, 1, &field));
    EXPECT_EQ(NVML_FEATURE_ENABLED, field.value.uiVal);
    nvmlPciInfo_v1_t remote = {};
    ASSERT_EQ(NVML_SUCCESS, call("nvmlDeviceGetNvLinkRemotePciInfo", gpu, link, &remote));
    EXPECT_NE(0, remote.busId[0]);
    auto type = NVML_NVLINK_DEVICE_TYPE_GPU;
    ASSERT_EQ(NVML_SUCCESS, call("nvmlDeviceGetNvLinkRemoteDeviceType", gpu, link, &type));
    EXPECT_EQ(NVML_NVLINK_DEVICE_TYPE_SWITCH, type);
    ++links;
  }
  EXPECT_EQ(18U, links);
  nvmlGpuP2PStatus_t status = NVML_P2P_STATUS_NOT_SUPPORTED;
  ASSERT_EQ(NVML_SUCCESS,
            call("nvmlDeviceGetP2PStatus", gpu, device(7), NVML_P2P_CAPS_INDEX_NVLINK, &status));
  EXPECT_EQ(NVML_P2P_STATUS_OK, status);
}

TEST_F(SoftgpuNvml, AFieldThatItDoesNotKnowIsNotSupported) {
  ASSERT_EQ(NVML_SUCCESS, call("nvmlInit_v2"));
  nvmlFieldValue_t field = {};
  field.fieldId = 1;
  ASSERT_EQ(NVML_SUCCESS, call("nvmlDeviceGetFieldValues", device(0), 1, &field));
  EXPECT_EQ(NVML_ERROR_NOT_SUPPORTED, field.nvmlReturn);
}

// Hopper behind NVSwitches: registered, and in no cluster of hosts, so NCCL takes it for no MNNVL.
TEST_F(SoftgpuNvml, RegistersAGpuBehindSwitchesInNoCluster) {
  ASSERT_EQ(NVML_SUCCESS, call("nvmlInit_v2"));
  nvmlGpuFabricInfo_v2_t info;
  std::memset(&info, 0xff, sizeof info);
  EXPECT_EQ(NVML_ERROR_ARGUMENT_VERSION_MISMATCH, call("nvmlDeviceGetGpuFabricInfoV", device(0), &info));
  info.version = nvmlVersion<nvmlGpuFabricInfo_v2_t>(2);
  ASSERT_EQ(NVML_SUCCESS, call("nvmlDeviceGetGpuFabricInfoV", device(0), &info));
  EXPECT_EQ(NVML_GPU_FABRIC_STATE_COMPLETED, info.state);
  EXPECT_EQ(NVML_SUCCESS, info.status);
  EXPECT_EQ(std::string(16, '\0'), std::string(reinterpret_cast<char*>(info.clusterUuid), 16));
  EXPECT_EQ(0U, info.cliqueId);
  EXPECT_EQ(0U, info.healthMask);
  EXPECT_EQ(NVML_ERROR_NOT_SUPPORTED,
            call("nvmlDeviceGetPlatformInfo", device(0), static_cast<nvmlPlatformInfo_v2_t*>(nullptr)));
}

TEST_F(SoftgpuNvml, RegistersNoGpuThatIsLinkedToItsPeers) {
  setenv("RAILWISE_DEVICE", "software:@nvlink-mesh", 1);
  setenv("SOFTGPU_SM", "90", 1);
  ASSERT_EQ(NVML_SUCCESS, call("nvmlInit_v2"));
  nvmlGpuFabricInfo_v2_t info = {};
  info.version = nvmlVersion<nvmlGpuFabricInfo_v2_t>(2);
  ASSERT_EQ(NVML_SUCCESS, call("nvmlDeviceGetGpuFabricInfoV", device(0), &info));
  EXPECT_EQ(NVML_GPU_FABRIC_STATE_NOT_SUPPORTED, info.state);
  auto type = NVML_NVLINK_DEVICE_TYPE_SWITCH;
  ASSERT_EQ(NVML_SUCCESS, call("nvmlDeviceGetNvLinkRemoteDeviceType", device(0), 0U, &type));
  EXPECT_EQ(NVML_NVLINK_DEVICE_TYPE_GPU, type);
}

TEST_F(SoftgpuNvml, RegistersNoGpuOlderThanHopper) {
  setenv("SOFTGPU_SM", "80", 1);
  ASSERT_EQ(NVML_SUCCESS, call("nvmlInit_v2"));
  nvmlGpuFabricInfo_v2_t info = {};
  info.version = nvmlVersion<nvmlGpuFabricInfo_v2_t>(2);
  ASSERT_EQ(NVML_SUCCESS, call("nvmlDeviceGetGpuFabricInfoV", device(0), &info));
  EXPECT_EQ(NVML_GPU_FABRIC_STATE_NOT_SUPPORTED, info.state);
}

TEST_F(SoftgpuNvml, TellsThePciAddressInTheStructureWithAVersion) {
  ASSERT_EQ(NVML_SUCCESS, call("nvmlInit_v2"));
  nvmlPciInfoExt_v1_t info = {};
  EXPECT_EQ(NVML_ERROR_ARGUMENT_VERSION_MISMATCH, call("nvmlDeviceGetPciInfoExt", device(1), &info));
  info.version = nvmlVersion<nvmlPciInfoExt_v1_t>(1);
  EXPECT_EQ(0x1000040U, info.version);  // as NCCL 2.31 computes it
  ASSERT_EQ(NVML_SUCCESS, call("nvmlDeviceGetPciInfoExt", device(1), &info));
  EXPECT_STREQ("00000000:43:00.0", info.busId);
  EXPECT_EQ(0x43U, info.bus);
  EXPECT_EQ(0x233010deU, info.pciDeviceId);
  EXPECT_EQ(0x302U, info.baseClass << 8 | info.subClass);
}

TEST_F(SoftgpuNvml, SaysThatAllIsWellWithLinkMemoryAndSystem) {
  ASSERT_EQ(NVML_SUCCESS, call("nvmlInit_v2"));
  unsigned speed = 0;
  ASSERT_EQ(NVML_SUCCESS, call("nvmlDeviceGetPcieLinkMaxSpeed", device(0), &speed));
  EXPECT_EQ(4U, speed);  // 16 GT/s, where no /sys tells the speed
  unsigned generation = 0;
  ASSERT_EQ(NVML_SUCCESS, call("nvmlDeviceGetCurrPcieLinkGeneration", device(0), &generation));
  EXPECT_EQ(4U, generation);
  unsigned long long errors = 9;
  ASSERT_EQ(NVML_SUCCESS,
            call("nvmlDeviceGetMemoryErrorCounter", device(0), NVML_MEMORY_ERROR_TYPE_UNCORRECTED,
                 NVML_VOLATILE_ECC, NVML_MEMORY_LOCATION_DRAM, &errors));
  EXPECT_EQ(0U, errors);
  nvmlConfComputeSystemState_t state = {9, 9, 9};
  ASSERT_EQ(NVML_SUCCESS, call("nvmlSystemGetConfComputeState", &state));
  EXPECT_EQ(0U, state.ccFeature);
  nvmlSystemConfComputeSettings_v1_t settings = {0, 9, 9, 9, 9};
  EXPECT_EQ(NVML_ERROR_ARGUMENT_VERSION_MISMATCH, call("nvmlSystemGetConfComputeSettings", &settings));
  settings.version = nvmlVersion<nvmlSystemConfComputeSettings_v1_t>(1);
  ASSERT_EQ(NVML_SUCCESS, call("nvmlSystemGetConfComputeSettings", &settings));
  EXPECT_EQ(0U, settings.ccFeature);
  EXPECT_EQ(0U, settings.multiGpuMode);
}

}  // namespace
}  // namespace softgpu
