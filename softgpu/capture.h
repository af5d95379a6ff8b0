// Stream capture: work becomes nodes of a graph instead of being done.
#pragma once

#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "api.h"

namespace softgpu {

class Graph;
class Stream;
struct GraphNode;

// From cudaStreamBeginCapture to cudaStreamEndCapture.
struct CaptureSession {
  unsigned long long id = 0;
  cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  std::thread::id thread;
  std::shared_ptr<Graph> graph;
  std::weak_ptr<Stream> origin;
  std::vector<std::weak_ptr<Stream>> members;  // streams that have joined, the origin included
  bool invalidated = false;
};

// What a stream knows of the capture that it takes part in.
struct StreamCapture {
  std::shared_ptr<CaptureSession> session;  // null: the stream does not capture
  std::vector<GraphNode*> tail;             // what the next node depends on
};

// Guards sessions, the captures of streams and events, and the graphs that are being captured.
std::mutex& captureMutex();

// cudaSuccess, or why this thread may not make a call that a capture forbids (cudaMalloc ...). Such a call
// invalidates the capture.
cudaError_t checkUnsafeCall();

// The session is of no use any more. Needs captureMutex().
void invalidate(CaptureSession& session);

}  // namespace softgpu
