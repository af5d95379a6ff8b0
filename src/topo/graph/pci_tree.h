// What NCCL does to the PCI tree of a graph when all nodes are there: it merges the two levels of Broadcom
// switches, and puts the way up last in every node. Both work on its arrays in a way that can lose links;
// that is modelled too, since such a machine's answers, or its failing init, come from there. Used by
// builder.cc only; one thread at a time.
#pragma once

#include <string>
#include <vector>

#include "topo/graph/graph.h"
#include "topo/outcome.h"

namespace railwise::topo {

class PciTree {
 public:
  // `file` is for messages.
  PciTree(Graph& graph, const std::string& file) : graph_(graph), file_(file) {}

  // ncclTopoFlattenBcmSwitches. False: see error().
  bool flattenSwitches();
  // ncclTopoSortSystem, after flattenSwitches(). False: NCCL would fail its init or crash; see error().
  bool sortLinks();
  const Error& error() const { return error_; }

 private:
  // A link that NCCL took out of a node's array, which stays behind its end until another takes its place: a
  // pointer to the place that a node had in the array of its type.
  struct Leftover {
    NodeType type;
    int place;
    Link link;
  };

  Node& at(NodeIndex i) { return graph_.mutableNodes()[static_cast<std::size_t>(i)]; }
  NodeIndex switchOf(int64_t id) const;
  bool flattenSwitch(NodeIndex top, int generation);
  void moveLinks(NodeIndex sub, NodeIndex top);
  void takeOut(NodeIndex node, std::size_t link);
  void removeSwitch(NodeIndex gone);
  std::vector<Leftover>& leftovers(NodeIndex node);
  Leftover leftoverOf(const Link& link) { return {at(link.to).type, at(link.to).index, link}; }
  bool sortBelow(NodeIndex node, NodeIndex up);
  bool moveLast(NodeIndex node, NodeIndex up);
  bool moveLastAmongLeftovers(NodeIndex node, NodeIndex up);

  Graph& graph_;
  const std::string& file_;
  std::vector<std::vector<Leftover>> leftovers_;  // by NodeIndex
  Error error_;
};

}  // namespace railwise::topo
