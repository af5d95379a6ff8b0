// Graphs that a program builds itself, and user objects.
#include <algorithm>
#include <utility>

#include "device.h"
#include "errors.h"
#include "graph.h"
#include "launch.h"

namespace softgpu {
namespace {

bool inGraph(const Graph& graph, const cudaGraphNode_t* nodes, size_t count) {
  return std::all_of(nodes, nodes + count, [&](cudaGraphNode_t node) { return graph.has(fromHandle(node)); });
}

cudaError_t addNode(cudaGraphNode_t* out, cudaGraph_t handle, const cudaGraphNode_t* before, size_t count,
                    cudaGraphNodeType type, Work work, std::shared_ptr<Event> event = nullptr) {
  if (out == nullptr || (before == nullptr && count != 0)) return cudaErrorInvalidValue;
  const auto graph = graphs().find(handle);
  if (graph == nullptr) return cudaErrorInvalidValue;
  const std::lock_guard lock(captureMutex());
  if (!inGraph(*graph, before, count)) return cudaErrorInvalidValue;
  std::vector<GraphNode*> dependencies;
  for (size_t i = 0; i < count; ++i) dependencies.push_back(fromHandle(before[i]));
  GraphNode* const node = graph->add(type, std::move(work), std::move(dependencies));
  node->event = std::move(event);
  *out = toHandle(node);
  return cudaSuccess;
}

cudaError_t addDependencies(cudaGraph_t handle, const cudaGraphNode_t* from, const cudaGraphNode_t* to,
                            size_t count) {
  const auto graph = graphs().find(handle);
  if (graph == nullptr || (count != 0 && (from == nullptr || to == nullptr))) return cudaErrorInvalidValue;
  const std::lock_guard lock(captureMutex());
  if (!inGraph(*graph, from, count) || !inGraph(*graph, to, count)) return cudaErrorInvalidValue;
  for (size_t i = 0; i < count; ++i) {
    auto& dependencies = fromHandle(to[i])->dependencies;
    GraphNode* const node = fromHandle(from[i]);
    if (std::find(dependencies.begin(), dependencies.end(), node) != dependencies.end())
      return cudaErrorInvalidValue;
    dependencies.push_back(node);
  }
  return cudaSuccess;
}

}  // namespace
}  // namespace softgpu

using namespace softgpu;

cudaError_t cudaGraphCreate(cudaGraph_t* graph, unsigned int flags) {
  if (graph == nullptr || flags != 0) return answer(cudaErrorInvalidValue);
  *graph = graphs().add(std::make_shared<Graph>());
  return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  return answer(graphs().remove(graph) != nullptr ? cudaSuccess : cudaErrorInvalidValue);
}

cudaError_t cudaGraphGetNodes(cudaGraph_t handle, cudaGraphNode_t* nodes, size_t* count) {
  const auto graph = graphs().find(handle);
  if (graph == nullptr || count == nullptr) return answer(cudaErrorInvalidValue);
  const std::lock_guard lock(captureMutex());
  if (nodes != nullptr) {
    for (size_t i = 0; i < *count; ++i)
      nodes[i] = i < graph->nodes().size() ? toHandle(graph->nodes()[i].get()) : nullptr;
    *count = std::min(*count, graph->nodes().size());
  } else {
    *count = graph->nodes().size();
  }
  return cudaSuccess;
}

cudaError_t cudaGraphAddEmptyNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* before,
                                  size_t count) {
  return answer(addNode(node, graph, before, count, cudaGraphNodeTypeEmpty, {}));
}

cudaError_t cudaGraphAddEventRecordNode(cudaGraphNode_t* node, cudaGraph_t graph,
                                        const cudaGraphNode_t* before, size_t count, cudaEvent_t handle) {
  auto event = events().find(handle);
  if (event == nullptr) return answer(cudaErrorInvalidValue);
  return answer(addNode(node, graph, before, count, cudaGraphNodeTypeEventRecord, {}, std::move(event)));
}

cudaError_t cudaGraphAddEventWaitNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* before,
                                      size_t count, cudaEvent_t handle) {
  auto event = events().find(handle);
  if (event == nullptr) return answer(cudaErrorInvalidValue);
  return answer(addNode(node, graph, before, count, cudaGraphNodeTypeWaitEvent, {}, std::move(event)));
}

