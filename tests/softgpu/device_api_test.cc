// Each test has a process of its own, which reads the environment once.
#include <cstdlib>
#include <string>
#include <vector>

#include "softgpu/checks.h"

namespace softgpu {
namespace {

const std::vector<std::string> kDgx = {"0000:1b:00.0", "0000:43:00.0", "0000:52:00.0", "0000:61:00.0",
                                       "0000:9d:00.0", "0000:c3:00.0", "0000:d1:00.0", "0000:df:00.0"};

std::vector<std::string> busIds() {
  int count = 0;
  (void)cudaGetDeviceCount(&count);
  std::vector<std::string> ids;
  for (int i = 0; i < count; ++i) {
    char id[32] = {};
    EXPECT_CUDA(cudaDeviceGetPCIBusId(id, sizeof id, i));
    ids.emplace_back(id);
  }
  return ids;
}

void useMachine(const char* device) {
  setenv("RAILWISE_DEVICE", device, 1);
  unsetenv("CUDA_VISIBLE_DEVICES");
}

TEST(SoftgpuDevice, MachineDgxHasEight) {
  useMachine("software:@dgx#A");
  EXPECT_EQ(kDgx, busIds());
  int number = -1;
  ASSERT_CUDA(cudaDeviceGetByPCIBusId(&number, "00000000:D1:00.0"));
  EXPECT_EQ(6, number);
  EXPECT_EQ(cudaErrorInvalidDevice, cudaDeviceGetByPCIBusId(&number, "0000:d2:00.0"));
  cudaDeviceProp properties;
  ASSERT_CUDA(cudaGetDeviceProperties(&properties, 6));
  EXPECT_EQ(9, properties.major);
  EXPECT_EQ(0, properties.minor);
  EXPECT_EQ(0xd1, properties.pciBusID);
#if CUDART_VERSION >= 12000
  EXPECT_EQ(1, properties.gpuDirectRDMASupported);
#endif
#if CUDART_VERSION >= 12020
  int numa = -2;
  ASSERT_CUDA(cudaDeviceGetAttribute(&numa, cudaDevAttrHostNumaId, 6));
  EXPECT_EQ(1, numa);
#endif
}

TEST(SoftgpuDevice, VisibleDevicesAreHonoured) {
  useMachine("software:@dgx#B");
  setenv("CUDA_VISIBLE_DEVICES", "5,2", 1);
  EXPECT_EQ((std::vector<std::string>{kDgx[5], kDgx[2]}), busIds());
}

TEST(SoftgpuDevice, NoneMayBeVisible) {
  setenv("CUDA_VISIBLE_DEVICES", "-1", 1);
  int count = -1;
  EXPECT_EQ(cudaErrorNoDevice, cudaGetDeviceCount(&count));
  EXPECT_EQ(0, count);
  void* at = nullptr;
  EXPECT_EQ(cudaErrorNoDevice, cudaMalloc(&at, 1));
}

TEST(SoftgpuDevice, WithoutAMachineTheyAreInvented) {
  useMachine("");
  setenv("SOFTGPU_COUNT", "3", 1);
  setenv("SOFTGPU_SM", "80", 1);
  setenv("SOFTGPU_MEMORY", "64", 1);
  EXPECT_EQ((std::vector<std::string>{"ff00:01:00.0", "ff00:02:00.0", "ff00:03:00.0"}), busIds());
  int major = 0;
  ASSERT_CUDA(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 2));
  EXPECT_EQ(8, major);
  size_t total = 0;
  ASSERT_CUDA(cudaMemGetInfo(nullptr, &total));
  EXPECT_EQ(64U << 20, total);
}

TEST(SoftgpuDevice, AThreadHasItsOwn) {
  useMachine("software:@dgx#A");
  ASSERT_CUDA(cudaSetDevice(3));
  int elsewhere = -1;
  std::thread([&elsewhere] { EXPECT_CUDA(cudaGetDevice(&elsewhere)); }).join();
  EXPECT_EQ(0, elsewhere);
  int here = -1;
  ASSERT_CUDA(cudaGetDevice(&here));
  EXPECT_EQ(3, here);
  cudaPointerAttributes attributes = {};
  ASSERT_CUDA(cudaPointerGetAttributes(&attributes, onDevice<char>(1)));
  EXPECT_EQ(3, attributes.device);
  CUcontext context = nullptr;
  ASSERT_EQ(CUDA_SUCCESS, driver<decltype(&cuCtxGetCurrent)>("cuCtxGetCurrent")(&context));
  ASSERT_CUDA(cudaSetDevice(4));
  ASSERT_EQ(CUDA_SUCCESS, driver<decltype(&cuCtxSetCurrent)>("cuCtxSetCurrent")(context));
  ASSERT_CUDA(cudaGetDevice(&here));
  EXPECT_EQ(3, here);
}

TEST(SoftgpuDevice, PeersAreReached) {
  useMachine("software:@dgx#A");
  int can = -1;
  ASSERT_CUDA(cudaDeviceCanAccessPeer(&can, 0, 7));
  EXPECT_EQ(1, can);
  ASSERT_CUDA(cudaDeviceCanAccessPeer(&can, 2, 2));
  EXPECT_EQ(0, can);
  EXPECT_CUDA(cudaDeviceEnablePeerAccess(7, 0));
  EXPECT_EQ(cudaErrorPeerAccessAlreadyEnabled, cudaDeviceEnablePeerAccess(7, 0));
}

TEST(SoftgpuDevice, HasTheVersionOfItsHeaders) {
  int runtime = 0;
  int driver_version = 0;
  ASSERT_CUDA(cudaRuntimeGetVersion(&runtime));
  ASSERT_CUDA(cudaDriverGetVersion(&driver_version));
  EXPECT_EQ(CUDART_VERSION, runtime);
  EXPECT_EQ(CUDART_VERSION, driver_version);
}

// What NCCL looks at: cuMem or the older ways, dma-buf, and what the software GPU does without.
TEST(SoftgpuDevice, OffersDmabufAndCumemButNoMulticast) {
  const auto attribute = driver<decltype(&cuDeviceGetAttribute)>("cuDeviceGetAttribute");
  const auto valueOf = [attribute](int number) {
    int value = -1;
    EXPECT_EQ(CUDA_SUCCESS, attribute(&value, static_cast<CUdevice_attribute>(number), 0));
    return value;
  };
  EXPECT_EQ(1, valueOf(CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED));
  EXPECT_EQ(1, valueOf(CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED));
  EXPECT_EQ(1, valueOf(CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED));
  EXPECT_EQ(1, valueOf(CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED));
  EXPECT_EQ(1, valueOf(CU_DEVICE_ATTRIBUTE_CAN_FLUSH_REMOTE_WRITES));
  EXPECT_EQ(1, valueOf(122));  // CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS, CUDA 11.7
  EXPECT_EQ(0, valueOf(128));  // CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED, CUDA 12.4
  EXPECT_EQ(0, valueOf(132));  // CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED, CUDA 12.1
}

TEST(SoftgpuDevice, HasOneContext) {
  const auto retain = driver<decltype(&cuDevicePrimaryCtxRetain)>("cuDevicePrimaryCtxRetain");
  const auto release = driver<CUresult (*)(CUdevice)>("cuDevicePrimaryCtxRelease");
  CUcontext primary = nullptr;
  CUcontext current = nullptr;
  ASSERT_EQ(CUDA_SUCCESS, retain(&primary, 0));
  ASSERT_EQ(CUDA_SUCCESS, driver<decltype(&cuCtxGetCurrent)>("cuCtxGetCurrent")(&current));
  EXPECT_EQ(current, primary);
  EXPECT_EQ(CUDA_SUCCESS, release(0));
  EXPECT_EQ(CUDA_ERROR_INVALID_DEVICE, retain(&primary, 999));
  EXPECT_EQ(CUDA_ERROR_INVALID_DEVICE, release(999));
}

}  // namespace
}  // namespace softgpu
