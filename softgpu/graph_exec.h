// A graph that can be launched: a copy of the nodes, divided into lanes that run beside each other.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "graph.h"
#include "marker.h"

namespace softgpu {

class GraphExec : public std::enable_shared_from_this<GraphExec> {
 public:
  // Null if the dependencies form a circle.
  static std::shared_ptr<GraphExec> create(const Graph& graph, Device& device);
  GraphExec() = default;
  ~GraphExec();
  GraphExec(const GraphExec&) = delete;
  GraphExec& operator=(const GraphExec&) = delete;

  // What the stream shall do for one launch. Events count as recorded from here on.
  Work launch();

 private:
  struct Step {
    cudaGraphNodeType type;
    Work work;
    std::shared_ptr<Event> event;
    std::vector<size_t> waits;  // steps of other lanes that must be done before
    bool awaited = false;       // a step of another lane waits for this one
  };
  struct Launch;

  void run(Launch& launch);
  void runLane(Launch& launch, size_t lane);

  std::vector<Step> steps_;                 // in an order that respects the dependencies
  std::vector<std::vector<size_t>> lanes_;  // steps of each; the first lane runs on the launching stream
  std::vector<std::shared_ptr<Stream>> helpers_;  // run the other lanes
  std::mutex running_;                            // launches of one graph follow each other
  UserObjectReferences objects_;
};

HandleTable<cudaGraphExec_t, GraphExec>& graphExecs();

}  // namespace softgpu
