#include <vector>

#include "softgpu/checks.h"

namespace softgpu {
namespace {

class SoftgpuGraph : public testing::Test {
 protected:
  void SetUp() override {
    defineAdd();
    ASSERT_CUDA(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
    ASSERT_CUDA(cudaStreamCreateWithFlags(&other_, cudaStreamNonBlocking));
    ASSERT_CUDA(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming));
  }
  void begin() { ASSERT_CUDA(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeGlobal)); }
  void end() {
    ASSERT_CUDA(cudaStreamEndCapture(stream_, &graph_));
    ASSERT_CUDA(cudaGraphInstantiateWithFlags(&exec_, graph_, 0));
  }
  void fork() {
    ASSERT_CUDA(cudaEventRecord(event_, stream_));
    ASSERT_CUDA(cudaStreamWaitEvent(other_, event_, 0));
  }
  void join() {
    ASSERT_CUDA(cudaEventRecord(event_, other_));
    ASSERT_CUDA(cudaStreamWaitEvent(stream_, event_, 0));
  }

  cudaStream_t stream_ = nullptr;
  cudaStream_t other_ = nullptr;
  cudaEvent_t event_ = nullptr;
  cudaGraph_t graph_ = nullptr;
  cudaGraphExec_t exec_ = nullptr;
};

TEST_F(SoftgpuGraph, ReplaysWithChangedData) {
  constexpr size_t kCount = 1024;
  int* const from = onDevice<int>(kCount);
  int* const to = onDevice<int>(kCount);
  begin();
  ASSERT_CUDA(cudaMemcpyAsync(to, from, kCount * sizeof(int), cudaMemcpyDeviceToDevice, stream_));
  ASSERT_CUDA(launchAdd(to, 1, stream_));
  end();
  ASSERT_CUDA(cudaGraphDestroy(graph_));  // the instance does not need it
  for (int round = 0; round < 10; ++round) {
    const std::vector<int> data(kCount, round * 7);
    ASSERT_CUDA(cudaMemcpy(from, data.data(), kCount * sizeof(int), cudaMemcpyHostToDevice));
    ASSERT_CUDA(cudaGraphLaunch(exec_, stream_));
    ASSERT_TRUE(finished(stream_));
    EXPECT_EQ(round * 7 + 1, to[0]);
    EXPECT_EQ(round * 7, to[kCount - 1]);
  }
}

// The parameters are those of the capture, whatever the program does with its variables since.
TEST_F(SoftgpuGraph, KeepsItsOwnParameters) {
  int* const at = onDevice<int>(1);
  int step = 3;
  int* target = at;
  void* parameters[] = {&target, &step};
  begin();
  ASSERT_CUDA(cudaLaunchKernel(&add_kernel, dim3(1), dim3(1), parameters, 0, stream_));
  end();
  step = 1000;
  target = nullptr;
  ASSERT_CUDA(cudaGraphLaunch(exec_, stream_));
  ASSERT_CUDA(cudaGraphLaunch(exec_, stream_));
  ASSERT_TRUE(finished(stream_));
  EXPECT_EQ(6, *at);
}

TEST_F(SoftgpuGraph, RespectsForkAndJoin) {
  std::vector<int> order;
  const auto step = [](void* data) {
    auto& list = *static_cast<std::vector<int>*>(data);
    list.push_back(static_cast<int>(list.size()));
  };
  Gate gate;
  int* const at = onDevice<int>(1);
  begin();
  ASSERT_CUDA(cudaLaunchHostFunc(stream_, step, &order));
  fork();
  gate.close(other_);
  ASSERT_CUDA(launchAdd(at, 1, other_));
  join();
  ASSERT_CUDA(cudaLaunchHostFunc(stream_, step, &order));
  end();
  ASSERT_CUDA(cudaGraphLaunch(exec_, stream_));
  ASSERT_TRUE(eventually([&gate] { return gate.reached(); }));
  EXPECT_EQ(1U, order.size());
  gate.open();
  ASSERT_TRUE(finished(stream_));
  EXPECT_EQ(2U, order.size());
  EXPECT_EQ(1, *at);
}

// A kernel on one branch may wait for what a host function on the other sets going, either way round.
TEST_F(SoftgpuGraph, BranchesRunBesideEachOther) {
  std::atomic<int> meeting[2] = {};
  struct Side {
    std::atomic<int>* own;
    std::atomic<int>* other;
    bool met;
  } sides[2] = {{&meeting[0], &meeting[1], false}, {&meeting[1], &meeting[0], false}};
  const auto meet = [](void* data) {
    auto& side = *static_cast<Side*>(data);
    const int round = ++*side.own;
    side.met = eventually([&] { return *side.other >= round; });
  };
  begin();
  fork();
  ASSERT_CUDA(cudaLaunchHostFunc(stream_, meet, &sides[0]));
  ASSERT_CUDA(cudaLaunchHostFunc(other_, meet, &sides[1]));
  join();
  end();
  for (int round = 0; round < 3; ++round) {
    ASSERT_CUDA(cudaGraphLaunch(exec_, stream_));
    ASSERT_TRUE(finished(stream_));
    EXPECT_TRUE(sides[0].met);
    EXPECT_TRUE(sides[1].met);
  }
}

TEST_F(SoftgpuGraph, BuiltByHandRunsInTheOrderOfItsEdges) {
  int* const at = onDevice<int>(1);
  ASSERT_CUDA(cudaGraphCreate(&graph_, 0));
  int seen = -1;
  struct Look {
    int* at;
    int* seen;
  } look = {at, &seen};
  const cudaHostNodeParams host = {
      .fn = [](void* data) { *static_cast<Look*>(data)->seen = *static_cast<Look*>(data)->at; },
      .userData = &look};
  cudaGraphNode_t look_node = nullptr;
  ASSERT_CUDA(cudaGraphAddHostNode(&look_node, graph_, nullptr, 0, &host));
  int step = 4;
  int* target = at;
  void* parameters[] = {&target, &step};
  cudaKernelNodeParams kernel = {};
  kernel.func = &add_kernel;
  kernel.gridDim = dim3(1);
  kernel.blockDim = dim3(1);
  kernel.kernelParams = parameters;
  cudaGraphNode_t kernel_node = nullptr;
  ASSERT_CUDA(cudaGraphAddKernelNode(&kernel_node, graph_, nullptr, 0, &kernel));
#if CUDART_VERSION >= 13000
  ASSERT_CUDA(cudaGraphAddDependencies(graph_, &kernel_node, &look_node, nullptr, 1));
#else
  ASSERT_CUDA(cudaGraphAddDependencies(graph_, &kernel_node, &look_node, 1));
#endif
  ASSERT_CUDA(cudaGraphInstantiateWithFlags(&exec_, graph_, 0));
  ASSERT_CUDA(cudaGraphLaunch(exec_, stream_));
  ASSERT_TRUE(finished(stream_));
  EXPECT_EQ(4, seen);
#if CUDART_VERSION >= 13000
  ASSERT_CUDA(cudaGraphAddDependencies(graph_, &look_node, &kernel_node, nullptr, 1));
#else
  ASSERT_CUDA(cudaGraphAddDependencies(graph_, &look_node, &kernel_node, 1));
#endif
  EXPECT_EQ(cudaErrorInvalidValue, cudaGraphInstantiateWithFlags(&exec_, graph_, 0));  // a circle
}

TEST_F(SoftgpuGraph, UserObjectsGoWithTheLastThatNeedsThem) {
  std::atomic<int> destroyed = 0;
  Gate gate;
  begin();
  gate.close(stream_);
  ASSERT_CUDA(cudaStreamEndCapture(stream_, &graph_));
  cudaUserObject_t object = nullptr;
  ASSERT_CUDA(cudaUserObjectCreate(
      &object, &destroyed, [](void* data) { ++*static_cast<std::atomic<int>*>(data); }, 1,
      cudaUserObjectNoDestructorSync));
  ASSERT_CUDA(cudaGraphRetainUserObject(graph_, object, 1, cudaGraphUserObjectMove));
  ASSERT_CUDA(cudaGraphInstantiateWithFlags(&exec_, graph_, 0));
  ASSERT_CUDA(cudaGraphLaunch(exec_, stream_));
  ASSERT_CUDA(cudaGraphDestroy(graph_));
  ASSERT_CUDA(cudaGraphExecDestroy(exec_));
  ASSERT_TRUE(eventually([&gate] { return gate.reached(); }));
  EXPECT_EQ(0, destroyed);  // the launch still runs
  gate.open();
  ASSERT_TRUE(finished(stream_));
  EXPECT_EQ(1, destroyed);
}

}  // namespace
}  // namespace softgpu
