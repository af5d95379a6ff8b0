#include <cstring>

#include "checks.h"

namespace softgpu {
namespace {

char buffer_kernel;

// NCCL's way: the function of a symbol, and all parameters in one buffer.
TEST(SoftgpuDriverStream, LaunchesWithABuffer) {
  static Launch seen;
  static int copied = 0;
  softgpuDefineKernel(&buffer_kernel, "buffer", nullptr, 0, [](const Launch& launch) {
    seen = launch;
    std::memcpy(&copied, launch.parameters[0], sizeof copied);
  });
  cudaFunction_t function = nullptr;
  ASSERT_CUDA(cudaGetFuncBySymbol(&function, &buffer_kernel));
  cudaStream_t stream = nullptr;
  ASSERT_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  Gate gate;
  gate.close(stream);
  int arguments[4] = {77, 0, 0, 0};
  size_t bytes = sizeof arguments;
  void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, arguments, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes,
                   CU_LAUNCH_PARAM_END};
  CUlaunchConfig config = {};
  config.gridDimX = 3;
  config.gridDimY = 2;
  config.gridDimZ = 1;
  config.blockDimX = 96;
  config.blockDimY = 1;
  config.blockDimZ = 1;
  config.hStream = stream;
  const auto launch = driver<decltype(&cuLaunchKernelEx)>("cuLaunchKernelEx");
  ASSERT_EQ(CUDA_SUCCESS, launch(&config, reinterpret_cast<CUfunction>(function), nullptr, extra));
  arguments[0] = 0;
  gate.open();
  ASSERT_TRUE(finished(stream));
  EXPECT_EQ(77, copied);
  EXPECT_EQ(sizeof arguments, seen.buffer_bytes);
  EXPECT_EQ(6U, seen.blocks);
  EXPECT_EQ(96U, seen.threads);
  EXPECT_EQ(0, seen.device);
}

TEST(SoftgpuDriverStream, WaitsForAValueAndWritesOne) {
  cudaStream_t waiting = nullptr;
  cudaStream_t writing = nullptr;
  ASSERT_CUDA(cudaStreamCreateWithFlags(&waiting, cudaStreamNonBlocking));
  ASSERT_CUDA(cudaStreamCreateWithFlags(&writing, cudaStreamNonBlocking));
  auto* const at = onDevice<uint64_t>(2);
  const auto address = [at](size_t index) { return reinterpret_cast<CUdeviceptr>(&at[index]); };
  const auto wait = driver<decltype(&cuStreamWaitValue64)>("cuStreamWaitValue64");
  const auto write = driver<decltype(&cuStreamWriteValue64)>("cuStreamWriteValue64");
  ASSERT_EQ(CUDA_SUCCESS, wait(waiting, address(0), 5, CU_STREAM_WAIT_VALUE_GEQ));
  ASSERT_EQ(CUDA_SUCCESS, write(waiting, address(1), 1, 0));
  ASSERT_EQ(CUDA_SUCCESS, write(writing, address(0), 4, 0));
  ASSERT_TRUE(finished(writing));
  EXPECT_EQ(cudaErrorNotReady, cudaStreamQuery(waiting));
  EXPECT_EQ(0U, at[1]);
  ASSERT_EQ(CUDA_SUCCESS, write(writing, address(0), 6, 0));
  ASSERT_TRUE(finished(waiting));
  EXPECT_EQ(1U, at[1]);
}

TEST(SoftgpuDriverStream, SeveralOperationsAtOnce) {
  cudaStream_t stream = nullptr;
  ASSERT_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  auto* const at = onDevice<uint32_t>(1);
  CUstreamBatchMemOpParams operations[2] = {};
  operations[0].writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
  operations[0].writeValue.address = reinterpret_cast<CUdeviceptr>(at);
  operations[0].writeValue.value = 12;
  operations[1].waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
  operations[1].waitValue.address = reinterpret_cast<CUdeviceptr>(at);
  operations[1].waitValue.value = 12;
  operations[1].waitValue.flags = CU_STREAM_WAIT_VALUE_EQ;
  const auto batch = driver<decltype(&cuStreamBatchMemOp)>("cuStreamBatchMemOp");
  ASSERT_EQ(CUDA_SUCCESS, batch(stream, 2, operations, 0));
  EXPECT_TRUE(finished(stream));
  EXPECT_EQ(12U, *at);
}

}  // namespace
}  // namespace softgpu
