// Graphs: nodes of work with dependencies, and the user objects that live as long as a graph.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "api.h"
#include "capture.h"
#include "event.h"
#include "handles.h"
#include "stream.h"

namespace softgpu {

struct GraphNode {
  cudaGraphNodeType type = cudaGraphNodeTypeEmpty;
  Work work;                             // empty for event and empty nodes
  std::shared_ptr<Event> event;          // of event nodes
  std::vector<GraphNode*> dependencies;  // in the same graph
  bool must_join = false;                // captured in a stream, which must lead back to the origin
};

// Something of the program's that is destroyed with the last graph that needs it.
class UserObject {
 public:
  UserObject(cudaHostFn_t destroy, void* object, unsigned references)
      : destroy_(destroy), object_(object), references_(references) {}
  void retain(unsigned count) { references_ += count; }
  // The last release calls the destructor.
  void release(unsigned count);

 private:
  const cudaHostFn_t destroy_;
  void* const object_;
  std::atomic<unsigned> references_;
};

// References to user objects; they go with it.
class UserObjectReferences {
 public:
  UserObjectReferences() = default;
  ~UserObjectReferences();
  UserObjectReferences(const UserObjectReferences&) = delete;
  UserObjectReferences& operator=(const UserObjectReferences&) = delete;
  // Takes over `count` references that somebody else has made.
  void adopt(std::shared_ptr<UserObject> object, unsigned count);
  bool release(const std::shared_ptr<UserObject>& object, unsigned count);
  // One more reference to each object.
  void retainAll(const UserObjectReferences& other);

 private:
  struct Entry {
    std::shared_ptr<UserObject> object;
    unsigned count;
  };
  std::vector<Entry> entries_;
};

class Graph {
 public:
  GraphNode* add(cudaGraphNodeType type, Work work, std::vector<GraphNode*> dependencies);
  bool has(const GraphNode* node) const;
  const std::vector<std::unique_ptr<GraphNode>>& nodes() const { return nodes_; }

  UserObjectReferences objects;

 private:
  std::vector<std::unique_ptr<GraphNode>> nodes_;
};

HandleTable<cudaGraph_t, Graph>& graphs();
HandleTable<cudaUserObject_t, UserObject>& userObjects();

inline GraphNode* fromHandle(cudaGraphNode_t node) { return reinterpret_cast<GraphNode*>(node); }
inline cudaGraphNode_t toHandle(GraphNode* node) { return reinterpret_cast<cudaGraphNode_t>(node); }

// ---- what streams and events ask of a capture (capture.cc); all but the first need captureMutex()

bool capturesUnderWay();
// Stream 0 is refused while a blocking stream of its device captures.
cudaError_t checkLegacyUse(Stream& stream);
// Adds a node behind the tail of a stream that captures.
cudaError_t captureNode(Stream& stream, cudaGraphNodeType type, Work work);
cudaError_t captureEventNode(Stream& stream, cudaGraphNodeType type, const std::shared_ptr<Event>& event);
// The stream waits for an event that was recorded in a capture, and takes part in the capture from then on.
cudaError_t joinCapture(Stream& stream, const std::shared_ptr<CaptureSession>& session,
                        const std::vector<GraphNode*>& tail);
// The stream is destroyed and leaves its capture. Returns the graph if that ends the capture.
std::shared_ptr<Graph> leaveCapture(Stream& stream);

}  // namespace softgpu
