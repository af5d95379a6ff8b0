#include "topo/paths.h"

#include <algorithm>

#include "topo/path_search.h"
#include "topo/rerouter.h"

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

bool Paths::reaches(NodeType from, int from_index, NodeType to) const {
  return reached_[slot(from)][slot(to)][static_cast<std::size_t>(from_index)];
}

std::vector<const Link*> Paths::links(const Path& path) const {
  std::vector<const Link*> links;
  links.reserve(path.hops);
  // Not past `hops`: with links missing on one side NCCL's own lists do not end where they should.
  for (int32_t cell = path.first; cell >= 0 && links.size() < path.hops;
       cell = cells_[static_cast<std::size_t>(cell)].next)
    links.push_back(cells_[static_cast<std::size_t>(cell)].link);
  return links;
}

std::vector<NodeIndex> Paths::via(const Path& path) const {
  std::vector<NodeIndex> nodes;
  for (const Link* link : links(path)) nodes.push_back(link->to);
  if (!nodes.empty()) nodes.pop_back();
  return nodes;
}

std::size_t Paths::bytes() const {
  std::size_t bytes = cells_.capacity() * sizeof(Cell);
  for (const auto& row : tables_)
    for (const auto& table : row) bytes += table.capacity() * sizeof(Path);
  for (const auto& row : reached_)
    for (const auto& bits : row) bytes += bits.capacity() / 8;
  for (const auto& nets : local_nets_) bytes += sizeof nets + nets.capacity() * sizeof(int);
  for (const auto* numbers : {&local_cpu_, &local_gpu_, &local_gpu_count_, &first_of_rank_, &first_of_id_})
    bytes += numbers->capacity() * sizeof(int);
  return bytes + network_preferred_.capacity() / 8;
}

bool Paths::anyNetworkPreferred() const {
  return std::find(network_preferred_.begin(), network_preferred_.end(), true) != network_preferred_.end();
}

}  // namespace railwise::topo
