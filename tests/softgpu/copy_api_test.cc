#include <vector>

#include "softgpu/checks.h"

namespace softgpu {
namespace {

TEST(SoftgpuCopy, InAllDirections) {
  const std::vector<int> from = {1, 2, 3, 4};
  std::vector<int> to(4);
  int* const first = onDevice<int>(4);
  int* const second = onDevice<int>(4);
  ASSERT_CUDA(cudaMemcpy(first, from.data(), 16, cudaMemcpyHostToDevice));
  ASSERT_CUDA(cudaMemcpy(second, first, 16, cudaMemcpyDeviceToDevice));
  ASSERT_CUDA(cudaMemcpy(to.data(), second, 16, cudaMemcpyDeviceToHost));
  EXPECT_EQ(from, to);
  ASSERT_CUDA(cudaMemcpy(to.data(), from.data(), 8, cudaMemcpyHostToHost));
  ASSERT_CUDA(cudaMemcpy(to.data() + 2, first, 8, cudaMemcpyDefault));
  EXPECT_EQ((std::vector<int>{1, 2, 1, 2}), to);
  EXPECT_CUDA(cudaMemcpy(nullptr, nullptr, 0, cudaMemcpyHostToDevice));
}

TEST(SoftgpuCopy, RefusesPointersThatDoNotFit) {
  int host = 1;
  int* const device = onDevice<int>(1);
  EXPECT_EQ(cudaErrorInvalidValue, cudaMemcpy(&host, device, 4, cudaMemcpyHostToDevice));
  EXPECT_EQ(cudaErrorInvalidValue, cudaMemcpy(device, &host, 4, cudaMemcpyDeviceToHost));
  EXPECT_EQ(cudaErrorInvalidValue, cudaMemcpy(device, &host, 4, cudaMemcpyDeviceToDevice));
  EXPECT_EQ(cudaErrorInvalidValue, cudaMemcpy(device, &host, 4, cudaMemcpyHostToHost));
  EXPECT_EQ(cudaErrorInvalidMemcpyDirection, cudaMemcpy(device, &host, 4, static_cast<cudaMemcpyKind>(6)));
  EXPECT_EQ(cudaErrorInvalidValue, cudaMemset(&host, 0, 4));
  EXPECT_EQ(1, host);
}

// CUDA has read pageable memory when the call returns.
TEST(SoftgpuCopy, AProgramMayChangePageableMemoryAtOnce) {
  cudaStream_t stream = nullptr;
  ASSERT_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  Gate gate;
  gate.close(stream);
  int* const device = onDevice<int>(1);
  int host = 5;
  ASSERT_CUDA(cudaMemcpyAsync(device, &host, sizeof host, cudaMemcpyHostToDevice, stream));
  host = 6;
  gate.open();
  ASSERT_TRUE(finished(stream));
  EXPECT_EQ(5, *device);
}

TEST(SoftgpuCopy, APageableTargetIsWrittenWhenTheCallReturns) {
  cudaStream_t stream = nullptr;
  ASSERT_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  Gate gate;
  gate.close(stream);
  int* const device = onDevice<int>(1);
  ASSERT_CUDA(cudaMemsetAsync(device, 1, sizeof(int), stream));
  std::thread opener([&gate] {
    EXPECT_TRUE(eventually([&gate] { return gate.reached(); }));
    gate.open();
  });
  int host = 0;
  EXPECT_CUDA(cudaMemcpyAsync(&host, device, sizeof host, cudaMemcpyDeviceToHost, stream));
  EXPECT_EQ(0x01010101, host);
  opener.join();
}

// One thread may serve two GPUs whose kernels wait for each other.
TEST(SoftgpuCopy, WorkOnDeviceMemoryAloneDoesNotWait) {
  cudaStream_t stream = nullptr;
  ASSERT_CUDA(cudaStreamCreate(&stream));
  int* const from = onDevice<int>(1);
  int* const to = onDevice<int>(1);
  Gate gate;
  gate.close(stream);
  ASSERT_CUDA(cudaMemset(from, 1, sizeof(int)));
  ASSERT_CUDA(cudaMemcpy(to, from, sizeof(int), cudaMemcpyDeviceToDevice));
  EXPECT_EQ(cudaErrorNotReady, cudaStreamQuery(nullptr));
  EXPECT_EQ(0, *to);
  gate.open();
  ASSERT_TRUE(finished(nullptr));
  EXPECT_EQ(0x01010101, *to);
}

#if CUDART_VERSION >= 13000
// Copies of one int each, all with the same order of access to their sources.
cudaError_t copyInts(const std::vector<void*>& to, const std::vector<const void*>& from,
                     cudaMemcpySrcAccessOrder order, cudaStream_t stream) {
  const std::vector<size_t> sizes(to.size(), sizeof(int));
  cudaMemcpyAttributes attributes = {};
  attributes.srcAccessOrder = order;
  attributes.flags = cudaMemcpyFlagPreferOverlapWithCompute;
  size_t first = 0;
  return cudaMemcpyBatchAsync(to.data(), from.data(), sizes.data(), sizes.size(), &attributes, &first, 1,
                              stream);
}

TEST(SoftgpuCopy, ManyAtOnce) {
  cudaStream_t stream = nullptr;
  ASSERT_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  int* const from = onDevice<int>(2);
  int* const to = onDevice<int>(2);
  from[0] = 8;
  from[1] = 9;
  EXPECT_EQ(cudaErrorInvalidValue,
            copyInts({&to[1], &to[0]}, {&from[0], &from[1]}, cudaMemcpySrcAccessOrderStream, nullptr));
  EXPECT_EQ(cudaErrorInvalidValue,
            copyInts({&to[1], &to[0]}, {&from[0], &from[1]}, cudaMemcpySrcAccessOrderInvalid, stream));
  ASSERT_CUDA(copyInts({&to[1], &to[0]}, {&from[0], &from[1]}, cudaMemcpySrcAccessOrderStream, stream));
  ASSERT_TRUE(finished(stream));
  EXPECT_EQ(9, to[0]);
  EXPECT_EQ(8, to[1]);
}

TEST(SoftgpuCopy, ABatchHasAPlaceInTheStreamButNoOrderInside) {
  cudaStream_t stream = nullptr;
  ASSERT_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  int* const at = onDevice<int>(3);
  Gate gate;
  gate.close(stream);
  ASSERT_CUDA(cudaMemsetAsync(at, 1, sizeof(int), stream));
  ASSERT_CUDA(copyInts({&at[1], &at[2]}, {&at[0], &at[1]}, cudaMemcpySrcAccessOrderStream, stream));
  gate.open();
  ASSERT_TRUE(finished(stream));
  EXPECT_EQ(0x01010101, at[1]);  // after the fill
  EXPECT_EQ(0, at[2]);           // the second copy did not wait for the first
}

TEST(SoftgpuCopy, ABatchReadsItsSourcesWhenTheProgramSays) {
  cudaStream_t stream = nullptr;
  ASSERT_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  int* const to = onDevice<int>(2);
  int host = 5;
  Gate gate;
  gate.close(stream);
  ASSERT_CUDA(copyInts({&to[0]}, {&host}, cudaMemcpySrcAccessOrderDuringApiCall, stream));
  ASSERT_CUDA(copyInts({&to[1]}, {&host}, cudaMemcpySrcAccessOrderStream, stream));
  host = 6;
  gate.open();
  ASSERT_TRUE(finished(stream));
  EXPECT_EQ(5, to[0]);
  EXPECT_EQ(6, to[1]);
}

TEST(SoftgpuCopy, ABatchIsDoneAsAWholeOrNotAtAll) {
  cudaStream_t stream = nullptr;
  ASSERT_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  int* const at = onDevice<int>(2);
  at[0] = 4;
  EXPECT_EQ(cudaErrorInvalidValue,
            copyInts({&at[1], nullptr}, {&at[0], &at[0]}, cudaMemcpySrcAccessOrderStream, stream));
  ASSERT_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
  EXPECT_EQ(cudaErrorStreamCaptureUnsupported,
            copyInts({&at[1]}, {&at[0]}, cudaMemcpySrcAccessOrderStream, stream));
  cudaGraph_t graph = nullptr;
  ASSERT_CUDA(cudaStreamEndCapture(stream, &graph));
  EXPECT_CUDA(cudaGraphDestroy(graph));
  ASSERT_TRUE(finished(stream));
  EXPECT_EQ(0, at[1]);
}
#endif

}  // namespace
}  // namespace softgpu
