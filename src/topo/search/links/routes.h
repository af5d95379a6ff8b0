// The paths of a machine as the search walks them: each link has a number, so that the search can keep the
// bandwidth of each link in an array. A route is made when it is first asked for. One thread at a time.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "topo/paths/paths.h"

namespace railwise::topo {

// One link of a route.
struct RouteStep {
  int32_t link = -1;
  int32_t back = -1;     // the link in the other direction, if it is loaded too
  float back_share = 0;  // what of the bandwidth the link back has to carry; 0: nothing
  bool pci = false;      // the traffic of Intel's root complexes is larger on this link
};

struct Route {
  PathType type = PathType::kDis;
  PathType return_type = PathType::kDis;  // of the path in the other direction
  bool intel = false;                     // GPU traffic through an Intel CPU's host bridge
  int first = -1;                         // index of the first step; -1: not made yet
  int steps = 0;
};

class Routes {
 public:
  explicit Routes(const Paths& paths);

  // Between GPUs, NETs and NVSwitches.
  const Route& route(NodeType from, int from_index, NodeType to, int to_index) {
    Table& table = tables_[slot(from)][slot(to)];
    Route& route = table.routes[static_cast<std::size_t>(from_index) * table.columns +
                                static_cast<std::size_t>(to_index)];
    if (route.first < 0) make(route, from, from_index, to, to_index);
    return route;
  }
  std::span<const RouteStep> steps(const Route& route) const {
    return std::span(steps_).subspan(static_cast<std::size_t>(route.first),
                                     static_cast<std::size_t>(route.steps));
  }
  // The PCIe link of a GPU, in both directions. -1: it has none.
  struct LinkPair {
    int32_t up = -1;
    int32_t down = -1;
  };
  LinkPair pciLinkOf(int gpu) const;
  std::pair<NodeIndex, NodeIndex> endsOf(int32_t link) const;
  // The bandwidth of each link, by its number.
  std::vector<float> bandwidths() const;

 private:
  struct Table {
    std::size_t columns = 0;
    std::vector<Route> routes;
  };
  static constexpr std::size_t slot(NodeType type) {
    return type == NodeType::kGpu ? 0 : type == NodeType::kNet ? 1 : 2;
  }
  void make(Route& route, NodeType from, int from_index, NodeType to, int to_index);
  int32_t numberOf(const Link* link) const;
  int32_t linkBack(NodeIndex from, NodeIndex to, LinkType type) const;

  const Paths& paths_;
  const Graph& graph_;
  std::vector<int32_t> first_link_;  // of each node
  std::vector<NodeIndex> by_address_;
  std::array<std::array<Table, 3>, 3> tables_;
  std::vector<RouteStep> steps_;
};

}  // namespace railwise::topo
