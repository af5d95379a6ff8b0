#include <array>

#include "topo/paths/paths.h"
#include "topo/paths/rerouter.h"
#include "topo/paths/search.h"

namespace railwise::topo {

Outcome<Paths> Paths::compute(const Graph& graph, const Settings& settings, const Options& options) {
  constexpr std::array<NodeType, 4> kFrom = {NodeType::kGpu, NodeType::kNet, NodeType::kCpu, NodeType::kDev};
  constexpr std::array<NodeType, 3> kTo = {NodeType::kGpu, NodeType::kNet, NodeType::kCpu};
  Paths paths;
  paths.graph_ = &graph;
  paths.settings_ = &settings;
  for (const NodeType from : kFrom)
    for (const NodeType to : kTo)
      paths.table(from, to).resize(static_cast<std::size_t>(graph.count(from)) *
                                   static_cast<std::size_t>(graph.count(to)));
  const auto gpus = static_cast<std::size_t>(graph.count(NodeType::kGpu));
  paths.network_preferred_.resize(gpus * gpus);

  for (const NodeIndex gpu : graph.of(NodeType::kGpu))
    paths.first_of_rank_.push_back(graph.gpuOfRank(graph.node(gpu).rank));
  for (const NodeIndex net : graph.of(NodeType::kNet))
    paths.first_of_id_.push_back(graph.indexOf(NodeType::kNet, graph.node(net).id));

  PathFinder finder(paths, graph, settings);
  for (const NodeType type : {NodeType::kCpu, NodeType::kGpu, NodeType::kNet})
    if (!finder.run(type)) return Error{finder.error()};
  Rerouter rerouter(paths, options.with_communicator);
  if (!rerouter.run()) return Error{rerouter.error()};
  return paths;
}

}  // namespace railwise::topo
