// Graphs in the form of NCCL_GRAPH_FILE and NCCL_GRAPH_DUMP_FILE. NCCL takes each graph that such a file
// describes instead of searching it. Immutable; reading is thread-safe.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/outcome.h"
#include "topo/document/xml.h"
#include "topo/graph/graph.h"
#include "topo/search/channel_graph.h"

namespace railwise::topo {

// What helps where NCCL cannot read the file that the variable names.
inline constexpr const char* kNoGraphFile = "unset NCCL_GRAPH_FILE, or name the right file";

class GraphFile {
 public:
  static Outcome<GraphFile> read(const std::string& path);
  static Outcome<GraphFile> parse(std::string_view text, std::string_view file);

  // The graph of an algorithm, for the ranks of `graph`. `inter`: the network takes part. None: the file does
  // not have it, and NCCL searches. A graph without channels is what the search begins with. An error names
  // the file, the line and the element; it also stands for what NCCL would take and then go astray with.
  Outcome<std::optional<ChannelGraph>> find(Algorithm algorithm, const Graph& graph, bool inter,
                                            const Settings& settings) const;

 private:
  explicit GraphFile(XmlDocument document) : document_(std::move(document)) {}
  XmlDocument document_;
};

// Writes the graphs of a communicator as NCCL_GRAPH_DUMP_FILE would. An error if NCCL cannot write them: path
// types that a graph file has no name for.
Outcome<std::string> graphFileText(const CommunicatorGraphs& graphs, const Graph& graph,
                                   const Settings& settings);

}  // namespace railwise::topo
