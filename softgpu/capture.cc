#include "capture.h"

#include <algorithm>
#include <atomic>
#include <set>
#include <utility>

#include "device.h"
#include "errors.h"
#include "graph.h"
#include "stream.h"

namespace softgpu {
namespace {

std::atomic<int> under_way = 0;
unsigned long long next_id = 1;  // guarded by captureMutex(), as all of this
thread_local cudaStreamCaptureMode thread_mode = cudaStreamCaptureModeGlobal;

std::vector<std::shared_ptr<CaptureSession>>& sessions() {
  static auto& all = *new std::vector<std::shared_ptr<CaptureSession>>;
  return all;
}

void unite(std::vector<GraphNode*>& tail, const std::vector<GraphNode*>& more) {
  for (GraphNode* const node : more) {
    if (std::find(tail.begin(), tail.end(), node) == tail.end()) tail.push_back(node);
  }
}

// `nodes` and all that they depend on.
std::set<const GraphNode*> past(const std::vector<GraphNode*>& nodes) {
  std::set<const GraphNode*> seen;
  std::vector<const GraphNode*> open(nodes.begin(), nodes.end());
  while (!open.empty()) {
    const GraphNode* const node = open.back();
    open.pop_back();
    if (!seen.insert(node).second) continue;
    open.insert(open.end(), node->dependencies.begin(), node->dependencies.end());
  }
  return seen;
}

// Every node that a stream captured must lead to the origin's tail.
bool joined(const CaptureSession& session, const Stream& origin) {
  const std::set<const GraphNode*> reached = past(origin.capture.tail);
  for (const auto& weak : session.members) {
    const std::shared_ptr<Stream> member = weak.lock();
    if (member == nullptr || member->capture.session.get() != &session) continue;
    for (const GraphNode* const node : member->capture.tail) {
      if (node->must_join && reached.count(node) == 0) return false;
    }
  }
  return true;
}

// Returns the graph. Events may keep the session, but nothing else of it.
std::shared_ptr<Graph> finish(const std::shared_ptr<CaptureSession>& session) {
  for (const auto& weak : session->members) {
    const std::shared_ptr<Stream> member = weak.lock();
    if (member != nullptr && member->capture.session == session) member->capture = {};
  }
  std::erase(sessions(), session);
  --under_way;
  return std::move(session->graph);
}

}  // namespace

std::mutex& captureMutex() {
  static auto& mutex = *new std::mutex;
  return mutex;
}

bool capturesUnderWay() { return under_way.load(std::memory_order_acquire) != 0; }

void invalidate(CaptureSession& session) { session.invalidated = true; }

cudaError_t checkUnsafeCall() {
  if (!capturesUnderWay() || thread_mode == cudaStreamCaptureModeRelaxed) return cudaSuccess;
  const std::lock_guard lock(captureMutex());
  cudaError_t error = cudaSuccess;
  for (const auto& session : sessions()) {
    const bool own = session->thread == std::this_thread::get_id();
    const bool forbids = session->mode == cudaStreamCaptureModeGlobal
                             ? own || thread_mode == cudaStreamCaptureModeGlobal
                             : own && session->mode == cudaStreamCaptureModeThreadLocal;
    if (!forbids) continue;
    invalidate(*session);
    error = cudaErrorStreamCaptureUnsupported;
  }
  return error;
}

cudaError_t checkLegacyUse(Stream& stream) {
  if (stream.kind() != StreamKind::kLegacy) return cudaSuccess;
  for (const auto& session : sessions()) {
    for (const auto& weak : session->members) {
      const std::shared_ptr<Stream> member = weak.lock();
      if (member == nullptr || member->capture.session != session ||
          member->kind() != StreamKind::kBlocking || &member->device() != &stream.device())
        continue;
      invalidate(*session);
      return cudaErrorStreamCaptureImplicit;
    }
  }
  return cudaSuccess;
}

cudaError_t captureNode(Stream& stream, cudaGraphNodeType type, Work work) {
  StreamCapture& capture = stream.capture;
  if (capture.session->invalidated) return cudaErrorStreamCaptureInvalidated;
  GraphNode* const node = capture.session->graph->add(type, std::move(work), capture.tail);
  node->must_join = true;
  capture.tail = {node};
  return cudaSuccess;
}

cudaError_t captureEventNode(Stream& stream, cudaGraphNodeType type, const std::shared_ptr<Event>& event) {
  const cudaError_t error = captureNode(stream, type, {});
  if (error == cudaSuccess) stream.capture.tail.back()->event = event;
  return error;
}

cudaError_t joinCapture(Stream& stream, const std::shared_ptr<CaptureSession>& session,
                        const std::vector<GraphNode*>& tail) {
  const auto& all = sessions();
  if (std::find(all.begin(), all.end(), session) == all.end()) return cudaErrorCapturedEvent;  // it has ended
  if (stream.kind() == StreamKind::kLegacy) {
    invalidate(*session);
    return cudaErrorStreamCaptureImplicit;
  }
  if (session->invalidated) return cudaErrorStreamCaptureInvalidated;
  if (stream.capture.session != nullptr && stream.capture.session != session) {
    invalidate(*session);
    invalidate(*stream.capture.session);
    return cudaErrorStreamCaptureMerge;
  }
  if (stream.capture.session == nullptr) {
    stream.capture.session = session;
    session->members.push_back(stream.weak_from_this());
  }
  unite(stream.capture.tail, tail);
  return cudaSuccess;
}

std::shared_ptr<Graph> leaveCapture(Stream& stream) {
  const std::shared_ptr<CaptureSession> session = stream.capture.session;
  if (session == nullptr) return nullptr;
  if (session->origin.lock().get() != &stream) {
    stream.capture = {};
    return nullptr;
  }
  std::shared_ptr<Graph> graph = finish(session);
  graphs().remove(reinterpret_cast<cudaGraph_t>(graph.get()));
  return graph;
}

}  // namespace softgpu

