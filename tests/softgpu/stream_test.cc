#include <sys/wait.h>
#include <unistd.h>

#include <vector>

#include "softgpu/checks.h"

namespace softgpu {
namespace {

cudaStream_t makeStream(unsigned flags = cudaStreamNonBlocking) {
  cudaStream_t stream = nullptr;
  EXPECT_CUDA(cudaStreamCreateWithFlags(&stream, flags));
  return stream;
}

void append(void* data) {
  auto& numbers = *static_cast<std::vector<int>*>(data);
  numbers.push_back(static_cast<int>(numbers.size()));
}

TEST(SoftgpuStream, DoesItsWorkInOrder) {
  const cudaStream_t stream = makeStream();
  int* const at = onDevice<int>(1);
  std::vector<int> seen;
  struct Look {
    int* at;
    std::vector<int>* seen;
  } look = {at, &seen};
  for (int i = 0; i < 100; ++i) {
    ASSERT_CUDA(cudaMemsetAsync(at, i, sizeof(int), stream));
    ASSERT_CUDA(cudaLaunchHostFunc(
        stream,
        [](void* data) {
          const auto& where = *static_cast<Look*>(data);
          where.seen->push_back(*where.at & 0xff);
        },
        &look));
  }
  ASSERT_TRUE(finished(stream));
  ASSERT_EQ(100U, seen.size());
  for (int i = 0; i < 100; ++i) EXPECT_EQ(i, seen[static_cast<size_t>(i)]);
  EXPECT_CUDA(cudaStreamDestroy(stream));
  EXPECT_CUDA(cudaFree(at));
}

TEST(SoftgpuStream, TwoStreamsRunBesideEachOther) {
  const cudaStream_t held = makeStream();
  const cudaStream_t free_stream = makeStream();
  Gate gate;
  gate.close(held);
  std::vector<int> numbers;
  ASSERT_CUDA(cudaLaunchHostFunc(free_stream, append, &numbers));
  EXPECT_TRUE(finished(free_stream));
  EXPECT_EQ(1U, numbers.size());
  EXPECT_EQ(cudaErrorNotReady, cudaStreamQuery(held));
  gate.open();
  EXPECT_TRUE(finished(held));
  EXPECT_TRUE(gate.passed());
}

TEST(SoftgpuStream, StreamZeroWaitsForBlockingStreamsAndTheyForIt) {
  const cudaStream_t blocking = makeStream(cudaStreamDefault);
  const cudaStream_t other = makeStream(cudaStreamDefault);
  Gate gate;
  gate.close(blocking);
  std::vector<int> numbers;
  ASSERT_CUDA(cudaLaunchHostFunc(nullptr, append, &numbers));
  ASSERT_CUDA(cudaLaunchHostFunc(other, append, &numbers));
  ASSERT_TRUE(eventually([&gate] { return gate.reached(); }));
  EXPECT_EQ(cudaErrorNotReady, cudaStreamQuery(nullptr));
  EXPECT_EQ(cudaErrorNotReady, cudaStreamQuery(other));
  EXPECT_TRUE(numbers.empty());
  gate.open();
  EXPECT_TRUE(finished(other));
  EXPECT_EQ(2U, numbers.size());
}

TEST(SoftgpuStream, StreamZeroLeavesNonBlockingStreamsAlone) {
  const cudaStream_t held = makeStream(cudaStreamNonBlocking);
  Gate gate;
  gate.close(held);
  ASSERT_TRUE(eventually([&gate] { return gate.reached(); }));
  int* const at = onDevice<int>(1);
  EXPECT_CUDA(cudaMemset(at, 1, sizeof(int)));
  EXPECT_EQ(0x01010101, *at);
  gate.open();
  EXPECT_TRUE(finished(held));
}

TEST(SoftgpuStream, DestroyedStreamsFinishTheirWork) {
  const cudaStream_t stream = makeStream();
  Gate gate;
  gate.close(stream);
  std::atomic<bool> done = false;
  ASSERT_CUDA(cudaLaunchHostFunc(
      stream, [](void* data) { *static_cast<std::atomic<bool>*>(data) = true; }, &done));
  ASSERT_CUDA(cudaStreamDestroy(stream));
  EXPECT_EQ(cudaErrorInvalidResourceHandle, cudaStreamQuery(stream));
  EXPECT_FALSE(done);
  gate.open();
  EXPECT_TRUE(eventually([&done] { return done.load(); }));
}

TEST(SoftgpuStream, NullAndLegacyAreOneStream) {
#if CUDART_VERSION >= 12000
  unsigned long long ids[2] = {};
  ASSERT_CUDA(cudaStreamGetId(nullptr, &ids[0]));
  ASSERT_CUDA(cudaStreamGetId(cudaStreamLegacy, &ids[1]));
  EXPECT_EQ(ids[0], ids[1]);
  ASSERT_CUDA(cudaStreamGetId(cudaStreamPerThread, &ids[1]));
  EXPECT_NE(ids[0], ids[1]);
#endif
}

TEST(SoftgpuStream, ForkedChildIsRefusedAndEnds) {
  const cudaStream_t stream = makeStream();
  Gate gate;
  gate.close(stream);
  ASSERT_TRUE(eventually([&gate] { return gate.reached(); }));
  const pid_t child = fork();
  if (child == 0) {
    void* at = nullptr;
    std::exit(cudaMalloc(&at, 1) == cudaErrorInitializationError ? 0 : 1);  // with all that runs at exit
  }
  int status = -1;
  ASSERT_TRUE(eventually([&] { return waitpid(child, &status, WNOHANG) == child; }));
  EXPECT_EQ(0, status);
  gate.open();
  EXPECT_TRUE(finished(stream));
}

}  // namespace
}  // namespace softgpu
