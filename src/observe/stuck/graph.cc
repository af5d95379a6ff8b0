#include "observe/stuck/graph.h"

#include <algorithm>
#include <cstddef>

namespace railwise::observe {
namespace {

std::size_t place(int node) { return static_cast<std::size_t>(node); }

// Tarjan's algorithm with a stack of its own: a chain of waits may be as long as a job has ranks.
class ComponentSearch {
 public:
  explicit ComponentSearch(const Graph& graph)
      : graph_(graph), found_(graph.size(), -1), low_(graph.size(), 0), component_(graph.size(), -1) {
    for (int node = 0; node < static_cast<int>(graph.size()); ++node)
      if (found_[place(node)] < 0) searchFrom(node);
  }
  std::vector<int> take() { return std::move(component_); }

 private:
  struct Step {
    int node;
    std::size_t next;  // place of the successor that is looked at next
  };

  void enter(int node) {
    found_[place(node)] = low_[place(node)] = count_++;
    open_.push_back(node);
    steps_.push_back({node, 0});
  }
  void searchFrom(int start) {
    enter(start);
    while (!steps_.empty()) {
      const int node = steps_.back().node;
      if (steps_.back().next < graph_[place(node)].size()) {
        const int successor = graph_[place(node)][steps_.back().next++];
        if (found_[place(successor)] < 0) enter(successor);
        else if (component_[place(successor)] < 0)
          low_[place(node)] = std::min(low_[place(node)], found_[place(successor)]);
        continue;
      }
      steps_.pop_back();
      if (!steps_.empty()) {
        int& above = low_[place(steps_.back().node)];
        above = std::min(above, low_[place(node)]);
      }
      if (low_[place(node)] == found_[place(node)]) closeComponent(node);
    }
  }
  void closeComponent(int first) {
    int node = -1;
    do {
      node = open_.back();
      open_.pop_back();
      component_[place(node)] = components_;
    } while (node != first);
    ++components_;
  }

  const Graph& graph_;
  std::vector<int> found_;  // order in which nodes were found; -1: not yet
  std::vector<int> low_;    // the earliest node that is reached from a node
  std::vector<int> component_;
  std::vector<int> open_;  // found, and of no component yet
  std::vector<Step> steps_;
  int count_ = 0;
  int components_ = 0;
};

}  // namespace

std::vector<int> componentsOf(const Graph& graph) { return ComponentSearch(graph).take(); }

std::vector<std::vector<int>> rootsOf(const Graph& graph) {
  const std::vector<int> component = componentsOf(graph);
  std::vector<std::vector<int>> members;
  std::vector<bool> leaves;
  for (std::size_t node = 0; node < graph.size(); ++node) {
    const std::size_t own = place(component[node]);
    if (own >= members.size()) members.resize(own + 1), leaves.resize(own + 1);
    members[own].push_back(static_cast<int>(node));
    for (const int next : graph[node]) leaves[own] = leaves[own] || component[place(next)] != component[node];
  }
  std::vector<std::vector<int>> roots;
  for (std::size_t i = 0; i < members.size(); ++i)
    if (!leaves[i]) roots.push_back(std::move(members[i]));
  return roots;
}

std::vector<int> circleIn(const Graph& graph, const std::vector<int>& component) {
  std::vector<bool> inside(graph.size(), false);
  for (const int node : component) inside[place(node)] = true;
  std::vector<int> way;
  std::vector<int> seen(graph.size(), -1);  // place in the way
  int node = component.front();
  while (seen[place(node)] < 0) {
    seen[place(node)] = static_cast<int>(way.size());
    way.push_back(node);
    for (const int next : graph[place(node)]) {
      if (!inside[place(next)] || next == node) continue;
      node = next;
      break;
    }
  }
  way.erase(way.begin(), way.begin() + seen[place(node)]);
  return way;
}

std::vector<int> whoReaches(const Graph& graph, const std::vector<int>& goals) {
  Graph back(graph.size());
  for (std::size_t node = 0; node < graph.size(); ++node)
    for (const int next : graph[node]) back[place(next)].push_back(static_cast<int>(node));
  std::vector<bool> seen(graph.size(), false);
  for (const int goal : goals) seen[place(goal)] = true;
  std::vector<int> reached;
  std::vector<int> waiting = goals;
  while (!waiting.empty()) {
    const int node = waiting.back();
    waiting.pop_back();
    for (const int before : back[place(node)]) {
      if (seen[place(before)]) continue;
      seen[place(before)] = true;
      reached.push_back(before);
      waiting.push_back(before);
    }
  }
  std::sort(reached.begin(), reached.end());
  return reached;
}

}  // namespace railwise::observe
