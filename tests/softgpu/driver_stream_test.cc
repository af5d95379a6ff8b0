#include <cstring>
#include <vector>

#include "softgpu/checks.h"

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

// NCCL's put and wait in a graph: each launch waits for a value of its own, and puts the word back.
TEST(SoftgpuDriverStream, ABatchIsOneNodeOfAGraph) {
  cudaStream_t stream = nullptr;
  ASSERT_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  auto* const at = onDevice<uint64_t>(2);
  CUstreamBatchMemOpParams operations[3] = {};
  operations[0].waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_64;
  operations[0].waitValue.address = reinterpret_cast<CUdeviceptr>(&at[0]);
  operations[0].waitValue.value64 = 1;
  operations[0].waitValue.flags = CU_STREAM_WAIT_VALUE_GEQ | CU_STREAM_WAIT_VALUE_FLUSH;
  operations[1].writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_64;
  operations[1].writeValue.address = reinterpret_cast<CUdeviceptr>(&at[0]);
  operations[1].writeValue.flags = CU_STREAM_WRITE_VALUE_DEFAULT;
  operations[2].operation = CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES;
  const auto batch = driver<decltype(&cuStreamBatchMemOp)>("cuStreamBatchMemOp");
  ASSERT_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
  ASSERT_EQ(CUDA_SUCCESS, batch(stream, 3, operations, 0));
  ASSERT_CUDA(cudaMemcpyAsync(&at[1], &at[0], sizeof *at, cudaMemcpyDeviceToDevice, stream));
  cudaGraph_t graph = nullptr;
  ASSERT_CUDA(cudaStreamEndCapture(stream, &graph));
  size_t nodes = 0;
  ASSERT_CUDA(cudaGraphGetNodes(graph, nullptr, &nodes));
  EXPECT_EQ(2U, nodes);
  cudaGraphExec_t exec = nullptr;
  ASSERT_CUDA(cudaGraphInstantiateWithFlags(&exec, graph, 0));
  for (int launch = 0; launch < 3; ++launch) {
    std::atomic_ref(at[1]).store(77);
    ASSERT_CUDA(cudaGraphLaunch(exec, stream));
    EXPECT_EQ(cudaErrorNotReady, cudaStreamQuery(stream));
    std::atomic_ref(at[0]).store(1);
    ASSERT_TRUE(finished(stream));
    EXPECT_EQ(0U, at[0]);
    EXPECT_EQ(0U, at[1]);
  }
}

TEST(SoftgpuDriverStream, ComparesRoundTheEndOfTheNumbers) {
  cudaStream_t stream = nullptr;
  ASSERT_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  auto* const at = onDevice<uint64_t>(1);
  const auto address = reinterpret_cast<CUdeviceptr>(at);
  const auto wait64 = driver<decltype(&cuStreamWaitValue64)>("cuStreamWaitValue64");
  const auto wait32 = driver<decltype(&cuStreamWaitValue32)>("cuStreamWaitValue32");
  const auto write = driver<decltype(&cuStreamWriteValue64)>("cuStreamWriteValue64");
  // 2 comes after the largest number.
  *at = 2;
  ASSERT_EQ(CUDA_SUCCESS, wait64(stream, address, ~uint64_t{0}, CU_STREAM_WAIT_VALUE_GEQ));
  ASSERT_EQ(CUDA_SUCCESS, wait32(stream, address, ~uint32_t{0}, CU_STREAM_WAIT_VALUE_GEQ));
  ASSERT_EQ(CUDA_SUCCESS, wait64(stream, address, 6, CU_STREAM_WAIT_VALUE_AND));
  ASSERT_EQ(CUDA_SUCCESS, wait64(stream, address, 2, CU_STREAM_WAIT_VALUE_NOR));
  ASSERT_TRUE(finished(stream));
  // And the largest number comes before 2.
  ASSERT_EQ(CUDA_SUCCESS, write(stream, address, ~uint64_t{0}, 0));
  ASSERT_EQ(CUDA_SUCCESS, wait64(stream, address, 2, CU_STREAM_WAIT_VALUE_GEQ));
  EXPECT_TRUE(eventually([at] { return std::atomic_ref(*at).load() == ~uint64_t{0}; }));
  EXPECT_EQ(cudaErrorNotReady, cudaStreamQuery(stream));
  std::atomic_ref(*at).store(2);
  EXPECT_TRUE(finished(stream));
}

TEST(SoftgpuDriverStream, RefusesOperationsOnWhatNoDeviceReaches) {
  cudaStream_t stream = nullptr;
  ASSERT_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  auto* const at = onDevice<uint64_t>(2);
  const auto address = reinterpret_cast<CUdeviceptr>(at);
  const auto write = driver<decltype(&cuStreamWriteValue64)>("cuStreamWriteValue64");
  const auto wait = driver<decltype(&cuStreamWaitValue64)>("cuStreamWaitValue64");
  uint64_t own = 0;
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, write(stream, reinterpret_cast<CUdeviceptr>(&own), 1, 0));
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, write(stream, address + 4, 1, 0));
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, write(stream, address, 1, 2));
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, wait(stream, address, 0, 4));
  // A batch is done as a whole or not at all, and has at most 255 operations.
  std::vector<CUstreamBatchMemOpParams> operations(256);
  for (CUstreamBatchMemOpParams& one : operations) {
    one.writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_64;
    one.writeValue.address = address;
    one.writeValue.value64 = 1;
  }
  const auto batch = driver<decltype(&cuStreamBatchMemOp)>("cuStreamBatchMemOp");
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, batch(stream, 256, operations.data(), 0));
  operations[254].writeValue.address = address + 4;
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, batch(stream, 255, operations.data(), 0));
  ASSERT_TRUE(finished(stream));
  EXPECT_EQ(0U, *at);
  operations[254].writeValue.address = address + 8;
  ASSERT_EQ(CUDA_SUCCESS, batch(stream, 255, operations.data(), 0));
  ASSERT_TRUE(finished(stream));
  EXPECT_EQ(1U, at[1]);
}

}  // namespace
}  // namespace softgpu