cudaError_t cudaGraphAddHostNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* before,
                                 size_t count, const cudaHostNodeParams* parameters) {
  if (parameters == nullptr || parameters->fn == nullptr) return answer(cudaErrorInvalidValue);
  return answer(addNode(node, graph, before, count, cudaGraphNodeTypeHost,
                        [function = parameters->fn, data = parameters->userData] { function(data); }));
}

cudaError_t cudaGraphAddKernelNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* before,
                                   size_t count, const cudaKernelNodeParams* parameters) {
  if (parameters == nullptr) return answer(cudaErrorInvalidValue);
  Work work;
  const cudaError_t error = prepareLaunch(
      findKernel(parameters->func), parameters->gridDim.x * parameters->gridDim.y * parameters->gridDim.z,
      parameters->blockDim.x * parameters->blockDim.y * parameters->blockDim.z, parameters->kernelParams,
      parameters->extra, currentDeviceNumber(), &work);
  if (error != cudaSuccess) return answer(error);
  return answer(addNode(node, graph, before, count, cudaGraphNodeTypeKernel, std::move(work)));
}

#if CUDART_VERSION >= 13000
cudaError_t cudaGraphAddDependencies(cudaGraph_t graph, const cudaGraphNode_t* from,
                                     const cudaGraphNode_t* to, const cudaGraphEdgeData*, size_t count) {
  return answer(addDependencies(graph, from, to, count));
}
#else
cudaError_t cudaGraphAddDependencies(cudaGraph_t graph, const cudaGraphNode_t* from,
                                     const cudaGraphNode_t* to, size_t count) {
  return answer(addDependencies(graph, from, to, count));
}
#if CUDART_VERSION >= 12030
cudaError_t cudaGraphAddDependencies_v2(cudaGraph_t graph, const cudaGraphNode_t* from,
                                        const cudaGraphNode_t* to, const cudaGraphEdgeData*, size_t count) {
  return answer(addDependencies(graph, from, to, count));
}
#endif
#endif

cudaError_t cudaUserObjectCreate(cudaUserObject_t* object, void* pointer, cudaHostFn_t destroy,
                                 unsigned int references, unsigned int flags) {
  if (object == nullptr || destroy == nullptr || references == 0 || flags != cudaUserObjectNoDestructorSync)
    return answer(cudaErrorInvalidValue);
  *object = userObjects().add(std::make_shared<UserObject>(destroy, pointer, references));
  return cudaSuccess;
}

cudaError_t cudaUserObjectRetain(cudaUserObject_t handle, unsigned int count) {
  const auto object = userObjects().find(handle);
  if (object == nullptr || count == 0) return answer(cudaErrorInvalidValue);
  object->retain(count);
  return cudaSuccess;
}

cudaError_t cudaUserObjectRelease(cudaUserObject_t handle, unsigned int count) {
  const auto object = userObjects().find(handle);
  if (object == nullptr || count == 0) return answer(cudaErrorInvalidValue);
  object->release(count);
  return cudaSuccess;
}

cudaError_t cudaGraphRetainUserObject(cudaGraph_t graph_handle, cudaUserObject_t handle, unsigned int count,
                                      unsigned int flags) {
  const auto graph = graphs().find(graph_handle);
  auto object = userObjects().find(handle);
  if (graph == nullptr || object == nullptr || count == 0) return answer(cudaErrorInvalidValue);
  if ((flags & cudaGraphUserObjectMove) == 0) object->retain(count);
  const std::lock_guard lock(captureMutex());
  graph->objects.adopt(std::move(object), count);
  return cudaSuccess;
}

cudaError_t cudaGraphReleaseUserObject(cudaGraph_t graph_handle, cudaUserObject_t handle,
                                       unsigned int count) {
  const auto graph = graphs().find(graph_handle);
  const auto object = userObjects().find(handle);
  if (graph == nullptr || object == nullptr) return answer(cudaErrorInvalidValue);
  return answer(graph->objects.release(object, count) ? cudaSuccess : cudaErrorInvalidValue);
}
