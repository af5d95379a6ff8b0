#include "softgpu/checks.h"

namespace softgpu {
namespace {

class SoftgpuCapture : public testing::Test {
 protected:
  void SetUp() override {
    defineAdd();
    ASSERT_CUDA(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
    ASSERT_CUDA(cudaStreamCreateWithFlags(&other_, cudaStreamNonBlocking));
    ASSERT_CUDA(cudaEventCreateWithFlags(&fork_, cudaEventDisableTiming));
    ASSERT_CUDA(cudaEventCreateWithFlags(&join_, cudaEventDisableTiming));
    at_ = onDevice<int>(1);
  }
  void begin(cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal) {
    ASSERT_CUDA(cudaStreamBeginCapture(stream_, mode));
  }
  cudaStreamCaptureStatus status(cudaStream_t stream) {
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusInvalidated;
    EXPECT_CUDA(cudaStreamIsCapturing(stream, &status));
    return status;
  }

  cudaStream_t stream_ = nullptr;
  cudaStream_t other_ = nullptr;
  cudaEvent_t fork_ = nullptr;
  cudaEvent_t join_ = nullptr;
  cudaGraph_t graph_ = nullptr;
  int* at_ = nullptr;
};

TEST_F(SoftgpuCapture, WritesDownAndDoesNothing) {
  begin();
  EXPECT_EQ(cudaStreamCaptureStatusActive, status(stream_));
  ASSERT_CUDA(launchAdd(at_, 1, stream_));
  ASSERT_CUDA(launchAdd(at_, 1, stream_));
  ASSERT_CUDA(cudaStreamEndCapture(stream_, &graph_));
  EXPECT_EQ(cudaStreamCaptureStatusNone, status(stream_));
  size_t nodes = 0;
  ASSERT_CUDA(cudaGraphGetNodes(graph_, nullptr, &nodes));
  EXPECT_EQ(2U, nodes);
  ASSERT_TRUE(finished(stream_));
  EXPECT_EQ(0, *at_);
}

TEST_F(SoftgpuCapture, AnotherStreamJoinsByAnEvent) {
  begin();
  ASSERT_CUDA(cudaEventRecord(fork_, stream_));
  ASSERT_CUDA(cudaStreamWaitEvent(other_, fork_, 0));
  EXPECT_EQ(cudaStreamCaptureStatusActive, status(other_));
  ASSERT_CUDA(launchAdd(at_, 1, other_));
  EXPECT_EQ(cudaErrorCapturedEvent, cudaEventQuery(fork_));
  ASSERT_CUDA(cudaEventRecord(join_, other_));
  ASSERT_CUDA(cudaStreamWaitEvent(stream_, join_, 0));
  ASSERT_CUDA(cudaStreamEndCapture(stream_, &graph_));
  EXPECT_EQ(cudaStreamCaptureStatusNone, status(other_));
}

TEST_F(SoftgpuCapture, RefusesWorkThatDoesNotLeadBack) {
  begin();
  ASSERT_CUDA(cudaEventRecord(fork_, stream_));
  ASSERT_CUDA(cudaStreamWaitEvent(other_, fork_, 0));
  ASSERT_CUDA(launchAdd(at_, 1, other_));
  EXPECT_EQ(cudaErrorStreamCaptureUnjoined, cudaStreamEndCapture(stream_, &graph_));
  EXPECT_EQ(nullptr, graph_);
  EXPECT_EQ(cudaStreamCaptureStatusNone, status(other_));
}

TEST_F(SoftgpuCapture, RefusesToWaitForWorkOutside) {
  ASSERT_CUDA(cudaEventRecord(fork_, other_));
  begin();
  EXPECT_EQ(cudaErrorStreamCaptureIsolation, cudaStreamWaitEvent(stream_, fork_, 0));
  EXPECT_EQ(cudaErrorStreamCaptureInvalidated, launchAdd(at_, 1, stream_));
  EXPECT_EQ(cudaErrorStreamCaptureInvalidated, cudaStreamEndCapture(stream_, &graph_));
}

TEST_F(SoftgpuCapture, TwoCapturesDoNotMix) {
  begin();
  ASSERT_CUDA(cudaStreamBeginCapture(other_, cudaStreamCaptureModeGlobal));
  ASSERT_CUDA(cudaEventRecord(fork_, stream_));
  EXPECT_EQ(cudaErrorStreamCaptureMerge, cudaStreamWaitEvent(other_, fork_, 0));
  EXPECT_EQ(cudaErrorStreamCaptureInvalidated, cudaStreamEndCapture(stream_, &graph_));
  EXPECT_EQ(cudaErrorStreamCaptureInvalidated, cudaStreamEndCapture(other_, &graph_));
}

TEST_F(SoftgpuCapture, ForbidsUnsafeCallsUnlessTheThreadIsRelaxed) {
  void* memory = nullptr;
  begin();
  cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
  ASSERT_CUDA(cudaThreadExchangeStreamCaptureMode(&mode));
  EXPECT_EQ(cudaStreamCaptureModeGlobal, mode);
  EXPECT_CUDA(cudaMalloc(&memory, 1));
  ASSERT_CUDA(cudaThreadExchangeStreamCaptureMode(&mode));
  EXPECT_EQ(cudaStreamCaptureModeRelaxed, mode);
  EXPECT_EQ(cudaErrorStreamCaptureUnsupported, cudaMalloc(&memory, 1));
  EXPECT_EQ(cudaErrorStreamCaptureInvalidated, cudaStreamEndCapture(stream_, &graph_));
}

TEST_F(SoftgpuCapture, ThreadLocalCaptureForbidsOnlyItsThread) {
  begin(cudaStreamCaptureModeThreadLocal);
  cudaError_t elsewhere = cudaErrorUnknown;
  std::thread([&elsewhere] {
    void* memory = nullptr;
    elsewhere = cudaMalloc(&memory, 1);
  }).join();
  EXPECT_CUDA(elsewhere);
  cudaError_t ended = cudaSuccess;
  std::thread([&] { ended = cudaStreamEndCapture(stream_, &graph_); }).join();
  EXPECT_EQ(cudaErrorStreamCaptureWrongThread, ended);
  EXPECT_CUDA(cudaStreamEndCapture(stream_, &graph_));
}

TEST_F(SoftgpuCapture, NobodyMayWaitForACapturingStream) {
  begin();
  EXPECT_EQ(cudaErrorStreamCaptureUnsupported, cudaStreamSynchronize(stream_));
  EXPECT_EQ(cudaErrorStreamCaptureInvalidated, cudaStreamEndCapture(stream_, &graph_));
}

TEST_F(SoftgpuCapture, StreamZeroIsRefusedWhileABlockingStreamCaptures) {
  cudaStream_t blocking = nullptr;
  ASSERT_CUDA(cudaStreamCreate(&blocking));
  ASSERT_CUDA(cudaStreamBeginCapture(blocking, cudaStreamCaptureModeRelaxed));
  EXPECT_EQ(cudaErrorStreamCaptureImplicit, launchAdd(at_, 1, nullptr));
  EXPECT_EQ(cudaErrorStreamCaptureInvalidated, cudaStreamEndCapture(blocking, &graph_));
  EXPECT_EQ(cudaErrorStreamCaptureUnsupported, cudaStreamBeginCapture(nullptr, cudaStreamCaptureModeRelaxed));
}

TEST_F(SoftgpuCapture, ADestroyedOriginEndsIt) {
  begin();
  ASSERT_CUDA(cudaEventRecord(fork_, stream_));
  ASSERT_CUDA(cudaStreamWaitEvent(other_, fork_, 0));
  ASSERT_CUDA(cudaStreamDestroy(stream_));
  EXPECT_EQ(cudaStreamCaptureStatusNone, status(other_));
  void* memory = nullptr;
  EXPECT_CUDA(cudaMalloc(&memory, 1));
}

}  // namespace
}  // namespace softgpu
