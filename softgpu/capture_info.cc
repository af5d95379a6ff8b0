// What a program asks about a capture, and how it changes what the next node depends on.
#include <algorithm>
#include <utility>

#include "errors.h"
#include "graph.h"
#include "stream.h"

namespace softgpu {
namespace {

// The pointers stay good until the thread asks again, or the next node is captured.
cudaError_t captureInfo(cudaStream_t handle, cudaStreamCaptureStatus* status, unsigned long long* id,
                        cudaGraph_t* graph, const cudaGraphNode_t** dependencies,
                        const cudaGraphEdgeData** edges, size_t* count) {
  static thread_local std::vector<cudaGraphNode_t> nodes;
  static thread_local std::vector<cudaGraphEdgeData> no_data;
  if (status == nullptr) return cudaErrorInvalidValue;
  cudaError_t error;
  const auto stream = resolveStream(handle, &error);
  if (stream == nullptr) return error;
  const std::lock_guard lock(captureMutex());
  if (error = checkLegacyUse(*stream); error != cudaSuccess) return error;
  const auto& session = stream->capture.session;
  *status = cudaStreamCaptureStatusNone;
  if (session == nullptr) return cudaSuccess;
  *status = session->invalidated ? cudaStreamCaptureStatusInvalidated : cudaStreamCaptureStatusActive;
  if (session->invalidated) return cudaSuccess;
  if (id != nullptr) *id = session->id;
  if (graph != nullptr) *graph = reinterpret_cast<cudaGraph_t>(session->graph.get());
  nodes.clear();
  for (GraphNode* const node : stream->capture.tail) nodes.push_back(toHandle(node));
  no_data.assign(nodes.size(), cudaGraphEdgeData{});
  if (dependencies != nullptr) *dependencies = nodes.data();
  if (edges != nullptr) *edges = no_data.data();
  if (count != nullptr) *count = nodes.size();
  return cudaSuccess;
}

cudaError_t updateDependencies(cudaStream_t handle, cudaGraphNode_t* nodes, size_t count, unsigned flags) {
  cudaError_t error;
  const auto stream = resolveStream(handle, &error);
  if (stream == nullptr) return error;
  if (nodes == nullptr && count != 0) return cudaErrorInvalidValue;
  if (flags != cudaStreamAddCaptureDependencies && flags != cudaStreamSetCaptureDependencies)
    return cudaErrorInvalidValue;
  const std::lock_guard lock(captureMutex());
  StreamCapture& capture = stream->capture;
  if (capture.session == nullptr) return cudaErrorIllegalState;
  if (capture.session->invalidated) return cudaErrorStreamCaptureInvalidated;
  std::vector<GraphNode*> tail;
  if (flags == cudaStreamAddCaptureDependencies) tail = capture.tail;
  for (size_t i = 0; i < count; ++i) {
    GraphNode* const node = fromHandle(nodes[i]);
    if (!capture.session->graph->has(node)) return cudaErrorInvalidValue;
    if (std::find(tail.begin(), tail.end(), node) == tail.end()) tail.push_back(node);
  }
  // CUDA does not ask that a node that is removed here leads back to the origin.
  for (GraphNode* const node : capture.tail) {
    if (std::find(tail.begin(), tail.end(), node) == tail.end()) node->must_join = false;
  }
  capture.tail = std::move(tail);
  return cudaSuccess;
}

}  // namespace
}  // namespace softgpu

using namespace softgpu;

#if CUDART_VERSION >= 13000
cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, cudaStreamCaptureStatus* status,
                                     unsigned long long* id, cudaGraph_t* graph,
                                     const cudaGraphNode_t** dependencies, const cudaGraphEdgeData** edges,
                                     size_t* count) {
  return answer(captureInfo(stream, status, id, graph, dependencies, edges, count));
}

cudaError_t cudaStreamUpdateCaptureDependencies(cudaStream_t stream, cudaGraphNode_t* nodes,
                                                const cudaGraphEdgeData*, size_t count, unsigned int flags) {
  return answer(updateDependencies(stream, nodes, count, flags));
}
#else
#if CUDART_VERSION < 12000  // since then the header gives this name to version 2
cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, cudaStreamCaptureStatus* status,
                                     unsigned long long* id) {
  return answer(captureInfo(stream, status, id, nullptr, nullptr, nullptr, nullptr));
}
#endif

cudaError_t cudaStreamGetCaptureInfo_v2(cudaStream_t stream, cudaStreamCaptureStatus* status,
                                        unsigned long long* id, cudaGraph_t* graph,
                                        const cudaGraphNode_t** dependencies, size_t* count) {
  return answer(captureInfo(stream, status, id, graph, dependencies, nullptr, count));
}

cudaError_t cudaStreamUpdateCaptureDependencies(cudaStream_t stream, cudaGraphNode_t* nodes, size_t count,
                                                unsigned int flags) {
  return answer(updateDependencies(stream, nodes, count, flags));
}
#if CUDART_VERSION >= 12030
cudaError_t cudaStreamGetCaptureInfo_v3(cudaStream_t stream, cudaStreamCaptureStatus* status,
                                        unsigned long long* id, cudaGraph_t* graph,
                                        const cudaGraphNode_t** dependencies, const cudaGraphEdgeData** edges,
                                        size_t* count) {
  return answer(captureInfo(stream, status, id, graph, dependencies, edges, count));
}

cudaError_t cudaStreamUpdateCaptureDependencies_v2(cudaStream_t stream, cudaGraphNode_t* nodes,
                                                   const cudaGraphEdgeData*, size_t count,
                                                   unsigned int flags) {
  return answer(updateDependencies(stream, nodes, count, flags));
}
#endif
#endif
