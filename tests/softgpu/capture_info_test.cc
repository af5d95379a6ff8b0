// How NCCL works with a capture (src/misc/strongstream.cc): a stream of its own in the graph, without what
// the program's stream did before, and an event that is recorded at every replay.
#include "softgpu/checks.h"

namespace softgpu {
namespace {

struct Info {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  unsigned long long id = 0;
  cudaGraph_t graph = nullptr;
  const cudaGraphNode_t* tail = nullptr;
  size_t count = 0;
};

Info infoOf(cudaStream_t stream) {
  Info info;
#if CUDART_VERSION >= 13000
  EXPECT_CUDA(cudaStreamGetCaptureInfo(stream, &info.status, &info.id, &info.graph, &info.tail, nullptr,
                                       &info.count));
#else
  EXPECT_CUDA(
      cudaStreamGetCaptureInfo_v2(stream, &info.status, &info.id, &info.graph, &info.tail, &info.count));
#endif
  return info;
}

cudaError_t setTail(cudaStream_t stream, cudaGraphNode_t* nodes, size_t count) {
#if CUDART_VERSION >= 13000
  return cudaStreamUpdateCaptureDependencies(stream, nodes, nullptr, count, cudaStreamSetCaptureDependencies);
#else
  return cudaStreamUpdateCaptureDependencies(stream, nodes, count, cudaStreamSetCaptureDependencies);
#endif
}

cudaError_t addDependency(cudaGraph_t graph, const cudaGraphNode_t* from, const cudaGraphNode_t* to) {
#if CUDART_VERSION >= 13000
  return cudaGraphAddDependencies(graph, from, to, nullptr, 1);
#else
  return cudaGraphAddDependencies(graph, from, to, 1);
#endif
}

TEST(SoftgpuCaptureInfo, OfAStreamThatDoesNotCapture) {
  EXPECT_EQ(cudaStreamCaptureStatusNone, infoOf(nullptr).status);
}

TEST(SoftgpuCaptureInfo, NamesTheGraphAndItsLastNodes) {
  defineAdd();
  int* const at = onDevice<int>(1);
  cudaStream_t stream = nullptr;
  ASSERT_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  ASSERT_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
  EXPECT_EQ(0U, infoOf(stream).count);
  ASSERT_CUDA(launchAdd(at, 1, stream));
  const Info info = infoOf(stream);
  EXPECT_EQ(cudaStreamCaptureStatusActive, info.status);
  ASSERT_EQ(1U, info.count);
  EXPECT_NE(0U, info.id);
  cudaGraph_t graph = nullptr;
  ASSERT_CUDA(cudaStreamEndCapture(stream, &graph));
  EXPECT_EQ(info.graph, graph);
  ASSERT_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
  EXPECT_NE(info.id, infoOf(stream).id);
}

// A wait outside the graph sees each replay of an event that the graph records.
TEST(SoftgpuCaptureInfo, AStrongStreamOrdersReplaysAndOtherWork) {
  cudaStream_t user = nullptr;
  cudaStream_t strong = nullptr;
  cudaStream_t live = nullptr;
  ASSERT_CUDA(cudaStreamCreateWithFlags(&user, cudaStreamNonBlocking));
  ASSERT_CUDA(cudaStreamCreateWithFlags(&strong, cudaStreamNonBlocking));
  ASSERT_CUDA(cudaStreamCreateWithFlags(&live, cudaStreamNonBlocking));
  cudaEvent_t serial = nullptr;
  cudaEvent_t scratch = nullptr;
  ASSERT_CUDA(cudaEventCreateWithFlags(&serial, cudaEventDisableTiming));
  ASSERT_CUDA(cudaEventCreateWithFlags(&scratch, cudaEventDisableTiming));
  ASSERT_CUDA(cudaEventRecord(serial, live));
  ASSERT_TRUE(finished(live));

  std::atomic<int> gates_passed = 0;
  ASSERT_CUDA(cudaStreamBeginCapture(user, cudaStreamCaptureModeGlobal));
  const Info origin = infoOf(user);
  ASSERT_CUDA(cudaEventRecord(scratch, user));
  ASSERT_CUDA(cudaStreamWaitEvent(strong, scratch, 0));
  ASSERT_CUDA(setTail(strong, nullptr, 0));
  ASSERT_CUDA(cudaStreamWaitEvent(strong, serial, cudaEventWaitExternal));
  Gate gate;
  gate.close(strong);
  ASSERT_CUDA(cudaLaunchHostFunc(
      strong, [](void* data) { ++*static_cast<std::atomic<int>*>(data); }, &gates_passed));
  cudaGraphNode_t record = nullptr;
  ASSERT_CUDA(cudaGraphAddEventRecordNode(&record, origin.graph, nullptr, 0, serial));
  const Info tail = infoOf(strong);
  ASSERT_EQ(1U, tail.count);
  const cudaGraphNode_t last = *tail.tail;
  ASSERT_CUDA(addDependency(origin.graph, &last, &record));
  ASSERT_CUDA(setTail(strong, &record, 1));
  cudaGraph_t graph = nullptr;
  ASSERT_CUDA(cudaStreamEndCapture(user, &graph));  // what left a tail need not lead back
  cudaGraphExec_t exec = nullptr;
  ASSERT_CUDA(cudaGraphInstantiateWithFlags(&exec, graph, 0));

  EXPECT_CUDA(cudaEventQuery(serial));
  ASSERT_CUDA(cudaGraphLaunch(exec, user));
  EXPECT_EQ(cudaErrorNotReady, cudaEventQuery(serial));
  ASSERT_CUDA(cudaStreamWaitEvent(live, serial, 0));
  EXPECT_EQ(cudaErrorNotReady, cudaStreamQuery(live));
  gate.open();
  EXPECT_TRUE(finished(live));
  EXPECT_EQ(1, gates_passed);
  ASSERT_CUDA(cudaGraphLaunch(exec, user));
  EXPECT_TRUE(finished(user));
  EXPECT_EQ(2, gates_passed);
}

}  // namespace
}  // namespace softgpu
