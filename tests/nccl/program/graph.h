// What a stream captured, ready to be launched.
#pragma once

#include "rank.h"

class Graph {
 public:
  // Captures what `enqueue` puts into the stream.
  template <typename Enqueue>
  Graph(cudaStream_t stream, Enqueue enqueue) {
    MUST(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    enqueue();
    MUST(cudaStreamEndCapture(stream, &graph_));
    MUST(cudaGraphInstantiate(&executable_, graph_, 0));
  }
  ~Graph() {
    MUST(cudaGraphExecDestroy(executable_));
    MUST(cudaGraphDestroy(graph_));
  }
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;
  void launch(cudaStream_t stream) const { MUST(cudaGraphLaunch(executable_, stream)); }

 private:
  cudaGraph_t graph_ = nullptr;
  cudaGraphExec_t executable_ = nullptr;
};
