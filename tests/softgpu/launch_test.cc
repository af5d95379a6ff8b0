#include "softgpu/checks.h"

namespace softgpu {
namespace {

char unknown_kernel;

TEST(SoftgpuLaunch, RunsTheBodyOnItsStream) {
  defineAdd();
  int* const at = onDevice<int>(1);
  cudaStream_t stream = nullptr;
  ASSERT_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  ASSERT_CUDA(launchAdd(at, 2, stream));
  ASSERT_CUDA(launchAdd(at, 3, stream));
  ASSERT_TRUE(finished(stream));
  EXPECT_EQ(5, *at);
}

TEST(SoftgpuLaunch, ASecondDefinitionReplacesTheFirst) {
  defineAdd();
  constexpr size_t kBytes[] = {sizeof(int*), sizeof(int)};
  softgpuDefineKernel(&add_kernel, "subtract", kBytes, 2, [](const Launch& launch) {
    **static_cast<int* const*>(launch.parameters[0]) -= *static_cast<const int*>(launch.parameters[1]);
  });
  int* const at = onDevice<int>(1);
  ASSERT_CUDA(launchAdd(at, 2, nullptr));
  ASSERT_TRUE(finished(nullptr));
  EXPECT_EQ(-2, *at);
}

TEST(SoftgpuLaunch, NamesAnUndefinedKernelOnce) {
  testing::internal::CaptureStderr();
  EXPECT_EQ(cudaErrorInvalidDeviceFunction,
            cudaLaunchKernel(&unknown_kernel, dim3(1), dim3(1), nullptr, 0, nullptr));
  cudaFunction_t function = nullptr;
  EXPECT_EQ(cudaErrorInvalidDeviceFunction, cudaGetFuncBySymbol(&function, &unknown_kernel));
  cudaFuncAttributes attributes = {};
  EXPECT_EQ(cudaErrorInvalidDeviceFunction, cudaFuncGetAttributes(&attributes, &unknown_kernel));
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_EQ(0U, said.find("softgpu: no body is defined for the kernel ")) << said;
  EXPECT_EQ(said.size() - 1, said.find('\n')) << said;
}

TEST(SoftgpuLaunch, RefusesAnEmptyGrid) {
  defineAdd();
  int* at = onDevice<int>(1);
  int step = 1;
  void* parameters[] = {&at, &step};
  EXPECT_EQ(cudaErrorInvalidConfiguration,
            cudaLaunchKernel(&add_kernel, dim3(0), dim3(1), parameters, 0, nullptr));
}

}  // namespace
}  // namespace softgpu
