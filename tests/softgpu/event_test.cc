#include "softgpu/checks.h"

namespace softgpu {
namespace {

class SoftgpuEvent : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_CUDA(cudaStreamCreateWithFlags(&first_, cudaStreamNonBlocking));
    ASSERT_CUDA(cudaStreamCreateWithFlags(&second_, cudaStreamNonBlocking));
    ASSERT_CUDA(cudaEventCreate(&event_));
  }
  cudaStream_t first_ = nullptr;
  cudaStream_t second_ = nullptr;
  cudaEvent_t event_ = nullptr;
};

TEST_F(SoftgpuEvent, HoldsAnotherStreamBack) {
  defineAdd();
  int* const at = onDevice<int>(1);
  Gate gate;
  gate.close(first_);
  ASSERT_CUDA(launchAdd(at, 5, first_));
  ASSERT_CUDA(cudaEventRecord(event_, first_));
  ASSERT_CUDA(cudaStreamWaitEvent(second_, event_, 0));
  ASSERT_CUDA(cudaMemsetAsync(at, 0, sizeof(int), second_));
  EXPECT_EQ(cudaErrorNotReady, cudaEventQuery(event_));
  EXPECT_EQ(cudaErrorNotReady, cudaStreamQuery(second_));
  gate.open();
  ASSERT_TRUE(finished(second_));
  EXPECT_CUDA(cudaEventQuery(event_));
  EXPECT_EQ(0, *at);
}

TEST_F(SoftgpuEvent, MeansTheRecordBeforeTheWait) {
  Gate before;
  Gate after;
  before.close(first_);
  ASSERT_CUDA(cudaEventRecord(event_, first_));
  ASSERT_CUDA(cudaStreamWaitEvent(second_, event_, 0));
  after.close(first_);
  ASSERT_CUDA(cudaEventRecord(event_, first_));
  before.open();
  EXPECT_TRUE(finished(second_));
  EXPECT_EQ(cudaErrorNotReady, cudaEventQuery(event_));
  after.open();
  EXPECT_TRUE(finished(first_));
  EXPECT_CUDA(cudaEventQuery(event_));
}

TEST_F(SoftgpuEvent, NeverRecordedIsDone) {
  EXPECT_CUDA(cudaEventQuery(event_));
  EXPECT_CUDA(cudaEventSynchronize(event_));
  EXPECT_CUDA(cudaStreamWaitEvent(first_, event_, 0));
}

TEST_F(SoftgpuEvent, MayGoWhileAStreamWaitsForIt) {
  Gate gate;
  gate.close(first_);
  ASSERT_CUDA(cudaEventRecord(event_, first_));
  ASSERT_CUDA(cudaStreamWaitEvent(second_, event_, 0));
  ASSERT_CUDA(cudaEventDestroy(event_));
  EXPECT_EQ(cudaErrorInvalidResourceHandle, cudaEventQuery(event_));
  EXPECT_EQ(cudaErrorNotReady, cudaStreamQuery(second_));
  gate.open();
  EXPECT_TRUE(finished(second_));
}

TEST_F(SoftgpuEvent, TimesWhatLiesBetween) {
  cudaEvent_t end = nullptr;
  ASSERT_CUDA(cudaEventCreate(&end));
  float milliseconds = -1;
  EXPECT_EQ(cudaErrorInvalidResourceHandle, cudaEventElapsedTime(&milliseconds, event_, end));
  ASSERT_CUDA(cudaEventRecord(event_, first_));
  ASSERT_CUDA(cudaEventRecord(end, first_));
  ASSERT_TRUE(finished(first_));
  ASSERT_CUDA(cudaEventElapsedTime(&milliseconds, event_, end));
  EXPECT_GE(milliseconds, 0);
  ASSERT_CUDA(cudaEventElapsedTime(&milliseconds, end, event_));
  EXPECT_LE(milliseconds, 0);
}

}  // namespace
}  // namespace softgpu
