#include "softgpu/checks.h"

namespace softgpu {
namespace {

TEST(SoftgpuErrors, TheLastErrorIsOfTheThread) {
  EXPECT_EQ(cudaErrorInvalidDevice, cudaSetDevice(99));
  EXPECT_EQ(cudaErrorInvalidDevice, cudaPeekAtLastError());
  cudaError_t elsewhere = cudaErrorUnknown;
  std::thread([&elsewhere] { elsewhere = cudaGetLastError(); }).join();
  EXPECT_EQ(cudaSuccess, elsewhere);
  EXPECT_EQ(cudaErrorInvalidDevice, cudaGetLastError());
  EXPECT_EQ(cudaSuccess, cudaGetLastError());
}

TEST(SoftgpuErrors, HaveNamesAndTexts) {
  EXPECT_STREQ("cudaErrorNotReady", cudaGetErrorName(cudaErrorNotReady));
  EXPECT_STREQ("out of memory", cudaGetErrorString(cudaErrorMemoryAllocation));
  EXPECT_STREQ("unrecognized error code", cudaGetErrorString(static_cast<cudaError_t>(5000)));
  const char* text = nullptr;
  ASSERT_EQ(CUDA_SUCCESS,
            driver<decltype(&cuGetErrorString)>("cuGetErrorString")(CUDA_ERROR_NOT_SUPPORTED, &text));
  EXPECT_STREQ("operation not supported", text);
}

TEST(SoftgpuErrors, NamesWhatIsNotImplementedOnce) {
  testing::internal::CaptureStderr();
  int value = 0;
  EXPECT_EQ(cudaErrorNotSupported, cudaDeviceGetAttribute(&value, cudaDevAttrMaxTexture1DWidth, 0));
  EXPECT_EQ(cudaErrorNotSupported, cudaDeviceGetAttribute(&value, cudaDevAttrMaxTexture1DWidth, 0));
  cudaEvent_t event = nullptr;
  EXPECT_EQ(cudaErrorNotSupported,
            cudaEventCreateWithFlags(&event, cudaEventInterprocess | cudaEventDisableTiming));
  EXPECT_EQ(
      "softgpu: cudaDeviceGetAttribute of 21 is not implemented by the software GPU\n"
      "softgpu: cudaEventInterprocess is not implemented by the software GPU\n",
      testing::internal::GetCapturedStderr());
}

TEST(SoftgpuErrors, AnUnknownDriverFunctionIsNotFound) {
  void* function = &function;
#if CUDART_VERSION >= 12000
  cudaDriverEntryPointQueryResult result = cudaDriverEntryPointSuccess;
#if CUDART_VERSION >= 12050
  EXPECT_CUDA(
      cudaGetDriverEntryPointByVersion("cuMemPrefetchAsync", &function, 13000, cudaEnableDefault, &result));
#else
  EXPECT_CUDA(cudaGetDriverEntryPoint("cuMemPrefetchAsync", &function, cudaEnableDefault, &result));
#endif
  EXPECT_EQ(cudaDriverEntryPointSymbolNotFound, result);
#else
  EXPECT_EQ(cudaErrorSymbolNotFound,
            cudaGetDriverEntryPoint("cuMemPrefetchAsync", &function, cudaEnableDefault));
#endif
  EXPECT_EQ(nullptr, function);
}

}  // namespace
}  // namespace softgpu
