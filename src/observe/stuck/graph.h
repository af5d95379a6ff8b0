// A directed graph whose nodes are numbers: "node a waits for node b". Pure; thread-safe.
#pragma once

#include <vector>

namespace railwise::observe {

// graph[a]: the nodes that node a waits for.
using Graph = std::vector<std::vector<int>>;

// The strongly connected component of each node: nodes of one component wait for each other in a circle.
std::vector<int> componentsOf(const Graph& graph);

// The components, as lists of nodes, that wait for no other component: where the chains of waits end.
std::vector<std::vector<int>> rootsOf(const Graph& graph);

// One circle through nodes of a component of at least two nodes: each node waits for the next one, and the
// last one for the first. Of a single node: the node.
std::vector<int> circleIn(const Graph& graph, const std::vector<int>& component);

// The nodes from which a way leads to one of `goals`, without the goals.
std::vector<int> whoReaches(const Graph& graph, const std::vector<int>& goals);

}  // namespace railwise::observe
