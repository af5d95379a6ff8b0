#include "topo/paths/paths.h"

#include <algorithm>

namespace railwise::topo {

bool Paths::reaches(NodeType from, int from_index, NodeType to) const {
  return reached_[slot(from)][slot(to)][static_cast<std::size_t>(from_index)];
}

std::vector<const Link*> Paths::links(const Path& path) const {
  std::vector<const Link*> links;
  links.reserve(path.hops);
  // Stops after `hops` links: if links are missing in one direction, the list of cells does not end where it
  // should, as in NCCL.
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
