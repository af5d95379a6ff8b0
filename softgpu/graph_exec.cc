#include "graph_exec.h"

#include <map>
#include <utility>

#include "device.h"
#include "errors.h"

namespace softgpu {

// One launch: how far it is, and the markers of its event nodes.
struct GraphExec::Launch {
  explicit Launch(size_t steps) : done(new Marker[steps]), events(steps) {}
  std::unique_ptr<Marker[]> done;
  std::vector<std::shared_ptr<Marker>> events;
};

namespace {

// Nodes in an order that respects the dependencies; fewer than there are if those form a circle.
std::vector<const GraphNode*> inOrder(const Graph& graph) {
  std::map<const GraphNode*, size_t> open;  // dependencies not yet in the order
  std::map<const GraphNode*, std::vector<const GraphNode*>> dependents;
  std::vector<const GraphNode*> order;
  for (const auto& node : graph.nodes()) {
    open[node.get()] = node->dependencies.size();
    for (const GraphNode* const before : node->dependencies) dependents[before].push_back(node.get());
    if (node->dependencies.empty()) order.push_back(node.get());
  }
  for (size_t i = 0; i < order.size(); ++i) {
    for (const GraphNode* const after : dependents[order[i]]) {
      if (--open[after] == 0) order.push_back(after);
    }
  }
  return order;
}

}  // namespace

// A step goes on the lane of a dependency if that is the lane's last step, else it begins a lane. So branches
// run beside each other: a kernel may need what a host function of another branch sets going.
std::shared_ptr<GraphExec> GraphExec::create(const Graph& graph, Device& device) {
  const std::vector<const GraphNode*> order = inOrder(graph);
  if (order.size() != graph.nodes().size()) return nullptr;
  auto exec = std::make_shared<GraphExec>();
  exec->steps_.resize(order.size());
  std::map<const GraphNode*, size_t> number;
  std::vector<size_t> lane_of(order.size());
  for (size_t i = 0; i < order.size(); ++i) {
    const GraphNode& node = *order[i];
    number[&node] = i;
    Step& step = exec->steps_[i];
    step.type = node.type;
    step.work = node.work;
    step.event = node.event;
    size_t lane = exec->lanes_.size();
    for (const GraphNode* const before : node.dependencies) {
      const size_t candidate = lane_of[number[before]];
      if (exec->lanes_[candidate].back() == number[before]) lane = candidate;
    }
    if (lane == exec->lanes_.size()) exec->lanes_.emplace_back();
    lane_of[i] = lane;
    for (const GraphNode* const before : node.dependencies) {
      const size_t other = number[before];
      if (lane_of[other] == lane) continue;
      step.waits.push_back(other);
      exec->steps_[other].awaited = true;
    }
    exec->lanes_[lane].push_back(i);
  }
  for (size_t i = 1; i < exec->lanes_.size(); ++i)
    exec->helpers_.push_back(std::make_shared<Stream>(device, StreamKind::kNonBlocking, 0));
  exec->objects_.retainAll(graph.objects);
  return exec;
}

GraphExec::~GraphExec() {
  for (const auto& helper : helpers_) helper->close();
}

Work GraphExec::launch() {
  auto launch = std::make_shared<Launch>(steps_.size());
  // A wait means the record before this launch, even if the launch records the same event.
  for (size_t i = 0; i < steps_.size(); ++i) {
    if (steps_[i].type == cudaGraphNodeTypeWaitEvent) launch->events[i] = steps_[i].event->last();
  }
  for (size_t i = 0; i < steps_.size(); ++i) {
    if (steps_[i].type == cudaGraphNodeTypeEventRecord) launch->events[i] = steps_[i].event->begin();
  }
  return [self = shared_from_this(), launch] { self->run(*launch); };
}

void GraphExec::run(Launch& launch) {
  if (lanes_.empty()) return;
  const std::lock_guard lock(running_);
  std::vector<uint64_t> last(helpers_.size());
  for (size_t i = 0; i < helpers_.size(); ++i)
    last[i] = helpers_[i]->enqueue([this, &launch, i] { runLane(launch, i + 1); });
  runLane(launch, 0);
  for (size_t i = 0; i < helpers_.size(); ++i) helpers_[i]->wait(last[i]);
}

void GraphExec::runLane(Launch& launch, size_t lane) {
  for (const size_t number : lanes_[lane]) {
    const Step& step = steps_[number];
    for (const size_t before : step.waits) launch.done[before].wait();
    const auto& marker = launch.events[number];
    if (step.work) step.work();
    if (step.type == cudaGraphNodeTypeEventRecord) marker->finish();
    if (step.type == cudaGraphNodeTypeWaitEvent && marker != nullptr) marker->wait();
    if (step.awaited) launch.done[number].finish();
  }
}

HandleTable<cudaGraphExec_t, GraphExec>& graphExecs() {
  static auto& table = *new HandleTable<cudaGraphExec_t, GraphExec>;
  return table;
}

namespace {

cudaError_t instantiate(cudaGraphExec_t* exec, cudaGraph_t handle, unsigned long long flags) {
  if (exec == nullptr) return cudaErrorInvalidValue;
  if ((flags & ~static_cast<unsigned long long>(cudaGraphInstantiateFlagAutoFreeOnLaunch |
                                                cudaGraphInstantiateFlagUseNodePriority)) != 0)
    return notSupported("cudaGraphInstantiate with flags");
  const auto graph = graphs().find(handle);
  if (graph == nullptr) return cudaErrorInvalidValue;
  cudaError_t error;
  Device* const device = currentDevice(&error);
  if (device == nullptr) return error;
  const std::lock_guard lock(captureMutex());
  auto made = GraphExec::create(*graph, *device);
  if (made == nullptr) return cudaErrorInvalidValue;
  *exec = graphExecs().add(std::move(made));
  return cudaSuccess;
}

}  // namespace
}  // namespace softgpu

using namespace softgpu;

#if CUDART_VERSION >= 12000
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long flags) {
  return answer(instantiate(exec, graph, flags));
}
#else
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph, cudaGraphNode_t*, char*, size_t) {
  return answer(instantiate(exec, graph, 0));
}
#endif

cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* exec, cudaGraph_t graph,
                                          unsigned long long flags) {
  return answer(instantiate(exec, graph, flags));
}

cudaError_t cudaGraphUpload(cudaGraphExec_t exec, cudaStream_t) {
  return answer(graphExecs().find(exec) != nullptr ? cudaSuccess : cudaErrorInvalidValue);
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t handle, cudaStream_t stream_handle) {
  const auto exec = graphExecs().find(handle);
  if (exec == nullptr) return answer(cudaErrorInvalidValue);
  cudaError_t error;
  const auto stream = resolveStream(stream_handle, &error);
  if (stream == nullptr) return answer(error);
  if (capturesUnderWay()) {
    const std::lock_guard lock(captureMutex());
    if (stream->capture.session != nullptr) return answer(notSupported("cudaGraphLaunch in a capture"));
    if (error = checkLegacyUse(*stream); error != cudaSuccess) return answer(error);
  }
  enqueueInOrder(*stream, exec->launch());
  return cudaSuccess;
}

// A launch that is under way keeps what it needs.
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  return answer(graphExecs().remove(exec) != nullptr ? cudaSuccess : cudaErrorInvalidValue);
}
