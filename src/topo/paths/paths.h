// All paths that NCCL's decisions use: from GPUs, NETs, CPUs and DEVs to GPUs, NETs and CPUs, first as found
// by the breadth-first search (ncclTopoSetPaths), then rerouted where P2P, GPUDirect or PXN say so
// (ncclTopoComputePaths). The graph must outlive it. Immutable after compute(); reading is thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "topo/graph/graph.h"
#include "topo/outcome.h"
#include "topo/settings.h"

namespace railwise::topo {

struct Path {
  float bandwidth = 0;  // GB/s, the least of its links
  PathType type = PathType::kDis;
  uint16_t hops = 0;
  int32_t first = -1;  // cell of the first link; see Paths::links()
};

class Paths {
 public:
  struct Options {
    // As a communicator of one rank per GPU sees it: pairs that reach each other better through the network
    // than through P2P or shared memory become NET.
    bool with_communicator = false;
  };
  static Outcome<Paths> compute(const Graph& graph, const Settings& settings, const Options& options);
  static Outcome<Paths> compute(const Graph& graph, const Settings& settings) {
    return compute(graph, settings, {});
  }

  const Graph& graph() const { return *graph_; }
  const Settings& settings() const { return *settings_; }

  // from: kGpu, kNet, kCpu or kDev; to: kGpu, kNet or kCpu. Indices are those within the type.
  const Path& get(NodeType from, int from_index, NodeType to, int to_index) const {
    return table(from, to)[row(from_index, to) + static_cast<std::size_t>(to_index)];
  }
  // False: no path from that node to any node of type `to` (NCCL has no table then).
  bool reaches(NodeType from, int from_index, NodeType to) const;
  // The links of a path in order; `to` of the last is the destination.
  std::vector<const Link*> links(const Path& path) const;
  // The nodes between the two ends.
  std::vector<NodeIndex> via(const Path& path) const;

  // The NUMA node near a GPU (index of a CPU).
  int localCpu(int gpu) const { return local_cpu_[static_cast<std::size_t>(gpu)]; }
  // The GPU near a NET that NCCL reaches it through (ncclTopoGetLocalGpu); -1: none.
  int localGpu(int net) const { return local_gpu_[static_cast<std::size_t>(net)]; }
  // The NETs that a GPU is nearest to (localNodes(GPU, gpu, NET)), precomputed.
  const std::vector<int>& localNets(int gpu) const { return local_nets_[static_cast<std::size_t>(gpu)]; }
  // How many GPUs a NET is nearest to.
  int localGpuCount(int net) const { return local_gpu_count_[static_cast<std::size_t>(net)]; }
  // A communicator on this machine takes the network between these two, since it is faster than P2P and
  // shared memory.
  bool networkPreferred(int from_gpu, int to_gpu) const {
    return network_preferred_[static_cast<std::size_t>(from_gpu) *
                                  static_cast<std::size_t>(graph_->count(NodeType::kGpu)) +
                              static_cast<std::size_t>(to_gpu)];
  }
  bool anyNetworkPreferred() const;
  // NCCL names GPUs by rank and NETs by id: of several with the same it means the first.
  int firstOfRank(int gpu) const { return first_of_rank_[static_cast<std::size_t>(gpu)]; }
  int firstOfId(int net) const { return first_of_id_[static_cast<std::size_t>(net)]; }

  // The size of it all, for the tests of growth: cells made by search and rerouting, and bytes held.
  std::size_t cellCount() const { return cells_.size(); }
  std::size_t bytes() const;

 private:
  friend class PathFinder;
  friend class Rerouter;
  // One link of a path and the cell of the next; paths share their tails, as NCCL's copies would be equal.
  struct Cell {
    const Link* link;
    int32_t next;
  };
  static constexpr std::size_t slot(NodeType type) {
    switch (type) {
      case NodeType::kGpu:
        return 0;
      case NodeType::kNet:
        return 1;
      case NodeType::kCpu:
        return 2;
      default:
        return 3;
    }
  }
  std::vector<Path>& table(NodeType from, NodeType to) { return tables_[slot(from)][slot(to)]; }
  const std::vector<Path>& table(NodeType from, NodeType to) const { return tables_[slot(from)][slot(to)]; }
  Path& at(NodeType from, int from_index, NodeType to, int to_index) {
    return table(from, to)[row(from_index, to) + static_cast<std::size_t>(to_index)];
  }
  std::size_t row(int from_index, NodeType to) const {
    return static_cast<std::size_t>(from_index) * static_cast<std::size_t>(graph_->count(to));
  }

  const Graph* graph_ = nullptr;
  const Settings* settings_ = nullptr;
  std::array<std::array<std::vector<Path>, 3>, 4> tables_;
  std::array<std::array<std::vector<bool>, 3>, 4> reached_;
  std::vector<Cell> cells_;
  std::vector<int> local_cpu_;
  std::vector<int> local_gpu_;
  std::vector<std::vector<int>> local_nets_;
  std::vector<int> local_gpu_count_;
  std::vector<bool> network_preferred_;
  std::vector<int> first_of_rank_;
  std::vector<int> first_of_id_;
};

}  // namespace railwise::topo
