// All paths that NCCL's decisions use: from GPUs, NETs, CPUs and DEVs to GPUs, NETs and CPUs; for the search
// of rings and trees also from NVSwitches, and to NVSwitches and DEVs. A breadth-first search finds them
// (ncclTopoSetPaths); then some are rerouted because of P2P, GPUDirect or PXN (ncclTopoComputePaths). The
// graph must outlive this object. Immutable after compute(); reading is
// thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "base/outcome.h"
#include "topo/graph/graph.h"
#include "topo/settings.h"

namespace railwise::topo {

struct Path {
  float bandwidth = 0;  // GB/s of the slowest link of the path
  PathType type = PathType::kDis;
  uint16_t hops = 0;
  int32_t first = -1;  // index of the first cell; see Paths::links()
};

class Paths {
 public:
  struct Options {
    // True: the paths are those that a communicator with one rank per GPU sees. Pairs of GPUs that reach each
    // other faster through the network than through P2P or shared memory get the type NET.
    bool with_communicator = false;
    // True: also the paths that only the search of rings and trees needs (topo/search).
    bool for_search = false;
  };
  static Outcome<Paths> compute(const Graph& graph, const Settings& settings, const Options& options);
  static Outcome<Paths> compute(const Graph& graph, const Settings& settings) {
    return compute(graph, settings, {});
  }

  const Graph& graph() const { return *graph_; }
  const Settings& settings() const { return *settings_; }

  // `from` is kGpu, kNet, kCpu or kDev; `to` is kGpu, kNet or kCpu; with Options::for_search both can also be
  // kDev and kNvs. Indices count within the type.
  const Path& get(NodeType from, int from_index, NodeType to, int to_index) const {
    return table(from, to)[row(from_index, to) + static_cast<std::size_t>(to_index)];
  }
  // False: there is no path from that node to any node of type `to`. NCCL has no table in this case.
  bool reaches(NodeType from, int from_index, NodeType to) const;
  // The links of a path in order; the last link leads to the destination.
  std::vector<const Link*> links(const Path& path) const;
  // The nodes between the two ends of a path.
  std::vector<NodeIndex> via(const Path& path) const;

  // The index of the CPU (NUMA node) near a GPU.
  int localCpu(int gpu) const { return local_cpu_[static_cast<std::size_t>(gpu)]; }
  // The GPU through which NCCL reaches a NET (ncclTopoGetLocalGpu). -1: there is none.
  int localGpu(int net) const { return local_gpu_[static_cast<std::size_t>(net)]; }
  // The nearest NETs of a GPU (localNodes(GPU, gpu, NET)), computed in advance.
  const std::vector<int>& localNets(int gpu) const { return local_nets_[static_cast<std::size_t>(gpu)]; }
  // For how many GPUs a NET is among the nearest.
  int localGpuCount(int net) const { return local_gpu_count_[static_cast<std::size_t>(net)]; }
  // True: a communicator on this machine uses the network between these two GPUs, because it is faster than
  // P2P and shared memory.
  bool networkPreferred(int from_gpu, int to_gpu) const {
    return network_preferred_[static_cast<std::size_t>(from_gpu) *
                                  static_cast<std::size_t>(graph_->count(NodeType::kGpu)) +
                              static_cast<std::size_t>(to_gpu)];
  }
  bool anyNetworkPreferred() const;
  // NCCL identifies GPUs by rank and NETs by id. If several have the same rank or id, NCCL finds the first of
  // them, and these functions return it.
  int firstOfRank(int gpu) const { return first_of_rank_[static_cast<std::size_t>(gpu)]; }
  int firstOfId(int net) const { return first_of_id_[static_cast<std::size_t>(net)]; }

  // The number of cells that search and rerouting made, and the bytes held, for tests of memory growth.
  std::size_t cellCount() const { return cells_.size(); }
  std::size_t bytes() const;

 private:
  friend class PathFinder;
  friend class Rerouter;
  // One link of a path, and the index of the cell with the next link. Paths share their tails, which would be
  // equal in NCCL's copies.
  struct Cell {
    const Link* link;
    int32_t next;
  };
  template <typename T>
  using ByTypes = std::array<std::array<T, kNodeTypes>, kNodeTypes>;  // from a type, to a type
  static constexpr std::size_t slot(NodeType type) { return static_cast<std::size_t>(type); }
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
  ByTypes<std::vector<Path>> tables_;
  ByTypes<std::vector<bool>> reached_;
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