using namespace softgpu;

cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  if (mode == nullptr) return answer(cudaErrorInvalidValue);
  std::swap(*mode, thread_mode);
  return cudaSuccess;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t handle, cudaStreamCaptureMode mode) {
  cudaError_t error;
  const auto stream = resolveStream(handle, &error);
  if (stream == nullptr) return answer(error);
  if (stream->kind() == StreamKind::kLegacy) return answer(cudaErrorStreamCaptureUnsupported);
  const std::lock_guard lock(captureMutex());
  if (stream->capture.session != nullptr) return answer(cudaErrorIllegalState);
  auto session = std::make_shared<CaptureSession>();
  session->id = next_id++;
  session->mode = mode;
  session->thread = std::this_thread::get_id();
  session->graph = std::make_shared<Graph>();
  session->origin = stream;
  session->members.push_back(stream);
  graphs().add(session->graph);
  stream->capture = {session, {}};
  sessions().push_back(session);
  ++under_way;
  return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t handle, cudaGraph_t* graph) {
  if (graph == nullptr) return answer(cudaErrorInvalidValue);
  *graph = nullptr;
  cudaError_t error;
  const auto stream = resolveStream(handle, &error);
  if (stream == nullptr) return answer(error);
  std::shared_ptr<Graph> dropped;  // without the lock, since it may destroy user objects
  const std::lock_guard lock(captureMutex());
  const std::shared_ptr<CaptureSession> session = stream->capture.session;
  if (session == nullptr) return answer(cudaErrorIllegalState);
  if (session->origin.lock() != stream) {
    invalidate(*session);
    return answer(cudaErrorStreamCaptureUnmatched);
  }
  if (session->mode != cudaStreamCaptureModeRelaxed && session->thread != std::this_thread::get_id())
    return answer(cudaErrorStreamCaptureWrongThread);
  if (session->invalidated) {
    error = cudaErrorStreamCaptureInvalidated;
  } else if (!joined(*session, *stream)) {
    error = cudaErrorStreamCaptureUnjoined;
  }
  dropped = finish(session);
  if (error == cudaSuccess) {
    *graph = reinterpret_cast<cudaGraph_t>(dropped.get());
  } else {
    graphs().remove(reinterpret_cast<cudaGraph_t>(dropped.get()));
  }
  return answer(error);
}

cudaError_t cudaStreamIsCapturing(cudaStream_t handle, cudaStreamCaptureStatus* status) {
  if (status == nullptr) return answer(cudaErrorInvalidValue);
  cudaError_t error;
  const auto stream = resolveStream(handle, &error);
  if (stream == nullptr) return answer(error);
  const std::lock_guard lock(captureMutex());
  if (error = checkLegacyUse(*stream); error != cudaSuccess) return answer(error);
  const auto& session = stream->capture.session;
  *status = session == nullptr     ? cudaStreamCaptureStatusNone
            : session->invalidated ? cudaStreamCaptureStatusInvalidated
                                   : cudaStreamCaptureStatusActive;
  return cudaSuccess;
}
